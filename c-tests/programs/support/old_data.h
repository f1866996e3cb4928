/*
 * A program of libibverbs 1.0 (old.h) and one of today in one process, on the
 * same device: each part of 1.0's interface moves data, also towards the other.
 */
#ifndef OLD_DATA_H
#define OLD_DATA_H

#include "old.h"

enum { OLD_BUFFER = 65536, OLD_CHAIN = 20, OLD_PART = 1024 };

/* Objects shared by the scenarios. */
struct old_side {
	struct old_context *context;
	struct old_pd *pd;
	struct old_mr *mr;
	unsigned char *buffer;
	/* As create_cq takes it. */
	void *channel;
};

static inline struct old_context *old_open(void)
{
	int count = -1, i;
	struct old_device **list = MUST_PTR(old_get_device_list(&count));
	struct old_context *context = NULL;

	for (i = 0; list[i]; i++)
		if (!strcmp(old_get_device_name(list[i]), DEVICE_NAME)) {
			expect(old_get_device_guid(list[i]));
			context = MUST_PTR(old_open_device(list[i]));
			expect(context->device == list[i]);
		}
	expect(i == count);
	old_free_device_list(list);
	return MUST_PTR(context);
}

static inline struct old_qp_init_attr old_init(struct old_cq *cq, enum ibv_qp_type type)
{
	struct old_qp_init_attr attr = {
		.qp_context = cq,
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = {
			.max_send_wr = OLD_CHAIN,
			.max_recv_wr = OLD_CHAIN,
			.max_send_sge = 2,
			.max_recv_sge = 2,
		},
	};

	return attr;
}

static inline struct ibv_sge old_piece(struct old_side *side, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)side->buffer + offset,
		.length = length,
		.lkey = side->mr->lkey,
	};

	return sge;
}

static inline struct ibv_wc old_wait(struct old_cq *cq)
{
	struct ibv_wc wc;
	int count;

	memset(&wc, 0, sizeof(wc));
	while (!(count = cq->context->ops.poll_cq(cq, 1, &wc)))
		sched_yield();
	expect(count == 1);
	return wc;
}

static inline void old_show(const char *title, struct old_cq *cq)
{
	struct ibv_wc wc = old_wait(cq);

	show_wc(title, &wc);
}

static inline struct ibv_ah_attr old_address(struct old_context *context)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .sgid_index = IPV4_INDEX, .hop_limit = 64 },
	};

	MUST(old_query_gid(context, 1, IPV4_INDEX, &attr.grh.dgid));
	return attr;
}

static inline void old_connect(struct old_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = attr_init();

	MUST(old_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.rq_psn = 7,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = old_address(qp->context),
	};
	MUST(old_modify_qp(qp, &attr, RC_RTR_MASK));
	attr = attr_rts();
	MUST(old_modify_qp(qp, &attr, RC_RTS_MASK));
}

static inline void old_queries(struct old_context *context)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid gid;
	uint16_t pkey;

	MUST(old_query_device(context, &device));
	expect(device.phys_port_cnt == 1);
	MUST(old_query_port(context, 1, &port));
	out("port state %d, MTU %d, link layer %d", port.state, port.active_mtu, port.link_layer);
	MUST(old_query_pkey(context, 1, 0, &pkey));
	out("P_Key 0x%x", be16toh(pkey));
	expect(old_query_gid(context, 1, 100000, &gid) == -1);
	expect(old_query_port(context, 2, &port));
}

/* Sends, a write, a read and an atomic, in one chain; then the same that is bad at its middle. */
static inline void old_chain(struct old_side *side, struct old_qp *qp, struct old_qp *peer)
{
	struct ibv_sge at[4] = {
		old_piece(side, 0, 100), old_piece(side, 1000, 200), old_piece(side, 2000, 300),
		old_piece(side, 4096, 8),
	};
	struct ibv_sge into = old_piece(side, 8192, 500);
	struct ibv_sge many[64];
	uint64_t start = (uintptr_t)side->buffer;
	uint64_t word;
	struct old_recv_wr receive = { .wr_id = 50, .sg_list = &into, .num_sge = 1 };
	struct old_recv_wr *bad_receive;
	struct old_send_wr wr[4] = {
		{ .next = &wr[1], .wr_id = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(77) },
		{ .next = &wr[2], .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE },
		{ .next = &wr[3], .wr_id = 3, .opcode = IBV_WR_RDMA_READ },
		{ .wr_id = 4, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD },
	};
	struct old_send_wr *bad = NULL;
	int i;

	for (i = 0; i < 4; i++) {
		wr[i].sg_list = &at[i];
		wr[i].num_sge = 1;
		wr[i].send_flags = IBV_SEND_SIGNALED;
	}
	for (i = 0; i < 4096; i++)
		side->buffer[i] = (unsigned char)(i * 7);
	memcpy(side->buffer + 20480, "what is read", 13);
	word = 40;
	memcpy(side->buffer + 16384, &word, sizeof(word));
	wr[1].wr.rdma.remote_addr = start + 12288;
	wr[1].wr.rdma.rkey = side->mr->rkey;
	wr[2].wr.rdma.remote_addr = start + 20480;
	wr[2].wr.rdma.rkey = side->mr->rkey;
	wr[3].wr.atomic.remote_addr = start + 16384;
	wr[3].wr.atomic.compare_add = 2;
	wr[3].wr.atomic.rkey = side->mr->rkey;
	MUST(peer->context->ops.post_recv(peer, &receive, &bad_receive));
	MUST(qp->context->ops.post_send(qp, wr, &bad));
	for (i = 0; i < 4; i++)
		old_show("sent", qp->send_cq);
	old_show("received", peer->recv_cq);
	expect(!memcmp(side->buffer + 8192, side->buffer, 100));
	expect(!memcmp(side->buffer + 12288, side->buffer + 1000, 200));
	expect(!memcmp(side->buffer + 2000, "what is read", 13));
	memcpy(&word, side->buffer + 16384, sizeof(word));
	out("atomic: %lu", (unsigned long)word);
	expect(word == 42);

	wr[1].opcode = wr[0].opcode = IBV_WR_RDMA_WRITE;
	wr[0].wr.rdma = wr[1].wr.rdma;
	for (i = 0; i < 64; i++)
		many[i] = old_piece(side, 0, 1);
	wr[2].sg_list = many;
	wr[2].num_sge = 64;
	expect(RC(qp->context->ops.post_send(qp, wr, &bad)) && bad == &wr[2]);
	for (i = 0; i < 2; i++)
		old_show("before it", qp->send_cq);
}

/* A completion channel leads to the queue, and to the program's context pointer. */
static inline void old_notified(struct old_side *side, struct old_qp *qp, struct old_qp *peer)
{
	struct ibv_sge sge = old_piece(side, 0, 10);
	struct old_recv_wr receive = { .wr_id = 60, .sg_list = &sge, .num_sge = 1 };
	struct old_send_wr send = {
		.wr_id = 61,
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct old_recv_wr *bad_receive;
	struct old_send_wr *bad;
	struct old_cq *cq;
	void *context;

	MUST(peer->context->ops.req_notify_cq(peer->recv_cq, 0));
	MUST(peer->context->ops.post_recv(peer, &receive, &bad_receive));
	MUST(qp->context->ops.post_send(qp, &send, &bad));
	MUST(old_get_cq_event(side->channel, &cq, &context));
	expect(cq == peer->recv_cq && context == cq->cq_context && context == side);
	old_ack_cq_events(cq, 1);
	old_show("notified", peer->recv_cq);
	old_show("sent", qp->send_cq);
}

static inline struct ibv_async_event old_event(struct old_context *context, enum ibv_event_type type)
{
	struct ibv_async_event event;

	for (;;) {
		MUST(old_get_async_event(context, &event));
		if (event.event_type == type)
			return event;
		old_ack_async_event(&event);
	}
}

/* A shared receive queue, whose limit is an event about it. */
static inline void old_shared(struct old_side *side, struct old_cq *cq, struct old_qp *qp)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = side,
		.attr = { .max_wr = 8, .max_sge = 1 },
	};
	struct old_srq *srq = MUST_PTR(old_create_srq(side->pd, &attr));
	struct old_qp_init_attr init = old_init(cq, IBV_QPT_RC);
	struct ibv_sge sge = old_piece(side, 0, OLD_PART);
	struct old_recv_wr wr[3] = { { .next = &wr[1] }, { .next = &wr[2] }, { .next = NULL } };
	struct old_recv_wr *bad_receive;
	struct old_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct old_send_wr *bad;
	struct ibv_srq_attr limit = { .srq_limit = 3 };
	struct ibv_qp_attr state = { .qp_state = IBV_QPS_RESET };
	struct ibv_async_event event;
	struct old_qp *peer;
	int i;

	expect(srq->srq_context == side && srq->pd == side->pd && attr.srq_context == side);
	expect(attr.attr.max_wr >= 8);
	init.srq = srq;
	peer = MUST_PTR(old_create_qp(side->pd, &init));
	old_connect(peer, qp->qp_num);
	old_connect(qp, peer->qp_num);
	for (i = 0; i < 3; i++) {
		wr[i].wr_id = 70 + i;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
	}
	MUST(side->context->ops.post_srq_recv(srq, wr, &bad_receive));
	MUST(old_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	memset(&limit, 0, sizeof(limit));
	MUST(old_query_srq(srq, &limit));
	out("limit %u", limit.srq_limit);
	MUST(qp->context->ops.post_send(qp, &send, &bad));
	old_show("by the shared queue", cq);
	event = old_event(side->context, IBV_EVENT_SRQ_LIMIT_REACHED);
	expect((void *)event.element.srq == srq);
	out("event: %s", ibv_event_type_str(event.event_type));
	old_ack_async_event(&event);

	memset(&init, 0, sizeof(init));
	MUST(old_query_qp(peer, &state, IBV_QP_STATE, &init));
	expect(init.qp_context == cq && init.send_cq == cq && init.recv_cq == cq);
	expect(init.srq == srq && init.cap.max_send_wr >= OLD_CHAIN);
	out("type %d, state %d", init.qp_type, state.qp_state);
	expect(RC(old_destroy_srq(srq)) == EBUSY);
	MUST(old_destroy_qp(peer));
	MUST(old_destroy_srq(srq));
}

/* Datagrams to an address handle, in a chain that is too long for the stack. */
static inline void old_datagrams(struct old_side *side, struct old_cq *cq)
{
	struct old_qp_init_attr init = old_init(cq, IBV_QPT_UD);
	struct ibv_ah_attr address = old_address(side->context);
	struct old_ah *ah = MUST_PTR(old_create_ah(side->pd, &address));
	/* The GID of the IPv4 group 239.9.0.1. */
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 9, 0, 1 } };
	struct old_recv_wr receive[OLD_CHAIN], *bad_receive;
	struct old_send_wr send[OLD_CHAIN], *bad;
	struct ibv_sge into[OLD_CHAIN], from[OLD_CHAIN];
	struct ibv_qp_attr attr = attr_init();
	struct old_qp *qp[2];
	int i, received = 0;

	for (i = 0; i < 2; i++) {
		qp[i] = MUST_PTR(old_create_qp(side->pd, &init));
		attr.qp_state = IBV_QPS_INIT;
		MUST(old_modify_qp(qp[i], &attr, UD_INIT_MASK));
		attr.qp_state = IBV_QPS_RTR;
		MUST(old_modify_qp(qp[i], &attr, IBV_QP_STATE));
		attr.qp_state = IBV_QPS_RTS;
		MUST(old_modify_qp(qp[i], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	}
	memset(receive, 0, sizeof(receive));
	memset(send, 0, sizeof(send));
	for (i = 0; i < OLD_CHAIN; i++) {
		size_t offset = (size_t)i * OLD_PART;

		side->buffer[offset] = (unsigned char)(100 + i);
		into[i] = old_piece(side, OLD_CHAIN * OLD_PART + offset, 40 + 1);
		from[i] = old_piece(side, offset, 1);
		receive[i].next = i + 1 < OLD_CHAIN ? &receive[i + 1] : NULL;
		receive[i].wr_id = (uint64_t)i;
		receive[i].sg_list = &into[i];
		receive[i].num_sge = 1;
		send[i].next = i + 1 < OLD_CHAIN ? &send[i + 1] : NULL;
		send[i].wr_id = 1000 + (uint64_t)i;
		send[i].sg_list = &from[i];
		send[i].num_sge = 1;
		send[i].opcode = IBV_WR_SEND;
		send[i].send_flags = IBV_SEND_SIGNALED;
		send[i].wr.ud.ah = ah;
		send[i].wr.ud.remote_qpn = qp[1]->qp_num;
		send[i].wr.ud.remote_qkey = QKEY;
	}
	MUST(side->context->ops.post_recv(qp[1], receive, &bad_receive));
	MUST(side->context->ops.post_send(qp[0], send, &bad));
	for (i = 0; i < 2 * OLD_CHAIN; i++) {
		struct ibv_wc wc = old_wait(cq);

		expect(wc.status == IBV_WC_SUCCESS);
		if (wc.wr_id < 1000) {
			size_t place = (OLD_CHAIN + wc.wr_id) * OLD_PART + 40;

			expect(wc.qp_num == qp[1]->qp_num && wc.src_qp == qp[0]->qp_num);
			expect(side->buffer[place] == 100 + wc.wr_id);
			received++;
		}
	}
	expect(received == OLD_CHAIN);
	MUST(old_attach_mcast(qp[0], &group, 0));
	MUST(old_detach_mcast(qp[0], &group, 0));
	for (i = 0; i < 2; i++)
		MUST(old_destroy_qp(qp[i]));
	MUST(old_destroy_ah(ah));
}

/* A queue pair of 1.0 and one of today talk to each other. */
static inline void old_to_new(struct old_side *side, struct old_cq *cq, struct old_qp *old)
{
	struct ibv_context *context = open_rxe();
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_cq *new_cq = MUST_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_qp_init_attr init = init_attr(new_cq, IBV_QPT_RC);
	struct ibv_qp *new = MUST_PTR(ibv_create_qp(pd, &init));
	char memory[64] = "from today";
	struct ibv_mr *mr = MUST_PTR(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE));
	struct ibv_sge theirs = { (uintptr_t)memory, 32, mr->lkey };
	struct ibv_sge ours = old_piece(side, 0, 32);
	struct ibv_recv_wr new_receive = { .sg_list = &theirs, .num_sge = 1 }, *new_bad_receive;
	struct ibv_send_wr new_send = { .sg_list = &theirs, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_send_wr *new_bad;
	struct old_recv_wr receive = { .sg_list = &ours, .num_sge = 1 }, *bad_receive;
	struct old_send_wr send = { .sg_list = &ours, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_wc wc;

	send.send_flags = IBV_SEND_SIGNALED;
	new_send.send_flags = IBV_SEND_SIGNALED;
	old_connect(old, new->qp_num);
	connect_qp(new, old->qp_num);
	MUST(old->context->ops.post_recv(old, &receive, &bad_receive));
	MUST(ibv_post_send(new, &new_send, &new_bad));
	old_show("from today", cq);
	wc = wait_wc(new_cq);
	show_wc("to 1.0", &wc);
	expect(!strcmp((char *)side->buffer, "from today"));
	strcpy((char *)side->buffer, "from 1.0");
	MUST(ibv_post_recv(new, &new_receive, &new_bad_receive));
	MUST(old->context->ops.post_send(old, &send, &bad));
	wc = wait_wc(new_cq);
	show_wc("from 1.0", &wc);
	old_show("to today", cq);
	expect(!strcmp(memory, "from 1.0"));

	MUST(ibv_destroy_qp(new));
	MUST(ibv_destroy_cq(new_cq));
	MUST(ibv_dereg_mr(mr));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
}

static inline void old_reset(struct old_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	MUST(old_modify_qp(qp, &attr, IBV_QP_STATE));
}

/* All of it; the channel belongs to the context. */
static inline void old_traffic(struct old_context *context, void *channel)
{
	struct old_side side = { .context = context, .channel = channel };
	struct old_qp_init_attr init;
	struct old_cq *cq[2];
	struct old_qp *qp[2];
	int i;

	side.buffer = MUST_PTR((unsigned char *)calloc(1, OLD_BUFFER));
	side.pd = MUST_PTR(old_alloc_pd(context));
	expect(side.pd->context == context);
	side.mr = MUST_PTR(old_reg_mr(side.pd, side.buffer, OLD_BUFFER, ALL_ACCESS));
	expect(side.mr->pd == side.pd);
	for (i = 0; i < 2; i++) {
		cq[i] = MUST_PTR(old_create_cq(context, 64, &side, channel, 0));
		expect(cq[i]->context == context && cq[i]->cqe >= 64);
		init = old_init(cq[i], IBV_QPT_RC);
		qp[i] = MUST_PTR(old_create_qp(side.pd, &init));
		expect(qp[i]->qp_context == cq[i] && qp[i]->send_cq == cq[i]);
	}
	old_connect(qp[0], qp[1]->qp_num);
	old_connect(qp[1], qp[0]->qp_num);
	old_queries(context);
	old_chain(&side, qp[0], qp[1]);
	old_notified(&side, qp[0], qp[1]);
	MUST(old_resize_cq(cq[0], 128));
	expect(RC(old_destroy_cq(cq[0])) == EBUSY);
	for (i = 0; i < 2; i++)
		old_reset(qp[i]);
	old_shared(&side, cq[1], qp[0]);
	old_reset(qp[0]);
	old_datagrams(&side, cq[1]);
	old_to_new(&side, cq[0], qp[0]);
	expect(RC(old_dealloc_pd(side.pd)) == EBUSY);
	for (i = 0; i < 2; i++) {
		MUST(old_destroy_qp(qp[i]));
		MUST(old_destroy_cq(cq[i]));
	}
	MUST(old_dereg_mr(side.mr));
	MUST(old_dealloc_pd(side.pd));
	free(side.buffer);
}

#endif
