/*
 * The exported functions in which a thread may wait. They are cancellation points, as read(2) is
 * (pthreads(7)). A cancelled thread is unwound from its wait, and Rust does not define such an
 * unwinding through its frames. Therefore these functions wait in C, with only C frames below the
 * program's; the Rust functions called before and after the wait do not wait.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "c.h"

struct ibv_cq_1_0;
struct ibv_context_1_0;

/* struct ib_uverbs_comp_event_desc and the longer struct ib_uverbs_async_event_desc. */
struct record {
	uint64_t words[2];
};

/* No record begins with this value: a record begins with an object's address, or the number of a
 * port. */
#define NOT_READ UINT64_MAX

/* Results of `begin`, beside a descriptor to read from. */
enum { FAILED = -1, HAVE_RECORD = -2 };

RUST int ferroverbs_cq_event_begin(struct ibv_comp_channel *channel, struct ibv_cq **cq,
				   void **cq_context, struct record *record);
RUST int ferroverbs_cq_event_end(const struct record *record, struct ibv_cq **cq,
				 void **cq_context);
RUST void ferroverbs_cq_event_keep(struct ibv_comp_channel *channel, const struct record *record);
RUST int ferroverbs_async_event_begin(struct ibv_context *context, struct ibv_async_event *event,
				      struct record *record);
RUST int ferroverbs_async_event_end(struct ibv_context *context, const struct record *record,
				    struct ibv_async_event *event);
RUST void ferroverbs_async_event_keep(struct ibv_context *context, const struct record *record);
RUST struct ibv_comp_channel *ferroverbs_real_channel(struct ibv_comp_channel *channel);
RUST int ferroverbs_old_cq_event(void *queue, struct ibv_cq_1_0 **cq, void **cq_context);
RUST int ferroverbs_real_context(struct ibv_context_1_0 *context, struct ibv_context **real);
RUST void ferroverbs_old_async_event(struct ibv_async_event *event);

RUST int ferroverbs_destroy_cq_begin(struct ibv_cq *cq, int (**destroy)(struct ibv_cq *));
RUST void ferroverbs_destroy_cq_end(struct ibv_cq *cq, struct ibv_comp_channel *channel);
RUST int ferroverbs_destroy_qp_begin(struct ibv_qp *qp, int (**destroy)(struct ibv_qp *));
RUST int ferroverbs_destroy_srq_begin(struct ibv_srq *srq, int (**destroy)(struct ibv_srq *));
RUST int ferroverbs_cmd_destroy_cq_begin(struct ibv_cq *cq, uint32_t *reported);
RUST int ferroverbs_cmd_destroy_qp_begin(struct ibv_qp *qp, uint32_t *reported);
RUST int ferroverbs_cmd_destroy_srq_begin(struct ibv_srq *srq, uint32_t *reported);
RUST int ferroverbs_cmd_destroy_wq_begin(struct ibv_wq *wq, uint32_t *reported);
RUST void ferroverbs_forget(const void *object);

/* See step.rs. */
struct waiting {
	void *rest;
	int descriptor;
	int milliseconds;
};

RUST int ferroverbs_open_step(struct ibv_device *device, void *private_data,
			      struct waiting *waiting, struct ibv_context **context);
RUST void ferroverbs_open_abandon(void *rest);
RUST int ferroverbs_resolve_step(struct ibv_context *context, struct ibv_ah_attr *attr,
				 uint8_t *eth_mac, uint16_t *vid, struct waiting *waiting);
RUST void ferroverbs_resolve_abandon(void *rest);
RUST int ferroverbs_create_ah_begin(struct ibv_pd *pd, struct ibv_ah_attr *attr,
				    struct ibv_ah *(**create)(struct ibv_pd *,
							      struct ibv_ah_attr *));
RUST void ferroverbs_create_ah_end(struct ibv_pd *pd, struct ibv_ah *ah);
RUST int ferroverbs_create_ah_from_wc_begin(struct ibv_pd *pd, struct ibv_wc *wc,
					    struct ibv_grh *grh, uint8_t port_num,
					    struct ibv_ah_attr *attr);
RUST int ferroverbs_modify_qp_begin(struct ibv_qp *qp, struct ibv_qp_attr *attr,
				    int (**modify)(struct ibv_qp *, struct ibv_qp_attr *, int));

/* The C library's names of read(2) and poll(2), which are hidden from this library: see
 * syscalls.c. */
ssize_t __read(int fd, void *buffer, size_t size);
int __poll(struct pollfd *watched, nfds_t count, int milliseconds);

/* A thread on its way through one of the functions. */
struct reader {
	struct record record;
	void *source;
	void (*keep)(void *source, const struct record *record);
};

/*
 * The thread is being cancelled. glibc before 2.41 does that also when read(2) has just taken a
 * record: then the next call is given it.
 */
static void cancelled(void *argument)
{
	struct reader *reader = argument;

	if (reader->record.words[0] != NOT_READ)
		reader->keep(reader->source, &reader->record);
}

/* 0, or -1 with errno set. */
static int read_record(struct reader *reader, int fd, size_t size)
{
	ssize_t got;

	memset(&reader->record, 0xff, sizeof(reader->record));
	pthread_cleanup_push(cancelled, reader);
	got = __read(fd, &reader->record, size);
	pthread_cleanup_pop(0);
	if (got == (ssize_t)size)
		return 0;
	if (got >= 0)
		errno = EIO;
	return -1;
}

static void keep_cq_event(void *channel, const struct record *record)
{
	ferroverbs_cq_event_keep(channel, record);
}

static void keep_async_event(void *context, const struct record *record)
{
	ferroverbs_async_event_keep(context, record);
}

/*
 * With PTHREAD_CANCEL_ASYNCHRONOUS a thread could be cancelled within Rust, at any instruction: it
 * is deferred for as long as the call lasts, which changes nothing while it waits.
 */
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

static int wait_for_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			     void **cq_context)
{
	struct reader reader = { .source = channel, .keep = keep_cq_event };
	int fd = ferroverbs_cq_event_begin(channel, cq, cq_context, &reader.record);

	if (fd == FAILED)
		return -1;
	if (fd != HAVE_RECORD && read_record(&reader, fd, sizeof(reader.record.words[0])))
		return -1;
	return ferroverbs_cq_event_end(&reader.record, cq, cq_context);
}

static int wait_for_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct reader reader = { .source = context, .keep = keep_async_event };
	int fd = ferroverbs_async_event_begin(context, event, &reader.record);

	if (fd == FAILED)
		return -1;
	if (fd != HAVE_RECORD && read_record(&reader, fd, sizeof(reader.record)))
		return -1;
	return ferroverbs_async_event_end(context, &reader.record, event);
}

int ferroverbs_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			    void **cq_context)
{
	int type = deferred();
	int answer = wait_for_cq_event(channel, cq, cq_context);

	restore(type);
	return answer;
}
SYMVER(ferroverbs_get_cq_event, ibv_get_cq_event, "@@", "IBVERBS_1.1");

int ferroverbs_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	int type = deferred();
	int answer = wait_for_async_event(context, event);

	restore(type);
	return answer;
}
SYMVER(ferroverbs_get_async_event, ibv_get_async_event, "@@", "IBVERBS_1.1");

/* Those of libibverbs 1.0: channels, contexts and queues are wrappers. */

int ferroverbs_get_cq_event_1_0(struct ibv_comp_channel *channel, struct ibv_cq_1_0 **cq,
				void **cq_context)
{
	struct ibv_cq *found;
	void *queue;
	int type, answer;

	if (!cq || !cq_context) {
		errno = EINVAL;
		return -1;
	}
	type = deferred();
	answer = wait_for_cq_event(ferroverbs_real_channel(channel), &found, &queue);
	if (!answer)
		answer = ferroverbs_old_cq_event(queue, cq, cq_context);
	restore(type);
	return answer;
}
SYMVER(ferroverbs_get_cq_event_1_0, ibv_get_cq_event, "@", "IBVERBS_1.0");

int ferroverbs_get_async_event_1_0(struct ibv_context_1_0 *context, struct ibv_async_event *event)
{
	struct ibv_context *real;
	int type = deferred();
	int answer = ferroverbs_real_context(context, &real);

	if (!answer)
		answer = wait_for_async_event(real, event);
	if (!answer)
		ferroverbs_old_async_event(event);
	restore(type);
	return answer;
}
SYMVER(ferroverbs_get_async_event_1_0, ibv_get_async_event, "@", "IBVERBS_1.0");

/* Result of a step: the call waits. */
enum { WAITS = INT_MAX };

/* How long a call waits at once where its descriptor may not be watched. */
enum { BLIND_MS = 10 };

/*
 * Until the next step of a call: its descriptor is readable, the time is over, or a signal came.
 * poll(2) watches no more descriptors than the process may have (RLIMIT_NOFILE), which may be none.
 */
static void wait_for_step(const struct waiting *waiting, void (*abandon)(void *rest))
{
	struct pollfd watched = { .fd = waiting->descriptor, .events = POLLIN };
	int longest = waiting->milliseconds;

	pthread_cleanup_push(abandon, waiting->rest);
	if (__poll(&watched, 1, longest) < 0 && errno == EINVAL)
		__poll(NULL, 0, longest < BLIND_MS ? longest : BLIND_MS);
	pthread_cleanup_pop(0);
}

struct ibv_context *ferroverbs_open_device(struct ibv_device *device, void *private_data)
{
	struct waiting waiting = { .rest = NULL };
	struct ibv_context *context;
	int type = deferred();

	while (ferroverbs_open_step(device, private_data, &waiting, &context) == WAITS)
		wait_for_step(&waiting, ferroverbs_open_abandon);
	restore(type);
	return context;
}
PRIVATE(ferroverbs_open_device, verbs_open_device);

/* No provider expects private data from this call. */
struct ibv_context *ferroverbs_open_any_device(struct ibv_device *device)
{
	return ferroverbs_open_device(device, NULL);
}
SYMVER(ferroverbs_open_any_device, ibv_open_device, "@@", "IBVERBS_1.1");

int ferroverbs_resolve(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t *eth_mac,
		       uint16_t *vid)
{
	struct waiting waiting = { .rest = NULL };
	int type = deferred(), answer;

	while ((answer = ferroverbs_resolve_step(context, attr, eth_mac, vid, &waiting)) == WAITS)
		wait_for_step(&waiting, ferroverbs_resolve_abandon);
	restore(type);
	return answer;
}
SYMVER(ferroverbs_resolve, ibv_resolve_eth_l2_from_gid, "@@", "IBVERBS_1.1");

/* Calls in which providers in C call ibv_resolve_eth_l2_from_gid. */

struct ibv_ah *ferroverbs_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *(*create)(struct ibv_pd *, struct ibv_ah_attr *), *ah = NULL;
	int type = deferred();

	if (!ferroverbs_create_ah_begin(pd, attr, &create)) {
		ah = create(pd, attr);
		ferroverbs_create_ah_end(pd, ah);
	}
	restore(type);
	return ah;
}
SYMVER(ferroverbs_create_ah, ibv_create_ah, "@@", "IBVERBS_1.1");

struct ibv_ah *ferroverbs_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
					    struct ibv_grh *grh, uint8_t port_num)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *ah = NULL;
	int type = deferred();

	if (!ferroverbs_create_ah_from_wc_begin(pd, wc, grh, port_num, &attr))
		ah = ferroverbs_create_ah(pd, &attr);
	restore(type);
	return ah;
}
SYMVER(ferroverbs_create_ah_from_wc, ibv_create_ah_from_wc, "@@", "IBVERBS_1.1");

int ferroverbs_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int type = deferred();
	int answer = ferroverbs_modify_qp_begin(qp, attr, &modify);

	if (!answer) {
		answer = modify(qp, attr, attr_mask);
		/* The state that applications read in the object. */
		if (!answer && attr_mask & IBV_QP_STATE)
			qp->state = attr->qp_state;
	}
	restore(type);
	return answer;
}
SYMVER(ferroverbs_modify_qp, ibv_modify_qp, "@@", "IBVERBS_1.1");

/*
 * Destruction waits until every event is acknowledged that the program got of the object. A
 * provider in C waits within ibv_cmd_destroy_*. One in Rust answers UNACKED, and is called again.
 */
enum { UNACKED = INT_MAX };

/* Of an object: the number of its acknowledged events, and the mutex and condition for it. */
struct acked {
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	const uint32_t *counts[2];
};

/* The members of cq, qp, srq or wq have the same names. */
#define ACKED(object) \
	{ &(object)->mutex, &(object)->cond, \
	  { &(object)->events_completed, &(object)->events_completed } }
#define ACKED_CQ(cq) \
	{ &(cq)->mutex, &(cq)->cond, \
	  { &(cq)->comp_events_completed, &(cq)->async_events_completed } }

static bool equal(const struct acked *acked, const uint32_t *counts)
{
	return *acked->counts[0] == counts[0] && *acked->counts[1] == counts[1];
}

static void unlock(void *mutex)
{
	pthread_mutex_unlock(mutex);
}

/* For as long as the counts are these, or until they are. */
static void wait_while(const struct acked *acked, const uint32_t *counts, bool these)
{
	pthread_mutex_lock(acked->mutex);
	pthread_cleanup_push(unlock, acked->mutex);
	while (equal(acked, counts) == these)
		pthread_cond_wait(acked->cond, acked->mutex);
	pthread_cleanup_pop(1);
}

/*
 * `kind_when_acked` calls the verb that answered UNACKED until it answers otherwise. `first` and
 * `second` are counts from before the first call, read without the mutex: a count that is too old
 * by now only makes `wait_while` return at once. A thread that is cancelled in the wait leaves an
 * object that can be destroyed as if this call had not been.
 */
#define WHEN_ACKED(kind, acked_of) \
	__attribute__((cold, noinline)) static int kind##_when_acked( \
		struct ibv_##kind *object, int (*destroy)(struct ibv_##kind *), uint32_t first, \
		uint32_t second) \
	{ \
		struct acked acked = acked_of(object); \
		uint32_t seen[2] = { first, second }; \
		int answer; \
		do { \
			wait_while(&acked, seen, true); \
			seen[0] = READ(*acked.counts[0]); \
			seen[1] = READ(*acked.counts[1]); \
			answer = destroy(object); \
		} while (answer == UNACKED); \
		return answer; \
	}

#define READ(count) __atomic_load_n(&(count), __ATOMIC_ACQUIRE)

WHEN_ACKED(cq, ACKED_CQ)
WHEN_ACKED(qp, ACKED)
WHEN_ACKED(srq, ACKED)

/*
 * All of a verb is done before the thread can be cancelled again, at once with
 * PTHREAD_CANCEL_ASYNCHRONOUS: a channel counts its queues.
 */
int ferroverbs_destroy_cq(struct ibv_cq *cq)
{
	int (*destroy)(struct ibv_cq *);
	int type = deferred();
	int answer = ferroverbs_destroy_cq_begin(cq, &destroy);

	if (!answer) {
		struct ibv_comp_channel *channel = cq->channel;
		uint32_t completions = READ(cq->comp_events_completed);
		uint32_t asynchronous = READ(cq->async_events_completed);

		answer = destroy(cq);
		if (answer == UNACKED)
			answer = cq_when_acked(cq, destroy, completions, asynchronous);
		if (!answer)
			ferroverbs_destroy_cq_end(cq, channel);
	}
	restore(type);
	return answer;
}
SYMVER(ferroverbs_destroy_cq, ibv_destroy_cq, "@@", "IBVERBS_1.1");

#define DESTROY(kind) \
	int ferroverbs_destroy_##kind(struct ibv_##kind *object) \
	{ \
		int (*destroy)(struct ibv_##kind *); \
		int type = deferred(); \
		int answer = ferroverbs_destroy_##kind##_begin(object, &destroy); \
		if (!answer) { \
			uint32_t events = READ(object->events_completed); \
			answer = destroy(object); \
			if (answer == UNACKED) \
				answer = kind##_when_acked(object, destroy, events, events); \
			if (!answer) \
				ferroverbs_forget(object); \
		} \
		restore(type); \
		return answer; \
	} \
	SYMVER(ferroverbs_destroy_##kind, ibv_destroy_##kind, "@@", "IBVERBS_1.1")

DESTROY(qp);
DESTROY(srq);

/* Functions for providers in C. A cancelled thread leaves the provider's object in its current
 * state. */

/*
 * `destroyed` is the result of the first half; `reported` has the number of reported events.
 * Without one no thread acknowledges any. With one, a thread may still hold the mutex after it has
 * acknowledged the last.
 */
static bool waits(int destroyed, const uint32_t *reported)
{
	return !destroyed && (reported[0] || reported[1]);
}

__attribute__((cold, noinline)) static void wait_for_all(const struct acked *acked,
							 const uint32_t *reported)
{
	wait_while(acked, reported, false);
}

/* The parts in Rust are not to be cancelled either, before the wait and after it. */
int ferroverbs_cmd_destroy_cq(struct ibv_cq *cq)
{
	uint32_t reported[2] = { 0, 0 };
	int type = deferred();
	int destroyed = ferroverbs_cmd_destroy_cq_begin(cq, reported);

	if (waits(destroyed, reported)) {
		struct acked acked = ACKED_CQ(cq);

		wait_for_all(&acked, reported);
	}
	restore(type);
	return destroyed > 0 ? destroyed : 0;
}
PRIVATE(ferroverbs_cmd_destroy_cq, ibv_cmd_destroy_cq);

/* Queues that have asynchronous events alone. `end` is called after a success. */
#define CMD_DESTROY(kind, end) \
	int ferroverbs_cmd_destroy_##kind(struct ibv_##kind *object) \
	{ \
		uint32_t reported[2] = { 0, 0 }; \
		int type = deferred(); \
		int destroyed = ferroverbs_cmd_destroy_##kind##_begin(object, reported); \
		reported[1] = reported[0]; \
		if (waits(destroyed, reported)) { \
			struct acked acked = ACKED(object); \
			wait_for_all(&acked, reported); \
		} \
		if (destroyed <= 0) \
			end(object); \
		restore(type); \
		return destroyed > 0 ? destroyed : 0; \
	} \
	PRIVATE(ferroverbs_cmd_destroy_##kind, ibv_cmd_destroy_##kind)

/* ibv_destroy_qp(3) and ibv_destroy_srq(3) do the rest; ibv_destroy_wq(3) is inline. */
static inline void nothing(const void *object)
{
	(void)object;
}

CMD_DESTROY(qp, nothing);
CMD_DESTROY(srq, nothing);
CMD_DESTROY(wq, ferroverbs_forget);
