/*
 * IBVERBS_EXPLAIN: asynchronous events that report a mistake or a failure, over every provider:
 * those that uroce reports by itself when the mistake is made, and all of them from a descriptor
 * into which this program writes the records of a kernel. Other events are not explained.
 */
#include "report.h"

#include <rdma/ib_user_verbs.h>

/*
 * An event about an object or a port, from a pipe that replaces the context's descriptor while it
 * is read: objects are made with the real one. It is not acknowledged: destroying an object waits
 * for as many acknowledgements as the device reported events, and the device did not report this
 * one.
 */
static void write_event(struct ibv_context *context, const int *ends, enum ibv_event_type kind,
			uint64_t about)
{
	struct ib_uverbs_async_event_desc record = { .element = about, .event_type = kind };
	struct ibv_async_event event;
	int own = context->async_fd;

	expect(write(ends[1], &record, sizeof(record)) == sizeof(record));
	context->async_fd = ends[0];
	MUST(ibv_get_async_event(context, &event));
	context->async_fd = own;
	expect(event.event_type == kind);
}

static void of_queue_pairs(struct two *t, const int *ends)
{
	uint64_t qp = (uintptr_t)t->qp[0];
	const char *device = ibv_get_device_name(t->context->device);
	char about[64];

	snprintf(about, sizeof(about), "libibverbs: QP %#x of %s reports event ", t->qp[0]->qp_num,
		 device);
	write_event(t->context, ends, IBV_EVENT_QP_FATAL, qp);
	report_has("a queue pair that failed", about, "event 1, local work queue catastrophic error",
		   "failed outside of any request and is in ERR", NULL);
	write_event(t->context, ends, IBV_EVENT_QP_REQ_ERR, qp);
	report_has("a request that must not be", about,
		   "event 2, invalid request local work queue error",
		   "an operation that qp_access_flags do not allow", NULL);
	write_event(t->context, ends, IBV_EVENT_QP_ACCESS_ERR, qp);
	report_has("a use of memory that must not be", about,
		   "event 3, local access violation work queue error",
		   "The peer used memory of this end that it may not", NULL);
	write_event(t->context, ends, IBV_EVENT_PATH_MIG_ERR, qp);
	report_has("an alternate path that was of no use", about,
		   "event 7, path migration request error", "The alternate path could not be used",
		   NULL);
}

static void of_other_objects(struct two *t, const int *ends)
{
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq = MUST_PTR(ibv_create_srq(t->pd, &shared));
	struct ibv_wq_init_attr init = {
		.wq_type = IBV_WQT_RQ,
		.max_wr = 1,
		.max_sge = 1,
		.pd = t->pd,
		.cq = t->cq,
	};
	struct ibv_wq *wq;

	write_event(t->context, ends, IBV_EVENT_SRQ_ERR, (uintptr_t)srq);
	report_has("a shared queue that failed", "libibverbs: an SRQ of ",
		   "event 14, SRQ catastrophic error", "takes no more requests", NULL);
	write_event(t->context, ends, IBV_EVENT_CQ_ERR, (uintptr_t)t->cq);
	report_has("a completion queue that overran", "libibverbs: a CQ of ", "event 0, CQ error",
		   "had no room for a completion", NULL);
	MUST(ibv_destroy_srq(srq));
	wq = ibv_create_wq(t->context, &init);
	(void)report_take();
	if (!wq) {
		out("the device has no work queues");
		return;
	}
	write_event(t->context, ends, IBV_EVENT_WQ_FATAL, (uintptr_t)wq);
	report_has("a work queue that failed", "libibverbs: a WQ of ", "event 19, ",
		   "The work queue failed and is in ERR", NULL);
	MUST(ibv_destroy_wq(wq));
}

static void of_the_device(struct two *t, const int *ends)
{
	write_event(t->context, ends, IBV_EVENT_DEVICE_FATAL, 0);
	report_has("a device that is gone", "libibverbs: the device of ", "event 8, ",
		   "The device is gone or has failed", NULL);
	write_event(t->context, ends, IBV_EVENT_PORT_ERR, 1);
	report_has("a port that went down", "libibverbs: port 1 of ", "event 10, port error",
		   "The port went down", NULL);
}

/* Events that a program may wait for are not failures; neither is an unknown type. */
static void expected(struct two *t, const int *ends)
{
	static const enum ibv_event_type of_queue_pairs[] = {
		IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG,
		IBV_EVENT_QP_LAST_WQE_REACHED,
	};
	static const enum ibv_event_type of_ports[] = {
		IBV_EVENT_PORT_ACTIVE, IBV_EVENT_LID_CHANGE,	       IBV_EVENT_PKEY_CHANGE,
		IBV_EVENT_SM_CHANGE,   IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_GID_CHANGE,
		(enum ibv_event_type)1000,
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(of_queue_pairs); i++)
		write_event(t->context, ends, of_queue_pairs[i], (uintptr_t)t->qp[0]);
	for (i = 0; i < ARRAY_LEN(of_ports); i++)
		write_event(t->context, ends, of_ports[i], 1);
	report_nothing("expected events");
}

static void written(struct ibv_context *context, int gid_index)
{
	int ends[2];
	struct two t;

	out("%s", ibv_get_device_name(context->device));
	two_open(&t, context, gid_index, 1);
	(void)report_take();
	expect(pipe(ends) == 0);
	of_queue_pairs(&t, ends);
	of_other_objects(&t, ends);
	of_the_device(&t, ends);
	expected(&t, ends);
	expect(close(ends[0]) == 0 && close(ends[1]) == 0);
	two_close(&t);
}

/* Takes events until one of that kind comes, which is to be about that queue pair. */
static void await_event(struct ibv_context *context, enum ibv_event_type wanted, struct ibv_qp *qp)
{
	struct ibv_async_event event;

	do {
		MUST(ibv_get_async_event(context, &event));
		ibv_ack_async_event(&event);
	} while (event.event_type != wanted);
	expect(event.element.qp == qp);
}

/* A peer requests an operation that this end does not allow: a read, where only writes are allowed.
 * */
static void asked_wrongly(struct ibv_context *context)
{
	struct ibv_send_wr wr = { .num_sge = 1, .opcode = IBV_WR_RDMA_READ }, *bad;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct two t;

	two_open(&t, context, 0, 1);
	(void)report_take();
	sge = two_piece(&t, 8);
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = (uintptr_t)t.buffer;
	wr.wr.rdma.rkey = t.mr->rkey;
	MUST(ibv_post_send(t.qp[0], &wr, &bad));
	expect(two_wait(&t, &wc) == IBV_WC_REM_INV_REQ_ERR);
	report_has("the one that asks", "its qp_access_flags do not allow the operation", NULL);
	await_event(context, IBV_EVENT_QP_REQ_ERR, t.qp[1]);
	report_has("the one that is asked", "reports event 2, ", "qp_access_flags do not allow",
		   NULL);
	two_close(&t);
}

/* A completion queue that overruns takes its queue pair with it. */
static void overrun(struct ibv_context *context)
{
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 1, NULL, NULL, 0));
	struct ibv_qp_init_attr init = {
		.cap = { (uint32_t)cq->cqe + 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.send_cq = cq,
		.recv_cq = cq,
	};
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE }, *bad;
	struct ibv_qp *qp;
	struct two t;
	int i;

	two_open(&t, context, 0, 1);
	(void)report_take();
	qp = MUST_PTR(ibv_create_qp(t.pd, &init));
	two_init(qp);
	two_connect(&t, qp, qp->qp_num);
	for (i = 0; i <= cq->cqe; i++)
		MUST(ibv_post_send(qp, &wr, &bad));
	await_event(context, IBV_EVENT_QP_FATAL, qp);
	report_has("a queue pair whose completion queue overran", "reports event 1, ",
		   "a completion queue that overran", NULL);
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_destroy_cq(cq));
	two_close(&t);
}

int main(void)
{
	struct ibv_context *context;

	report_to_file("IBVERBS_EXPLAIN", "");
	context = open_device_named("rxe0");
	if (context) {
		written(context, 1);
		MUST(ibv_close_device(context));
	}
	if (!own_uroce()) {
		out("no network namespace may be made: uroce is left out");
		unlink(report_path);
		return done();
	}
	context = MUST_PTR(open_device_named("uroce_lo"));
	written(context, 0);
	asked_wrongly(context);
	overrun(context);
	MUST(ibv_close_device(context));
	unlink(report_path);
	return done();
}
