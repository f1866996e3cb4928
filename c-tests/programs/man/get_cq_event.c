/* Both examples of ibv_get_cq_event(3), with the code that they omit. */
#include "rdma.h"

#include <fcntl.h>
#include <poll.h>

static struct ibv_context *ctx;
static struct ibv_comp_channel *channel;
static struct ibv_pd *pd;

/* Takes the place of the manual page's dots: a request that completes. */
static struct ibv_qp *complete_one(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = init_attr(cq, IBV_QPT_RC);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &init));
	struct ibv_qp_attr attr = attr_init();
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;

	/* One receive that succeeds: a queue pair connected to itself. */
	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	MUST(ibv_post_recv(qp, &recv, &bad_recv));
	attr = attr_rtr(ctx, qp->qp_num);
	MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr = attr_rts();
	MUST(ibv_modify_qp(qp, &attr, RC_RTS_MASK));
	MUST(ibv_post_send(qp, &send, &bad_send));
	return qp;
}

static int first_example(void)
{
	struct ibv_cq *cq, *ev_cq;
	void *ev_ctx = &ctx;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	int ne;

#include "ibv_get_cq_event.1.1.inc"

	qp = complete_one(cq);

#include "ibv_get_cq_event.1.2.inc"

	out("event of the CQ %d, context %d, last poll %d", ev_cq == cq, ev_ctx == &ctx, ne);
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_destroy_cq(cq));
	return 0;
}

static int second_example(void)
{
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(ctx, 4, &pd, channel, 0)), *ev_cq;
	struct pollfd my_pollfd;
	void *ev_ctx = NULL;
	struct ibv_qp *qp;
	int flags, rc, ms_timeout = 10;

	MUST(ibv_req_notify_cq(cq, 0));
	qp = complete_one(cq);

#include "ibv_get_cq_event.2.1.inc"

	out("event of the CQ %d, context %d", ev_cq == cq, ev_ctx == &pd);
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_destroy_cq(cq));
	return 0;
}

int main(void)
{
	ctx = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(ctx));
	channel = MUST_PTR(ibv_create_comp_channel(ctx));
	RC(first_example());
	RC(second_example());
	RC(ibv_destroy_comp_channel(channel));
	RC(ibv_dealloc_pd(pd));
	RC(ibv_close_device(ctx));
	return done();
}
