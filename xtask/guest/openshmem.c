/*
 * Processing elements of OpenSHMEM that write to each other's memory, read it, add to it, and
 * compare.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 200000, ADDS = 100 };

static void fail(const char *what, long got)
{
	fprintf(stderr, "processing element %d: %s: %ld\n", shmem_my_pe(), what, got);
	shmem_global_exit(1);
	exit(1);
}

static long cell(int element, int index)
{
	return element * 1000003L + index;
}

static void compare(const char *what, const long *cells, int element)
{
	for (int index = 0; index < CELLS; index++)
		if (cells[index] != cell(element, index))
			fail(what, index);
}

static void one_sided(long *there, long *own, int next, int before)
{
	shmem_long_put(there, own, CELLS, next);
	shmem_barrier_all();
	compare("put", there, before);
	memset(there, 0, CELLS * sizeof(*there));
	shmem_barrier_all();
	shmem_long_get(there, own, CELLS, before);
	compare("get", there, before);
	memset(there, 0, CELLS * sizeof(*there));
	shmem_barrier_all();
	for (int index = 0; index < 64; index++)
		shmem_long_put_nbi(there + index, own + index, 1, next);
	shmem_quiet();
	shmem_barrier_all();
	for (int index = 0; index < 64; index++)
		if (there[index] != cell(before, index))
			fail("put without waiting", index);
}

/* All add to the first one's sum, and take turns at its ticket. */
static void atomics(long *sum, long *ticket, int own, int all)
{
	for (int round = 0; round < ADDS; round++)
		shmem_long_atomic_add(sum, own + 1, 0);
	long mine = shmem_long_atomic_fetch_inc(ticket, 0);
	if (mine < 0 || mine >= all)
		fail("ticket", mine);
	shmem_quiet();
	shmem_barrier_all();
	if (own == 0 && *sum != ADDS * (long)all * (all + 1) / 2)
		fail("sum", *sum);
	shmem_barrier_all();
	long was = shmem_long_atomic_compare_swap(ticket, all, -1, 0);
	if (was != all && was != -1)
		fail("compare and swap", was);
	shmem_barrier_all();
}

/* An element that waits until its neighbour has written to it. */
static void wait_for_neighbour(long *flag, int own, int next, int all)
{
	if (own == 0)
		shmem_long_p(flag, 1, next);
	shmem_long_wait_until(flag, SHMEM_CMP_NE, 0);
	if (own != 0)
		shmem_long_p(flag, *flag + 1, next);
	else if (*flag != all)
		fail("what went round", *flag);
}

int main(void)
{
	shmem_init();
	int own = shmem_my_pe(), all = shmem_n_pes();
	int next = (own + 1) % all, before = (own + all - 1) % all;
	long *there = shmem_calloc(CELLS, sizeof(*there));
	long *cells = shmem_calloc(CELLS, sizeof(*cells));
	long *few = shmem_calloc(3, sizeof(*few));
	if (!there || !cells || !few)
		fail("memory", 0);
	for (int index = 0; index < CELLS; index++)
		cells[index] = cell(own, index);
	shmem_barrier_all();
	one_sided(there, cells, next, before);
	atomics(few, few + 1, own, all);
	wait_for_neighbour(few + 2, own, next, all);
	shmem_barrier_all();
	if (own == 0)
		printf("%d processing elements agree\n", all);
	shmem_finalize();
	return 0;
}
