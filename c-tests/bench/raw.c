/*
 * What moving bytes between two processes costs without any RDMA: the measure
 * that uroce's shared memory is held against.
 *
 *     cc -O2 -o raw c-tests/bench/raw.c
 *     ./raw writev SIZE COUNT    process_vm_writev(2) into a process that watches the last byte
 *     ./raw readv SIZE COUNT     process_vm_readv(2) from it
 *     ./raw line 8 COUNT         a cache line that goes to and fro, one way
 *
 * The two processes are on the first two processors that may be used. Two lines,
 * nanoseconds for one way of SIZE bytes: the mean, and the median of groups of
 * 100 ways, which other work on the machine hardly moves.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GROUP = 100 };

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* Processor number `which` of those that may be used; the last one if there are fewer. */
static void pin(const cpu_set_t *allowed, int which)
{
	cpu_set_t one;
	int chosen = -1;

	for (int cpu = 0; cpu < CPU_SETSIZE && which >= 0; cpu++) {
		if (CPU_ISSET(cpu, allowed)) {
			chosen = cpu;
			which--;
		}
	}
	CPU_ZERO(&one);
	CPU_SET(chosen, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("sched_setaffinity");
}

static void *memory(size_t size, int flags)
{
	void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);

	if (block == MAP_FAILED)
		die("mmap");
	return block;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Waits until the word says `turn`, and says the next. */
static void step(_Atomic uint64_t *word, uint64_t turn)
{
	while (atomic_load_explicit(word, memory_order_acquire) != turn)
		;
	atomic_store_explicit(word, turn + 1, memory_order_release);
}

typedef ssize_t (*transfer_fn)(pid_t pid, const struct iovec *local, unsigned long locals,
			       const struct iovec *remote, unsigned long remotes,
			       unsigned long flags);

static void transfer(transfer_fn call, pid_t pid, void *here, void *there, size_t size)
{
	struct iovec local = { here, size }, remote = { there, size };

	if (call(pid, &local, 1, &remote, 1, 0) != (ssize_t)size)
		die("process_vm");
}

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	size_t count = argc == 4 ? strtoull(argv[3], NULL, 0) : 0;

	if (count < GROUP) {
		fprintf(stderr, "raw writev|readv|line SIZE COUNT (100 or more)\n");
		return 2;
	}
	int line = !strcmp(argv[1], "line");
	transfer_fn call = !strcmp(argv[1], "readv") ? process_vm_readv : process_vm_writev;
	size_t size = strtoull(argv[2], NULL, 0);
	_Atomic uint64_t *word = memory(4096, MAP_SHARED);
	/* Both are private: the child's pages are its own, since it writes them. */
	volatile unsigned char *there = memory(size, MAP_PRIVATE);
	void *here = memory(size, MAP_PRIVATE);
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		die("sched_getaffinity");
	memset(here, 1, size);
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(&allowed, 0);
		memset((void *)there, 0, size);
		if (line) {
			for (uint64_t turn = 0;; turn++)
				step(word, 2 * turn + 1);
		}
		atomic_store(word, 1);
		for (;;)
			(void)there[size - 1];
	}
	pin(&allowed, 1);
	while (!line && !atomic_load(word))
		;
	/* One group first that is not counted. */
	double *groups = calloc(count / GROUP + 1, sizeof(*groups)), total = 0;
	size_t turn = 0, done = 0;
	if (!groups)
		die("calloc");
	for (size_t group = 0; group <= count / GROUP; group++) {
		uint64_t began = now();

		for (size_t at = 0; at < GROUP; at++, turn++) {
			if (line)
				step(word, 2 * turn);
			else
				transfer(call, child, here, (void *)there, size);
		}
		double took = (double)(now() - began) / GROUP / (line ? 2 : 1);
		if (group) {
			groups[done++] = took;
			total += took;
		}
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	qsort(groups, done, sizeof(*groups), by_value);
	printf("mean\t%.2f\nmedian\t%.2f\n", total / (double)done, groups[done / 2]);
	return 0;
}
