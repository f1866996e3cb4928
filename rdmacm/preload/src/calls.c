/*
 * Calls on one descriptor: a descriptor that represents an rsocket goes to librdmacm, any other
 * descriptor to the C library.
 */
#include "preload.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

struct calls real;

/* Buffer sizes of new rsockets (0: the defaults), and whether sockets begin as TCP. */
static int send_queue, receive_queue, most_inline, for_forks;

static int number_of(const char *variable)
{
	const char *text = getenv(variable);

	return text ? (int)strtol(text, NULL, 10) : 0;
}

static void begin(void)
{
#define FIND(name) *(void **)&real.name = dlsym(RTLD_NEXT, #name)
	FIND(socket);
	FIND(bind);
	FIND(listen);
	FIND(accept);
	FIND(accept4);
	FIND(connect);
	FIND(recv);
	FIND(recvfrom);
	FIND(recvmsg);
	FIND(read);
	FIND(readv);
	FIND(send);
	FIND(sendto);
	FIND(sendmsg);
	FIND(write);
	FIND(writev);
	FIND(poll);
	FIND(ppoll);
	FIND(select);
	FIND(pselect);
	FIND(shutdown);
	FIND(close);
	FIND(getpeername);
	FIND(getsockname);
	FIND(setsockopt);
	FIND(getsockopt);
	FIND(fcntl);
	FIND(ioctl);
	FIND(dup);
	FIND(dup2);
	FIND(dup3);
	FIND(sendfile);
	FIND(epoll_create);
	FIND(epoll_create1);
	FIND(epoll_ctl);
	FIND(epoll_wait);
	FIND(epoll_pwait);
	FIND(epoll_pwait2);
#undef FIND
	send_queue = number_of("RS_SQ_SIZE");
	receive_queue = number_of("RS_RQ_SIZE");
	most_inline = number_of("RS_INLINE");
	for_forks = number_of("RDMAV_FORK_SAFE");
	preload_begin_sets();
	if (for_forks)
		preload_begin_forks();
}

void preload_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin);
}

static struct target find(int fd)
{
	preload_begin();
	return ferroverbs_preload_find(fd);
}

/* A descriptor for the program that supports no operation. */
static int new_number(int flags)
{
	return open("/dev/null", O_RDONLY | (flags & SOCK_CLOEXEC ? O_CLOEXEC : 0));
}

/* Makes a new descriptor of the program represent `fd`; closes `fd` if that fails. */
static int give(int number, int inner, enum kind kind)
{
	if (ferroverbs_preload_put(number, inner, kind))
		return number;
	real.close(number);
	if (kind == RSOCKET)
		rclose(inner);
	else
		real.close(inner);
	errno = EMFILE;
	return -1;
}

/* Options that cannot be set keep their values. */
void preload_set_sizes(int rsocket)
{
	if (send_queue)
		rsetsockopt(rsocket, SOL_RDMA, RDMA_SQSIZE, &send_queue, sizeof(send_queue));
	if (receive_queue)
		rsetsockopt(rsocket, SOL_RDMA, RDMA_RQSIZE, &receive_queue, sizeof(receive_queue));
	if (most_inline)
		rsetsockopt(rsocket, SOL_RDMA, RDMA_INLINE, &most_inline, sizeof(most_inline));
}

static bool may_be_rsocket(int domain, int type)
{
	return (domain == AF_INET || domain == AF_INET6 || domain == AF_IB) &&
	       (type == SOCK_STREAM || type == SOCK_DGRAM);
}

int socket(int domain, int type, int protocol)
{
	/* Sockets that librdmacm opens itself belong to the C library. */
	static __thread bool within;
	enum { FLAGS = SOCK_CLOEXEC | SOCK_NONBLOCK };
	int base = type & ~FLAGS, number, inner;
	bool is_tcp = base == SOCK_STREAM && domain != AF_IB &&
		      (!protocol || protocol == IPPROTO_TCP);

	preload_begin();
	if (within || !may_be_rsocket(domain, base) ||
	    !ferroverbs_preload_wanted(domain, base, protocol))
		return real.socket(domain, type, protocol);
	number = new_number(type);
	if (number < 0)
		return -1;
	if (for_forks && is_tcp) {
		inner = real.socket(domain, type, protocol);
		if (inner >= 0)
			return give(number, inner, FORKABLE);
		real.close(number);
		return -1;
	}
	within = true;
	inner = rsocket(domain, type, protocol);
	within = false;
	if (inner < 0) {
		real.close(number);
		return real.socket(domain, type, protocol);
	}
	preload_set_sizes(inner);
	return give(number, inner, RSOCKET);
}

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct target target = find(fd);

	if (target.kind == RSOCKET)
		return rbind(target.fd, addr, len);
	return real.bind(target.fd, addr, len);
}

int listen(int fd, int backlog)
{
	struct target target = find(fd);
	int answer;

	if (target.kind == RSOCKET)
		return rlisten(target.fd, backlog);
	answer = real.listen(target.fd, backlog);
	if (!answer && target.kind == FORKABLE)
		preload_exchange(fd, target.fd, FORK_LISTENS);
	return answer;
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct target target = find(fd);
	int number, inner;

	if (target.kind != RSOCKET && target.kind != FORK_LISTENS)
		return real.accept4(target.fd, addr, len, flags);
	if (target.kind == RSOCKET)
		inner = raccept(target.fd, addr, len);
	else
		inner = real.accept4(target.fd, addr, len, flags);
	if (inner < 0)
		return -1;
	if (target.kind == RSOCKET)
		rfcntl(inner, F_SETFL, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
	number = new_number(flags);
	if (number < 0) {
		int before = errno;

		if (target.kind == RSOCKET)
			rclose(inner);
		else
			real.close(inner);
		errno = before;
		return -1;
	}
	return give(number, inner, target.kind == RSOCKET ? RSOCKET : FORK_ACCEPTED);
}

int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept4(fd, addr, len, 0);
}

typedef int get_option(int fd, int level, int name, void *value, socklen_t *len);
typedef int set_option(int fd, int level, int name, const void *value, socklen_t len);

/* Options that a socket keeps when it becomes one of the other kind. Sizes are not among them: the
 * kernel reports twice the value that a program sets. */
static void copy_values(int to, set_option *set, int from, get_option *get)
{
	static const struct {
		int level, name;
	} kept[] = {
		{ SOL_SOCKET, SO_REUSEADDR }, { SOL_SOCKET, SO_KEEPALIVE },
		{ SOL_SOCKET, SO_LINGER },    { SOL_SOCKET, SO_RCVTIMEO },
		{ SOL_SOCKET, SO_SNDTIMEO },  { IPPROTO_TCP, TCP_NODELAY },
		{ IPPROTO_IPV6, IPV6_V6ONLY },
	};
	union {
		int number;
		struct linger linger;
		struct timeval time;
	} value;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		socklen_t len = sizeof(value);

		if (!get(from, kept[i].level, kept[i].name, &value, &len))
			set(to, kept[i].level, kept[i].name, &value, len);
	}
}

void preload_copy_options(int to, int from)
{
	int flags = real.fcntl(from, F_GETFL);

	if (flags >= 0)
		rfcntl(to, F_SETFL, flags & O_NONBLOCK);
	copy_values(to, rsetsockopt, from, real.getsockopt);
}

/* The peer has no rsocket: the socket uses TCP from now on. -1 if that fails. */
static int become_plain(int fd, int rsocket, int family)
{
	int plain = real.socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), flags;

	if (plain < 0)
		return -1;
	flags = rfcntl(rsocket, F_GETFL);
	if (flags >= 0)
		real.fcntl(plain, F_SETFL, flags & O_NONBLOCK);
	copy_values(plain, real.setsockopt, rsocket, rgetsockopt);
	preload_leave_sets(rsocket);
	preload_exchange(fd, plain, PLAIN);
	rclose(rsocket);
	return plain;
}

/* The descriptor of a datagram rsocket is a UDP socket; rdma-core's rsockets have no SO_TYPE. */
static bool is_datagram(int rsocket)
{
	int type = 0, domain = 0;
	socklen_t len = sizeof(type);

	return !real.getsockopt(rsocket, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_DGRAM &&
	       !real.getsockopt(rsocket, SOL_SOCKET, SO_DOMAIN, &domain, &len) &&
	       (domain == AF_INET || domain == AF_INET6);
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct target target = find(fd);
	int error;

	if (target.kind == FORKABLE) {
		preload_exchange(fd, target.fd, FORK_CONNECTED);
		return real.connect(target.fd, addr, len);
	}
	if (target.kind != RSOCKET)
		return real.connect(target.fd, addr, len);
	if (!rconnect(target.fd, addr, len))
		return 0;
	error = errno;
	if (error != EINPROGRESS && error != EALREADY && error != EISCONN && error != EINTR &&
	    error != EINVAL && error != EBADF && addr && addr->sa_family != AF_IB &&
	    !is_datagram(target.fd)) {
		int plain = become_plain(fd, target.fd, addr->sa_family);

		if (plain >= 0)
			return real.connect(plain, addr, len);
	}
	errno = error;
	return -1;
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	struct target target = preload_for_receive(fd, flags);

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind == RSOCKET)
		return rrecv(target.fd, buf, len, flags);
	return real.recv(target.fd, buf, len, flags);
}

ssize_t recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
		 socklen_t *addrlen)
{
	struct target target = preload_for_receive(fd, flags);

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind == RSOCKET)
		return rrecvfrom(target.fd, buf, len, flags, addr, addrlen);
	return real.recvfrom(target.fd, buf, len, flags, addr, addrlen);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct target target = preload_for_receive(fd, flags);

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind == RSOCKET)
		return rrecvmsg(target.fd, msg, flags);
	return real.recvmsg(target.fd, msg, flags);
}

ssize_t read(int fd, void *buf, size_t count)
{
	struct target target = preload_for_receive(fd, 0);

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind == RSOCKET)
		return rread(target.fd, buf, count);
	return real.read(target.fd, buf, count);
}

ssize_t readv(int fd, const struct iovec *iov, int count)
{
	struct target target = preload_for_receive(fd, 0);

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind == RSOCKET)
		return rreadv(target.fd, iov, count);
	return real.readv(target.fd, iov, count);
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	struct target target = preload_for_send(fd);

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind == RSOCKET)
		return rsend(target.fd, buf, len, flags);
	return real.send(target.fd, buf, len, flags);
}

ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
	       socklen_t addrlen)
{
	struct target target = preload_for_send(fd);

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind == RSOCKET)
		return rsendto(target.fd, buf, len, flags, addr, addrlen);
	return real.sendto(target.fd, buf, len, flags, addr, addrlen);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct target target = preload_for_send(fd);

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind == RSOCKET)
		return rsendmsg(target.fd, msg, flags);
	return real.sendmsg(target.fd, msg, flags);
}

ssize_t write(int fd, const void *buf, size_t count)
{
	struct target target = preload_for_send(fd);

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind == RSOCKET)
		return rwrite(target.fd, buf, count);
	return real.write(target.fd, buf, count);
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
	struct target target = preload_for_send(fd);

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind == RSOCKET)
		return rwritev(target.fd, iov, count);
	return real.writev(target.fd, iov, count);
}

int shutdown(int fd, int how)
{
	struct target target = find(fd);

	if (target.kind == RSOCKET)
		return rshutdown(target.fd, how);
	return real.shutdown(target.fd, how);
}

void preload_leave_sets(int rsocket)
{
	int set = -1;

	while ((set = ferroverbs_preload_set_behind(set)) >= 0) {
		struct target target = ferroverbs_preload_find(set);

		if (target.kind == SET)
			repoll_ctl(target.fd, EPOLL_CTL_DEL, rsocket, NULL);
	}
}

/* Ends an object that no descriptor of the program represents any more. */
static int end_object(struct target target)
{
	int answer;

	switch (target.kind) {
	case RSOCKET:
		preload_leave_sets(target.fd);
		/* A forked child has no rsockets. */
		answer = rclose(target.fd);
		return answer == EBADF ? 0 : answer;
	case SET:
		rclose(target.fd);
		return 0;
	case FORK_ACCEPTED:
		preload_forget_listener(target.fd);
		break;
	}
	return real.close(target.fd);
}

int close(int fd)
{
	int before = errno, answer;
	struct target target;
	bool is_last;

	preload_begin();
	preload_forget_members(fd);
	target = ferroverbs_preload_take(fd, &is_last);
	if (target.kind == ITSELF)
		return real.close(fd);
	real.close(fd);
	if (!is_last)
		return 0;
	answer = end_object(target);
	if (!answer)
		errno = before;
	return answer;
}

int getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct target target = find(fd);

	if (target.kind == RSOCKET)
		return rgetpeername(target.fd, addr, len);
	return real.getpeername(target.fd, addr, len);
}

int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct target target = find(fd);

	if (target.kind == RSOCKET)
		return rgetsockname(target.fd, addr, len);
	return real.getsockname(target.fd, addr, len);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct target target = find(fd);

	if (target.kind == RSOCKET)
		return rsetsockopt(target.fd, level, name, value, len);
	return real.setsockopt(target.fd, level, name, value, len);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct target target = find(fd);

	if (target.kind == RSOCKET)
		return rgetsockopt(target.fd, level, name, value, len);
	return real.getsockopt(target.fd, level, name, value, len);
}

/* Another descriptor of the program for the same socket. */
static int share(int number, struct target target)
{
	if (number < 0 || ferroverbs_preload_put(number, target.fd, target.kind))
		return number;
	real.close(number);
	errno = EMFILE;
	return -1;
}

/* Commands about the descriptor apply to the program's own; all others to the socket behind it. */
static int control(int fd, int command, void *argument)
{
	struct target target = find(fd);

	if (target.kind == ITSELF || target.kind == SET)
		return real.fcntl(fd, command, argument);
	switch (command) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		target = preload_for_sharing(fd);
		return share(real.fcntl(fd, command, argument), target);
	case F_GETFD:
	case F_SETFD:
		return real.fcntl(fd, command, argument);
	}
	if (target.kind == RSOCKET)
		return rfcntl(target.fd, command, argument);
	return real.fcntl(target.fd, command, argument);
}

int fcntl(int fd, int command, ...)
{
	void *argument;
	va_list arguments;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
	void *argument;
	va_list arguments;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(fd, command, argument);
}

int dup(int fd)
{
	struct target target = preload_for_sharing(fd);
	int number = real.dup(fd);

	if (target.kind == ITSELF || target.kind == SET)
		return number;
	return share(number, target);
}

/* The number of bytes that the next receive can take. rsockets have no call for it. */
static int count_unread(int rsocket, int *count)
{
	int size = 0, before = errno;
	socklen_t len = sizeof(size);
	ssize_t unread;
	char *piece;

	if (rgetsockopt(rsocket, SOL_SOCKET, SO_RCVBUF, &size, &len) || size <= 0)
		return -1;
	piece = malloc((size_t)size);
	if (!piece) {
		errno = ENOMEM;
		return -1;
	}
	unread = rrecv(rsocket, piece, (size_t)size, MSG_PEEK | MSG_DONTWAIT);
	free(piece);
	/* A socket without data, or without a connection, has none to receive. */
	*count = unread > 0 ? (int)unread : 0;
	errno = before;
	return 0;
}

/* Resolves a descriptor whose unread bytes are counted, which does not wait for the peer: that has
 * sent none that could be received. */
static struct target for_count(int fd)
{
	struct target target = find(fd);
	struct pollfd awaited[2];

	if (target.kind == FORK_ACCEPTED)
		preload_accept_step(fd, awaited);
	else if (target.kind == FORK_CONNECTED)
		preload_connect_step(fd);
	return find(fd);
}

static int control_rsocket(int fd, int rsocket, unsigned long request, void *argument)
{
	switch (request) {
	case FIONBIO:
		return rfcntl(rsocket, F_SETFL, *(int *)argument ? O_NONBLOCK : 0);
	case FIONREAD:
		return count_unread(rsocket, argument);
	}
	/* The descriptor's own requests; it supports no request of a socket. */
	return real.ioctl(fd, request, argument);
}

int ioctl(int fd, unsigned long request, ...)
{
	struct target target;
	void *argument;
	va_list arguments;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	target = request == FIONREAD ? for_count(fd) : find(fd);
	if (target.kind == RSOCKET)
		return control_rsocket(fd, target.fd, request, argument);
	if (target.kind == SET || request == FIOCLEX || request == FIONCLEX)
		return real.ioctl(fd, request, argument);
	return real.ioctl(target.fd, request, argument);
}

/* Makes a number represent the same socket as a descriptor; another one than that. */
static int share_at(int fd, int number, int flags)
{
	struct target target, replaced;
	bool is_last;
	int answer = number, before;

	/* Without a descriptor to share, the number stays open. */
	if (real.fcntl(fd, F_GETFD) < 0)
		return -1;
	target = preload_for_sharing(fd);
	/* The number is never free: another thread could get it. */
	if (real.dup3(fd, number, flags) < 0)
		return -1;
	preload_forget_members(number);
	if (target.kind == ITSELF || target.kind == SET) {
		replaced = ferroverbs_preload_take(number, &is_last);
	} else if (!ferroverbs_preload_exchange(number, target.fd, target.kind, &replaced,
						&is_last)) {
		real.close(number);
		errno = EMFILE;
		answer = -1;
	}
	before = errno;
	if (replaced.kind != ITSELF && is_last)
		end_object(replaced);
	errno = before;
	return answer;
}

int dup2(int fd, int number)
{
	preload_begin();
	return fd == number ? real.dup2(fd, number) : share_at(fd, number, 0);
}

int dup3(int fd, int number, int flags)
{
	preload_begin();
	if (fd == number || flags & ~O_CLOEXEC)
		return real.dup3(fd, number, flags);
	return share_at(fd, number, flags);
}

ssize_t sendfile(int to, int from, off_t *offset, size_t count)
{
	enum { PIECE = 65536 };
	struct target target = preload_for_send(to);
	char piece[PIECE];
	ssize_t some, sent = 0;
	off_t at;

	if (target.kind == NOT_YET)
		return -1;
	if (target.kind != RSOCKET)
		return real.sendfile(target.fd, from, offset, count);
	at = offset ? *offset : lseek(from, 0, SEEK_CUR);
	if (at < 0)
		return -1;
	while (count) {
		some = pread(from, piece, count < PIECE ? count : PIECE, at);
		if (some > 0)
			some = rsend(target.fd, piece, (size_t)some, 0);
		if (some < 0 && !sent)
			return -1;
		if (some <= 0)
			break;
		sent += some;
		at += some;
		count -= (size_t)some;
	}
	if (offset)
		*offset = at;
	else if (lseek(from, at, SEEK_SET) < 0)
		return -1;
	return sent;
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t count)
{
	return sendfile(to, from, offset, count);
}
