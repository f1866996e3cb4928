/*
 * rdma_get_cm_event(3), in which a thread may wait without bound, and the calls that wait for an
 * event of a synchronous id. They are cancellation points, because they ask the kernel for an event
 * by write(2), which is one (pthreads(7)). A cancelled thread is unwound from its wait, and Rust
 * does not define such an unwinding through its frames. Therefore the wait is in C, with only C
 * frames below the program's; the Rust functions called before and after it do not wait.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "c.h"

struct ibv_pd;
struct ibv_qp_init_attr;
struct rdma_addrinfo;
struct rdma_cm_event;
struct rdma_cm_id;
struct rdma_cm_join_mc_attr_ex;
struct rdma_conn_param;
struct rdma_event_channel;
struct sockaddr;

/* A struct rdma_cm_event for the program, and the struct rdma_ucm_event_resp that it is made of. */
struct block {
	uint64_t event[10];
	uint64_t record[42];
};

/* A header, and struct rdma_ucm_get_event. */
struct request {
	uint32_t number;
	uint16_t in;
	uint16_t out;
	uint64_t response;
};

enum { GET_EVENT = 12 };

/* Results of `begin`, beside a descriptor to ask. */
enum { FAILED = -1, HAVE_RECORD = -2, WAIT = -3, DESTROYED = -4 };
/* Result of `end`, beside 0 and -1: the event is not for the program. */
enum { SWALLOWED = 1 };

/* The same as in event.rs. */
struct reader {
	struct rdma_event_channel *channel;
	struct rdma_cm_event **event;
	/* From `begin` to `end`. */
	struct block *block;
	/* When the call began; 0 if nothing looks at calls. */
	uint64_t observed;
	/*
	 * A duplicate of the channel's descriptor, made when the call first waits for a device in
	 * user space; -1 before. Another thread may destroy the channel, and the number of its
	 * descriptor may be reused.
	 */
	int held;
};

RUST int ferroverbs_cm_event_begin(struct reader *reader);
RUST int ferroverbs_cm_event_end(struct reader *reader);
RUST void ferroverbs_cm_event_keep(struct reader *reader);
RUST void ferroverbs_cm_event_let_go(struct reader *reader);
RUST void ferroverbs_cm_event_over(const struct reader *reader, int answer);

/* The C library's name for write(2), which is hidden from this library: see syscalls.c. */
ssize_t __write(int fd, const void *buffer, size_t size);

static void let_go(void *argument)
{
	struct reader *reader = argument;
	int before = errno;

	if (reader->block)
		ferroverbs_cm_event_let_go(reader);
	if (reader->held >= 0)
		close(reader->held);
	errno = before;
}

/*
 * The thread is being cancelled. glibc before 2.41 cancels even when write(2) has just returned an
 * event: the next call receives that event.
 */
static void cancelled(void *argument)
{
	ferroverbs_cm_event_keep(argument);
}

/* 0, or -1 with errno set. */
static inline int ask(struct reader *reader, int fd)
{
	struct request request = {
		.number = GET_EVENT,
		.in = sizeof(request.response),
		.out = sizeof(reader->block->record),
		.response = (uintptr_t)reader->block->record,
	};
	ssize_t taken;

	pthread_cleanup_push(cancelled, reader);
	taken = __write(fd, &request, sizeof(request));
	pthread_cleanup_pop(0);
	if (taken == (ssize_t)sizeof(request))
		return 0;
	if (taken >= 0)
		errno = ENODATA;
	return -1;
}

/*
 * Waits for an event of a device in user space: the socket contains a byte as long as there is an
 * event. The program may have made the descriptor non-blocking.
 */
static int wait_for(struct reader *reader)
{
	ssize_t some;
	char byte;

	pthread_cleanup_push(let_go, reader);
	some = recv(reader->held, &byte, sizeof(byte), MSG_PEEK);
	pthread_cleanup_pop(0);
	if (some == 0)
		errno = EBADF;
	return some > 0 ? 0 : -1;
}

/*
 * Another thread destroyed the channel, during the wait or just before it. As with the kernel, that
 * wakes no waiting thread.
 */
static int wait_for_ever(struct reader *reader)
{
	if (reader->held >= 0 && fcntl(reader->held, F_GETFL) & O_NONBLOCK) {
		errno = EBADF;
		return -1;
	}
	pthread_cleanup_push(let_go, reader);
	pause();
	pthread_cleanup_pop(0);
	return -1;
}

static inline __attribute__((always_inline)) int next_event(struct reader *reader)
{
	for (;;) {
		int fd = ferroverbs_cm_event_begin(reader);
		int answer;

		if (fd == FAILED)
			return -1;
		if (fd == DESTROYED)
			return wait_for_ever(reader);
		if (fd == WAIT) {
			if (wait_for(reader))
				return -1;
			continue;
		}
		if (fd != HAVE_RECORD && ask(reader, fd))
			return -1;
		answer = ferroverbs_cm_event_end(reader);
		if (answer != SWALLOWED)
			return answer;
	}
}

/* Asynchronous cancellation could end the thread within Rust. */
static int deferred(void)
{
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	return type;
}

static void restore(int type)
{
	if (type != PTHREAD_CANCEL_DEFERRED)
		pthread_setcanceltype(type, NULL);
}

static inline __attribute__((always_inline)) int wait_for_event(struct reader *reader)
{
	int answer = next_event(reader);

	if (reader->block || reader->held >= 0)
		let_go(reader);
	return answer;
}

int ferroverbs_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);

int ferroverbs_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct reader reader = { .channel = channel, .event = event, .held = -1 };
	int type, answer;

	/* A program may free the channel as soon as it has cancelled the thread. */
	pthread_testcancel();
	type = deferred();
	answer = wait_for_event(&reader);
	if (reader.observed)
		ferroverbs_cm_event_over(&reader, answer);
	restore(type);
	return answer;
}
SYMVER(ferroverbs_get_cm_event, rdma_get_cm_event, "@@", "RDMACM_1.0");

/* A call of a synchronous id that waits for an event: see step.rs. */
struct waiting {
	struct rdma_event_channel *channel;
	void *rest;
};

/* Result of a step beside 0 and -1. */
enum { WAITS = 1 };

RUST int ferroverbs_cm_proceed(struct waiting *waiting, struct rdma_cm_event *event);
RUST void ferroverbs_cm_abandon(struct waiting *waiting);

static void abandon(void *waiting)
{
	ferroverbs_cm_abandon(waiting);
}

/* Waits for the events of a call of a synchronous id, after its first step. */
static __attribute__((noinline)) int finish(struct waiting *waiting)
{
	int answer;

	do {
		struct rdma_cm_event *event = NULL;
		struct reader reader = { .channel = waiting->channel, .event = &event, .held = -1 };

		pthread_cleanup_push(abandon, waiting);
		if (wait_for_event(&reader))
			event = NULL;
		pthread_cleanup_pop(0);
		answer = ferroverbs_cm_proceed(waiting, event);
	} while (answer == WAITS);
	return answer;
}

#define EXPAND(...) __VA_ARGS__
/* CALL(name, node, parameters, arguments): exports rdma_NAME, whose steps are in Rust. */
#define CALL(name, node, parameters, ...) \
	RUST int ferroverbs_cm_##name(EXPAND parameters, struct waiting *waiting); \
	int ferroverbs_rdma_##name parameters; \
	int ferroverbs_rdma_##name parameters \
	{ \
		struct waiting waiting; \
		int type = deferred(); \
		int answer = ferroverbs_cm_##name(__VA_ARGS__, &waiting); \
\
		if (answer == WAITS) \
			answer = finish(&waiting); \
		restore(type); \
		return answer; \
	} \
	SYMVER(ferroverbs_rdma_##name, rdma_##name, "@@", node)

CALL(resolve_addr, "RDMACM_1.0",
     (struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *destination,
      int milliseconds),
     id, source, destination, milliseconds);
CALL(resolve_route, "RDMACM_1.0", (struct rdma_cm_id *id, int milliseconds), id, milliseconds);
CALL(connect, "RDMACM_1.0", (struct rdma_cm_id *id, struct rdma_conn_param *param), id, param);
CALL(accept, "RDMACM_1.0", (struct rdma_cm_id *id, struct rdma_conn_param *param), id, param);
CALL(disconnect, "RDMACM_1.0", (struct rdma_cm_id *id), id);
CALL(get_request, "RDMACM_1.0", (struct rdma_cm_id *listener, struct rdma_cm_id **id), listener,
     id);
CALL(create_ep, "RDMACM_1.0",
     (struct rdma_cm_id **id, struct rdma_addrinfo *wanted, struct ibv_pd *pd,
      struct ibv_qp_init_attr *attr),
     id, wanted, pd, attr);
CALL(join_multicast, "RDMACM_1.0",
     (struct rdma_cm_id *id, struct sockaddr *group, void *context), id, group, context);
CALL(join_multicast_ex, "RDMACM_1.1",
     (struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context), id, attr,
     context);
CALL(resolve_addrinfo, "RDMACM_1.4",
     (struct rdma_cm_id *id, const char *node, const char *service,
      const struct rdma_addrinfo *hints),
     id, node, service, hints);
