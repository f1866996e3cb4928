/*
 * The later verbs over an older kernel and provider: calls that the library can execute by older
 * calls work, the others are EOPNOTSUPP.
 */
#include "post_44.h"

static void counters(struct ibv_context *context)
{
	struct ibv_comp_cntr_init_attr init = { .type = IBV_COMP_CNTR_TYPE_WRS };
	struct ibv_comp_cntr_caps caps;

	unsupported(ibv_query_comp_cntr_caps(context, &caps));
	expect(!ibv_create_comp_cntr(context, &init));
	unsupported(errno);
	out("no completion counters");
}

/* Data through a buffer of the library's. */
static void traffic(void)
{
	struct ibv_mr_init_attr attr = { .access = ALL_ACCESS };
	struct ibv_buf *buf;
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char *memory;

	make_pair(&pair, IBV_QPT_RC);
	memory = MUST_PTR((char *)ibv_alloc_buf(pair.pd, PART, &buf));
	attr.comp_mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR;
	attr.buf = buf;
	attr.addr = memory;
	attr.length = PART;
	mr = MUST_PTR(ibv_reg_mr_ex(pair.pd, &attr));
	strcpy((char *)pair.buffer, "into a buffer of the library");
	sge = piece(&pair, 0, 64);
	wr.wr.rdma.remote_addr = (uintptr_t)memory;
	wr.wr.rdma.rkey = mr->rkey;
	MUST(ibv_post_send(pair.qp[0], &wr, &bad));
	wc = wait_wc(pair.cq[0]);
	show_wc("write", &wc);
	out("%s", memory);
	MUST(ibv_dereg_mr(mr));
	ibv_free_buf(buf);
	free_pair(&pair);
}

int main(void)
{
	struct ibv_context *context = open_rxe();
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_port_attr port;
	uint64_t speed;

	regions(pd);
	shorter_attributes(pd);
	buffers(context, pd);
	hints_and_exports(context);
	counters(context);
	unsupported(ibv_query_port_speed(context, 1, &speed));
	memset(&port, 0xff, sizeof(port));
	MUST(ibv_query_port(context, 1, &port));
	out("active_speed_ex %u", port.active_speed_ex);
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
	traffic();
	return done();
}
