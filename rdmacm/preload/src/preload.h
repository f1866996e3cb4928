/*
 * Declarations shared by the functions that replace those of the C library.
 */
#ifndef PRELOAD_H
#define PRELOAD_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "c.h"

/* The object behind a descriptor of the program. */
enum kind {
	ITSELF,
	RSOCKET,
	/* A TCP socket that stays one. */
	PLAIN,
	/* A TCP socket that may become an rsocket: a new one, a listener, and the two ends. */
	FORKABLE,
	FORK_LISTENS,
	FORK_CONNECTED,
	FORK_ACCEPTED,
	/* A set of epoll(7), which is used itself; the target is a repoll set with its rsockets. */
	SET,
	/* The wait for the first transfer ended before it: errno is EINTR or EAGAIN. */
	NOT_YET,
};

struct target {
	int kind;
	int fd;
};

RUST struct target ferroverbs_preload_find(int fd);
RUST bool ferroverbs_preload_put(int fd, int inner, int kind);
/* Whether no other descriptor of the program represents the same socket. */
RUST struct target ferroverbs_preload_take(int fd, bool *is_last);
/* Replaces the object behind a descriptor, in one step, by one that is no set. False if there is no
 * room for it. */
RUST bool ferroverbs_preload_exchange(int fd, int inner, int kind, struct target *before,
				      bool *is_last);
/* The next set after a descriptor, or -1. */
RUST int ferroverbs_preload_set_behind(int fd);
RUST bool ferroverbs_preload_wanted(int domain, int type, int protocol);

/* The C library's functions. */
struct calls {
	int (*socket)(int, int, int);
	int (*bind)(int, const struct sockaddr *, socklen_t);
	int (*listen)(int, int);
	int (*accept)(int, struct sockaddr *, socklen_t *);
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	ssize_t (*recv)(int, void *, size_t, int);
	ssize_t (*recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*readv)(int, const struct iovec *, int);
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*writev)(int, const struct iovec *, int);
	int (*poll)(struct pollfd *, nfds_t, int);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	int (*select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
	int (*pselect)(int, fd_set *, fd_set *, fd_set *, const struct timespec *,
		       const sigset_t *);
	int (*shutdown)(int, int);
	int (*close)(int);
	int (*getpeername)(int, struct sockaddr *, socklen_t *);
	int (*getsockname)(int, struct sockaddr *, socklen_t *);
	int (*setsockopt)(int, int, int, const void *, socklen_t);
	int (*getsockopt)(int, int, int, void *, socklen_t *);
	int (*fcntl)(int, int, ...);
	int (*ioctl)(int, unsigned long, ...);
	int (*dup)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	ssize_t (*sendfile)(int, int, off_t *, size_t);
	int (*epoll_create)(int);
	int (*epoll_create1)(int);
	int (*epoll_ctl)(int, int, int, struct epoll_event *);
	int (*epoll_wait)(int, struct epoll_event *, int, int);
	int (*epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);
	/* NULL before glibc 2.35. */
	int (*epoll_pwait2)(int, struct epoll_event *, int, const struct timespec *,
			    const sigset_t *);
};

RUST extern struct calls real;

/* Looks up the C library's functions, at the first call. */
RUST void preload_begin(void);
/* Resolves a descriptor before data passes through it: a socket that began as TCP becomes an
 * rsocket. The peer's first transfer is awaited as long as the socket's timeout lets the call wait;
 * a call that must not wait for data does not wait for it, either. */
RUST struct target preload_for_receive(int fd, int flags);
RUST struct target preload_for_send(int fd);
/* The same without bound, for calls that no signal interrupts. */
RUST struct target preload_for_sharing(int fd);
/* The same for a socket that joins a set: with a bound, after which it joins as TCP. */
RUST void preload_for_set(int fd);
/* Takes the next step of making an rsocket of a connected socket, which waits only while it
 * connects. True if the peer has not made it possible yet. */
RUST bool preload_connect_step(int fd);
/* Replaces the object behind a descriptor. */
RUST void preload_exchange(int fd, int inner, enum kind kind);
RUST void preload_set_sizes(int rsocket);
/* Makes an rsocket with the options of a TCP socket. */
RUST void preload_copy_options(int to_rsocket, int from);
/* Removes a closed rsocket from the sets that it is in. */
RUST void preload_leave_sets(int rsocket);

/* Prepares the records of sets for fork(2). */
RUST void preload_begin_sets(void);
/* epoll_ctl(2), by the program's descriptors. */
RUST int preload_change_set(int epoll, int operation, int fd, struct epoll_event *event);
/* A descriptor of the program is closed: a member, or a set. */
RUST void preload_forget_members(int fd);
/* The set of rsockets beside a set of the kernel; made at its first rsocket. -1 with errno set.
 * With the lock of sets.c. */
RUST int preload_set_beside(int epoll);
/* Ends the waits of all threads that wait for a set in the kernel. With the lock of sets.c. */
RUST void preload_end_kernel_waits(int epoll);
/* A wait for a set in the kernel; false if there is a set of rsockets beside it. */
RUST bool preload_begin_kernel_wait(int epoll);
RUST void preload_end_kernel_wait(void *epoll);
/* Removes the event that ended such a wait. Whether it was there. */
RUST bool preload_was_changed(struct epoll_event *events, int *count);
/* Removes the event with this data. */
RUST bool preload_remove_mark(struct epoll_event *events, int *count, const char *mark);

/* Milliseconds until the next step of a conversion: while the port is in use, and otherwise, as
 * another thread may have taken the step and closed what this one waits for. */
enum { PRELOAD_PAUSE = 5, PRELOAD_LOOK = 500 };

/* Milliseconds of the monotonic clock. */
RUST int64_t preload_now(void);
/* A timeout of poll(2) that continues until a time. */
RUST int preload_left_of(int timeout, int64_t until);
/* Milliseconds of a time, rounded up, so that a short one does not become zero. */
RUST int preload_milliseconds(int64_t seconds, int64_t nanoseconds);

/* Prepares the conversions for fork(2). */
RUST void preload_begin_forks(void);
/* Takes the next step of making an rsocket of an accepted socket, without waiting. True if a wait
 * for one of two descriptors has to follow: a listener (an rsocket; -1 if its port is in use), and
 * the TCP socket (-1 if the peer has ended it). */
RUST bool preload_accept_step(int fd, struct pollfd *awaited);
/* Closes the listener of an accepted TCP socket, which is not used as such any more. */
RUST void preload_forget_listener(int tcp);

#endif
