/*
 * Flushes and atomic writes over a device in user space, by ibv_wr_flush(3) and
 * ibv_wr_atomic_write(3): execution, and each kind of error. Runs in a separate network namespace.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "network.h"
#include "rdma.h"


/* Bits of device_cap_flags_ex that have names in the kernel's headers alone. */
#define CAP_FLUSH_GLOBAL (1ULL << 38)
#define CAP_FLUSH_PERSISTENT (1ULL << 39)
#define CAP_ATOMIC_WRITE (1ULL << 40)

#define NOTHING_OF(call) expect(!PTR(call) && errno == EOPNOTSUPP)

enum {
	SIZE = 16384,
	OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE,
	FLUSHABLE = REMOTE_ACCESS | IBV_ACCESS_FLUSH_GLOBAL,
	PERSISTENT = FLUSHABLE | IBV_ACCESS_FLUSH_PERSISTENT,
};

/* Two connected queue pairs; the first writes to the second half of the memory. */
struct ends {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_qp_ex *ex;
	unsigned char *memory;
	struct ibv_mr *mr;
};

static struct ibv_qp *new_qp(struct ends *ends, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ends->cq,
		.recv_cq = ends->cq,
		.cap = { .max_send_wr = 16, .max_send_sge = 1, .max_recv_wr = 1, .max_recv_sge = 1 },
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = ends->pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(ends->context, &init);
}

static void connect_one(struct ibv_qp *qp, uint32_t peer, unsigned int access)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = attr_init();

	attr.qp_access_flags = access;
	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_qp(qp, &attr, IBV_QP_ACCESS_FLAGS, &init));
	expect(attr.qp_access_flags == access);
	attr = attr_rtr(qp->context, peer);
	MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr = attr_rts();
	MUST(ibv_modify_qp(qp, &attr, RC_RTS_MASK));
}

static struct ends make(struct ibv_context *context, int region, unsigned int access)
{
	struct ends ends = { .context = context };
	int i;

	ends.pd = MUST_PTR(ibv_alloc_pd(context));
	ends.cq = MUST_PTR(ibv_create_cq(context, 64, NULL, NULL, 0));
	ends.memory = MUST_PTR((unsigned char *)aligned_alloc(4096, 2 * SIZE));
	memset(ends.memory, 0, 2 * SIZE);
	ends.mr = MUST_PTR(ibv_reg_mr(ends.pd, ends.memory, 2 * SIZE, region));
	for (i = 0; i < 2; i++)
		ends.qp[i] = MUST_PTR(new_qp(&ends, IBV_QPT_RC, OPS));
	for (i = 0; i < 2; i++)
		connect_one(ends.qp[i], ends.qp[!i]->qp_num, access);
	ends.ex = MUST_PTR(ibv_qp_to_qp_ex(ends.qp[0]));
	return ends;
}

static void unmake(struct ends *ends)
{
	MUST(ibv_destroy_qp(ends->qp[0]));
	MUST(ibv_destroy_qp(ends->qp[1]));
	MUST(ibv_dereg_mr(ends->mr));
	MUST(ibv_destroy_cq(ends->cq));
	MUST(ibv_dealloc_pd(ends->pd));
	free(ends->memory);
}

static void begin(struct ends *ends, uint64_t id)
{
	ibv_wr_start(ends->ex);
	ends->ex->wr_id = id;
	ends->ex->wr_flags = IBV_SEND_SIGNALED;
}

static void flush(struct ends *ends, size_t length, uint8_t placement, uint8_t level)
{
	ibv_wr_flush(ends->ex, ends->mr->rkey, (uintptr_t)ends->memory + SIZE, length, placement,
		     level);
}

/* A write, its flush, and the word that announces both, in one call and in order. */
static void carried_out(struct ibv_context *context)
{
	struct ends ends = make(context, ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL, FLUSHABLE);
	uint64_t there = (uintptr_t)ends.memory + SIZE, word = 0x1122334455667788, seen;
	const enum ibv_wc_opcode opcodes[] = {
		IBV_WC_RDMA_WRITE, IBV_WC_FLUSH, IBV_WC_ATOMIC_WRITE, IBV_WC_FLUSH, IBV_WC_FLUSH,
	};
	unsigned int i;

	memset(ends.memory, 'w', SIZE);
	begin(&ends, 0);
	ibv_wr_rdma_write(ends.ex, ends.mr->rkey, there);
	ibv_wr_set_sge(ends.ex, ends.mr->lkey, (uintptr_t)ends.memory, SIZE);
	ends.ex->wr_id = 1;
	flush(&ends, SIZE, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	ends.ex->wr_id = 2;
	ibv_wr_atomic_write(ends.ex, ends.mr->rkey, there + 8, &word);
	ends.ex->wr_id = 3;
	flush(&ends, 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	/* A region as a whole: where and how much do not count. */
	ends.ex->wr_id = 4;
	ibv_wr_flush(ends.ex, ends.mr->rkey, 0, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
	MUST(ibv_wr_complete(ends.ex));
	for (i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		struct ibv_wc wc = wait_wc(ends.cq);

		expect(wc.status == IBV_WC_SUCCESS && wc.wr_id == i && wc.opcode == opcodes[i]);
	}
	memcpy(&seen, ends.memory + SIZE + 8, sizeof(seen));
	expect(seen == word);
	expect(ends.memory[SIZE] == 'w' && ends.memory[2 * SIZE - 1] == 'w');
	out("written, flushed, reported");
	unmake(&ends);
}

/* Requests that ibv_wr_complete(3) refuses, with all others of the same call. */
static void refused_here(struct ibv_context *context)
{
	struct ends ends = make(context, ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL, FLUSHABLE);
	struct ibv_sge sge = { (uintptr_t)ends.memory, 8, ends.mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_FLUSH,
		.wr.rdma = { (uintptr_t)ends.memory + SIZE, ends.mr->rkey },
	}, *bad = NULL;
	struct ibv_wc wc;

	begin(&ends, 1);
	flush(&ends, 8, 0, IBV_FLUSH_RANGE);
	expect(RC(ibv_wr_complete(ends.ex)) == EINVAL);
	begin(&ends, 2);
	flush(&ends, 8, IBV_FLUSH_GLOBAL, 2);
	expect(RC(ibv_wr_complete(ends.ex)) == EINVAL);
	begin(&ends, 3);
	flush(&ends, 1ULL << 32, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	expect(RC(ibv_wr_complete(ends.ex)) == EINVAL);
	begin(&ends, 4);
	flush(&ends, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	ibv_wr_set_sge(ends.ex, ends.mr->lkey, (uintptr_t)ends.memory, 8);
	expect(RC(ibv_wr_complete(ends.ex)) == EINVAL);
	/* struct ibv_send_wr has no members for a flush. */
	expect(RC(ibv_post_send(ends.qp[0], &wr, &bad)) == EINVAL && bad == &wr);
	expect(ibv_poll_cq(ends.cq, 1, &wc) == 0);
	NOTHING_OF(new_qp(&ends, IBV_QPT_UD, IBV_QP_EX_WITH_FLUSH));
	NOTHING_OF(new_qp(&ends, IBV_QPT_UC, IBV_QP_EX_WITH_FLUSH));
	/* Nothing here outlives the machine's power. */
	errno = 0;
	expect(!ibv_reg_mr(ends.pd, ends.memory, SIZE, IBV_ACCESS_FLUSH_PERSISTENT));
	expect(errno == EINVAL);
	unmake(&ends);
}

/* Requests that the peer refuses: the request and the connection end in error. */
static void refused_there(struct ibv_context *context, const char *why, int region,
			  unsigned int access, size_t length, uint8_t placement,
			  enum ibv_wc_status status)
{
	struct ends ends = make(context, region, access);
	struct ibv_wc wc;

	begin(&ends, 9);
	flush(&ends, length, placement, IBV_FLUSH_RANGE);
	MUST(ibv_wr_complete(ends.ex));
	wc = wait_wc(ends.cq);
	show_wc(why, &wc);
	expect(wc.wr_id == 9 && wc.status == status);
	unmake(&ends);
}

int main(void)
{
	const int flushable = ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL;
	struct ibv_device_attr_ex attr;
	struct ibv_context *context;

	if (!own_device())
		return done();
	context = open_rxe();
	MUST(ibv_query_device_ex(context, NULL, &attr));
	expect(attr.device_cap_flags_ex & CAP_FLUSH_GLOBAL);
	expect(attr.device_cap_flags_ex & CAP_ATOMIC_WRITE);
	expect(!(attr.device_cap_flags_ex & CAP_FLUSH_PERSISTENT));
	carried_out(context);
	refused_here(context);
	refused_there(context, "a region that may not be flushed", ALL_ACCESS, FLUSHABLE, 8,
		      IBV_FLUSH_GLOBAL, IBV_WC_REM_ACCESS_ERR);
	refused_there(context, "beyond the region", flushable, FLUSHABLE, SIZE + 1,
		      IBV_FLUSH_GLOBAL, IBV_WC_REM_ACCESS_ERR);
	refused_there(context, "a connection without persistence", flushable, FLUSHABLE, 8,
		      IBV_FLUSH_PERSISTENT, IBV_WC_REM_INV_REQ_ERR);
	refused_there(context, "a region without persistence", flushable, PERSISTENT, 8,
		      IBV_FLUSH_PERSISTENT, IBV_WC_REM_ACCESS_ERR);
	refused_there(context, "both types, one of them not the region's", flushable, PERSISTENT,
		      8, IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT, IBV_WC_REM_ACCESS_ERR);
	refused_there(context, "a connection that may not flush", flushable, REMOTE_ACCESS, 8,
		      IBV_FLUSH_GLOBAL, IBV_WC_REM_INV_REQ_ERR);
	MUST(ibv_close_device(context));
	return done();
}
