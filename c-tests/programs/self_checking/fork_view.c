/*
 * A forked child's view of random ranges against a plain count per page: a
 * page is missing in the child exactly while it is in a range that is held.
 * Where the kernel copies such memory itself nothing is ever missing, and no
 * mapping is split.
 */
#include "check.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGES = 48, STEPS = 1500, LIVE = 12, CHECK_EACH = 10 };

static char *memory;
static size_t page;
static bool copies;

struct range {
	size_t offset, size;
};

static int count[PAGES];
static struct range live[LIVE];

static void count_range(const struct range *range, int by)
{
	size_t i;

	for (i = range->offset / page; i <= (range->offset + range->size - 1) / page; i++)
		count[i] += by;
}

static void check_child(int step)
{
	char seen[PAGES];
	int ends[2], status;
	size_t i;
	pid_t pid;

	expect(!pipe(ends));
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		for (i = 0; i < PAGES; i++)
			if (write(ends[1], memory + i * page, 1) != 1 &&
			    write(ends[1], "-", 1) != 1)
				_exit(1);
		_exit(0);
	}
	expect(waitpid(pid, &status, 0) == pid && !status);
	expect(read(ends[0], seen, PAGES) == PAGES);
	close(ends[0]);
	close(ends[1]);
	for (i = 0; i < PAGES; i++) {
		bool missing = seen[i] == '-';

		if (missing != (!copies && count[i] > 0)) {
			out("step %d page %zu: held %d times, missing %d", step, i, count[i],
			    missing);
			fail_at(__FILE__, __LINE__, "the child's view");
		}
	}
}

static void hold(struct range *range)
{
	range->offset = (size_t)rand() % (PAGES * page - 1);
	range->size = 1 + (size_t)rand() % (PAGES * page - range->offset);
	if (rand() % 3)
		range->size = 1 + range->size % (4 * page);
	if (range->offset + range->size > PAGES * page)
		range->size = PAGES * page - range->offset;
	expect(!ibv_dontfork_range(memory + range->offset, range->size));
	count_range(range, 1);
}

static void release(struct range *range)
{
	expect(!ibv_dofork_range(memory + range->offset, range->size));
	count_range(range, -1);
	range->size = 0;
}

/* A range with a hole is refused and leaves no page marked, also not in part. */
static void refuse_hole(void)
{
	size_t hole = PAGES / 2;

	expect(!munmap(memory + hole * page, page));
	if (!copies)
		expect(ibv_dontfork_range(memory, PAGES * page) && errno == ENOMEM);
	expect(mmap(memory + hole * page, page, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory + hole * page);
	memory[hole * page] = 'm';
	check_child(-1);
}

/* Memory that went away while it was held: the rest is given back. */
static void release_hole(void)
{
	struct range whole = { 0, PAGES * page };
	size_t hole = PAGES / 2;

	expect(!ibv_dontfork_range(memory, whole.size));
	expect(!munmap(memory + hole * page, page));
	expect(!ibv_dofork_range(memory, whole.size));
	expect(mmap(memory + hole * page, page, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory + hole * page);
	memory[hole * page] = 'm';
	check_child(-2);
	/* A new life at the same address is protected anew. */
	hold(&live[0]);
	check_child(-3);
	release(&live[0]);
	check_child(-4);
}

int main(void)
{
	int step, before;
	char *area;

	srand(20240611);
	page = (size_t)sysconf(_SC_PAGESIZE);
	area = mmap(NULL, (PAGES + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(area != MAP_FAILED);
	memory = area + page;
	expect(mmap(memory, PAGES * page, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
	memset(memory, 'm', PAGES * page);
	copies = ibv_is_fork_initialized() == IBV_FORK_UNNEEDED;
	out("the kernel copies: %s", copies ? "yes" : "no");
	expect(!ibv_fork_init());
	before = mapping_count();
	refuse_hole();
	release_hole();
	expect(mapping_count() == before);
	for (step = 0; step < STEPS; step++) {
		struct range *range = &live[rand() % LIVE];

		if (range->size)
			release(range);
		else
			hold(range);
		if (copies)
			expect(mapping_count() == before);
		if (step % CHECK_EACH == 0)
			check_child(step);
	}
	for (step = 0; step < LIVE; step++)
		if (live[step].size)
			release(&live[step]);
	check_child(STEPS);
	expect(mapping_count() == before);
	return done();
}
