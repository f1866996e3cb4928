/*
 * A program that is not linked with the library loads it, uses it, and lets go
 * of it, again and again: without devices, with a device that it only lists,
 * and with one that it opens. Memory and mappings do not grow.
 */
#include "check.h"

#include <dlfcn.h>
#include <malloc.h>

/* The dynamic linker keeps some memory of the first rounds. */
#define EARLIER 100
#define ROUNDS 100
#define MEASURED 3

/* What the runner expects of each program, and a program that is linked with the library does when
 * it starts. */
static void name_library(void *function)
{
	static bool named;
	Dl_info info;

	if (named)
		return;
	named = true;
	expect(dladdr(function, &info));
	fprintf(stderr, "library: %s\n", info.dli_fname);
}

static void round_of(bool open)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	struct ibv_device **(*get_list)(int *);
	void (*free_list)(struct ibv_device **);
	struct ibv_context *(*open_device)(struct ibv_device *);
	int (*close_device)(struct ibv_context *);
	struct ibv_device **list;

	expect(library != NULL);
	*(void **)&get_list = dlsym(library, "ibv_get_device_list");
	*(void **)&free_list = dlsym(library, "ibv_free_device_list");
	*(void **)&open_device = dlsym(library, "ibv_open_device");
	*(void **)&close_device = dlsym(library, "ibv_close_device");
	expect(get_list && free_list && open_device && close_device);
	name_library(*(void **)&open_device);
	list = get_list(NULL);
	if (open) {
		struct ibv_context *context;

		expect(list && list[0]);
		context = open_device(list[0]);
		expect(context != NULL);
		expect(!close_device(context));
	}
	if (list)
		free_list(list);
	expect(!dlclose(library));
}

static void rounds(const char *what, bool open)
{
	size_t heap, later;
	int i, round, mappings;

	for (i = 0; i < EARLIER; i++)
		round_of(open);
	/* Before the heap is measured: the C library keeps what this frees. */
	mappings = mapping_count();
	/* It also keeps memory that a rare path frees for the first time. Memory that is lost in
	 * each round grows whenever it is measured. */
	for (i = 0; i < MEASURED; i++) {
		heap = mallinfo2().uordblks;
		for (round = 0; round < ROUNDS; round++)
			round_of(open);
		later = mallinfo2().uordblks;
		if (later < heap + ROUNDS)
			break;
		fprintf(stderr, "%s: %zu bytes, then %zu\n", what, heap, later);
	}
	expect(i < MEASURED);
	expect(mapping_count() <= mappings + 2);
	out("%s: nothing grows", what);
}

int main(void)
{
	unsetenv("UROCE_DEVICES");
	rounds("no device", false);
	setenv("UROCE_DEVICES", "lo", 1);
	rounds("a device", false);
	rounds("an open device", true);
	return done();
}
