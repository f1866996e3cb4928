/* Shared receive queues: sizes, limits, changes, traffic, being busy, the extended kind. */
#include "rdma.h"

static struct ibv_context *context;
static struct ibv_pd *pd;

static void by_size(void)
{
	static const uint32_t wrs[] = { 0, 1, 3, 1048576, 1048577, 0xffffffffU };
	static const uint32_t sges[] = { 0, 1, 27, 28, 0xffffffffU };
	size_t i, k;

	for (i = 0; i < ARRAY_LEN(wrs); i++)
		for (k = 0; k < ARRAY_LEN(sges); k++) {
			struct ibv_srq_init_attr attr = {
				.srq_context = &context,
				.attr = { .max_wr = wrs[i], .max_sge = sges[k], .srq_limit = 1 },
			};
			struct ibv_srq *srq;

			if (wrs[i] == 1048576 && sges[k] == 27)
				continue; /* more memory than a guest has to spare */
			out("wr %u sge %u", wrs[i], sges[k]);
			srq = PTR(ibv_create_srq(pd, &attr));
			if (!srq)
				continue;
			out("got %u %u own %d pd %d", attr.attr.max_wr, attr.attr.max_sge,
			    srq->srq_context == &context, srq->pd == pd);
			RC(ibv_destroy_srq(srq));
		}
}

static void show_srq(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	memset(&attr, 0xff, sizeof(attr));
	RC(ibv_query_srq(srq, &attr));
	out("wr %u sge %u limit %u", attr.max_wr, attr.max_sge, attr.srq_limit);
}

static void change(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 10, .max_sge = 2 } };
	struct ibv_srq *srq = MUST_PTR(ibv_create_srq(pd, &init));
	struct ibv_srq_attr attr = { .max_wr = 100, .max_sge = 9, .srq_limit = 5 };

	show_srq(srq);
	RC(ibv_modify_srq(srq, &attr, 0));
	show_srq(srq);
	RC(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	show_srq(srq);
	RC(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	show_srq(srq);
	attr.max_wr = 2;
	RC(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	attr.srq_limit = 100000;
	RC(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	attr.max_wr = 0;
	RC(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	attr.max_wr = 0xffffffffU;
	RC(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	RC(ibv_modify_srq(srq, &attr, 1 << 20));
	show_srq(srq);
	RC(ibv_destroy_srq(srq));
}

static void posting(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 2 } };
	struct ibv_srq *srq = MUST_PTR(ibv_create_srq(pd, &init));
	struct ibv_sge sges[4] = { 0 };
	struct ibv_recv_wr many[3] = { { .wr_id = 1, .next = &many[1] },
				       { .wr_id = 2, .next = &many[2], .sg_list = sges, .num_sge = 3 },
				       { .wr_id = 3 } };
	struct ibv_recv_wr one = { .wr_id = 4, .sg_list = sges, .num_sge = 2 };
	struct ibv_recv_wr *bad = NULL;
	int i;

	RC(ibv_post_srq_recv(srq, many, &bad));
	out("bad is the second %d", bad == &many[1]);
	for (i = 0; i < 8; i++) {
		bad = NULL;
		RC(ibv_post_srq_recv(srq, &one, &bad));
		out("bad is it %d", bad == &one);
	}
	RC(ibv_destroy_srq(srq));
}

static void traffic(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = MUST_PTR(ibv_create_srq(pd, &init));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 64, NULL, NULL, 0));
	char *memory = MUST_PTR((char *)calloc(1, 4096));
	struct ibv_mr *mr = MUST_PTR(ibv_reg_mr(pd, memory, 4096, ALL_ACCESS));
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 32, .lkey = mr->lkey };
	struct ibv_send_wr send = {
		.opcode = IBV_WR_SEND_WITH_IMM,
		.sg_list = &sge,
		.num_sge = 1,
	}, *bad_send;
	struct ibv_sge into = { .addr = (uintptr_t)memory + 1024, .length = 512, .lkey = mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &into, .num_sge = 1 }, *bad_recv;
	struct ibv_qp *qp[2];
	struct ibv_wc wc;
	int i;

	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr = init_attr(cq, IBV_QPT_RC);

		attr.srq = srq;
		qp[i] = MUST_PTR(ibv_create_qp(pd, &attr));
		out("its srq %d, its receive requests %u", qp[i]->srq == srq,
		    attr.cap.max_recv_wr);
	}
	for (i = 0; i < 2; i++)
		connect_qp(qp[i], qp[!i]->qp_num);
	RC(ibv_destroy_srq(srq));
	RC(ibv_post_recv(qp[0], &recv, &bad_recv));
	for (i = 0; i < 6; i++) {
		recv.wr_id = (uint64_t)i;
		MUST(ibv_post_srq_recv(srq, &recv, &bad_recv));
	}
	for (i = 0; i < 6; i++) {
		send.imm_data = htobe32((uint32_t)i);
		MUST(ibv_post_send(qp[i % 2], &send, &bad_send));
		wc = wait_wc(cq);
		expect(wc.qp_num == qp[!(i % 2)]->qp_num);
		show_wc("received", &wc);
	}
	MUST(ibv_destroy_qp(qp[0]));
	MUST(ibv_destroy_qp(qp[1]));
	RC(ibv_destroy_srq(srq));
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_dereg_mr(mr));
	free(memory);
}

static void extended(void)
{
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 4, NULL, NULL, 0));
	struct ibv_srq_init_attr_ex attr;
	uint32_t mask, number;
	int type;

	for (type = IBV_SRQT_BASIC; type <= IBV_SRQT_TM + 1; type++)
		for (mask = 0; mask < 16; mask++) {
			struct ibv_srq *srq;

			attr = (struct ibv_srq_init_attr_ex){
				.attr = { .max_wr = 4, .max_sge = 1 },
				.comp_mask = mask,
				.srq_type = (enum ibv_srq_type)type,
				.pd = pd,
				.cq = cq,
			};
			out("type %d mask %x", type, mask);
			/* Kinds that need an XRC domain, which rxe has none of. */
			if (mask & IBV_SRQ_INIT_ATTR_XRCD)
				continue;
			srq = PTR(ibv_create_srq_ex(context, &attr));
			if (!srq)
				continue;
			RC(ibv_get_srq_num(srq, &number));
			show_srq(srq);
			RC(ibv_destroy_srq(srq));
		}
	attr = (struct ibv_srq_init_attr_ex){ .comp_mask = 1U << 31, .pd = pd };
	PTR(ibv_create_srq_ex(context, &attr));
	RC(ibv_destroy_cq(cq));
}

int main(void)
{
	context = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(context));
	by_size();
	change();
	posting();
	traffic();
	extended();
	RC(ibv_dealloc_pd(pd));
	RC(ibv_close_device(context));
	return done();
}
