/*
 * Threads that are cancelled in the calls that wait, over a device in user space, with and without
 * diagnostics. Also behaviour that rdma-core's library lacks: a thread that is cancelled at the
 * moment when it receives an event leaves it to the next thread; a thread that is cancelled while
 * it destroys an object leaves it destroyable; and no other call can be cancelled in its middle.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "cancel.h"
#include "network.h"

#include <dlfcn.h>
#include <rdma/ib_user_verbs.h>
#include <sys/ioctl.h>

static int destroy_cq(struct scene *scene)
{
	return ibv_destroy_cq(scene->cq);
}

/* An event of it was got and not acknowledged. */
static void in_destruction(struct scene *scene)
{
	struct waiter waiter = { .scene = scene, .call = destroy_cq };
	struct ibv_cq *cq, *rest = scene->cq;
	void *own;
	int round;

	fire(scene);
	MUST(ibv_get_cq_event(scene->channel, &cq, &own));
	RC(ibv_destroy_cq(cq)); /* in use: this does not wait */
	MUST(ibv_destroy_qp(scene->qp));
	for (round = 0; round < 2; round++) {
		waiter = (struct waiter){ .scene = scene, .call = destroy_cq };
		start(&waiter);
		let_it_wait();
		cancel(&waiter);
		join(&waiter, "ibv_destroy_cq");
	}
	ibv_ack_cq_events(rest, 1);
	RC(ibv_destroy_cq(rest));
	RC(ibv_destroy_comp_channel(scene->channel));
	RC(ibv_dealloc_pd(scene->pd));
}

/*
 * A thread that can be cancelled at any instruction is cancelled during a call that does not wait:
 * it ends once it can be cancelled again, and all of the call is done by then.
 */
static atomic_bool cancels_itself;

int pthread_setcanceltype(int type, int *before)
{
	static int (*next)(int, int *);

	if (!next)
		next = (int (*)(int, int *))dlsym(RTLD_NEXT, "pthread_setcanceltype");
	if (type == PTHREAD_CANCEL_ASYNCHRONOUS && atomic_exchange(&cancels_itself, false))
		MUST(pthread_cancel(pthread_self()));
	return next(type, before);
}

static int destroy_both(struct scene *scene)
{
	RC(ibv_destroy_qp(scene->qp));
	atomic_store(&cancels_itself, true);
	return ibv_destroy_cq(scene->cq);
}

static void after_destruction(struct scene *scene)
{
	struct waiter waiter = {
		.scene = scene, .call = destroy_both, .type = PTHREAD_CANCEL_ASYNCHRONOUS,
	};

	start(&waiter);
	join(&waiter, "cancelled at the end of ibv_destroy_cq");
	MUST(ibv_destroy_comp_channel(scene->channel));
	RC(ibv_dealloc_pd(scene->pd));
}

/* Waits for the acknowledgement, as without a cancellation. */
static void acknowledged(struct scene *scene)
{
	struct waiter waiter = { .scene = scene, .call = destroy_cq };
	struct ibv_cq *cq;
	void *own;

	fire(scene);
	MUST(ibv_get_cq_event(scene->channel, &cq, &own));
	MUST(ibv_destroy_qp(scene->qp));
	start(&waiter);
	let_it_wait();
	ibv_ack_cq_events(cq, 1);
	MUST(pthread_join(waiter.thread, NULL));
	expect(waiter.returned && !waiter.answer);
	RC(ibv_destroy_comp_channel(scene->channel));
	RC(ibv_dealloc_pd(scene->pd));
}

/*
 * Events arrive at the moment of the cancellation, from a pipe that replaces the context's
 * descriptor. Either the thread or the next caller receives the event.
 */
enum { RACES = 3000 };

static void races(struct scene *scene)
{
	struct ib_uverbs_async_event_desc record = {
		.element = 1, .event_type = IBV_EVENT_PORT_ACTIVE,
	};
	int own = scene->context->async_fd, ends[2], i;

	MUST(pipe(ends));
	MUST(fcntl(ends[1], F_SETFL, O_NONBLOCK));
	for (i = 0; i < RACES; i++) {
		struct waiter waiter = { .scene = scene, .call = get_async_event };
		void *end;
		int left;

		MUST(fcntl(ends[0], F_SETFL, 0));
		scene->context->async_fd = ends[0];
		start(&waiter);
		if (i % 2)
			usleep(i % 50);
		expect(write(ends[1], &record, sizeof(record)) == sizeof(record));
		MUST(pthread_cancel(waiter.thread));
		MUST(pthread_join(waiter.thread, &end));
		MUST(fcntl(ends[0], F_SETFL, O_NONBLOCK));
		left = get_async_event(scene);
		scene->context->async_fd = own;
		expect(waiter.returned == (left != 0));
	}
	close(ends[0]);
	close(ends[1]);
}

/* Cancelled before calls that are not cancellation points: each completes normally. */
static int all_others(struct scene *scene)
{
	struct ibv_device **list = MUST_PTR(ibv_get_device_list(NULL));
	struct ibv_context *context = MUST_PTR(ibv_open_device(list[0]));
	struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(context));
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	static char memory[4096];
	struct ibv_mr *mr = MUST_PTR(ibv_reg_mr(pd, memory, sizeof(memory), ALL_ACCESS));
	struct ibv_ah_attr address = own_address(context);
	struct ibv_ah *ah = MUST_PTR(ibv_create_ah(pd, &address));
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	MUST(ibv_query_device(context, &attr));
	MUST(ibv_query_port(context, 1, &port));
	fire(scene);
	MUST(ibv_modify_qp(scene->qp, &reset, IBV_QP_STATE));
	MUST(ibv_destroy_ah(ah));
	MUST(ibv_dereg_mr(mr));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_destroy_comp_channel(channel));
	MUST(ibv_close_device(context));
	ibv_free_device_list(list);
	return 0;
}

static void in_no_other_call(struct scene *scene)
{
	struct waiter waiter = { .scene = scene, .call = all_others, .late = true };

	start(&waiter);
	cancel(&waiter);
	join(&waiter, "cancelled before all other calls");
	RC(get_cq_event(scene));
}

static void everything(void)
{
	struct ibv_context *context = open_rxe();
	struct scene scene;

	make_scene(&scene, context);
	cancel_everywhere(&scene);
	in_no_other_call(&scene);
	races(&scene);
	in_destruction(&scene);
	make_scene(&scene, context);
	acknowledged(&scene);
	make_scene(&scene, context);
	after_destruction(&scene);
	RC(ibv_close_device(context));
}

static void observed(const char *variable, const char *value)
{
	setenv(variable, value, 1);
	in_child(variable, everything);
	unsetenv(variable);
}

int main(void)
{
	if (!own_device())
		return done();
	in_child("plain", everything);
	setenv("UROCE_CARRIER", "udp", 1);
	in_child("by UDP", everything);
	unsetenv("UROCE_CARRIER");
	observed("IBVERBS_EXPLAIN", "/dev/null");
	observed("IBVERBS_VALIDATE", "/dev/null");
	observed("IBVERBS_TRACE", "/dev/null");
	return done();
}
