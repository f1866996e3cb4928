/*
 * Costs of fork protection: operations per second of ibv_dontfork_range and ibv_dofork_range of one
 * library, on any machine whose kernel does not copy registered pages on fork (no RDMA needed).
 *
 *     cc -O2 -o fork c-tests/bench/fork.c -ldl -lpthread
 *     ./fork LIBRARY THREADS RANGES [OPERATIONS [PATTERN]]
 *
 * Each thread keeps its share of RANGES protected. One operation gives back one
 * of them, picked at random, and protects another in its place. Patterns:
 *
 *   overlap   1 to 32 pages anywhere in 4 pages a range: each page lies in
 *             about four ranges, some in none (the default)
 *   dense     1 to 64 pages anywhere in 4096 pages
 *   small     1 to 3000 bytes anywhere in 1024 bytes a range: several ranges
 *             share each page
 *   apart     4 pages each, 4 pages between them
 *   again     as overlap, but an operation protects the range it gave back
 *
 * One line: pattern, threads, ranges, operations, nanoseconds an operation
 * (wall clock), operations a second, nanoseconds of processor time an operation
 * (all threads), and how many mappings the memory was before the first and
 * after the last range.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

typedef int (*range_fn)(void *base, size_t size);

static range_fn dont_fork, do_fork;

struct range {
	char *base;
	size_t size;
};

struct pattern {
	const char *name;
	size_t (*pool)(size_t ranges);
	struct range (*pick)(uint64_t random, size_t index, size_t pool);
	int again;
};

static char *memory;

static size_t four_pages_each(size_t ranges)
{
	return ranges * 4 * PAGE;
}

static size_t fixed_pool(size_t ranges)
{
	(void)ranges;
	return (size_t)4096 * PAGE;
}

static size_t kilobyte_each(size_t ranges)
{
	return ranges * 1024;
}

static size_t eight_pages_each(size_t ranges)
{
	return ranges * 8 * PAGE;
}

static struct range pages(uint64_t random, size_t pool, size_t longest)
{
	size_t all = pool / PAGE, want = 1 + (random >> 40) % longest;
	size_t length = want < all ? want : all;
	size_t first = (random & 0xffffffff) % (all - length + 1);

	return (struct range){ memory + first * PAGE, length * PAGE };
}

static struct range pick_overlap(uint64_t random, size_t index, size_t pool)
{
	(void)index;
	return pages(random, pool, 32);
}

static struct range pick_dense(uint64_t random, size_t index, size_t pool)
{
	(void)index;
	return pages(random, pool, 64);
}

static struct range pick_small(uint64_t random, size_t index, size_t pool)
{
	size_t length = 1 + (random >> 40) % 3000;

	(void)index;
	length = length < pool ? length : pool;
	return (struct range){
		memory + (random & 0xffffffff) % (pool - length + 1), length
	};
}

static struct range pick_apart(uint64_t random, size_t index, size_t pool)
{
	(void)random;
	(void)pool;
	return (struct range){ memory + index * 8 * PAGE, 4 * PAGE };
}

static const struct pattern patterns[] = {
	{ "overlap", four_pages_each, pick_overlap, 0 },
	{ "dense", fixed_pool, pick_dense, 0 },
	{ "small", kilobyte_each, pick_small, 0 },
	{ "apart", eight_pages_each, pick_apart, 0 },
	{ "again", four_pages_each, pick_overlap, 1 },
};

struct worker {
	pthread_t thread;
	pthread_barrier_t *start;
	const struct pattern *pattern;
	uint64_t seed;
	size_t first, ranges, pool, operations;
	struct timespec began, ended, cpu_began, cpu_ended;
};

static void die(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	exit(1);
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static struct range new_range(struct worker *w, size_t slot)
{
	return w->pattern->pick(next_random(&w->seed), w->first + slot,
				w->pool);
}

static void protect(struct range r)
{
	if (dont_fork(r.base, r.size))
		die("ibv_dontfork_range", errno);
}

static void give_back(struct range r)
{
	if (do_fork(r.base, r.size))
		die("ibv_dofork_range", errno);
}

static void *work(void *argument)
{
	struct worker *w = argument;
	struct range *live = calloc(w->ranges, sizeof(*live));

	if (!live)
		die("calloc", errno);
	for (size_t i = 0; i < w->ranges; i++)
		protect(live[i] = new_range(w, i));
	pthread_barrier_wait(w->start);
	clock_gettime(CLOCK_MONOTONIC, &w->began);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &w->cpu_began);
	for (size_t i = 0; i < w->operations; i++) {
		size_t slot = next_random(&w->seed) % w->ranges;

		give_back(live[slot]);
		if (!w->pattern->again)
			live[slot] = new_range(w, slot);
		protect(live[slot]);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &w->cpu_ended);
	clock_gettime(CLOCK_MONOTONIC, &w->ended);
	for (size_t i = 0; i < w->ranges; i++)
		give_back(live[i]);
	free(live);
	return NULL;
}

/* The mappings that the kernel keeps for the memory. */
static size_t mappings(size_t size)
{
	FILE *file = fopen("/proc/self/maps", "r");
	uintptr_t first = (uintptr_t)memory, from, to;
	size_t found = 0;
	char line[4096];

	if (!file)
		die("/proc/self/maps", errno);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2)
			found += from < first + size && to > first;
	fclose(file);
	return found;
}

static double seconds(struct timespec t)
{
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return found;
}

static void open_library(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	int (*fork_init)(void);
	int error;

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&dont_fork = symbol(library, "ibv_dontfork_range");
	*(void **)&do_fork = symbol(library, "ibv_dofork_range");
	*(void **)&fork_init = symbol(library, "ibv_fork_init");
	error = fork_init();
	if (error)
		die("ibv_fork_init", error);
}

static size_t number(const char *text, const char *what)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || !value) {
		fprintf(stderr, "%s: not a number of %s\n", text, what);
		exit(2);
	}
	return value;
}

static const struct pattern *find_pattern(const char *name)
{
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		if (!strcmp(patterns[i].name, name))
			return &patterns[i];
	fprintf(stderr, "%s: no such pattern\n", name);
	exit(2);
}

static void run(const struct pattern *pattern, size_t threads, size_t ranges,
		size_t operations)
{
	struct worker *workers = calloc(threads, sizeof(*workers));
	size_t pool = pattern->pool(ranges), before, after;
	double began = 0, ended = 0, cpu = 0, nanoseconds;
	pthread_barrier_t start;

	if (!workers)
		die("calloc", errno);
	pool = (pool + PAGE - 1) / PAGE * PAGE;
	memory = mmap(NULL, pool, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		die("mmap", errno);
	*(volatile char *)memory = 0; /* the mapping's pages now belong together */
	pthread_barrier_init(&start, NULL, (unsigned)threads);
	before = mappings(pool);
	for (size_t i = 0; i < threads; i++) {
		struct worker *w = &workers[i];
		int error;

		w->start = &start;
		w->pattern = pattern;
		w->pool = pool;
		w->seed = i + 1;
		w->first = ranges * i / threads;
		w->ranges = ranges * (i + 1) / threads - w->first;
		w->operations = operations / threads;
		error = pthread_create(&w->thread, NULL, work, w);
		if (error)
			die("pthread_create", error);
	}
	for (size_t i = 0; i < threads; i++) {
		struct worker *w = &workers[i];

		pthread_join(w->thread, NULL);
		if (!i || seconds(w->began) < began)
			began = seconds(w->began);
		if (seconds(w->ended) > ended)
			ended = seconds(w->ended);
		cpu += seconds(w->cpu_ended) - seconds(w->cpu_began);
	}
	after = mappings(pool);
	operations = operations / threads * threads;
	nanoseconds = (ended - began) * 1e9 / (double)operations;
	printf("%-8s threads %zu ranges %6zu operations %zu: %8.1f ns %10.0f/s, processor %8.1f ns, mappings %zu -> %zu\n",
	       pattern->name, threads, ranges, operations, nanoseconds,
	       1e9 / nanoseconds, cpu * 1e9 / (double)operations, before,
	       after);
	pthread_barrier_destroy(&start);
	munmap(memory, pool);
	free(workers);
}

int main(int argc, char **argv)
{
	size_t threads, ranges, operations = 200000;
	const struct pattern *pattern = &patterns[0];

	if (argc < 4 || argc > 6) {
		fprintf(stderr,
			"usage: %s LIBRARY THREADS RANGES [OPERATIONS [PATTERN]]\n",
			argv[0]);
		return 2;
	}
	threads = number(argv[2], "threads");
	ranges = number(argv[3], "ranges");
	if (argc > 4)
		operations = number(argv[4], "operations");
	if (argc > 5)
		pattern = find_pattern(argv[5]);
	if (ranges < threads || operations < threads) {
		fprintf(stderr, "fewer ranges or operations than threads\n");
		return 2;
	}
	open_library(argv[1]);
	run(pattern, threads, ranges, operations);
	return 0;
}
