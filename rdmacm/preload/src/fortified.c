/*
 * The names by which programs call these functions that were compiled with _FORTIFY_SOURCE. The
 * last argument is the size of the buffer.
 */
#include "preload.h"

/* Ends the program with the C library's message. */
void __chk_fail(void) __attribute__((noreturn));

ssize_t __read_chk(int fd, void *buf, size_t count, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags,
		       struct sockaddr *addr, socklen_t *addrlen);
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *time,
		const sigset_t *mask, size_t size);

ssize_t __read_chk(int fd, void *buf, size_t count, size_t size)
{
	if (count > size)
		__chk_fail();
	return read(fd, buf, count);
}

ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags)
{
	if (len > size)
		__chk_fail();
	return recv(fd, buf, len, flags);
}

ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags,
		       struct sockaddr *addr, socklen_t *addrlen)
{
	if (len > size)
		__chk_fail();
	return recvfrom(fd, buf, len, flags, addr, addrlen);
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size)
{
	if (count > size / sizeof(*fds))
		__chk_fail();
	return poll(fds, count, timeout);
}

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *time,
		const sigset_t *mask, size_t size)
{
	if (count > size / sizeof(*fds))
		__chk_fail();
	return ppoll(fds, count, time, mask);
}
