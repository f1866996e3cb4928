/*
 * IBVERBS_EXPLAIN: each kind of failure is explained, over uroce, and over
 * soft-RoCE where the kernel has a device of it; what works is not.
 */
#include "report.h"

#include <sys/mman.h>
#include <sys/resource.h>

static void memory(struct two *t)
{
	char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	expect(pages != MAP_FAILED);
	expect(!ibv_reg_mr(t->pd, pages, 4096, IBV_ACCESS_REMOTE_WRITE));
	report_has("remote without local write", "ibv_reg_mr(4096 bytes at", "EINVAL",
		   "IBV_ACCESS_REMOTE_WRITE needs IBV_ACCESS_LOCAL_WRITE", NULL);
	MUST(munmap(pages + 4096, 4096));
	expect(!ibv_reg_mr(t->pd, pages, 3 * 4096, IBV_ACCESS_LOCAL_WRITE));
	report_has("unmapped range", "EFAULT", "nothing is mapped", NULL);
	MUST(mprotect(pages, 4096, PROT_READ));
	expect(!ibv_reg_mr(t->pd, pages, 4096, IBV_ACCESS_LOCAL_WRITE));
	report_has("read-only range", "without the right to write", NULL);
	MUST(munmap(pages, 3 * 4096));
}

static void limits(struct two *t)
{
	struct ibv_qp_init_attr qp = {
		.send_cq = t->cq,
		.recv_cq = t->cq,
		.cap = { 1 << 30, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1 << 30, .max_sge = 1 } };

	expect(!ibv_create_qp(t->pd, &qp));
	report_has("too long a queue pair", "ibv_create_qp(RC, max_send_wr 1073741824",
		   "the device's max_qp_wr is", NULL);
	qp.cap.max_send_wr = 1;
	qp.recv_cq = NULL;
	expect(!ibv_create_qp(t->pd, &qp));
	report_has("no recv_cq", "recv_cq is NULL", NULL);
	expect(!ibv_create_cq(t->context, 1 << 30, NULL, NULL, 0));
	report_has("too long a completion queue", "cqe is 1073741824, the device's max_cqe is",
		   NULL);
	expect(!ibv_create_srq(t->pd, &srq));
	report_has("too long a shared queue", "max_srq_wr is", NULL);
}

static void states(struct two *t)
{
	struct ibv_qp *qp = two_qp(t, 1);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	report_has("no such transition", "RESET -> RTS", "There is no transition",
		   "it goes to RESET, INIT", NULL);
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
			     IBV_QP_QKEY));
	report_has("missing and extra", "Missing for RESET -> INIT of RC: IBV_QP_ACCESS_FLAGS.",
		   "Not allowed in RESET -> INIT of RC: IBV_QP_QKEY.", NULL);
	two_init(qp);
	report_nothing("a transition that works");
	attr = two_rtr_attr(t, qp->qp_num);
	attr.ah_attr.is_global = 0;
	expect(ibv_modify_qp(qp, &attr, RTR_MASK));
	report_has("RoCE without is_global", "INIT -> RTR", "ah_attr.is_global has to be 1", NULL);
	attr = two_rtr_attr(t, qp->qp_num);
	attr.ah_attr.grh.sgid_index = 200;
	expect(ibv_modify_qp(qp, &attr, RTR_MASK));
	report_has("empty GID", "sgid_index", "200", NULL);
	MUST(ibv_destroy_qp(qp));
}

static void families(struct two *t)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .hop_limit = 64, .sgid_index = (uint8_t)t->gid_index },
	};
	struct ibv_ah *ah;

	/* fe80::7: no address of an IPv4 GID's family. */
	attr.grh.dgid.raw[0] = 0xfe;
	attr.grh.dgid.raw[1] = 0x80;
	attr.grh.dgid.raw[15] = 7;
	ah = ibv_create_ah(t->pd, &attr);
	if (ah) {
		out("a GID of another family is taken");
		MUST(ibv_destroy_ah(ah));
		(void)report_take();
		return;
	}
	report_has("a GID of another family is refused", "ibv_create_ah", "one address family",
		   NULL);
}

static void posting(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = {
		.wr_id = 0xab,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
	}, *bad;
	struct ibv_qp *qp = two_qp(t, 1);

	expect(ibv_post_send(qp, &wr, &bad));
	report_has("posted in RESET", "ibv_post_send(QP 0x", "wr_id 0xab", "is in RESET", NULL);
	MUST(ibv_destroy_qp(qp));
	wr.num_sge = 100;
	expect(ibv_post_send(t->qp[0], &wr, &bad));
	report_has("too many pieces", "num_sge is 100, the queue takes", NULL);
}

static void completions(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = {
		.wr_id = 0xcd,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)t->buffer, t->mr->rkey + 0x100 },
	}, *bad;
	struct ibv_wc wc;

	MUST(ibv_post_send(t->qp[0], &wr, &bad));
	expect(two_wait(t, &wc) == IBV_WC_REM_ACCESS_ERR);
	report_has("a wrong rkey", "(wr_id 0xcd)", "remote access error", "a wrong rkey", NULL);
}

static void unsupported(struct two *t)
{
	struct ibv_flow_action_esp_attr attr = { 0 };

	expect(!ibv_create_flow_action_esp(t->context, &attr));
	report_has("who lacks a call", "ibv_create_flow_action_esp", "EOPNOTSUPP",
		   "The provider", "does not have this call", NULL);
}

static void library_calls(struct two *t)
{
	struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(t->context));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(t->context, 1, NULL, channel, 0));
	union ibv_gid gid;

	expect(ibv_destroy_comp_channel(channel) == EBUSY);
	report_has("a channel in use", "ibv_destroy_comp_channel", "still uses the channel", NULL);
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_destroy_comp_channel(channel));
	expect(ibv_query_gid(t->context, 9, 0, &gid) == -1);
	report_has("no such port", "ibv_query_gid", "Port 9", NULL);
	expect(ibv_dealloc_pd(t->pd) == EBUSY);
	report_has("a domain in use", "ibv_dealloc_pd", "EBUSY", "destroyed first", NULL);
	expect(ibv_dealloc_pd(NULL) == EINVAL);
	report_has("no domain", "a call about a pd", "NULL", NULL);
}

static void all(struct ibv_context *context, int gid_index)
{
	struct two t;

	out("%s", ibv_get_device_name(context->device));
	two_open(&t, context, gid_index, 1);
	report_nothing("what works");
	memory(&t);
	limits(&t);
	states(&t);
	families(&t);
	posting(&t);
	completions(&t);
	library_calls(&t);
	unsupported(&t);
	two_close(&t);
	MUST(ibv_close_device(context));
}

int main(void)
{
	struct ibv_context *context;

	report_to_file("IBVERBS_EXPLAIN", "");
	context = open_device_named("rxe0");
	if (context)
		all(context, 1);
	if (!own_uroce()) {
		out("no network namespace may be made: uroce is left out");
		return done();
	}
	context = MUST_PTR(open_device_named("uroce_lo"));
	all(context, 0);
	unlink(report_path);
	return done();
}
