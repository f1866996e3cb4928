/*
 * Inline functions that call through a table, on tables made here: the member that each calls, its
 * arguments, and the result where a context is old, short, or lacks the member.
 */
#include "check.h"

#define COMPLETION(name, type)                                                     \
	static type name(struct ibv_cq_ex *cq)                                     \
	{                                                                          \
		(void)cq;                                                          \
		out("  called " #name);                                            \
		return (type)__LINE__;                                             \
	}
#define COMPLETIONS(X)                                                             \
	X(read_opcode, enum ibv_wc_opcode)                                         \
	X(read_vendor_err, uint32_t)                                               \
	X(read_byte_len, uint32_t)                                                 \
	X(read_imm_data, __be32)                                                   \
	X(read_qp_num, uint32_t)                                                   \
	X(read_src_qp, uint32_t)                                                   \
	X(read_wc_flags, unsigned int)                                             \
	X(read_slid, uint32_t)                                                     \
	X(read_sl, uint8_t)                                                        \
	X(read_dlid_path_bits, uint8_t)                                            \
	X(read_completion_ts, uint64_t)                                            \
	X(read_cvlan, uint16_t)                                                    \
	X(read_flow_tag, uint32_t)                                                 \
	X(read_completion_wallclock_ns, uint64_t)

COMPLETIONS(COMPLETION)

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	out("  called start_poll %d %x", cq != NULL, attr->comp_mask);
	return 3;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	out("  called next_poll %d", cq != NULL);
	return 4;
}

static void end_poll(struct ibv_cq_ex *cq) { out("  called end_poll %d", cq != NULL); }

static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
	(void)cq;
	info->tag = 5;
	info->priv = 6;
	out("  called read_tm_info");
}

static void completions(void)
{
	struct ibv_poll_cq_attr attr = { .comp_mask = 9 };
	struct ibv_wc_tm_info info;
	struct ibv_cq_ex cq = { .start_poll = start_poll,
				.next_poll = next_poll,
				.end_poll = end_poll,
				.read_tm_info = read_tm_info };

#define SET(name, type) cq.name = name;
	COMPLETIONS(SET)
	COUNT(ibv_start_poll(&cq, &attr));
	COUNT(ibv_next_poll(&cq));
	ibv_end_poll(&cq);
	COUNT(ibv_wc_read_opcode(&cq) != 0);
	COUNT(ibv_wc_read_vendor_err(&cq) != 0);
	COUNT(ibv_wc_read_byte_len(&cq) != 0);
	COUNT(ibv_wc_read_imm_data(&cq) == ibv_wc_read_invalidated_rkey(&cq));
	COUNT(ibv_wc_read_qp_num(&cq) != 0);
	COUNT(ibv_wc_read_src_qp(&cq) != 0);
	COUNT(ibv_wc_read_wc_flags(&cq) != 0);
	COUNT(ibv_wc_read_slid(&cq) != 0);
	COUNT(ibv_wc_read_sl(&cq) != 0);
	COUNT(ibv_wc_read_dlid_path_bits(&cq) != 0);
	COUNT(ibv_wc_read_completion_ts(&cq) != 0);
	COUNT(ibv_wc_read_completion_wallclock_ns(&cq) != 0);
	COUNT(ibv_wc_read_cvlan(&cq) != 0);
	COUNT(ibv_wc_read_flow_tag(&cq) != 0);
	ibv_wc_read_tm_info(&cq, &info);
	out("tag %lu priv %u", (unsigned long)info.tag, info.priv);
	out("plain CQ is the same object %d", (void *)ibv_cq_ex_to_cq(&cq) == (void *)&cq);
}

static void wr_start(struct ibv_qp_ex *qp) { out("  called wr_start %d", qp != NULL); }
static void wr_abort(struct ibv_qp_ex *qp) { out("  called wr_abort %d", qp != NULL); }
static void wr_send(struct ibv_qp_ex *qp) { out("  called wr_send %d", qp != NULL); }

static int wr_complete(struct ibv_qp_ex *qp)
{
	out("  called wr_complete %d", qp != NULL);
	return 12;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	(void)qp;
	out("  cmp_swp %u %lu %lu %lu", key, (unsigned long)addr, (unsigned long)compare,
	    (unsigned long)swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, uint64_t add)
{
	(void)qp;
	out("  fetch_add %u %lu %lu", key, (unsigned long)addr, (unsigned long)add);
}

static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, const void *data)
{
	(void)qp;
	out("  atomic_write %u %lu %s", key, (unsigned long)addr, (const char *)data);
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t key,
		       const struct ibv_mw_bind_info *info)
{
	(void)qp;
	out("  bind_mw %d %u %lu", mw != NULL, key, (unsigned long)info->length);
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t key)
{
	(void)qp;
	out("  local_inv %u", key);
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr)
{
	(void)qp;
	out("  rdma_read %u %lu", key, (unsigned long)addr);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr)
{
	(void)qp;
	out("  rdma_write %u %lu", key, (unsigned long)addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, __be32 imm)
{
	(void)qp;
	out("  rdma_write_imm %u %lu %u", key, (unsigned long)addr, imm);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	(void)qp;
	out("  send_imm %u", imm);
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t key)
{
	(void)qp;
	out("  send_inv %u", key);
}

static void wr_send_tso(struct ibv_qp_ex *qp, void *header, uint16_t size, uint16_t mss)
{
	(void)qp;
	out("  send_tso %s %u %u", (char *)header, size, mss);
}

static void wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t number, uint32_t key)
{
	(void)qp;
	out("  set_ud_addr %d %u %u", ah != NULL, number, key);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t number)
{
	(void)qp;
	out("  set_xrc_srqn %u", number);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *data, size_t size)
{
	(void)qp;
	out("  set_inline_data %s %zu", (char *)data, size);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t count,
				    const struct ibv_data_buf *list)
{
	(void)qp;
	out("  set_inline_data_list %zu %zu", count, list[0].length);
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, uint32_t size)
{
	(void)qp;
	out("  set_sge %u %lu %u", key, (unsigned long)addr, size);
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
	(void)qp;
	out("  set_sge_list %zu %u", count, list[0].length);
}

static void work_requests(void)
{
	struct ibv_qp_ex qp = {
		.wr_atomic_cmp_swp = wr_atomic_cmp_swp,
		.wr_atomic_fetch_add = wr_atomic_fetch_add,
		.wr_bind_mw = wr_bind_mw,
		.wr_local_inv = wr_local_inv,
		.wr_rdma_read = wr_rdma_read,
		.wr_rdma_write = wr_rdma_write,
		.wr_rdma_write_imm = wr_rdma_write_imm,
		.wr_send = wr_send,
		.wr_send_imm = wr_send_imm,
		.wr_send_inv = wr_send_inv,
		.wr_send_tso = wr_send_tso,
		.wr_set_ud_addr = wr_set_ud_addr,
		.wr_set_xrc_srqn = wr_set_xrc_srqn,
		.wr_set_inline_data = wr_set_inline_data,
		.wr_set_inline_data_list = wr_set_inline_data_list,
		.wr_set_sge = wr_set_sge,
		.wr_set_sge_list = wr_set_sge_list,
		.wr_start = wr_start,
		.wr_complete = wr_complete,
		.wr_abort = wr_abort,
		.wr_atomic_write = wr_atomic_write,
	};
	struct ibv_mw_bind_info info = { .length = 44 };
	struct ibv_data_buf buf = { .length = 55 };
	struct ibv_sge sge = { .length = 66 };
	char word[] = "word";
	struct ibv_mw mw;
	struct ibv_ah ah;

	ibv_wr_start(&qp);
	ibv_wr_atomic_cmp_swp(&qp, 1, 2, 3, 4);
	ibv_wr_atomic_fetch_add(&qp, 1, 2, 3);
	ibv_wr_atomic_write(&qp, 1, 2, word);
	ibv_wr_bind_mw(&qp, &mw, 7, &info);
	ibv_wr_local_inv(&qp, 8);
	ibv_wr_rdma_read(&qp, 9, 10);
	ibv_wr_rdma_write(&qp, 11, 12);
	ibv_wr_rdma_write_imm(&qp, 13, 14, 15);
	ibv_wr_send(&qp);
	ibv_wr_send_imm(&qp, 16);
	ibv_wr_send_inv(&qp, 17);
	ibv_wr_send_tso(&qp, word, 18, 19);
	ibv_wr_set_ud_addr(&qp, &ah, 20, 21);
	ibv_wr_set_xrc_srqn(&qp, 22);
	ibv_wr_set_inline_data(&qp, word, 23);
	ibv_wr_set_inline_data_list(&qp, 1, &buf);
	ibv_wr_set_sge(&qp, 24, 25, 26);
	ibv_wr_set_sge_list(&qp, 1, &sge);
	COUNT(ibv_wr_complete(&qp));
	ibv_wr_abort(&qp);
}

static int to_dm(struct ibv_dm *dm, uint64_t offset, const void *from, size_t size)
{
	out("  to device memory %d %lu %d %zu", dm != NULL, (unsigned long)offset, from != NULL,
	    size);
	return 1;
}

static int from_dm(void *to, struct ibv_dm *dm, uint64_t offset, size_t size)
{
	out("  from device memory %d %d %lu %zu", to != NULL, dm != NULL, (unsigned long)offset,
	    size);
	return 2;
}

static int wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	out("  receive of a work queue %d", wq != NULL);
	*bad = wr;
	return 3;
}

static struct ibv_wq *create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	static struct ibv_wq wq;

	(void)attr;
	memset(&wq, 0xff, sizeof(wq));
	wq.context = context;
	return &wq;
}

static void objects(void)
{
	struct ibv_dm dm = { .memcpy_to_dm = to_dm, .memcpy_from_dm = from_dm };
	struct ibv_wq wq = { .post_recv = wq_recv };
	struct ibv_recv_wr wr, *bad;
	char bytes[4];

	COUNT(ibv_memcpy_to_dm(&dm, 5, bytes, 4));
	COUNT(ibv_memcpy_from_dm(bytes, &dm, 6, 3));
	COUNT(ibv_post_wq_recv(&wq, &wr, &bad));
	out("bad is it %d", bad == &wr);
}

/* Results of every inline of this kind on one context. */
static void missing(struct ibv_context *context)
{
	struct ibv_pd pd = { .context = context };
	struct ibv_qp qp = { .context = context };
	struct ibv_cq cq = { .context = context };
	struct ibv_srq srq = { .context = context };
	struct ibv_dm dm = { .context = context };
	struct ibv_ops_wr ops, *bad_ops = NULL;
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 1 };
	struct ibv_qp_init_attr_ex qp_attr = { .comp_mask = IBV_QP_INIT_ATTR_PD |
							    IBV_QP_INIT_ATTR_CREATE_FLAGS };
	struct ibv_srq_init_attr_ex srq_attr = { .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
						 .srq_type = IBV_SRQT_XRC };
	struct ibv_wq_init_attr wq_attr = { 0 };
	struct ibv_sge sge;
	uint32_t number;

	PTR(ibv_alloc_mw(&pd, IBV_MW_TYPE_1));
	PTR(ibv_alloc_null_mr(&pd));
	PTR(ibv_alloc_dm(context, NULL));
	RC(ibv_free_dm(&dm));
	PTR(ibv_reg_dm_mr(&pd, &dm, 0, 1, 0));
	RC(ibv_advise_mr(&pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	PTR(ibv_create_cq_ex(context, &cq_attr));
	RC(ibv_modify_cq(&cq, NULL));
	PTR(ibv_create_srq_ex(context, &srq_attr));
	RC(ibv_get_srq_num(&srq, &number));
	RC(ibv_post_srq_ops(&srq, &ops, &bad_ops));
	out("bad operation %s", bad_ops == &ops ? "reported" : "not reported");
	PTR(ibv_create_qp_ex(context, &qp_attr));
	PTR(ibv_open_qp(context, NULL));
	RC(ibv_modify_qp_rate_limit(&qp, NULL));
	PTR(ibv_create_wq(context, &wq_attr));
	PTR(ibv_create_rwq_ind_table(context, NULL));
	PTR(ibv_create_flow(&qp, NULL));
	PTR(ibv_create_flow_action_esp(context, NULL));
	PTR(ibv_create_counters(context, NULL));
	PTR(ibv_alloc_td(context, NULL));
	PTR(ibv_alloc_parent_domain(context, NULL));
	PTR(ibv_open_xrcd(context, NULL));
	RC(ibv_query_rt_values_ex(context, NULL));
}

static void contexts(void)
{
	static struct verbs_context wide;
	struct ibv_context plain = { 0 };
	struct ibv_wq_init_attr attr = { .wq_context = &plain };
	struct ibv_wq *wq;

	out("-- context without extension");
	missing(&plain);
	out("-- context with an empty extension");
	wide.context.abi_compat = (void *)UINTPTR_MAX;
	wide.sz = sizeof(wide);
	missing(&wide.context);
	out("-- context with a short extension");
	wide.create_wq = create_wq;
	wide.sz = sizeof(wide) - offsetof(struct verbs_context, create_wq) - 1;
	PTR(ibv_create_wq(&wide.context, &attr));
	out("-- context that just has it");
	wide.sz++;
	wq = PTR(ibv_create_wq(&wide.context, &attr));
	/* The inline function sets these itself. */
	out("context %d completed %u", wq->wq_context == &plain, wq->events_completed);
	out("mutex usable %d", !pthread_mutex_lock(&wq->mutex) && !pthread_mutex_unlock(&wq->mutex));
	out("extension found %d", verbs_get_ctx(&wide.context) == &wide);
}

int main(void)
{
	completions();
	work_requests();
	objects();
	contexts();
	out("%s", ibv_port_state_str(IBV_PORT_DOWN));
	return done();
}
