/*
 * What the sets of epoll(7) contain that is no rsocket yet, and who waits for them in the kernel.
 *
 * A set of which an rsocket is a member has a set of rsockets beside it (wait.c). Two things change
 * when a set gets one:
 *
 * - A TCP socket of a program that forks (fork.c) may be a member before it becomes an rsocket. The
 *   kernel removes it then, so its entries are recorded here, and join the set beside.
 * - Threads that wait in the kernel at that moment would not learn of the rsocket. A descriptor
 *   that is readable joins the kernel's set until all of them have left.
 *
 * One lock protects both, and fork(2) waits for it.
 */
#include "preload.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>

/* Limit of descriptor numbers (table.rs). */
enum { MOST = 1 << 16 };

/* A member of a set, by the numbers that the program uses. */
struct entry {
	int epoll, fd;
	struct epoll_event event;
	struct entry *next;
};

static struct entry *entries;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The threads that wait for a set in the kernel, and the descriptor that ends their waits, plus 1:
 * 0 is none. */
static struct {
	unsigned int threads;
	int change;
} waits[MOST];
/* The highest set that any thread has waited for. */
static int highest = -1;

/* Marks that descriptor's event: an address, which no program uses as data. */
static char of_change;

static void lock_sets(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_sets(void)
{
	pthread_mutex_unlock(&lock);
}

/* The threads that wait are not in the child. */
static void restart_in_child(void)
{
	int epoll;

	for (epoll = 0; epoll <= highest; epoll++)
		waits[epoll].threads = 0;
	pthread_mutex_unlock(&lock);
}

void preload_begin_sets(void)
{
	pthread_atfork(lock_sets, unlock_sets, restart_in_child);
}

static bool may_convert(int kind)
{
	return kind == FORKABLE || kind == FORK_CONNECTED || kind == FORK_ACCEPTED;
}

static struct entry **find_entry(int epoll, int fd)
{
	struct entry **each = &entries;

	while (*each && ((*each)->epoll != epoll || (*each)->fd != fd))
		each = &(*each)->next;
	return each;
}

static void remove_entry(struct entry **at)
{
	struct entry *entry = *at;

	*at = entry->next;
	free(entry);
}

/* Records a change that the kernel has made. */
static void record(int epoll, int operation, int fd, const struct epoll_event *event)
{
	struct entry **at = find_entry(epoll, fd);

	if (operation == EPOLL_CTL_DEL) {
		if (*at)
			remove_entry(at);
		return;
	}
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return;
		(*at)->epoll = epoll;
		(*at)->fd = fd;
	}
	(*at)->event = *event;
}

/* epoll_ctl(2) of a socket that is none of the kernel's set: rsockets join the set beside. */
static int change_beside(int epoll, int operation, int rsocket, struct epoll_event *event)
{
	int set = preload_set_beside(epoll);

	if (set < 0)
		return -1;
	return repoll_ctl(set, operation, rsocket, event);
}

int preload_change_set(int epoll, int operation, int fd, struct epoll_event *event)
{
	struct target target;
	int answer;

	lock_sets();
	target = ferroverbs_preload_find(fd);
	if (target.kind == RSOCKET) {
		answer = change_beside(epoll, operation, target.fd, event);
	} else {
		int member = target.kind == SET ? fd : target.fd;

		answer = real.epoll_ctl(epoll, operation, member, event);
		if (!answer && may_convert(target.kind))
			record(epoll, operation, fd, event);
	}
	unlock_sets();
	return answer;
}

/* The rsocket behind a descriptor joins the sets that its TCP socket was in, and which that leaves:
 * the kernel removes it only when no other process has it. */
static void convert_entries(int fd, int tcp, int rsocket)
{
	struct entry **each = &entries;

	while (*each) {
		struct entry *entry = *each;

		if (entry->fd != fd) {
			each = &entry->next;
			continue;
		}
		if (rsocket >= 0) {
			real.epoll_ctl(entry->epoll, EPOLL_CTL_DEL, tcp, NULL);
			change_beside(entry->epoll, EPOLL_CTL_ADD, rsocket, &entry->event);
		}
		remove_entry(each);
	}
}

void preload_exchange(int fd, int inner, enum kind kind)
{
	struct target before;
	bool is_last;

	lock_sets();
	ferroverbs_preload_exchange(fd, inner, kind, &before, &is_last);
	if (!may_convert(kind))
		convert_entries(fd, before.fd, kind == RSOCKET ? inner : -1);
	unlock_sets();
}

/* With the lock. */
static void end_change(int epoll)
{
	int change = waits[epoll].change - 1;

	if (change < 0)
		return;
	waits[epoll].change = 0;
	real.epoll_ctl(epoll, EPOLL_CTL_DEL, change, NULL);
	real.close(change);
}

static bool is_changing(int epoll)
{
	return epoll >= 0 && epoll < MOST &&
	       __atomic_load_n(&waits[epoll].change, __ATOMIC_RELAXED);
}

void preload_forget_members(int fd)
{
	struct entry **each = &entries;

	/* close(2) is called by signal handlers, too, which may have interrupted a thread that has
	 * the lock. Few programs have entries. */
	if (!__atomic_load_n(&entries, __ATOMIC_RELAXED) && !is_changing(fd))
		return;
	lock_sets();
	while (*each) {
		if ((*each)->fd == fd || (*each)->epoll == fd)
			remove_entry(each);
		else
			each = &(*each)->next;
	}
	if (fd >= 0 && fd < MOST)
		end_change(fd);
	unlock_sets();
}

void preload_end_kernel_waits(int epoll)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &of_change };
	int change;

	if (epoll >= MOST || !waits[epoll].threads || waits[epoll].change)
		return;
	change = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	/* Without a descriptor they learn of the rsocket after their next event. */
	if (change < 0)
		return;
	waits[epoll].change = change + 1;
	if (real.epoll_ctl(epoll, EPOLL_CTL_ADD, change, &event))
		end_change(epoll);
}

bool preload_begin_kernel_wait(int epoll)
{
	bool is_kernels;

	if (epoll < 0 || epoll >= MOST)
		return true;
	lock_sets();
	is_kernels = ferroverbs_preload_find(epoll).kind != SET;
	if (is_kernels) {
		waits[epoll].threads++;
		if (epoll > highest)
			highest = epoll;
	}
	unlock_sets();
	return is_kernels;
}

void preload_end_kernel_wait(void *epoll_)
{
	int epoll = *(int *)epoll_, before = errno;

	if (epoll < 0 || epoll >= MOST)
		return;
	lock_sets();
	/* 0 in a child of a thread that waited. */
	if (waits[epoll].threads && !--waits[epoll].threads)
		end_change(epoll);
	unlock_sets();
	errno = before;
}

bool preload_remove_mark(struct epoll_event *events, int *count, const char *mark)
{
	int i;

	for (i = 0; i < *count; i++) {
		if (events[i].data.ptr == mark) {
			events[i] = events[--*count];
			return true;
		}
	}
	return false;
}

bool preload_was_changed(struct epoll_event *events, int *count)
{
	return *count > 0 && preload_remove_mark(events, count, &of_change);
}
