/*
 * Costs of a program before its first verb: loading a library, listing devices, opening and closing
 * one.
 *
 *     cc -O2 -o start c-tests/bench/start.c -ldl
 *     ./start LIBRARY DEVICE
 *
 * One line a part: its name, a tab, nanoseconds (wall clock).
 */
#define _GNU_SOURCE
#include "measure.h"

struct ibv_device;
struct ibv_context;

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return found;
}

int main(int argc, char **argv)
{
	struct ibv_device **(*get_list)(int *count);
	void (*free_list)(struct ibv_device **list);
	const char *(*get_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	struct ibv_device **list, **device;
	struct ibv_context *context;
	double begun, load, first_list, open;
	void *library;

	if (argc != 3) {
		fprintf(stderr, "usage: %s LIBRARY DEVICE\n", argv[0]);
		return 2;
	}

	begun = begin();
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	load = end("load", begun);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&get_list = symbol(library, "ibv_get_device_list");
	*(void **)&free_list = symbol(library, "ibv_free_device_list");
	*(void **)&get_name = symbol(library, "ibv_get_device_name");
	*(void **)&open_device = symbol(library, "ibv_open_device");
	*(void **)&close_device = symbol(library, "ibv_close_device");

	begun = begin();
	list = get_list(NULL);
	first_list = end("first list", begun);
	if (!list)
		die("ibv_get_device_list");
	for (device = list; *device; device++)
		if (!strcmp(get_name(*device), argv[2]))
			break;
	if (!*device) {
		fprintf(stderr, "%s is not listed\n", argv[2]);
		return 1;
	}

	begun = begin();
	context = open_device(*device);
	if (!context)
		die("ibv_open_device");
	if (close_device(context))
		die("ibv_close_device");
	free_list(list);
	open = end("first open and close", begun);

	print_library(*(void **)&get_list);
	printf("load\t%.0f\n", load);
	printf("first list\t%.0f\n", first_list);
	printf("first open and close\t%.0f\n", open);
	return 0;
}
