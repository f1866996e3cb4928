/*
 * Sockets of programs that fork (RDMAV_FORK_SAFE). An rsocket stays with the process that made it,
 * but servers accept a connection in one process and use it in another. A connection therefore
 * begins as TCP. At the first transfer, the side that accepted opens an rsocket listener at the
 * same port, on all addresses, and announces it by a word of zeros; the other side connects to it.
 * If that fails, the other side removes the word, and the connection continues as TCP, which the
 * first side learns from the data or the end that arrives by TCP.
 */
#include "preload.h"

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/time.h>

/* How often a transfer tries to listen, with pauses of PRELOAD_PAUSE: for a minute. The port may be
 * in use as long as another process makes the first transfer of its connection. A peer to which no
 * listener is announced waits for one, so to give up earlier would stop the connection. */
enum { ATTEMPTS = 12000 };
/* Milliseconds for which a socket that joins a set waits for a peer that can connect, and how often
 * it looks whether it can. */
enum { PATIENCE = 1000, LOOK_AGAIN = 100 };
/* Results beside a listener. */
enum { IN_USE = -1, FAILED = -2 };
/* Milliseconds for the last message of a connection to arrive after the end of TCP. If it was lost,
 * the connection manager has it sent again after 4.6 s, and so on. */
enum { GRACE = 30000 };
/* Limit of descriptor numbers (table.rs). */
enum { MOST = 1 << 16 };

/* Accepted sockets that were announced, by their descriptor. The listener belongs to the process;
 * a forked child makes another one. */
static struct {
	pid_t process;
	int listener;
	/* The program's descriptor. */
	int fd;
	/* When the end of TCP was seen first; 0 before. */
	int64_t ended;
} announced[MOST];
/* The highest of them that there was. */
static int highest;

/* A thread that converts a socket, alone. */
struct conversion {
	int fd;
	struct conversion *next;
};

static struct conversion *conversions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

static void lock_all(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_all(void)
{
	pthread_mutex_unlock(&lock);
}

/* The threads that convert are not in the child. */
static void restart_in_child(void)
{
	static const pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;

	conversions = NULL;
	memcpy(&ended, &fresh, sizeof(ended));
	pthread_mutex_unlock(&lock);
}

void preload_begin_forks(void)
{
	pthread_atfork(lock_all, unlock_all, restart_in_child);
}

static void unlock(void *mutex)
{
	pthread_mutex_unlock(mutex);
}

static bool is_converted(int fd)
{
	const struct conversion *each = conversions;

	while (each && each->fd != fd)
		each = each->next;
	return each;
}

/* Waits until no other thread converts the socket. */
static void begin(struct conversion *own)
{
	pthread_mutex_lock(&lock);
	pthread_cleanup_push(unlock, &lock);
	while (is_converted(own->fd))
		pthread_cond_wait(&ended, &lock);
	own->next = conversions;
	conversions = own;
	pthread_cleanup_pop(1);
}

static void end(void *own)
{
	struct conversion **each = &conversions;

	pthread_mutex_lock(&lock);
	while (*each && *each != own)
		each = &(*each)->next;
	if (*each)
		*each = (*each)->next;
	pthread_cond_broadcast(&ended);
	pthread_mutex_unlock(&lock);
}

static void end_tcp(int tcp)
{
	real.shutdown(tcp, SHUT_RDWR);
	real.close(tcp);
}

/* What the first bytes of the peer are: of the program, or the announcement of a listener. */
enum first { DATA, WORD, PART, NOTHING };

static bool has_ended(int tcp)
{
	struct pollfd polled = { .fd = tcp, .events = POLLRDHUP };

	return real.poll(&polled, 1, 0) > 0;
}

static enum first first_of(int tcp)
{
	uint8_t word[sizeof(uint32_t)];
	ssize_t some = real.recv(tcp, word, sizeof(word), MSG_PEEK | MSG_DONTWAIT), i;

	if (some < 0 && errno == EAGAIN)
		return NOTHING;
	for (i = 0; i < some; i++)
		if (word[i])
			return DATA;
	if (some == sizeof(word))
		return WORD;
	return some > 0 && !has_ended(tcp) ? PART : DATA;
}

static void close_rsocket(void *rsocket_)
{
	rclose(*(int *)rsocket_);
}

/* An rsocket that is connected to the peer of a TCP socket, or -1. */
static int connect_beside(int tcp)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	int rsocket_, answer;

	if (real.getpeername(tcp, (struct sockaddr *)&address, &len))
		return -1;
	rsocket_ = rsocket(address.ss_family, SOCK_STREAM, 0);
	if (rsocket_ < 0)
		return -1;
	pthread_cleanup_push(close_rsocket, &rsocket_);
	preload_set_sizes(rsocket_);
	do
		answer = rconnect(rsocket_, (struct sockaddr *)&address, len);
	while (answer && errno == EINTR);
	pthread_cleanup_pop(answer);
	return answer ? -1 : rsocket_;
}

/* False if the peer has neither announced a listener nor used TCP yet. */
static bool connect_by_rdma(int fd, int tcp, struct pollfd *awaited)
{
	enum first first = first_of(tcp);
	int rsocket_ = first == WORD ? connect_beside(tcp) : -1;
	uint32_t word;

	awaited[0] = (struct pollfd){ .fd = first == PART ? -1 : tcp, .events = POLLIN };
	awaited[1].fd = -1;
	if (first == NOTHING || first == PART)
		return false;
	if (rsocket_ >= 0) {
		preload_copy_options(rsocket_, tcp);
		preload_exchange(fd, rsocket_, RSOCKET);
		end_tcp(tcp);
		return true;
	}
	/* The word is no data of the program. It has arrived, so this does not wait. */
	if (first == WORD)
		while (real.recv(tcp, &word, sizeof(word), MSG_WAITALL) < 0 && errno == EINTR)
			;
	preload_exchange(fd, tcp, PLAIN);
	return true;
}

/* A socket that listens at the port of another, without blocking; IN_USE if the port is in use,
 * for a connection of a different socket. */
static int listener_beside(int tcp)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	socklen_t len = sizeof(address);
	int listener, error;

	memset(&address, 0, sizeof(address));
	if (real.getsockname(tcp, &address.any, &len))
		return FAILED;
	if (address.any.sa_family == AF_INET) {
		address.v4.sin_addr.s_addr = INADDR_ANY;
	} else {
		address.v6.sin6_flowinfo = 0;
		address.v6.sin6_scope_id = 0;
		address.v6.sin6_addr = in6addr_any;
	}
	listener = rsocket(address.any.sa_family, SOCK_STREAM, 0);
	if (listener < 0)
		return FAILED;
	preload_set_sizes(listener);
	if (!rbind(listener, &address.any, len) && !rlisten(listener, 1) &&
	    !rfcntl(listener, F_SETFL, O_NONBLOCK))
		return listener;
	error = errno;
	rclose(listener);
	return error == EADDRINUSE || error == EADDRNOTAVAIL ? IN_USE : FAILED;
}

void preload_forget_listener(int tcp)
{
	if (announced[tcp].process == getpid())
		rclose(announced[tcp].listener);
	announced[tcp].process = 0;
	announced[tcp].ended = 0;
}

static bool is_announced(int tcp)
{
	return announced[tcp].process == getpid();
}

/* The listener for the peer of an accepted socket, to which the first one is announced. */
static int announce(int fd, int tcp)
{
	enum { FLAGS = MSG_NOSIGNAL | MSG_DONTWAIT };
	bool is_first = !announced[tcp].process;
	uint32_t word = 0;
	int listener;

	if (is_announced(tcp))
		return announced[tcp].listener;
	listener = listener_beside(tcp);
	if (listener < 0)
		return listener;
	announced[tcp].listener = listener;
	announced[tcp].fd = fd;
	announced[tcp].process = getpid();
	if (tcp > highest)
		highest = tcp;
	if (!is_first || real.send(tcp, &word, sizeof(word), FLAGS) == sizeof(word))
		return listener;
	preload_forget_listener(tcp);
	return FAILED;
}

static int accept_from(int listener)
{
	int accepted;

	if (listener < 0) {
		errno = listener == IN_USE ? EAGAIN : EINVAL;
		return -1;
	}
	do
		accepted = raccept(listener, NULL, NULL);
	while (accepted < 0 && errno == EINTR);
	return accepted;
}

static void stay_tcp(int fd, int tcp)
{
	preload_forget_listener(tcp);
	preload_exchange(fd, tcp, PLAIN);
}

/* Whether an announced peer may have connected, or may do so. It ends TCP as soon as it has. A peer
 * that leaves instead has not read the word, which resets TCP. */
static bool may_connect(int tcp, struct pollfd *awaited)
{
	char byte;
	ssize_t some = real.recv(tcp, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);

	if (some)
		return some < 0 && errno == EAGAIN;
	awaited->fd = -1;
	if (!announced[tcp].ended)
		announced[tcp].ended = preload_now();
	return preload_now() - announced[tcp].ended < GRACE;
}

/* False if the peer has neither connected nor used TCP yet. */
static bool accept_by_rdma(int fd, int tcp, struct pollfd *awaited)
{
	int listener, accepted;

	awaited[1] = (struct pollfd){ .fd = tcp, .events = POLLIN | POLLRDHUP };
	/* A peer that begins has no rsockets. */
	if (!announced[tcp].process && real.poll(&awaited[1], 1, 0) > 0) {
		stay_tcp(fd, tcp);
		return true;
	}
	listener = announce(fd, tcp);
	awaited[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
	accepted = accept_from(listener);
	if (accepted < 0 && errno == EAGAIN && may_connect(tcp, &awaited[1]))
		return false;
	if (accepted < 0) {
		stay_tcp(fd, tcp);
		return true;
	}
	preload_forget_listener(tcp);
	preload_copy_options(accepted, tcp);
	preload_exchange(fd, accepted, RSOCKET);
	end_tcp(tcp);
	return true;
}

bool preload_accept_step(int fd, struct pollfd *awaited)
{
	struct conversion own = { .fd = fd };
	struct target target;
	bool waits = false;
	int state;

	begin(&own);
	/* The step does not wait. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	target = ferroverbs_preload_find(fd);
	if (target.kind == FORK_ACCEPTED)
		waits = !accept_by_rdma(fd, target.fd, awaited);
	end(&own);
	pthread_setcancelstate(state, NULL);
	return waits;
}

/* The same for the side that connected; this waits only while it connects. The descriptors are the
 * TCP socket (-1 if it has a part of the word), and none. */
static bool connect_step(int fd, struct pollfd *awaited)
{
	struct conversion own = { .fd = fd };
	struct target target;
	bool waits = false;

	begin(&own);
	pthread_cleanup_push(end, &own);
	/* Another thread may have converted the socket. */
	target = ferroverbs_preload_find(fd);
	if (target.kind == FORK_CONNECTED)
		waits = !connect_by_rdma(fd, target.fd, awaited);
	pthread_cleanup_pop(1);
	return waits;
}

static void give_up(int fd)
{
	struct conversion own = { .fd = fd };
	struct target target;

	begin(&own);
	target = ferroverbs_preload_find(fd);
	if (target.kind == FORK_ACCEPTED)
		stay_tcp(fd, target.fd);
	else if (target.kind == FORK_CONNECTED)
		preload_exchange(fd, target.fd, PLAIN);
	end(&own);
}

/* Takes the next steps of the other sockets of this process, one of which may have the port: the
 * program's thread that would take them may be the one that waits for the port. */
static void let_others_accept(int fd)
{
	struct pollfd awaited[2];
	int tcp;

	for (tcp = 0; tcp <= highest; tcp++)
		if (is_announced(tcp) && announced[tcp].fd != fd)
			preload_accept_step(announced[tcp].fd, awaited);
}

/* False, with errno set, if a signal or the timeout (milliseconds, or -1) ended the wait. */
static bool first_transfer(int fd, bool (*step)(int fd, struct pollfd *awaited), int timeout)
{
	int64_t until = timeout > 0 ? preload_now() + timeout : 0;
	bool accepts = step == preload_accept_step, is_here;
	struct pollfd awaited[2];
	int attempt = 0;

	while (step(fd, awaited)) {
		bool is_missing = awaited[0].fd < 0;
		int pause = is_missing ? PRELOAD_PAUSE : PRELOAD_LOOK;

		/* A peer that has ended TCP has connected, and its last message is on its way. A
		 * program that looked for data because of that end is not to look in vain: it may
		 * wait for a change (EPOLLET). */
		is_here = accepts && !is_missing && awaited[1].fd < 0;
		if (!timeout && !is_here) {
			errno = EAGAIN;
			return false;
		}
		if (is_missing && ++attempt > ATTEMPTS) {
			give_up(fd);
			return true;
		}
		if (is_missing && accepts)
			let_others_accept(fd);
		if (timeout > 0 && pause > timeout)
			pause = timeout;
		if (rpoll(awaited, 2, pause) < 0) {
			if (errno == EINTR)
				return false;
			/* There is no memory or descriptor to wait with. */
			real.poll(NULL, 0, PRELOAD_PAUSE);
		}
		timeout = preload_left_of(timeout, until);
	}
	return true;
}

/* The bound of a socket's calls in milliseconds, by the option that has it; -1 if there is none. */
static int timeout_of(int tcp, int option)
{
	struct timeval time;
	socklen_t len = sizeof(time);

	if (real.getsockopt(tcp, SOL_SOCKET, option, &time, &len) ||
	    (!time.tv_sec && !time.tv_usec))
		return -1;
	return preload_milliseconds(time.tv_sec, (int64_t)time.tv_usec * 1000);
}

static struct target for_transfer(int fd, struct target target, int timeout)
{
	bool accepts = target.kind == FORK_ACCEPTED;

	if (first_transfer(fd, accepts ? preload_accept_step : connect_step, timeout))
		return ferroverbs_preload_find(fd);
	return (struct target){ .kind = NOT_YET, .fd = -1 };
}

static bool may_convert(int fd, struct target *target)
{
	preload_begin();
	*target = ferroverbs_preload_find(fd);
	return target->kind == FORK_CONNECTED || target->kind == FORK_ACCEPTED;
}

struct target preload_for_receive(int fd, int flags)
{
	struct target target;
	int timeout;

	if (!may_convert(fd, &target))
		return target;
	/* The peer has sent nothing that could be received. */
	if (flags & MSG_DONTWAIT || real.fcntl(target.fd, F_GETFL) & O_NONBLOCK)
		timeout = 0;
	else
		timeout = timeout_of(target.fd, SO_RCVTIMEO);
	return for_transfer(fd, target, timeout);
}

struct target preload_for_send(int fd)
{
	struct target target;

	if (!may_convert(fd, &target))
		return target;
	return for_transfer(fd, target, timeout_of(target.fd, SO_SNDTIMEO));
}

void preload_for_set(int fd)
{
	const int64_t begun = preload_now();
	int64_t since = 0, now = begun;
	struct target target;

	for (;;) {
		if (!may_convert(fd, &target))
			return;
		if (is_announced(target.fd) && !since)
			since = now;
		if (since && now - since >= PATIENCE)
			return;
		if (!since && now - begun >= (int64_t)ATTEMPTS * PRELOAD_PAUSE) {
			give_up(fd);
			return;
		}
		for_transfer(fd, target, LOOK_AGAIN);
		now = preload_now();
	}
}

bool preload_connect_step(int fd)
{
	struct pollfd awaited[2];

	return connect_step(fd, awaited);
}

struct target preload_for_sharing(int fd)
{
	struct target target;

	do
		if (!may_convert(fd, &target))
			return target;
	while ((target = for_transfer(fd, target, -1)).kind == NOT_YET);
	return target;
}
