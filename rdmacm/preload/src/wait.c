/*
 * Calls that wait for several descriptors.
 */
#include "preload.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct target find(int fd)
{
	preload_begin();
	return ferroverbs_preload_find(fd);
}

static void free_it(void *memory)
{
	free(memory);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	bool has_rsocket = false, has_other = false;
	struct pollfd *inner;
	nfds_t i;
	int answer;

	preload_begin();
	for (i = 0; i < count; i++) {
		int kind = find(fds[i].fd).kind;

		has_rsocket |= kind == RSOCKET;
		has_other |= kind != ITSELF && kind != SET;
	}
	if (!has_other)
		return real.poll(fds, count, timeout);
	inner = malloc(count * sizeof(*inner));
	if (!inner) {
		errno = ENOMEM;
		return -1;
	}
	for (i = 0; i < count; i++) {
		struct target target = find(fds[i].fd);

		inner[i] = fds[i];
		inner[i].revents = 0;
		if (target.kind != SET)
			inner[i].fd = target.fd;
	}
	pthread_cleanup_push(free_it, inner);
	answer = has_rsocket ? rpoll(inner, count, timeout) : real.poll(inner, count, timeout);
	for (i = 0; i < count; i++)
		fds[i].revents = inner[i].revents;
	pthread_cleanup_pop(1);
	return answer;
}

/* Rounds up, so that a short time does not become zero. */
static int milliseconds(const struct timeval *time)
{
	int64_t all;

	if (!time)
		return -1;
	all = (int64_t)time->tv_sec * 1000 + (time->tv_usec + 999) / 1000;
	return all > INT32_MAX ? INT32_MAX : (int)all;
}

/* The sets of select(2), and the events of each. */
struct sets {
	fd_set *sets[3];
};

static const short asked[3] = { POLLIN, POLLOUT, POLLPRI };
static const short found[3] = { POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI };

static short events_of(const struct sets *sets, int fd)
{
	short events = 0;
	int i;

	for (i = 0; i < 3; i++)
		if (sets->sets[i] && FD_ISSET(fd, sets->sets[i]))
			events |= asked[i];
	return events;
}

static int report(const struct sets *sets, const struct pollfd *polled, int count)
{
	int bits = 0, i, set;

	for (set = 0; set < 3; set++) {
		for (i = 0; i < count; i++) {
			if (!(polled[i].events & asked[set]))
				continue;
			if (polled[i].revents & found[set])
				bits++;
			else
				FD_CLR(polled[i].fd, sets->sets[set]);
		}
	}
	return bits;
}

int select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
	   struct timeval *timeout)
{
	struct sets sets = { { readable, writable, exceptional } };
	struct pollfd polled[FD_SETSIZE];
	bool has_other = false;
	int asked_of = 0, fd, answer, i;

	preload_begin();
	for (fd = 0; fd < count && fd < FD_SETSIZE; fd++) {
		short events = events_of(&sets, fd);

		if (!events)
			continue;
		has_other |= find(fd).kind != ITSELF;
		polled[asked_of++] = (struct pollfd){ .fd = fd, .events = events };
	}
	if (!has_other)
		return real.select(count, readable, writable, exceptional, timeout);
	/* This file's function, which resolves the descriptors. */
	answer = poll(polled, (nfds_t)asked_of, milliseconds(timeout));
	if (answer < 0)
		return -1;
	for (i = 0; i < asked_of; i++) {
		if (polled[i].revents & POLLNVAL) {
			errno = EBADF;
			return -1;
		}
	}
	return report(&sets, polled, asked_of);
}

int epoll_create1(int flags)
{
	preload_begin();
	return real.epoll_create1(flags);
}

int epoll_create(int size)
{
	preload_begin();
	return real.epoll_create(size);
}

/* Marks the entry of the kernel's set in a set of rsockets: its address, which no program uses as
 * data. */
static char of_kernel;

/* The rsocket set that belongs to a set; made at its first rsocket. -1 with errno set. */
static int set_beside(int epoll)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &of_kernel };
	struct target target = find(epoll);
	int set;

	if (target.kind == SET)
		return target.fd;
	set = repoll_create(1);
	if (set < 0)
		return -1;
	if (repoll_ctl(set, EPOLL_CTL_ADD, epoll, &event) ||
	    !ferroverbs_preload_put(epoll, set, SET)) {
		rclose(set);
		errno = EMFILE;
		return -1;
	}
	return set;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
	struct target target = find(fd);
	int set;

	if (target.kind == SET)
		target.fd = fd;
	if (target.kind != RSOCKET)
		return real.epoll_ctl(epoll, operation, target.fd, event);
	pthread_mutex_lock(&one_at_a_time);
	set = set_beside(epoll);
	pthread_mutex_unlock(&one_at_a_time);
	if (set < 0)
		return -1;
	return repoll_ctl(set, operation, target.fd, event);
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Replaces the entry of the kernel's set by the events of that set. */
static int with_kernels(int epoll, struct epoll_event *events, int count, int most)
{
	int i, some;

	for (i = 0; i < count; i++)
		if (events[i].data.ptr == &of_kernel)
			break;
	if (i == count)
		return count;
	events[i] = events[--count];
	some = real.epoll_wait(epoll, events + count, most - count, 0);
	return some < 0 ? count : count + some;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	struct target target = find(epoll);
	int64_t until = 0;
	int count;

	if (target.kind != SET)
		return real.epoll_wait(epoll, events, most, timeout);
	if (timeout > 0)
		until = now() + timeout;
	for (;;) {
		count = repoll_wait(target.fd, events, most, timeout);
		if (count <= 0)
			return count;
		count = with_kernels(epoll, events, count, most);
		/* Another thread may have taken the events. */
		if (count > 0 || timeout == 0)
			return count;
		if (timeout > 0) {
			int64_t left = until - now();

			timeout = left > 0 ? (int)left : 0;
		}
	}
}
