/*
 * The exported functions in which a thread may wait without bound. They are cancellation points, as
 * read(2) is (pthreads(7)). A cancelled thread is unwound from its wait, and Rust does not define
 * such an unwinding through its frames. Therefore these functions wait in C, with only C frames
 * below the program's; the Rust functions called before and after the wait do not wait.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
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

/* The C library's name for read(2), which is hidden from this library: see syscalls.c. */
ssize_t __read(int fd, void *buffer, size_t size);

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

static void read_counts(const struct acked *acked, uint32_t *counts)
{
	pthread_mutex_lock(acked->mutex);
	counts[0] = *acked->counts[0];
	counts[1] = *acked->counts[1];
	pthread_mutex_unlock(acked->mutex);
}

/*
 * Calls the verb until it does not answer UNACKED. A thread that is cancelled in the wait leaves an
 * object that can be destroyed as if this call had not been.
 */
#define DESTROY(acked, destroy, object) \
	({ \
		uint32_t seen[2]; \
		int type = deferred(), answer; \
		for (;;) { \
			read_counts(acked, seen); \
			answer = destroy(object); \
			if (answer != UNACKED) \
				break; \
			wait_while(acked, seen, true); \
		} \
		restore(type); \
		answer; \
	})

int ferroverbs_destroy_cq(struct ibv_cq *cq)
{
	int (*destroy)(struct ibv_cq *);
	int answer = ferroverbs_destroy_cq_begin(cq, &destroy);

	if (!answer) {
		struct acked acked = ACKED_CQ(cq);
		struct ibv_comp_channel *channel = cq->channel;

		answer = DESTROY(&acked, destroy, cq);
		if (!answer)
			ferroverbs_destroy_cq_end(cq, channel);
	}
	return answer;
}
SYMVER(ferroverbs_destroy_cq, ibv_destroy_cq, "@@", "IBVERBS_1.1");

int ferroverbs_destroy_qp(struct ibv_qp *qp)
{
	int (*destroy)(struct ibv_qp *);
	int answer = ferroverbs_destroy_qp_begin(qp, &destroy);

	if (!answer) {
		struct acked acked = ACKED(qp);

		answer = DESTROY(&acked, destroy, qp);
		if (!answer)
			ferroverbs_forget(qp);
	}
	return answer;
}
SYMVER(ferroverbs_destroy_qp, ibv_destroy_qp, "@@", "IBVERBS_1.1");

int ferroverbs_destroy_srq(struct ibv_srq *srq)
{
	int (*destroy)(struct ibv_srq *);
	int answer = ferroverbs_destroy_srq_begin(srq, &destroy);

	if (!answer) {
		struct acked acked = ACKED(srq);

		answer = DESTROY(&acked, destroy, srq);
		if (!answer)
			ferroverbs_forget(srq);
	}
	return answer;
}
SYMVER(ferroverbs_destroy_srq, ibv_destroy_srq, "@@", "IBVERBS_1.1");

/* Functions for providers in C. A cancelled thread leaves the provider's object in its current
 * state. */

/* `destroyed` is the result of the first half. */
static int wait_for_all(int destroyed, const struct acked *acked, const uint32_t *reported)
{
	int type;

	if (destroyed)
		return destroyed > 0 ? destroyed : 0;
	type = deferred();
	wait_while(acked, reported, false);
	restore(type);
	return 0;
}

int ferroverbs_cmd_destroy_cq(struct ibv_cq *cq)
{
	uint32_t reported[2] = { 0, 0 };
	int destroyed = ferroverbs_cmd_destroy_cq_begin(cq, reported);
	struct acked acked = ACKED_CQ(cq);

	return wait_for_all(destroyed, &acked, reported);
}
PRIVATE(ferroverbs_cmd_destroy_cq, ibv_cmd_destroy_cq);

int ferroverbs_cmd_destroy_qp(struct ibv_qp *qp)
{
	uint32_t reported[2] = { 0, 0 };
	int destroyed = ferroverbs_cmd_destroy_qp_begin(qp, reported);
	struct acked acked = ACKED(qp);

	reported[1] = reported[0];
	return wait_for_all(destroyed, &acked, reported);
}
PRIVATE(ferroverbs_cmd_destroy_qp, ibv_cmd_destroy_qp);

int ferroverbs_cmd_destroy_srq(struct ibv_srq *srq)
{
	uint32_t reported[2] = { 0, 0 };
	int destroyed = ferroverbs_cmd_destroy_srq_begin(srq, reported);
	struct acked acked = ACKED(srq);

	reported[1] = reported[0];
	return wait_for_all(destroyed, &acked, reported);
}
PRIVATE(ferroverbs_cmd_destroy_srq, ibv_cmd_destroy_srq);

int ferroverbs_cmd_destroy_wq(struct ibv_wq *wq)
{
	uint32_t reported[2] = { 0, 0 };
	int destroyed = ferroverbs_cmd_destroy_wq_begin(wq, reported);
	struct acked acked = ACKED(wq);
	int answer;

	reported[1] = reported[0];
	answer = wait_for_all(destroyed, &acked, reported);
	if (!answer)
		ferroverbs_forget(wq);
	return answer;
}
PRIVATE(ferroverbs_cmd_destroy_wq, ibv_cmd_destroy_wq);
