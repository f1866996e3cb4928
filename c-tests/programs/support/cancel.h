/*
 * Threads that are cancelled in the calls of libibverbs that wait (pthread_cancel(3)).
 */
#ifndef CANCEL_H
#define CANCEL_H

#include "rdma.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

struct scene {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static inline void make_scene(struct scene *scene, struct ibv_context *context)
{
	struct ibv_qp_init_attr attr;

	scene->context = context;
	scene->pd = MUST_PTR(ibv_alloc_pd(context));
	scene->channel = MUST_PTR(ibv_create_comp_channel(context));
	scene->cq = MUST_PTR(ibv_create_cq(context, 16, scene, scene->channel, 0));
	attr = init_attr(scene->cq, IBV_QPT_RC);
	scene->qp = MUST_PTR(ibv_create_qp(scene->pd, &attr));
}

static inline void free_scene(struct scene *scene)
{
	RC(ibv_destroy_qp(scene->qp));
	RC(ibv_destroy_cq(scene->cq));
	RC(ibv_destroy_comp_channel(scene->channel));
	RC(ibv_dealloc_pd(scene->pd));
}

/* Makes an event: a receive request is flushed. */
static inline void fire(struct scene *scene)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_wc wc;

	while (ibv_poll_cq(scene->cq, 1, &wc) > 0)
		;
	MUST(ibv_req_notify_cq(scene->cq, 0));
	MUST(ibv_modify_qp(scene->qp, &attr, IBV_QP_STATE));
	attr = attr_init();
	MUST(ibv_modify_qp(scene->qp, &attr, RC_INIT_MASK));
	MUST(ibv_post_recv(scene->qp, &wr, &bad));
	attr.qp_state = IBV_QPS_ERR;
	MUST(ibv_modify_qp(scene->qp, &attr, IBV_QP_STATE));
}

/* A thread in a call. */
struct waiter {
	struct scene *scene;
	int (*call)(struct scene *scene);
	int state; /* PTHREAD_CANCEL_ENABLE or _DISABLE */
	int type;
	bool late; /* calls only after it was cancelled */
	pthread_t thread;
	atomic_bool ready, cancelled;
	atomic_int cleaned;
	int answer;
	bool returned;
};

static inline void clean(void *waiter)
{
	atomic_fetch_add(&((struct waiter *)waiter)->cleaned, 1);
}

static inline void *wait_in_call(void *argument)
{
	struct waiter *waiter = argument;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_setcanceltype(waiter->type, NULL);
	atomic_store(&waiter->ready, true);
	while (waiter->late && !atomic_load(&waiter->cancelled))
		sched_yield();
	pthread_cleanup_push(clean, waiter);
	/* An asynchronous one that was cancelled already ends here. */
	pthread_setcancelstate(waiter->state, NULL);
	waiter->answer = waiter->call(waiter->scene);
	waiter->returned = true;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return NULL;
}

static inline void start(struct waiter *waiter)
{
	MUST(pthread_create(&waiter->thread, NULL, wait_in_call, waiter));
	while (!atomic_load(&waiter->ready))
		sched_yield();
}

/* Long enough that it mostly waits in the call; if not, it is cancelled at the call's beginning. */
static inline void let_it_wait(void)
{
	usleep(20000);
}

static inline void cancel(struct waiter *waiter)
{
	MUST(pthread_cancel(waiter->thread));
	atomic_store(&waiter->cancelled, true);
}

static inline void join(struct waiter *waiter, const char *title)
{
	void *end;

	MUST(pthread_join(waiter->thread, &end));
	out("%s: %s, %d handlers ran, the call %s", title,
	    end == PTHREAD_CANCELED ? "cancelled" : "not cancelled", waiter->cleaned,
	    waiter->returned ? "returned" : "did not return");
}

static inline int get_cq_event(struct scene *scene)
{
	struct ibv_cq *cq;
	void *own;
	int answer = ibv_get_cq_event(scene->channel, &cq, &own);

	if (!answer) {
		expect(cq == scene->cq && own == scene);
		ibv_ack_cq_events(cq, 1);
	}
	return answer;
}

static inline int get_async_event(struct scene *scene)
{
	struct ibv_async_event event;
	int answer = ibv_get_async_event(scene->context, &event);

	if (!answer)
		ibv_ack_async_event(&event);
	return answer;
}

static inline void cancelled_in(struct scene *scene, int (*call)(struct scene *), int type,
				const char *title)
{
	struct waiter waiter = { .scene = scene, .call = call, .type = type };

	start(&waiter);
	let_it_wait();
	cancel(&waiter);
	join(&waiter, title);
}

/* It gets its event, and ends where it can be cancelled again. */
static inline void disabled(struct scene *scene)
{
	struct waiter waiter = {
		.scene = scene, .call = get_cq_event, .state = PTHREAD_CANCEL_DISABLE,
	};

	start(&waiter);
	cancel(&waiter);
	let_it_wait();
	fire(scene);
	join(&waiter, "disabled");
}

/* The event that is there already is left to the next. */
static inline void before_the_call(struct scene *scene)
{
	struct waiter waiter = { .scene = scene, .call = get_cq_event, .late = true };

	start(&waiter);
	fire(scene);
	cancel(&waiter);
	join(&waiter, "cancelled before the call, with an event");
	RC(get_cq_event(scene));
}

/* Of two in a call one is cancelled; the other gets the event. */
static inline void one_of_two(struct scene *scene)
{
	struct waiter first = { .scene = scene, .call = get_cq_event };
	struct waiter second = { .scene = scene, .call = get_cq_event };

	start(&first);
	start(&second);
	let_it_wait();
	cancel(&first);
	join(&first, "the first of two");
	fire(scene);
	join(&second, "the second of two");
	expect(second.returned && !second.answer);
}

/* Also those that do not wait. */
static inline void without_waiting(struct scene *scene)
{
	struct waiter waiter = { .scene = scene, .call = get_cq_event, .late = true };
	int flags = fcntl(scene->channel->fd, F_GETFL);

	MUST(fcntl(scene->channel->fd, F_SETFL, flags | O_NONBLOCK));
	start(&waiter);
	cancel(&waiter);
	join(&waiter, "cancelled before a call that does not wait");
	RC(get_cq_event(scene));
	MUST(fcntl(scene->channel->fd, F_SETFL, flags));
}

static inline void cancel_everywhere(struct scene *scene)
{
	int round;

	for (round = 0; round < 3; round++) {
		cancelled_in(scene, get_cq_event, PTHREAD_CANCEL_DEFERRED, "ibv_get_cq_event");
		cancelled_in(scene, get_async_event, PTHREAD_CANCEL_DEFERRED,
			     "ibv_get_async_event");
		cancelled_in(scene, get_cq_event, PTHREAD_CANCEL_ASYNCHRONOUS,
			     "ibv_get_cq_event, asynchronous");
		cancelled_in(scene, get_async_event, PTHREAD_CANCEL_ASYNCHRONOUS,
			     "ibv_get_async_event, asynchronous");
		disabled(scene);
		before_the_call(scene);
		one_of_two(scene);
		without_waiting(scene);
		fire(scene);
		RC(get_cq_event(scene));
	}
}

#endif
