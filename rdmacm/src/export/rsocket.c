/*
 * Calls of rsockets that may wait. A call is a loop of steps in Rust, which do not wait, and of
 * poll(2) here. poll(2) is a cancellation point, and below the program's frames there are only C
 * frames. A thread is not cancelled during a step.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "c.h"

enum operation { CONNECT, ACCEPT, RECEIVE, SEND, WRITE_MAPPED, SHUTDOWN, CLOSE, POLL, SELECT, REPOLL };

/* The same as in rsocket.rs. */
struct call {
	uint32_t operation;
	int fd;
	uintptr_t arguments[6];
	/* The state that Rust keeps between steps. */
	void *state;
	struct pollfd *sleep;
	nfds_t count;
	int timeout;
	int interrupted;
	ssize_t answer;
};

/* Whether to sleep. Otherwise the call contains the result, and errno is set. */
RUST bool ferroverbs_rsocket_step(struct call *call);
RUST void ferroverbs_rsocket_cancelled(struct call *call);

/* The C library's name for poll(2), which is hidden from this library: see syscalls.c. */
int __poll(struct pollfd *watched, nfds_t count, int milliseconds);

static void cancelled(void *argument)
{
	ferroverbs_rsocket_cancelled(argument);
}

/* How long a call sleeps at once where its descriptors may not be watched. */
enum { BLIND_MS = 10 };

/*
 * A call watches more descriptors than the program passed. poll(2) takes no more than the process
 * may have (RLIMIT_NOFILE), which may be none.
 */
static int watch(const struct call *call)
{
	int ready = __poll(call->sleep, call->count, call->timeout);

	if (ready < 0 && errno == EINVAL) {
		bool is_soon = call->timeout >= 0 && call->timeout < BLIND_MS;

		ready = __poll(NULL, 0, is_soon ? call->timeout : BLIND_MS);
	}
	return ready;
}

static void sleep_for(struct call *call, int state)
{
	int type, ready;

	/* Asynchronous cancellation could end the thread between the sleep and the next step. */
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	pthread_cleanup_push(cancelled, call);
	pthread_setcancelstate(state, NULL);
	ready = watch(call);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
	call->interrupted = ready < 0 && errno == EINTR;
	pthread_setcanceltype(type, NULL);
}

static ssize_t run(struct call *call)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	while (ferroverbs_rsocket_step(call))
		sleep_for(call, state);
	pthread_setcancelstate(state, NULL);
	return call->answer;
}

/* The address of an argument; arguments that are const in the interface are only read. */
#define ARGUMENT(value) ((uintptr_t)(value))

int ferroverbs_rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen);
ssize_t ferroverbs_rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
			     socklen_t *addrlen);
int ferroverbs_raccept(int socket, struct sockaddr *addr, socklen_t *addrlen);
ssize_t ferroverbs_rrecv(int socket, void *buf, size_t len, int flags);
ssize_t ferroverbs_rrecvmsg(int socket, struct msghdr *msg, int flags);
ssize_t ferroverbs_rread(int socket, void *buf, size_t count);
ssize_t ferroverbs_rreadv(int socket, const struct iovec *iov, int iovcnt);
ssize_t ferroverbs_rsend(int socket, const void *buf, size_t len, int flags);
ssize_t ferroverbs_rsendto(int socket, const void *buf, size_t len, int flags,
			   const struct sockaddr *dest_addr, socklen_t addrlen);
ssize_t ferroverbs_rsendmsg(int socket, const struct msghdr *msg, int flags);
ssize_t ferroverbs_rwrite(int socket, const void *buf, size_t count);
ssize_t ferroverbs_rwritev(int socket, const struct iovec *iov, int iovcnt);
size_t ferroverbs_riowrite(int socket, const void *buf, size_t count, off_t offset, int flags);
int ferroverbs_rshutdown(int socket, int how);
int ferroverbs_rclose(int socket);
int ferroverbs_rpoll(struct pollfd *fds, nfds_t nfds, int timeout);
int ferroverbs_rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		       struct timeval *timeout);
int ferroverbs_repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

int ferroverbs_rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct call call = {
		.operation = CONNECT,
		.fd = socket,
		.arguments = { ARGUMENT(addr), addrlen },
	};

	return (int)run(&call);
}
SYMVER(ferroverbs_rconnect, rconnect, "@@", "RDMACM_1.0");

int ferroverbs_raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct call call = {
		.operation = ACCEPT,
		.fd = socket,
		.arguments = { 0, 0, 0, ARGUMENT(addr), ARGUMENT(addrlen) },
	};

	return (int)run(&call);
}
SYMVER(ferroverbs_raccept, raccept, "@@", "RDMACM_1.0");

static ssize_t receive(int socket, const struct iovec *iov, size_t count, int flags,
		       struct sockaddr *from, socklen_t *fromlen)
{
	struct call call = {
		.operation = RECEIVE,
		.fd = socket,
		.arguments = { ARGUMENT(iov), count, (unsigned int)flags, ARGUMENT(from),
			       ARGUMENT(fromlen) },
	};

	return run(&call);
}

static ssize_t send_from(int socket, const struct iovec *iov, size_t count, int flags,
			 const struct sockaddr *to, socklen_t tolen)
{
	struct call call = {
		.operation = SEND,
		.fd = socket,
		.arguments = { ARGUMENT(iov), count, (unsigned int)flags, ARGUMENT(to), tolen },
	};

	return run(&call);
}

ssize_t ferroverbs_rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
			     socklen_t *addrlen)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };

	return receive(socket, &iov, 1, flags, src_addr, addrlen);
}
SYMVER(ferroverbs_rrecvfrom, rrecvfrom, "@@", "RDMACM_1.0");

ssize_t ferroverbs_rrecv(int socket, void *buf, size_t len, int flags)
{
	return ferroverbs_rrecvfrom(socket, buf, len, flags, NULL, NULL);
}
SYMVER(ferroverbs_rrecv, rrecv, "@@", "RDMACM_1.0");

ssize_t ferroverbs_rread(int socket, void *buf, size_t count)
{
	return ferroverbs_rrecvfrom(socket, buf, count, 0, NULL, NULL);
}
SYMVER(ferroverbs_rread, rread, "@@", "RDMACM_1.0");

/* Rust returns EINVAL for more vectors than IOV_MAX. */
static size_t vectors(int count)
{
	return count < 0 ? SIZE_MAX : (size_t)count;
}

ssize_t ferroverbs_rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	return receive(socket, iov, vectors(iovcnt), 0, NULL, NULL);
}
SYMVER(ferroverbs_rreadv, rreadv, "@@", "RDMACM_1.0");

ssize_t ferroverbs_rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	socklen_t *namelen = msg->msg_name ? &msg->msg_namelen : NULL;
	ssize_t received;

	if (msg->msg_control && msg->msg_controllen) {
		errno = ENOTSUP;
		return -1;
	}
	received = receive(socket, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name, namelen);
	if (received >= 0)
		msg->msg_flags = 0;
	return received;
}
SYMVER(ferroverbs_rrecvmsg, rrecvmsg, "@@", "RDMACM_1.0");

ssize_t ferroverbs_rsendto(int socket, const void *buf, size_t len, int flags,
			   const struct sockaddr *dest_addr, socklen_t addrlen)
{
	struct iovec iov = { .iov_base = (void *)ARGUMENT(buf), .iov_len = len };

	return send_from(socket, &iov, 1, flags, dest_addr, addrlen);
}
SYMVER(ferroverbs_rsendto, rsendto, "@@", "RDMACM_1.0");

ssize_t ferroverbs_rsend(int socket, const void *buf, size_t len, int flags)
{
	return ferroverbs_rsendto(socket, buf, len, flags, NULL, 0);
}
SYMVER(ferroverbs_rsend, rsend, "@@", "RDMACM_1.0");

ssize_t ferroverbs_rwrite(int socket, const void *buf, size_t count)
{
	return ferroverbs_rsendto(socket, buf, count, 0, NULL, 0);
}
SYMVER(ferroverbs_rwrite, rwrite, "@@", "RDMACM_1.0");

ssize_t ferroverbs_rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	return send_from(socket, iov, vectors(iovcnt), 0, NULL, 0);
}
SYMVER(ferroverbs_rwritev, rwritev, "@@", "RDMACM_1.0");

ssize_t ferroverbs_rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen) {
		errno = ENOTSUP;
		return -1;
	}
	return send_from(socket, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name,
			 msg->msg_name ? msg->msg_namelen : 0);
}
SYMVER(ferroverbs_rsendmsg, rsendmsg, "@@", "RDMACM_1.0");

size_t ferroverbs_riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct iovec iov = { .iov_base = (void *)ARGUMENT(buf), .iov_len = count };
	struct call call = {
		.operation = WRITE_MAPPED,
		.fd = socket,
		.arguments = { ARGUMENT(&iov), 1, (unsigned int)flags, (uintptr_t)offset },
	};

	return (size_t)run(&call);
}
SYMVER(ferroverbs_riowrite, riowrite, "@@", "RDMACM_1.0");

int ferroverbs_rshutdown(int socket, int how)
{
	struct call call = {
		.operation = SHUTDOWN,
		.fd = socket,
		.arguments = { (unsigned int)how },
	};

	return (int)run(&call);
}
SYMVER(ferroverbs_rshutdown, rshutdown, "@@", "RDMACM_1.0");

int ferroverbs_rclose(int socket)
{
	struct call call = { .operation = CLOSE, .fd = socket };
	int before = errno;

	/* rdma-core's library gives this result for a descriptor that is not an rsocket. */
	if (run(&call) < 0 && errno == EBADF) {
		errno = before;
		return EBADF;
	}
	return (int)call.answer;
}
SYMVER(ferroverbs_rclose, rclose, "@@", "RDMACM_1.0");

int ferroverbs_rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct call call = {
		.operation = POLL,
		.arguments = { ARGUMENT(fds), nfds, (unsigned int)timeout },
	};

	return (int)run(&call);
}
SYMVER(ferroverbs_rpoll, rpoll, "@@", "RDMACM_1.0");

int ferroverbs_rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		       struct timeval *timeout)
{
	struct call call = {
		.operation = SELECT,
		.arguments = { (unsigned int)nfds, ARGUMENT(readfds), ARGUMENT(writefds),
			       ARGUMENT(exceptfds), ARGUMENT(timeout) },
	};

	return (int)run(&call);
}
SYMVER(ferroverbs_rselect, rselect, "@@", "RDMACM_1.0");

int ferroverbs_repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	struct call call = {
		.operation = REPOLL,
		.fd = epfd,
		.arguments = { ARGUMENT(events), (unsigned int)maxevents, (unsigned int)timeout },
	};

	return (int)run(&call);
}
SYMVER(ferroverbs_repoll_wait, repoll_wait, "@@", "RDMACM_1.5");
