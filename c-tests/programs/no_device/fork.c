/*
 * Protection of memory against fork: order of calls, ranges, counts.
 *
 * Where the kernel copies such memory itself (ibv_is_fork_initialized returns "unneeded"), there
 * are no marks to check; those scenarios print this and end.
 */
#include "check.h"

#include <sys/mman.h>
#include <sys/wait.h>

static size_t page;

static const char *status(void)
{
	switch (ibv_is_fork_initialized()) {
	case IBV_FORK_DISABLED:
		return "disabled";
	case IBV_FORK_ENABLED:
		return "enabled";
	case IBV_FORK_UNNEEDED:
		return "unneeded";
	}
	return "another value";
}

static bool kernel_copies(void)
{
	if (ibv_is_fork_initialized() != IBV_FORK_UNNEEDED)
		return false;
	out("the kernel copies, no marks");
	return true;
}

static char *pages(size_t count)
{
	/* A hole on both sides: no neighbour can merge with these pages. */
	char *memory = mmap(NULL, (count + 2) * page, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(memory != MAP_FAILED);
	memory += page;
	expect(mmap(memory, count * page, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
	memset(memory, 'm', count * page);
	return memory;
}

/* Which of the pages a forked child has: one letter each, m if it can read it. */
static void child_view(const char *memory, size_t count)
{
	char seen[64] = "";
	int ends[2], waited;
	size_t i;
	pid_t pid;

	expect(count < sizeof(seen) && !pipe(ends));
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		for (i = 0; i < count; i++)
			if (write(ends[1], memory + i * page, 1) != 1 &&
			    write(ends[1], "-", 1) != 1)
				_exit(1);
		_exit(0);
	}
	expect(waitpid(pid, &waited, 0) == pid && !waited);
	expect(read(ends[0], seen, count) == (ssize_t)count);
	out("child sees %s", seen);
	close(ends[0]);
	close(ends[1]);
}

/* One round, so that the library's internal allocations exist. */
static int settled_mappings(void)
{
	char *memory = pages(1);

	expect(!ibv_dontfork_range(memory, page) && !ibv_dofork_range(memory, page));
	return mapping_count();
}

static void order_init(void)
{
	out("status %s", status());
	RC(ibv_fork_init());
	out("status %s", status());
	RC(ibv_fork_init());
	out("status %s", status());
}

static void order_dontfork_first(void)
{
	char *memory = pages(1);

	RC(ibv_dontfork_range(memory, page));
	out("status %s", status());
	RC(ibv_fork_init());
	out("status %s", status());
	RC(ibv_dofork_range(memory, page));
	RC(ibv_fork_init());
}

static void order_dofork_first(void)
{
	char *memory = pages(1);

	RC(ibv_dofork_range(memory, page));
	RC(ibv_fork_init());
	out("status %s", status());
}

static void order_empty_first(void)
{
	RC(ibv_dontfork_range(NULL, 0));
	RC(ibv_fork_init());
	out("status %s", status());
}

static void empty_ranges(void)
{
	char *memory = pages(1);

	RC(ibv_fork_init());
	RC(ibv_dontfork_range(NULL, 0));
	RC(ibv_dontfork_range(NULL, page));
	RC(ibv_dontfork_range(memory, 0));
	RC(ibv_dofork_range(NULL, page));
	RC(ibv_dofork_range(memory, 0));
	child_view(memory, 1);
}

static void one_range(void)
{
	char *memory = pages(6);
	int before;

	if (kernel_copies())
		return;
	RC(ibv_fork_init());
	before = settled_mappings();
	child_view(memory, 6);
	RC(ibv_dontfork_range(memory + page, 2 * page));
	child_view(memory, 6);
	out("more mappings: %d", mapping_count() - before);
	RC(ibv_dofork_range(memory + page, 2 * page));
	child_view(memory, 6);
	out("more mappings: %d", mapping_count() - before);
}

static void parts_of_pages(void)
{
	char *memory = pages(6);

	if (kernel_copies())
		return;
	RC(ibv_fork_init());
	RC(ibv_dontfork_range(memory + page + 10, 1));
	child_view(memory, 6);
	RC(ibv_dontfork_range(memory + 3 * page - 1, 2));
	child_view(memory, 6);
	RC(ibv_dontfork_range(memory + page + 100, 1));
	RC(ibv_dofork_range(memory + page + 10, 1));
	child_view(memory, 6);
	RC(ibv_dofork_range(memory + page + 100, 1));
	child_view(memory, 6);
	RC(ibv_dofork_range(memory + 3 * page - 1, 2));
	child_view(memory, 6);
}

static void overlaps(void)
{
	char *memory = pages(10);
	int before;

	if (kernel_copies())
		return;
	RC(ibv_fork_init());
	before = settled_mappings();
	RC(ibv_dontfork_range(memory, 6 * page));
	RC(ibv_dontfork_range(memory + 3 * page, 6 * page));
	RC(ibv_dontfork_range(memory + 4 * page, page));
	child_view(memory, 10);
	RC(ibv_dofork_range(memory, 6 * page));
	child_view(memory, 10);
	RC(ibv_dofork_range(memory + 3 * page, 6 * page));
	child_view(memory, 10);
	RC(ibv_dofork_range(memory + 4 * page, page));
	child_view(memory, 10);
	out("more mappings: %d", mapping_count() - before);
}

static void neighbours(void)
{
	char *memory = pages(8);
	int before, i;

	if (kernel_copies())
		return;
	RC(ibv_fork_init());
	before = settled_mappings();
	for (i = 0; i < 8; i++)
		expect(!ibv_dontfork_range(memory + (size_t)i * page, page));
	child_view(memory, 8);
	out("more mappings: %d", mapping_count() - before);
	for (i = 0; i < 8; i += 2)
		expect(!ibv_dofork_range(memory + (size_t)i * page, page));
	child_view(memory, 8);
	for (i = 1; i < 8; i += 2)
		expect(!ibv_dofork_range(memory + (size_t)i * page, page));
	child_view(memory, 8);
	out("more mappings: %d", mapping_count() - before);
}

static void unmapped_range(void)
{
	char *memory = pages(6);

	if (kernel_copies())
		return;
	RC(ibv_fork_init());
	expect(!munmap(memory + 2 * page, page));
	RC(ibv_dontfork_range(memory, 6 * page));
	/* The remaining marks are tested elsewhere. */
}

static void unmapped_meanwhile(void)
{
	char *memory = pages(6);

	if (kernel_copies())
		return;
	RC(ibv_fork_init());
	RC(ibv_dontfork_range(memory, 6 * page));
	expect(!munmap(memory + 2 * page, page));
	RC(ibv_dofork_range(memory, 6 * page));
	child_view(memory, 6);
	/* The address can be used anew. */
	expect(mmap(memory + 2 * page, page, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory + 2 * page);
	memory[2 * page] = 'n';
	RC(ibv_dontfork_range(memory + page, 2 * page));
	child_view(memory, 6);
	RC(ibv_dofork_range(memory + page, 2 * page));
	child_view(memory, 6);
}

static void by_variable(const char *name, const char *value)
{
	struct ibv_device **list;

	setenv(name, value, 1);
	out("status %s", status());
	list = ibv_get_device_list(NULL);
	if (list)
		ibv_free_device_list(list);
	out("status after the device list %s", status());
	RC(ibv_fork_init());
	out("status after init %s", status());
}

static void by_rdmav(void) { by_variable("RDMAV_FORK_SAFE", "1"); }
static void by_rdmav_zero(void) { by_variable("RDMAV_FORK_SAFE", "0"); }
static void by_ibv(void) { by_variable("IBV_FORK_SAFE", "1"); }
static void by_nothing(void) { by_variable("UNRELATED", "1"); }

static void too_late_for_variable(void)
{
	char *memory = pages(1);

	RC(ibv_dontfork_range(memory, page));
	by_variable("RDMAV_FORK_SAFE", "1");
}

static void with_huge_pages(void)
{
	char *memory = pages(4);

	setenv("RDMAV_HUGEPAGES_SAFE", "1", 1);
	if (kernel_copies())
		return;
	RC(ibv_fork_init());
	RC(ibv_dontfork_range(memory + page + 1, page));
	child_view(memory, 4);
	RC(ibv_dofork_range(memory + page + 1, page));
	child_view(memory, 4);
}

int main(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	in_child("init twice", order_init);
	in_child("dontfork before init", order_dontfork_first);
	in_child("dofork before init", order_dofork_first);
	in_child("empty dontfork before init", order_empty_first);
	in_child("empty ranges", empty_ranges);
	in_child("one range", one_range);
	in_child("parts of pages", parts_of_pages);
	in_child("overlaps", overlaps);
	in_child("neighbours", neighbours);
	in_child("range with a hole", unmapped_range);
	in_child("unmapped meanwhile", unmapped_meanwhile);
	in_child("RDMAV_FORK_SAFE", by_rdmav);
	in_child("RDMAV_FORK_SAFE=0", by_rdmav_zero);
	in_child("IBV_FORK_SAFE", by_ibv);
	in_child("no variable", by_nothing);
	in_child("too late for the variable", too_late_for_variable);
	in_child("RDMAV_HUGEPAGES_SAFE", with_huge_pages);
	return done();
}
