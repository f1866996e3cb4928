/*
 * Asynchronous events that rxe raises: overrun of a CQ, a drained send queue, the limit of an SRQ,
 * changes of the port and its GIDs. Destruction waits for unacknowledged events.
 */
#include "rdma.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

static struct ibv_context *context;
static struct ibv_pd *pd;

static bool of_port(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		return true;
	default:
		return false;
	}
}

/* Events of the port come when the network likes; others wait for themselves. */
static struct ibv_async_event wait_object_event(void)
{
	struct ibv_async_event event;

	for (;;) {
		MUST(ibv_get_async_event(context, &event));
		if (!of_port(&event))
			return event;
		ibv_ack_async_event(&event);
	}
}

static void wait_port_event(enum ibv_event_type type)
{
	struct ibv_async_event event;

	do {
		MUST(ibv_get_async_event(context, &event));
		expect(of_port(&event) && event.element.port_num == 1);
		ibv_ack_async_event(&event);
	} while (event.event_type != type);
	out("port event: %s", ibv_event_type_str(type));
}

static struct ibv_srq *make_srq(void)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = &context,
		.attr = { .max_wr = 16, .max_sge = 1 },
	};

	return MUST_PTR(ibv_create_srq(pd, &attr));
}

static struct ibv_qp *make_srq_qp(struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = init_attr(cq, IBV_QPT_RC);

	attr.srq = srq;
	return MUST_PTR(ibv_create_qp(pd, &attr));
}

/* A CQ with one place, and a queue pair that can complete on it. */
struct narrow {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* Two flushed requests are one too many: the CQ reports an error, once. */
static void overrun(struct narrow *narrow)
{
	struct ibv_qp_attr attr = attr_init();
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_qp_init_attr init;

	narrow->cq = MUST_PTR(ibv_create_cq(context, 1, &context, NULL, 0));
	init = init_attr(narrow->cq, IBV_QPT_RC);
	narrow->qp = MUST_PTR(ibv_create_qp(pd, &init));
	MUST(ibv_modify_qp(narrow->qp, &attr, RC_INIT_MASK));
	MUST(ibv_post_recv(narrow->qp, &wr, &bad));
	MUST(ibv_post_recv(narrow->qp, &wr, &bad));
	to_error(narrow->qp);
}

static void free_narrow(struct narrow *narrow)
{
	MUST(ibv_destroy_qp(narrow->qp));
	MUST(ibv_destroy_cq(narrow->cq));
}

static void cq_error(void)
{
	struct ibv_async_event event;
	struct narrow narrow;

	overrun(&narrow);
	event = wait_object_event();
	out("event: %s", ibv_event_type_str(event.event_type));
	out("of the CQ: %d, its context %d", event.element.cq == narrow.cq,
	    event.element.cq->cq_context == &context);
	ibv_ack_async_event(&event);
	free_narrow(&narrow);
}

/*
 * A send queue that is drained with one send under way: the peer has no
 * request posted until the state has changed.
 */
static struct ibv_async_event drained(struct ibv_qp *qp[2], struct ibv_cq *cq)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr recv = { .wr_id = 5 }, *bad_recv;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	int i;

	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = init_attr(cq, IBV_QPT_RC);

		init.qp_context = &pd;
		qp[i] = MUST_PTR(ibv_create_qp(pd, &init));
	}
	for (i = 0; i < 2; i++)
		connect_qp(qp[i], qp[!i]->qp_num);
	MUST(ibv_post_send(qp[0], &send, &bad_send));
	usleep(50000);
	MUST(ibv_modify_qp(qp[0], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	MUST(ibv_post_recv(qp[1], &recv, &bad_recv));
	return wait_object_event();
}

static void send_queue_drained(void)
{
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_async_event event;
	struct ibv_qp *qp[2];

	event = drained(qp, cq);
	out("event: %s", ibv_event_type_str(event.event_type));
	out("of the queue pair: %d, its context %d", event.element.qp == qp[0],
	    event.element.qp->qp_context == &pd);
	ibv_ack_async_event(&event);
	MUST(ibv_destroy_qp(qp[0]));
	MUST(ibv_destroy_qp(qp[1]));
	MUST(ibv_destroy_cq(cq));
}

static atomic_int destroyed;

static void *destroy_qp(void *qp)
{
	int ret = ibv_destroy_qp(qp);

	atomic_store(&destroyed, 1);
	expect(!ret);
	return NULL;
}

static void *destroy_cq(void *cq)
{
	int ret = ibv_destroy_cq(cq);

	atomic_store(&destroyed, 1);
	expect(!ret);
	return NULL;
}

/* A call that destroys an object waits until its event is acknowledged. */
static void waits(const char *what, void *(*destroy)(void *), void *object,
		  struct ibv_async_event *event)
{
	pthread_t thread;

	atomic_store(&destroyed, 0);
	expect(!pthread_create(&thread, NULL, destroy, object));
	usleep(100000);
	out("%s destroyed before the acknowledgement: %d", what, atomic_load(&destroyed));
	ibv_ack_async_event(event);
	expect(!pthread_join(thread, NULL));
	out("%s destroyed after it: %d", what, atomic_load(&destroyed));
}

static void destroy_waits(void)
{
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_async_event event;
	struct narrow narrow;
	struct ibv_qp *qp[2];

	event = drained(qp, cq);
	waits("queue pair", destroy_qp, qp[0], &event);
	MUST(ibv_destroy_qp(qp[1]));
	MUST(ibv_destroy_cq(cq));
	overrun(&narrow);
	event = wait_object_event();
	MUST(ibv_destroy_qp(narrow.qp));
	waits("CQ", destroy_cq, narrow.cq, &event);
}

static void *destroy_srq(void *srq)
{
	int ret = ibv_destroy_srq(srq);

	atomic_store(&destroyed, 1);
	expect(!ret);
	return NULL;
}

static void srq_limit(void)
{
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_srq *srq = make_srq();
	struct ibv_qp *qp[2] = { make_srq_qp(cq, srq), make_srq_qp(cq, srq) };
	struct ibv_recv_wr recv = { .wr_id = 5 }, *bad_recv;
	struct ibv_send_wr send = {
		.wr_id = 6,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad_send;
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	struct ibv_async_event event;
	int i;

	for (i = 0; i < 2; i++)
		connect_qp(qp[i], qp[!i]->qp_num);
	for (i = 0; i < 4; i++)
		MUST(ibv_post_srq_recv(srq, &recv, &bad_recv));
	RC(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	MUST(ibv_query_srq(srq, &attr));
	out("limit %u", attr.srq_limit);
	for (i = 0; i < 2; i++) {
		MUST(ibv_post_send(qp[0], &send, &bad_send));
		expect(wait_wc(cq).status == IBV_WC_SUCCESS);
		expect(wait_wc(cq).status == IBV_WC_SUCCESS);
	}
	event = wait_object_event();
	out("event: %s", ibv_event_type_str(event.event_type));
	out("of the SRQ: %d, its context %d", event.element.srq == srq,
	    event.element.srq->srq_context == &context);
	MUST(ibv_query_srq(srq, &attr));
	out("limit after the event %u", attr.srq_limit);
	MUST(ibv_destroy_qp(qp[0]));
	MUST(ibv_destroy_qp(qp[1]));
	waits("SRQ", destroy_srq, srq, &event);
	MUST(ibv_destroy_cq(cq));
}

static void without_blocking(void)
{
	struct pollfd pollfd = { .fd = context->async_fd, .events = POLLIN };
	int flags = fcntl(context->async_fd, F_GETFL);
	struct ibv_async_event event;

	expect(!fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK));
	while (poll(&pollfd, 1, 0) == 1) {
		MUST(ibv_get_async_event(context, &event));
		expect(of_port(&event));
		ibv_ack_async_event(&event);
	}
	RC(ibv_get_async_event(context, &event));
	expect(!fcntl(context->async_fd, F_SETFL, flags));
}

static void on_signal(int number) { (void)number; }

static void interrupted(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct itimerval timer = { .it_value = { .tv_usec = 20000 },
				   .it_interval = { .tv_usec = 20000 } };
	struct itimerval off = { 0 };
	struct ibv_async_event event;

	expect(!sigaction(SIGALRM, &action, NULL) && !setitimer(ITIMER_REAL, &timer, NULL));
	RC(ibv_get_async_event(context, &event));
	expect(!setitimer(ITIMER_REAL, &off, NULL));
}

static void *wait_one(void *argument)
{
	struct ibv_async_event event = wait_object_event();

	(void)argument;
	ibv_ack_async_event(&event);
	return event.element.cq;
}

/* Two threads wait, two CQs overrun: each event goes to one thread. */
static void two_threads(void)
{
	struct narrow narrow[2];
	pthread_t threads[2];
	void *got[2];
	int i;

	for (i = 0; i < 2; i++)
		expect(!pthread_create(&threads[i], NULL, wait_one, NULL));
	for (i = 0; i < 2; i++)
		overrun(&narrow[i]);
	for (i = 0; i < 2; i++)
		expect(!pthread_join(threads[i], &got[i]));
	out("each event once: %d", (got[0] == narrow[0].cq && got[1] == narrow[1].cq) ||
					   (got[0] == narrow[1].cq && got[1] == narrow[0].cq));
	for (i = 0; i < 2; i++)
		free_narrow(&narrow[i]);
}

static void port_events(void)
{
	expect(!system("ip addr add 10.9.0.77/24 dev v0"));
	wait_port_event(IBV_EVENT_GID_CHANGE);
	expect(!system("ip addr del 10.9.0.77/24 dev v0"));
	wait_port_event(IBV_EVENT_GID_CHANGE);
	/* The other end of the cable. */
	expect(!system("ip link set v1 down"));
	wait_port_event(IBV_EVENT_PORT_ERR);
	expect(!system("ip link set v1 up"));
	wait_port_event(IBV_EVENT_PORT_ACTIVE);
}

/* Events that need no object: acknowledging them touches nothing. */
static void acknowledge_any(void)
{
	static const int types[] = { IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ERR,
				     IBV_EVENT_GID_CHANGE, 99, -1 };
	struct ibv_async_event event = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(types); i++) {
		event.event_type = (enum ibv_event_type)types[i];
		ibv_ack_async_event(&event);
	}
	out("acknowledged");
}

int main(void)
{
	context = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(context));
	cq_error();
	send_queue_drained();
	destroy_waits();
	srq_limit();
	interrupted();
	two_threads();
	port_events();
	without_blocking();
	acknowledge_any();
	RC(ibv_dealloc_pd(pd));
	RC(ibv_close_device(context));
	return done();
}
