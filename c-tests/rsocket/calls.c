/*
 * Calls of rsockets that need no RDMA device: descriptors that are not rsockets, timeouts, signals,
 * cancelled threads. Prints the checks that fail, and then exits with 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rsocket.h>

/* No descriptor of this program. */
enum { NONE = 900 };

static int failures;

static void check(bool holds, const char *what, int line)
{
	if (holds)
		return;
	printf("line %d: %s (errno %d)\n", line, what, errno);
	failures++;
}
#define CHECK(condition) (errno = 0, check((condition), #condition, __LINE__))

static void bad_descriptors_are_refused(void)
{
	struct sockaddr_storage address = { .ss_family = AF_INET };
	struct sockaddr *at = (struct sockaddr *)&address;
	socklen_t length = sizeof(address);
	char byte = 0;
	int value = 0;

	CHECK(rbind(NONE, at, sizeof(struct sockaddr_in)) == -1 && errno == EBADF);
	CHECK(rconnect(NONE, at, sizeof(struct sockaddr_in)) == -1 && errno == EBADF);
	CHECK(rlisten(NONE, 1) == -1 && errno == EBADF);
	CHECK(raccept(NONE, NULL, NULL) == -1 && errno == EBADF);
	CHECK(rrecv(NONE, &byte, 1, 0) == -1 && errno == EBADF);
	CHECK(rsend(NONE, &byte, 1, 0) == -1 && errno == EBADF);
	CHECK(rshutdown(NONE, SHUT_RDWR) == -1 && errno == EBADF);
	CHECK(rgetsockname(NONE, at, &length) == -1 && errno == EBADF);
	CHECK(rgetpeername(NONE, at, &length) == -1 && errno == EBADF);
	CHECK(rsetsockopt(NONE, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof(value)) == -1 &&
	      errno == EBADF);
	length = sizeof(value);
	CHECK(rgetsockopt(NONE, SOL_SOCKET, SO_ERROR, &value, &length) == -1 && errno == EBADF);
	CHECK(rfcntl(NONE, F_GETFL) == -1 && errno == EBADF);
	CHECK(riomap(NONE, &byte, 1, PROT_WRITE, 0, -1) == -1 && errno == EBADF);
	CHECK(riounmap(NONE, &byte, 1) == -1 && errno == EBADF);
	CHECK(riowrite(NONE, &byte, 1, 0, 0) == (size_t)-1 && errno == EBADF);
	/* The number of the error, and errno stays. */
	CHECK(rclose(NONE) == EBADF && errno == 0);
}

static void arguments_are_checked(void)
{
	struct iovec none = { 0 };

	CHECK(rsocket(AF_UNIX, SOCK_STREAM, 0) == -1 && errno == ENOTSUP);
	CHECK(rsocket(AF_INET, SOCK_RAW, 0) == -1 && errno == ENOTSUP);
	CHECK(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP) == -1 && errno == ENOTSUP);
	CHECK(rreadv(NONE, &none, -1) == -1 && errno == EINVAL);
	CHECK(rselect(-1, NULL, NULL, NULL, NULL) == -1 && errno == EINVAL);
	CHECK(repoll_create(0) == -1 && errno == EINVAL);
	CHECK(repoll_wait(NONE, NULL, 1, 0) == -1 && errno == EINVAL);
}

static void other_descriptors_are_polled(int reader, int writer)
{
	struct pollfd polled[] = {
		{ .fd = reader, .events = POLLIN },
		{ .fd = -1, .events = POLLIN },
		{ .fd = NONE, .events = POLLIN },
	};
	struct timeval time = { .tv_usec = 1000 };
	fd_set set;
	char byte;

	CHECK(rpoll(NULL, 0, 1) == 0);
	CHECK(rpoll(polled, 2, 0) == 0 && rpoll(polled, 2, 20) == 0);
	CHECK(rpoll(polled, 3, -1) == 1 && polled[2].revents == POLLNVAL);
	FD_ZERO(&set);
	FD_SET(reader, &set);
	CHECK(rselect(reader + 1, &set, NULL, NULL, &time) == 0 && !FD_ISSET(reader, &set));
	CHECK(write(writer, "a", 1) == 1);
	CHECK(rpoll(polled, 2, -1) == 1 && polled[0].revents == POLLIN && !polled[1].revents);
	FD_SET(reader, &set);
	CHECK(rselect(reader + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(reader, &set));
	CHECK(read(reader, &byte, 1) == 1);
}

static void sets_report_other_descriptors(int reader, int writer)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.u64 = 7 }, got = { 0 };
	int set = repoll_create(1);
	char byte;

	CHECK(set >= 0);
	CHECK(repoll_ctl(set, EPOLL_CTL_MOD, reader, &event) == -1 && errno == ENOENT);
	CHECK(repoll_ctl(set, EPOLL_CTL_ADD, reader, &event) == 0);
	CHECK(repoll_ctl(set, EPOLL_CTL_ADD, reader, &event) == -1 && errno == EEXIST);
	CHECK(repoll_wait(set, &got, 1, 20) == 0);
	CHECK(write(writer, "a", 1) == 1);
	CHECK(repoll_wait(set, &got, 1, -1) == 1 && got.events == EPOLLIN && got.data.u64 == 7);
	CHECK(repoll_wait(set, &got, 1, 20) == 0);
	CHECK(repoll_ctl(set, EPOLL_CTL_MOD, reader, &event) == 0);
	CHECK(repoll_wait(set, &got, 1, -1) == 1);
	CHECK(rclose(set) == 0);
	CHECK(repoll_wait(set, &got, 1, 0) == -1 && errno == EBADF);
	CHECK(read(reader, &byte, 1) == 1);
}

static void on_signal(int number)
{
	(void)number;
}

static void *signal_soon(void *thread)
{
	usleep(50000);
	pthread_kill(*(pthread_t *)thread, SIGUSR1);
	return NULL;
}

static void a_signal_ends_a_sleep(int reader)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct pollfd polled = { .fd = reader, .events = POLLIN };
	pthread_t self = pthread_self(), other;

	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&other, NULL, signal_soon, &self);
	CHECK(rpoll(&polled, 1, -1) == -1 && errno == EINTR);
	pthread_join(other, NULL);
}

static void *poll_for_ever(void *reader)
{
	struct pollfd polled = { .fd = *(int *)reader, .events = POLLIN };

	rpoll(&polled, 1, -1);
	return NULL;
}

static void *wait_for_ever(void *set)
{
	struct epoll_event got;

	repoll_wait(*(int *)set, &got, 1, -1);
	return NULL;
}

static void *cancel_itself_first(void *reader)
{
	pthread_cancel(pthread_self());
	return poll_for_ever(reader);
}

/* A thread is cancelled before its sleep or in it, and the library can be used afterwards. */
static void threads_are_cancelled(int reader)
{
	void *(*const calls[])(void *) = { poll_for_ever, wait_for_ever, cancel_itself_first };
	int set = repoll_create(1);

	for (size_t n = 0; n < sizeof(calls) / sizeof(calls[0]); n++) {
		pthread_t thread;
		void *answer;

		pthread_create(&thread, NULL, calls[n], n == 1 ? &set : &reader);
		usleep(50000);
		pthread_cancel(thread);
		pthread_join(thread, &answer);
		CHECK(answer == PTHREAD_CANCELED);
	}
	CHECK(rclose(set) == 0);
}

int main(void)
{
	int ends[2];

	if (pipe(ends))
		return 2;
	bad_descriptors_are_refused();
	arguments_are_checked();
	other_descriptors_are_polled(ends[0], ends[1]);
	sets_report_other_descriptors(ends[0], ends[1]);
	a_signal_ends_a_sleep(ends[0]);
	threads_are_cancelled(ends[0]);
	return failures ? 1 : 0;
}
