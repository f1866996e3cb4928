/*
 * Communication of MPICH ranks: messages from one to the next of a ring, sums of all, and one-sided
 * operations, all checked. The first rank prints how many agree.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 20, NUMBERS = 200000, WORDS = 4096, ADDED = 100, PLACE = 2000 };

/* From messages that go at once to such that are fetched by the receiver. */
static const int sizes[] = { 1, 64, 5000, 70000, 3000000 };

static int rank, ranks, next, previous;

static void expect(int holds, const char *what)
{
	if (holds)
		return;
	printf("rank %d: wrong %s\n", rank, what);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *memory(size_t size)
{
	void *memory = malloc(size);

	expect(memory != NULL, "memory");
	return memory;
}

static int pattern(int of, int round)
{
	return (of * 7 + round * 3) & 0xff;
}

static void send_around(int size)
{
	unsigned char *out = memory(size), *in = memory(size);

	for (int round = 0; round < ROUNDS; round++) {
		memset(out, pattern(rank, round), size);
		MPI_Sendrecv(out, size, MPI_BYTE, next, round, in, size, MPI_BYTE, previous, round,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int at = 0; at < size; at++)
			expect(in[at] == pattern(previous, round), "message");
	}
	free(out);
	free(in);
}

static void add_up(void)
{
	double *own = memory(NUMBERS * sizeof(*own)), *sums = memory(NUMBERS * sizeof(*sums));

	for (int at = 0; at < NUMBERS; at++)
		own[at] = rank + at;
	for (int round = 0; round < ROUNDS; round++) {
		memset(sums, 0, NUMBERS * sizeof(*sums));
		MPI_Allreduce(own, sums, NUMBERS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		for (int at = 0; at < NUMBERS; at++)
			expect(sums[at] == (double)ranks * at + ranks * (ranks - 1) / 2, "sum");
	}
	free(own);
	free(sums);
}

/* Adds to the next one's words, puts one there, and gets it back. */
static void reach_over(void)
{
	int *words, one = 1, put = rank + 1000, got = 0;
	MPI_Win window;

	MPI_Win_allocate(WORDS * sizeof(*words), sizeof(*words), MPI_INFO_NULL, MPI_COMM_WORLD, &words, &window);
	memset(words, 0, WORDS * sizeof(*words));
	MPI_Win_fence(0, window);
	for (int round = 0; round < ROUNDS; round++)
		for (int at = 0; at < ADDED; at++)
			MPI_Accumulate(&one, 1, MPI_INT, next, at, 1, MPI_INT, MPI_SUM, window);
	MPI_Win_fence(0, window);
	MPI_Put(&put, 1, MPI_INT, next, PLACE, 1, MPI_INT, window);
	MPI_Win_fence(0, window);
	MPI_Get(&got, 1, MPI_INT, next, PLACE, 1, MPI_INT, window);
	MPI_Win_fence(0, window);
	for (int at = 0; at < WORDS; at++) {
		int expected = at < ADDED ? ROUNDS : at == PLACE ? previous + 1000 : 0;

		expect(words[at] == expected, "word");
	}
	expect(got == put, "word that was put");
	MPI_Win_free(&window);
}

int main(int count, char **arguments)
{
	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	next = (rank + 1) % ranks;
	previous = (rank + ranks - 1) % ranks;
	for (size_t at = 0; at < sizeof(sizes) / sizeof(*sizes); at++)
		send_around(sizes[at]);
	add_up();
	reach_over();
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("%d ranks agree\n", ranks);
	MPI_Finalize();
	return 0;
}
