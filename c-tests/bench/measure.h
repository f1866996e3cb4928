/*
 * Measuring in parts: each part's wall time is printed, and under callgrind
 * its instructions are dumped under the same name.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <valgrind/callgrind.h>

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* Code from here on belongs to the next part. */
static inline double begin(void)
{
	CALLGRIND_ZERO_STATS;
	return now();
}

/* Ends a part; its nanoseconds. */
static inline double end(const char *name, double begun)
{
	double took = now() - begun;

	CALLGRIND_DUMP_STATS_AT(name);
	return took;
}

/* The file that a function comes from, so that no other library is measured by mistake. */
static inline void print_library(const void *function)
{
	Dl_info info;

	if (!dladdr(function, &info) || !info.dli_fname) {
		fprintf(stderr, "%s\n", "the library has no file");
		exit(1);
	}
	printf("library\t%s\n", info.dli_fname);
}

#endif
