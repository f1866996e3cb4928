/*
 * Calls that wait for several descriptors.
 */
#include "preload.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
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

int64_t preload_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int preload_left_of(int timeout, int64_t until)
{
	int64_t left = until - preload_now();

	if (timeout <= 0)
		return timeout;
	return left > 0 ? (int)left : 0;
}

/* The descriptors behind those of the program, in the same order. After them come those that the
 * next steps of accepted sockets wait for, two for each; such a socket itself is left out. */
struct behind {
	struct pollfd *fds;
	nfds_t count;
	bool has_rsocket;
	/* Milliseconds until the next steps, or -1. */
	int pause;
};

static void resolve(struct behind *behind, const struct pollfd *fds, nfds_t count)
{
	nfds_t i;

	behind->count = count;
	behind->has_rsocket = false;
	behind->pause = -1;
	for (i = 0; i < count; i++) {
		struct pollfd *awaited = behind->fds + behind->count;
		struct pollfd *inner = behind->fds + i;
		struct target target;

		*inner = fds[i];
		inner->revents = 0;
		if (fds[i].events & POLLIN && find(fds[i].fd).kind == FORK_ACCEPTED &&
		    preload_accept_step(fds[i].fd, awaited)) {
			inner->fd = -1;
			behind->count += 2;
			behind->has_rsocket = true;
			if (behind->pause != PRELOAD_PAUSE)
				behind->pause = awaited[0].fd < 0 ? PRELOAD_PAUSE : PRELOAD_LOOK;
			continue;
		}
		target = find(fds[i].fd);
		behind->has_rsocket |= target.kind == RSOCKET;
		if (target.kind != SET)
			inner->fd = target.fd;
	}
}

static int poll_behind(struct behind *behind, struct pollfd *fds, nfds_t count, int timeout)
{
	int64_t until = timeout > 0 ? preload_now() + timeout : 0;

	for (;;) {
		int answer, ready = 0, time = timeout;
		nfds_t i;

		resolve(behind, fds, count);
		if (behind->pause >= 0 && (time < 0 || time > behind->pause))
			time = behind->pause;
		if (behind->has_rsocket)
			answer = rpoll(behind->fds, behind->count, time);
		else
			answer = real.poll(behind->fds, behind->count, time);
		if (answer < 0)
			return -1;
		for (i = 0; i < count; i++) {
			fds[i].revents = behind->fds[i].revents;
			ready += fds[i].revents != 0;
		}
		if (ready || (!answer && time == timeout))
			return ready;
		timeout = preload_left_of(timeout, until);
	}
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	struct behind behind;
	bool has_other = false;
	nfds_t i;
	int answer;

	preload_begin();
	for (i = 0; i < count; i++) {
		int kind = find(fds[i].fd).kind;

		has_other |= kind != ITSELF && kind != SET;
	}
	if (!has_other)
		return real.poll(fds, count, timeout);
	/* With room for two more of each. */
	behind.fds = calloc(count, 3 * sizeof(*fds));
	if (!behind.fds) {
		errno = ENOMEM;
		return -1;
	}
	pthread_cleanup_push(free_it, behind.fds);
	answer = poll_behind(&behind, fds, count, timeout);
	pthread_cleanup_pop(1);
	return answer;
}

int preload_milliseconds(int64_t seconds, int64_t nanoseconds)
{
	int64_t all;

	if (seconds > INT32_MAX / 1000)
		return INT32_MAX;
	all = seconds * 1000 + (nanoseconds + 999999) / 1000000;
	return all > INT32_MAX ? INT32_MAX : (int)all;
}

/* False, with errno set, for an invalid time. */
static bool timeout_of(const struct timespec *time, int *timeout)
{
	*timeout = -1;
	if (!time)
		return true;
	if (time->tv_sec < 0 || time->tv_nsec < 0 || time->tv_nsec > 999999999) {
		errno = EINVAL;
		return false;
	}
	*timeout = preload_milliseconds(time->tv_sec, time->tv_nsec);
	return true;
}

/* A wait with another signal mask (ppoll(2)). The signals that only this mask lets through stay
 * blocked during the wait; a descriptor, which is ready while one of them is pending, ends it. So
 * no signal is delivered between the change of the mask and the wait. */
struct masked {
	sigset_t before, mask;
	int fd;
};

/* Whether the arrival of a signal has no effect: it ends no wait, then. */
static bool is_ignored(int signal)
{
	struct sigaction action;

	if (sigaction(signal, NULL, &action) || action.sa_flags & SA_SIGINFO)
		return false;
	return action.sa_handler == SIG_IGN ||
	       (action.sa_handler == SIG_DFL && (signal == SIGCHLD || signal == SIGCONT ||
						 signal == SIGURG || signal == SIGWINCH));
}

static bool masked_begin(struct masked *masked, const sigset_t *mask)
{
	sigset_t awaited;
	int signal;

	masked->mask = *mask;
	pthread_sigmask(SIG_BLOCK, mask, &masked->before);
	sigemptyset(&awaited);
	for (signal = 1; signal < NSIG; signal++)
		if (sigismember(&masked->before, signal) == 1 && !sigismember(mask, signal) &&
		    !is_ignored(signal))
			sigaddset(&awaited, signal);
	masked->fd = signalfd(-1, &awaited, SFD_CLOEXEC);
	if (masked->fd >= 0)
		return true;
	pthread_sigmask(SIG_SETMASK, &masked->before, NULL);
	return false;
}

/* Lets the handlers of the pending signals run. */
static void masked_deliver(struct masked *masked)
{
	sigset_t during;

	pthread_sigmask(SIG_SETMASK, &masked->mask, &during);
	pthread_sigmask(SIG_SETMASK, &during, NULL);
}

static void masked_end(void *masked_)
{
	struct masked *masked = masked_;
	int before = errno;

	real.close(masked->fd);
	pthread_sigmask(SIG_SETMASK, &masked->before, NULL);
	errno = before;
}

/* Waits for descriptors and for the signals; the last of the descriptors is theirs. */
static int poll_masked(struct pollfd *fds, nfds_t count, int timeout, const sigset_t *mask)
{
	struct masked masked;
	int answer;

	if (!masked_begin(&masked, mask))
		return -1;
	pthread_cleanup_push(masked_end, &masked);
	fds[count - 1] = (struct pollfd){ .fd = masked.fd, .events = POLLIN };
	/* This file's function, which resolves the descriptors. */
	answer = poll(fds, count, timeout);
	if (answer > 0 && fds[count - 1].revents && --answer == 0) {
		masked_deliver(&masked);
		errno = EINTR;
		answer = -1;
	}
	pthread_cleanup_pop(1);
	return answer;
}

static bool has_sockets(const struct pollfd *fds, nfds_t count)
{
	nfds_t i;

	for (i = 0; i < count; i++)
		if (find(fds[i].fd).kind != ITSELF)
			return true;
	return false;
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
	struct pollfd *all;
	int timeout, answer;

	preload_begin();
	if (!has_sockets(fds, count))
		return real.ppoll(fds, count, time, mask);
	if (!timeout_of(time, &timeout))
		return -1;
	if (!mask)
		return poll(fds, count, timeout);
	all = malloc((count + 1) * sizeof(*all));
	if (!all) {
		errno = ENOMEM;
		return -1;
	}
	memcpy(all, fds, count * sizeof(*all));
	pthread_cleanup_push(free_it, all);
	answer = poll_masked(all, count + 1, timeout, mask);
	if (answer >= 0)
		memcpy(fds, all, count * sizeof(*all));
	pthread_cleanup_pop(1);
	return answer;
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

static int bits_of(const struct sets *sets, const struct pollfd *polled, int count)
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

/* The descriptors of the sets. Returns how many they are. */
static int collect(const struct sets *sets, int count, struct pollfd *polled)
{
	int fd, asked_of = 0;

	for (fd = 0; fd < count && fd < FD_SETSIZE; fd++) {
		short events = events_of(sets, fd);

		if (events)
			polled[asked_of++] = (struct pollfd){ .fd = fd, .events = events };
	}
	return asked_of;
}

/* The result of select(2) from that of poll(2). */
static int report(const struct sets *sets, const struct pollfd *polled, int count, int answer)
{
	int i;

	if (answer < 0)
		return -1;
	for (i = 0; i < count; i++) {
		if (polled[i].revents & POLLNVAL) {
			errno = EBADF;
			return -1;
		}
	}
	return bits_of(sets, polled, count);
}

int select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
	   struct timeval *timeout)
{
	struct sets sets = { { readable, writable, exceptional } };
	struct pollfd polled[FD_SETSIZE];
	int asked_of, answer, time;

	preload_begin();
	asked_of = collect(&sets, count, polled);
	if (!has_sockets(polled, (nfds_t)asked_of))
		return real.select(count, readable, writable, exceptional, timeout);
	if (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)) {
		errno = EINVAL;
		return -1;
	}
	time = timeout ? preload_milliseconds(timeout->tv_sec, (int64_t)timeout->tv_usec * 1000) : -1;
	answer = poll(polled, (nfds_t)asked_of, time);
	return report(&sets, polled, asked_of, answer);
}

int pselect(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
	    const struct timespec *time, const sigset_t *mask)
{
	struct sets sets = { { readable, writable, exceptional } };
	struct pollfd polled[FD_SETSIZE + 1];
	int asked_of, answer, timeout;

	preload_begin();
	asked_of = collect(&sets, count, polled);
	if (!has_sockets(polled, (nfds_t)asked_of))
		return real.pselect(count, readable, writable, exceptional, time, mask);
	if (!timeout_of(time, &timeout))
		return -1;
	if (mask)
		answer = poll_masked(polled, (nfds_t)asked_of + 1, timeout, mask);
	else
		answer = poll(polled, (nfds_t)asked_of, timeout);
	return report(&sets, polled, asked_of, answer);
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

/* Mark the entries of the kernel's set, and of awaited signals, in a set of rsockets: their
 * addresses, which no program uses as data. */
static char of_kernel, of_signals;

int preload_set_beside(int epoll)
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
	preload_end_kernel_waits(epoll);
	return set;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	bool reads = operation != EPOLL_CTL_DEL && event && event->events & EPOLLIN;

	preload_begin();
	/* Most peers make their first transfer soon, and then the set never sees TCP. Otherwise the
	 * TCP socket joins: it can be read when the peer has connected and ends TCP, and the
	 * program's next transfer makes the rsocket. */
	if (reads && find(fd).kind == FORK_ACCEPTED)
		preload_for_set(fd);
	return preload_change_set(epoll, operation, fd, event);
}

/* Replaces the entry of the kernel's set by the events of that set. */
static int with_kernels(int epoll, struct epoll_event *events, int count, int most)
{
	int some;

	if (!preload_remove_mark(events, &count, &of_kernel))
		return count;
	some = real.epoll_wait(epoll, events + count, most - count, 0);
	preload_was_changed(events + count, &some);
	return some < 0 ? count : count + some;
}

static bool is_pending(const struct masked *masked)
{
	struct pollfd polled = { .fd = masked->fd, .events = POLLIN };

	return real.poll(&polled, 1, 0) > 0;
}

/* Ends with EINTR, too, when a signal of `masked` is pending, if that is not NULL. */
static int wait_for_set(int epoll, struct target set, struct epoll_event *events, int most,
			int timeout, struct masked *masked)
{
	int64_t until = 0;
	int count;

	if (timeout > 0)
		until = preload_now() + timeout;
	for (;;) {
		count = repoll_wait(set.fd, events, most, timeout);
		if (count <= 0)
			return count;
		/* The signals may be those of another thread. */
		while (preload_remove_mark(events, &count, &of_signals))
			;
		count = with_kernels(epoll, events, count, most);
		if (count == 0 && masked && is_pending(masked)) {
			masked_deliver(masked);
			errno = EINTR;
			return -1;
		}
		/* Another thread may have taken the events. */
		if (count > 0 || timeout == 0)
			return count;
		timeout = preload_left_of(timeout, until);
	}
}

/* A wait that a set and the signals' descriptor, a member of the set, can end. */
struct masked_wait {
	struct masked masked;
	int set;
};

static void leave_set(void *wait_)
{
	struct masked_wait *wait = wait_;
	int before = errno;

	repoll_ctl(wait->set, EPOLL_CTL_DEL, wait->masked.fd, NULL);
	masked_end(&wait->masked);
	errno = before;
}

/* epoll_pwait(2) of a set that has a set of rsockets beside it. */
static int wait_masked(int epoll, struct target set, struct epoll_event *events, int most,
		       int timeout, const sigset_t *mask)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &of_signals };
	struct masked_wait wait = { .set = set.fd };
	int answer = -1;

	if (!mask)
		return wait_for_set(epoll, set, events, most, timeout, NULL);
	if (!masked_begin(&wait.masked, mask))
		return -1;
	pthread_cleanup_push(leave_set, &wait);
	if (!repoll_ctl(set.fd, EPOLL_CTL_ADD, wait.masked.fd, &event))
		answer = wait_for_set(epoll, set, events, most, timeout, &wait.masked);
	pthread_cleanup_pop(1);
	return answer;
}

/* A wait for a set that has no rsockets when it begins. `time` is the timeout once more, for
 * epoll_pwait2(2), or NULL. */
static int wait_for_kernels(int epoll, struct epoll_event *events, int most, int timeout,
			    const struct timespec *time, const sigset_t *mask)
{
	int64_t until = timeout > 0 ? preload_now() + timeout : 0;
	bool was_changed;
	int count;

	if (!preload_begin_kernel_wait(epoll))
		return wait_masked(epoll, find(epoll), events, most, timeout, mask);
	pthread_cleanup_push(preload_end_kernel_wait, &epoll);
	count = time ? real.epoll_pwait2(epoll, events, most, time, mask) :
		       real.epoll_pwait(epoll, events, most, timeout, mask);
	was_changed = preload_was_changed(events, &count);
	pthread_cleanup_pop(1);
	if (!was_changed || count > 0)
		return count;
	return wait_masked(epoll, find(epoll), events, most, preload_left_of(timeout, until), mask);
}

int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout,
		const sigset_t *mask)
{
	struct target target = find(epoll);

	if (target.kind != SET)
		return wait_for_kernels(epoll, events, most, timeout, NULL, mask);
	return wait_masked(epoll, target, events, most, timeout, mask);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	return epoll_pwait(epoll, events, most, timeout, NULL);
}

/* glibc before 2.35 does not declare it. */
int epoll_pwait2(int epoll, struct epoll_event *events, int most, const struct timespec *time,
		 const sigset_t *mask);

int epoll_pwait2(int epoll, struct epoll_event *events, int most, const struct timespec *time,
		 const sigset_t *mask)
{
	struct target target = find(epoll);
	int timeout;

	if (!timeout_of(time, &timeout))
		return -1;
	if (target.kind == SET)
		return wait_masked(epoll, target, events, most, timeout, mask);
	if (!real.epoll_pwait2)
		time = NULL;
	return wait_for_kernels(epoll, events, most, timeout, time, mask);
}
