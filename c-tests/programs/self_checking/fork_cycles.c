/*
 * A million register/unregister cycles of varied, overlapping ranges from
 * several threads leave /proc/self/maps with as many lines as before, and a
 * forked child sees all of the memory again.
 */
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { THREADS = 4, CYCLES = 250000, PAGES = 512, LIVE = 16 };

static char *memory;
static size_t page;

struct range {
	char *start;
	size_t size;
};

/* xorshift: the same ranges in each run. */
static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void *cycle(void *seed)
{
	uint64_t state = 0x9e3779b97f4a7c15ULL * (uint64_t)((uintptr_t)seed + 1);
	struct range live[LIVE] = { 0 };
	int i;

	for (i = 0; i < CYCLES; i++) {
		struct range *range = &live[i % LIVE];
		size_t offset = next(&state) % (PAGES * page - 1);
		size_t longest = PAGES * page - offset;

		if (range->size)
			expect(!ibv_dofork_range(range->start, range->size));
		if (longest > 40 * page)
			longest = 40 * page;
		range->start = memory + offset;
		range->size = 1 + next(&state) % longest;
		expect(!ibv_dontfork_range(range->start, range->size));
	}
	for (i = 0; i < LIVE; i++)
		expect(!ibv_dofork_range(live[i].start, live[i].size));
	return NULL;
}

static void child_sees_all(void)
{
	pid_t pid = fork();
	int status;
	size_t i, sum = 0;

	expect(pid >= 0);
	if (!pid) {
		for (i = 0; i < PAGES; i++)
			sum += (size_t)*(volatile char *)(memory + i * page);
		_exit(sum == PAGES ? 0 : 1);
	}
	expect(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	pthread_t threads[THREADS];
	uintptr_t i;
	int before, after;

	page = (size_t)sysconf(_SC_PAGESIZE);
	memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(memory != MAP_FAILED);
	memset(memory, 1, PAGES * page);
	expect(!ibv_fork_init());
	/* Once over the ground, so that stacks and heaps of the threads are there. */
	for (i = 0; i < THREADS; i++)
		expect(!pthread_create(&threads[i], NULL, cycle, (void *)i));
	for (i = 0; i < THREADS; i++)
		expect(!pthread_join(threads[i], NULL));
	before = mapping_count();
	for (i = 0; i < THREADS; i++)
		expect(!pthread_create(&threads[i], NULL, cycle, (void *)(i + 7)));
	for (i = 0; i < THREADS; i++)
		expect(!pthread_join(threads[i], NULL));
	after = mapping_count();
	out("lines before %d, after %d", before, after);
	expect(after <= before);
	child_sees_all();
	return done();
}
