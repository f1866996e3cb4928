/* Data shared by the program of this test and its plugins. */
#ifndef PLUGIN_H
#define PLUGIN_H
#include <stdint.h>

struct report {
	int release;
	/* Opens a device of the plugin; NULL with errno set. */
	void *(*device)(void);
	/* Checks the context from inside: 0, or the line of the check that failed. */
	int (*inside)(void *ibv_context);
	/* Runs the commands that differ between generations: 0, or the line that failed. */
	int (*commands)(void *ibv_context);
	/* The verb that was called last, and NULL. */
	const char *(*called)(void);
	/* Whether the generation has a verb. */
	int (*has)(const char *verb);
};

/* Attributes of the last call, as the replacement of the kernel saw them. */
struct asked {
	unsigned object, method, count;
	/* The number of a write command. */
	unsigned write;
	unsigned short ids[64];
	uint64_t data[64];
	/* The cancellation type of the calling thread (pthread_setcanceltype(3)). */
	int cancel_type;
};
extern struct asked asked;

/*
 * The verb in which a plugin waits without end, where its thread can be cancelled; or NULL. A
 * program that does not have it can load the plugin, too.
 */
extern const char *waiting __attribute__((weak));

/* The cancellation type (pthread_setcanceltype(3)) in the last verb; as above. */
extern int cancel_type __attribute__((weak));

/*
 * Results of the next calls besides zeros: `size` bytes of `value` by attribute id, or with size 0
 * the value in the attribute itself, where the kernel puts handles and descriptors. With `error`
 * set, calls fail with it.
 */
struct answer {
	unsigned id, size;
	uint64_t value;
};
extern struct kernel {
	int error;
	struct answer answers[4];
	unsigned count;
} kernel;

#endif
