/* Memory windows: kinds, binding with good and bad arguments, access through them. */
#include "rdma.h"

static struct pair pair;

static void one_wc(const char *title)
{
	struct ibv_wc wc = wait_wc(pair.cq[0]);

	show_wc(title, &wc);
}

static void write_by(const char *title, uint32_t rkey, size_t offset)
{
	struct ibv_sge sge = piece(&pair, 0, 100);
	struct ibv_send_wr wr = {
		.wr_id = 70,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)pair.buffer + offset, .rkey = rkey },
	}, *bad;

	MUST(ibv_post_send(pair.qp[0], &wr, &bad));
	one_wc(title);
}

static void kinds(void)
{
	static const int types[] = { 0, IBV_MW_TYPE_1, IBV_MW_TYPE_2, 3, 77 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(types); i++) {
		struct ibv_mw *mw;

		out("type %d", types[i]);
		mw = PTR(ibv_alloc_mw(pair.pd, (enum ibv_mw_type)types[i]));
		if (!mw)
			continue;
		out("type %d pd %d context %d", mw->type, mw->pd == pair.pd,
		    mw->context == pair.context);
		RC(ibv_dealloc_mw(mw));
	}
}

static void bind_first_kind(void)
{
	struct ibv_mw *mw = MUST_PTR(ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1));
	struct ibv_mw *second = MUST_PTR(ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2));
	struct ibv_pd *other = MUST_PTR(ibv_alloc_pd(pair.context));
	struct ibv_mw *foreign = MUST_PTR(ibv_alloc_mw(other, IBV_MW_TYPE_1));
	struct ibv_mw_bind bind = {
		.wr_id = 60,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = pair.mr,
			       .addr = (uintptr_t)pair.buffer + 4096,
			       .length = 4096,
			       .mw_access_flags = IBV_ACCESS_REMOTE_WRITE },
	};
	uint32_t rkey = mw->rkey;

	RC(ibv_bind_mw(pair.qp[0], second, &bind));
	RC(ibv_bind_mw(pair.qp[0], foreign, &bind));
	bind.bind_info.mr = NULL;
	RC(ibv_bind_mw(pair.qp[0], mw, &bind));
	bind.bind_info.mr = pair.mr;
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	RC(ibv_bind_mw(pair.qp[0], mw, &bind));
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	RC(ibv_bind_mw(pair.qp[0], mw, &bind));
	one_wc("bind");
	out("key changed %d by the rule %d", mw->rkey != rkey, mw->rkey == ibv_inc_rkey(rkey));
	write_by("write in the window", mw->rkey, 4096 + 100);
	bind.wr_id = 61;
	bind.bind_info.length = 0;
	RC(ibv_bind_mw(pair.qp[0], mw, &bind));
	one_wc("unbind");
	RC(ibv_dealloc_mw(mw));
	RC(ibv_dealloc_mw(second));
	RC(ibv_dealloc_mw(foreign));
	RC(ibv_dealloc_pd(other));
}

static void bind_second_kind(void)
{
	struct ibv_mw *mw = MUST_PTR(ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2));
	struct ibv_send_wr wr = {
		.wr_id = 80,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw,
			     .rkey = ibv_inc_rkey(mw->rkey),
			     .bind_info = { .mr = pair.mr,
					    .addr = (uintptr_t)pair.buffer + 8192,
					    .length = 1000,
					    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } },
	}, *bad;
	struct ibv_send_wr inv = {
		.wr_id = 81,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
	};

	RC(ibv_post_send(pair.qp[0], &wr, &bad));
	one_wc("bind");
	/* Bound at side 0: the peer writes through it. */
	inv.invalidate_rkey = wr.bind_mw.rkey;
	RC(ibv_post_send(pair.qp[0], &inv, &bad));
	one_wc("invalidate");
	RC(ibv_dealloc_mw(mw));
}

/* Beyond the window; this ends the pair. */
static void out_of_window(void)
{
	struct ibv_mw *mw = MUST_PTR(ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1));
	struct ibv_mw_bind bind = {
		.wr_id = 62,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = pair.mr,
			       .addr = (uintptr_t)pair.buffer,
			       .length = 50,
			       .mw_access_flags = IBV_ACCESS_REMOTE_WRITE },
	};

	MUST(ibv_bind_mw(pair.qp[0], mw, &bind));
	one_wc("bind");
	write_by("write beyond the window", mw->rkey, 0);
	RC(ibv_dealloc_mw(mw));
}

int main(void)
{
	make_pair(&pair, IBV_QPT_RC);
	kinds();
	bind_first_kind();
	bind_second_kind();
	out_of_window();
	free_pair(&pair);
	return done();
}
