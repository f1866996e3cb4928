/*
 * System calls for the Rust code of the shared library, under the names that it calls in the C
 * library. Those of the C library are cancellation points (pthreads(7)): a thread that the program
 * cancels would be unwound through Rust's frames, which Rust does not define, and leave locks
 * taken. These functions do the same but are not cancellation points. They are hidden from other
 * objects. The intended cancellation points of the library are in cancel.c.
 *
 * The static library goes without: there the names would be the program's, too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN int close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

HIDDEN int open64(const char *path, int flags, ...)
{
	mode_t mode = 0;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_list args;

		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

HIDDEN ssize_t read(int fd, void *buffer, size_t size)
{
	return syscall(SYS_read, fd, buffer, size);
}

HIDDEN ssize_t write(int fd, const void *buffer, size_t size)
{
	return syscall(SYS_write, fd, buffer, size);
}

HIDDEN ssize_t writev(int fd, const struct iovec *pieces, int count)
{
	return syscall(SYS_writev, fd, pieces, count);
}

/* The last arguments are the halves of the offset, of which 64-bit architectures need one. */
HIDDEN ssize_t preadv(int fd, const struct iovec *pieces, int count, off_t offset)
{
	return syscall(SYS_preadv, fd, pieces, count, offset, 0L);
}

HIDDEN ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t offset)
{
	return syscall(SYS_pwritev, fd, pieces, count, offset, 0L);
}

HIDDEN int msync(void *start, size_t length, int flags)
{
	return (int)syscall(SYS_msync, start, length, flags);
}

HIDDEN int poll(struct pollfd *watched, nfds_t count, int milliseconds)
{
#ifdef SYS_poll
	return (int)syscall(SYS_poll, watched, count, milliseconds);
#else
	/* Architectures since arm64 have ppoll(2) alone. */
	struct timespec time = {
		.tv_sec = milliseconds / 1000,
		.tv_nsec = milliseconds % 1000 * 1000000L,
	};

	return (int)syscall(SYS_ppoll, watched, count, milliseconds < 0 ? NULL : &time, NULL, 0L);
#endif
}

HIDDEN ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	return syscall(SYS_recvmsg, fd, message, flags);
}

HIDDEN int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		    struct timespec *timeout)
{
	return (int)syscall(SYS_recvmmsg, fd, messages, count, flags, timeout);
}

HIDDEN int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

HIDDEN ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall(SYS_sendmsg, fd, message, flags);
}

HIDDEN ssize_t vmsplice(int fd, const struct iovec *pieces, size_t count, unsigned int flags)
{
	return syscall(SYS_vmsplice, fd, pieces, count, flags);
}

/* Rust panics over an errno that it does not know. With ENOSYS it reads /dev/urandom. */
HIDDEN ssize_t getrandom(void *buffer, size_t size, unsigned int flags)
{
	ssize_t got = syscall(SYS_getrandom, buffer, size, flags);

	if (got < 0 && errno != EINTR && errno != EAGAIN)
		errno = ENOSYS;
	return got;
}

/* Returns the errno. */
HIDDEN int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			   struct timespec *left)
{
	if (!syscall(SYS_clock_nanosleep, clock, flags, time, left))
		return 0;
	return errno;
}

/* Without a time it waits as pthread_join(3) does. */
HIDDEN int pthread_join(pthread_t thread, void **answer)
{
	int state, error;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	error = pthread_timedjoin_np(thread, answer, NULL);
	pthread_setcancelstate(state, NULL);
	return error;
}
