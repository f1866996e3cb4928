/*
 * Threads that are cancelled in the calls of libibverbs that wait (pthread_cancel(3)).
 */
#ifndef CANCEL_H
#define CANCEL_H

#include "rdma.h"
#include "waiter.h"

#include <fcntl.h>

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
