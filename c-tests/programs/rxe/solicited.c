/* A CQ armed for solicited events alone wakes for those and for errors. */
#include "rdma.h"

#include <poll.h>

static struct pair pair;
static struct ibv_comp_channel *channel;
static struct ibv_cq *armed;

static void send_one(uint64_t id, unsigned int flags)
{
	struct ibv_sge sge = piece(&pair, 0, 16);
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = flags | IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_wc wc;

	MUST(ibv_post_send(pair.qp[0], &wr, &bad));
	wc = wait_wc(pair.cq[0]);
	expect(wc.status == IBV_WC_SUCCESS);
	wc = wait_wc(armed);
	show_wc("received", &wc);
}

static int ready(void)
{
	struct pollfd pollfd = { .fd = channel->fd, .events = POLLIN };

	return poll(&pollfd, 1, 0);
}

static void take_event(void)
{
	struct ibv_cq *cq;
	void *own;

	MUST(ibv_get_cq_event(channel, &cq, &own));
	expect(cq == armed);
	ibv_ack_cq_events(cq, 1);
}

int main(void)
{
	struct ibv_qp_init_attr attr;
	struct ibv_qp *qp;
	int i;

	make_pair(&pair, IBV_QPT_RC);
	channel = MUST_PTR(ibv_create_comp_channel(pair.context));
	armed = MUST_PTR(ibv_create_cq(pair.context, 64, NULL, channel, 0));
	MUST(ibv_destroy_qp(pair.qp[0]));
	MUST(ibv_destroy_qp(pair.qp[1]));
	attr = init_attr(pair.cq[0], IBV_QPT_RC);
	pair.qp[0] = MUST_PTR(ibv_create_qp(pair.pd, &attr));
	attr = init_attr(armed, IBV_QPT_RC);
	qp = pair.qp[1] = MUST_PTR(ibv_create_qp(pair.pd, &attr));
	connect_qp(pair.qp[0], qp->qp_num);
	connect_qp(qp, pair.qp[0]->qp_num);
	for (i = 0; i < 8; i++)
		MUST(post_recv(&pair, 1, (uint64_t)i, 4096, 64));

	MUST(ibv_req_notify_cq(armed, 1));
	send_one(1, 0);
	out("ready after an ordinary one %d", ready());
	send_one(2, IBV_SEND_SOLICITED);
	take_event();
	send_one(3, IBV_SEND_SOLICITED);
	out("ready when not armed %d", ready());
	MUST(ibv_req_notify_cq(armed, 0));
	send_one(4, 0);
	take_event();
	/* Armed for solicited ones, then for all: all. */
	MUST(ibv_req_notify_cq(armed, 1));
	MUST(ibv_req_notify_cq(armed, 0));
	send_one(5, 0);
	take_event();
	MUST(ibv_req_notify_cq(armed, 1));
	to_error(qp);
	take_event();
	for (i = 0; i < 3; i++) {
		struct ibv_wc wc = wait_wc(armed);

		show_wc("flushed", &wc);
	}
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_destroy_cq(armed));
	MUST(ibv_destroy_comp_channel(channel));
	attr = init_attr(pair.cq[1], IBV_QPT_RC);
	pair.qp[1] = MUST_PTR(ibv_create_qp(pair.pd, &attr));
	free_pair(&pair);
	return done();
}
