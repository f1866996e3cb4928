/*
 * Common functions of the C tests.
 *
 * A program prints its results in words that are the same in each run: no pointers, handles,
 * numbers chosen by the kernel, or times. The runner compares the lines of the stock library with
 * the lines of ours.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

/* Exported, but declared in no installed header. */
struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;
struct ib_user_path_rec;
struct ibv_sa_path_rec;
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* A line of output; printf-like, the newline is added. */
void out(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The name of an errno value, "0" for 0, or the number. Valid until the eighth next call. */
const char *errno_name(int value);

/* Ends the program as failed, saying where, unless the condition holds. */
#define expect(condition)                                                          \
	((condition) ? (void)0 : fail_at(__FILE__, __LINE__, #condition))
void fail_at(const char *file, int line, const char *what) __attribute__((noreturn));

/* The last statement of main: flushes, and prints that the end was reached. */
int done(void);

/*
 * One call, one line. RC is for functions that return 0, a positive errno or
 * -1; COUNT for those that return a number or a negative errno; PTR for those
 * that return an object or NULL. errno is shown when the call failed: it was 0
 * before it. Each has the call's value.
 */
#define RC(call)                                                                   \
	({                                                                         \
		errno = 0;                                                         \
		int value_ = (call);                                               \
		show_rc(#call, value_, errno);                                     \
		value_;                                                            \
	})
#define COUNT(call)                                                                \
	({                                                                         \
		errno = 0;                                                         \
		long value_ = (call);                                              \
		show_count(#call, value_, errno);                                  \
		value_;                                                            \
	})
#define PTR(call)                                                                  \
	({                                                                         \
		errno = 0;                                                         \
		__typeof__(call) value_ = (call);                                  \
		show_ptr(#call, value_, errno);                                    \
		value_;                                                            \
	})
void show_rc(const char *call, int value, int error);
void show_count(const char *call, long value, int error);
void show_ptr(const char *call, const void *value, int error);

/* Must succeed; nothing is printed. */
#define MUST(call)                                                                 \
	({                                                                         \
		int must_ = (call);                                                \
		must_ ? fail_call(__FILE__, __LINE__, #call, must_) : (void)0;     \
	})
#define MUST_PTR(call)                                                             \
	({                                                                         \
		__typeof__(call) must_ = (call);                                   \
		must_ ? (void)0 : fail_call(__FILE__, __LINE__, #call, 0);         \
		must_;                                                             \
	})
void fail_call(const char *file, int line, const char *call, int value)
	__attribute__((noreturn));

/*
 * Runs a scenario in a forked child, so that it starts from a library that
 * is unused; its lines come in order, and its end is printed.
 */
void in_child(const char *title, void (*scenario)(void));

/* How many file descriptors this process has open. */
int open_descriptors(void);

/* How many mappings this process has: lines of /proc/self/maps. */
int mapping_count(void);

#endif
