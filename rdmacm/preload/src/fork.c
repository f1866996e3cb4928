/*
 * Sockets of programs that fork (RDMAV_FORK_SAFE). An rsocket stays with the process that made it,
 * but servers accept a connection in one process and use it in another. A connection therefore
 * begins as TCP. At the first transfer, the side that accepted opens an rsocket listener at the
 * same port, on all addresses, and announces it by a word of zeros; the other side connects to it.
 * If that fails, the connection continues as TCP.
 */
#include "preload.h"

#include <netinet/in.h>
#include <string.h>
#include <time.h>

/* Another process may be listening at the port for a connection of a different socket. */
enum { ATTEMPTS = 5000, PAUSE_NS = 1000000 };

static void end_tcp(int tcp)
{
	real.shutdown(tcp, SHUT_RDWR);
	real.close(tcp);
}

void preload_connect_by_rdma(int fd, int tcp)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	int flags = real.fcntl(tcp, F_GETFL), rsocket_ = -1;
	uint32_t word = 1;
	ssize_t some;

	real.fcntl(tcp, F_SETFL, flags & ~O_NONBLOCK);
	some = real.recv(tcp, &word, sizeof(word), MSG_PEEK | MSG_WAITALL);
	real.fcntl(tcp, F_SETFL, flags);
	if (some == sizeof(word) && !word &&
	    !real.getpeername(tcp, (struct sockaddr *)&address, &len))
		rsocket_ = rsocket(address.ss_family, SOCK_STREAM, 0);
	if (rsocket_ >= 0) {
		preload_set_sizes(rsocket_);
		if (!rconnect(rsocket_, (struct sockaddr *)&address, len)) {
			preload_copy_options(rsocket_, tcp);
			preload_exchange(fd, rsocket_, RSOCKET);
			end_tcp(tcp);
			return;
		}
		rclose(rsocket_);
	}
	preload_exchange(fd, tcp, PLAIN);
}

/* A socket that listens at the port of another, or -1. */
static int listener_beside(int tcp)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	socklen_t len = sizeof(address);
	struct timespec pause = { .tv_nsec = PAUSE_NS };
	int listener, attempt;

	memset(&address, 0, sizeof(address));
	if (real.getsockname(tcp, &address.any, &len))
		return -1;
	if (address.any.sa_family == AF_INET) {
		address.v4.sin_addr.s_addr = INADDR_ANY;
	} else {
		address.v6.sin6_flowinfo = 0;
		address.v6.sin6_scope_id = 0;
		address.v6.sin6_addr = in6addr_any;
	}
	for (attempt = 0; attempt < ATTEMPTS; attempt++) {
		listener = rsocket(address.any.sa_family, SOCK_STREAM, 0);
		if (listener < 0)
			return -1;
		preload_set_sizes(listener);
		if (!rbind(listener, &address.any, len) && !rlisten(listener, 1))
			return listener;
		rclose(listener);
		if (errno != EADDRINUSE && errno != EADDRNOTAVAIL)
			return -1;
		nanosleep(&pause, NULL);
	}
	return -1;
}

void preload_accept_by_rdma(int fd, int tcp)
{
	int listener = listener_beside(tcp), accepted = -1;
	uint32_t word = 0;

	if (listener >= 0) {
		if (real.send(tcp, &word, sizeof(word), MSG_NOSIGNAL) == sizeof(word))
			accepted = raccept(listener, NULL, NULL);
		rclose(listener);
	}
	if (accepted >= 0) {
		preload_copy_options(accepted, tcp);
		preload_exchange(fd, accepted, RSOCKET);
		end_tcp(tcp);
		return;
	}
	preload_exchange(fd, tcp, PLAIN);
}
