/*
 * The inline verbs, on a context made here: the function that each calls, and its result when the
 * slot is empty, when the context is too short for it, and without an extended context. Needs no
 * library: the exported functions are defined below.
 */
#include <infiniband/verbs.h>
#include <stdio.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { ANSWER = 77 };

static int failures, checks;
static const char *last = "";
static size_t last_size;
static union {
	struct ibv_pd pd;
	struct ibv_qp qp;
	char room[1024];
} object;
static struct verbs_context vctx;
static struct ibv_context *const ctx = &vctx.context;

static void expect(int ok, const char *what, const char *when)
{
	checks++;
	if (ok)
		return;
	failures++;
	printf("%s: not as it should be %s\n", what, when);
}

static int went(const char *where)
{
	int ok = strcmp(last, where) == 0;

	last = "";
	return ok;
}

/* The exported functions that the inline verbs call. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#define FUNCTION(name, type, args, answer) \
	type name args \
	{ \
		last = #name; \
		return answer; \
	}
FUNCTION(ibv_query_device, int, (struct ibv_context *c, struct ibv_device_attr *a), ANSWER)
FUNCTION(ibv_query_port, int,
	 (struct ibv_context *c, uint8_t p, struct _compat_ibv_port_attr *a), ANSWER)
FUNCTION(_ibv_query_gid_ex, int,
	 (struct ibv_context *c, uint32_t p, uint32_t i, struct ibv_gid_entry *e, uint32_t f,
	  size_t size), (int)(last_size = size))
FUNCTION(_ibv_query_gid_table, ssize_t,
	 (struct ibv_context *c, struct ibv_gid_entry *e, size_t n, uint32_t f, size_t size),
	 (ssize_t)(last_size = size))
FUNCTION(ibv_create_qp, struct ibv_qp *, (struct ibv_pd *p, struct ibv_qp_init_attr *a),
	 &object.qp)
FUNCTION(ibv_create_srq, struct ibv_srq *, (struct ibv_pd *p, struct ibv_srq_init_attr *a),
	 (struct ibv_srq *)&object)
FUNCTION(ibv_reg_mr, struct ibv_mr *, (struct ibv_pd *p, void *a, size_t l, int f), NULL)
FUNCTION(ibv_reg_mr_iova, struct ibv_mr *,
	 (struct ibv_pd *p, void *a, size_t l, uint64_t i, int f), NULL)
FUNCTION(ibv_reg_mr_iova2, struct ibv_mr *,
	 (struct ibv_pd *p, void *a, size_t l, uint64_t i, unsigned int f), NULL)

/* Slots of a provider that has everything. */
#define SLOT(name, args) static FUNCTION(fake_##name, int, args, ANSWER)
#define SLOT_OF(type, name, args) \
	static FUNCTION(fake_##name, struct type *, args, (struct type *)(void *)&object)
SLOT(query_port, (struct ibv_context *c, uint8_t p, struct ibv_port_attr *a, size_t l))
SLOT(advise_mr, (struct ibv_pd *p, enum ibv_advise_mr_advice a, uint32_t f, struct ibv_sge *l,
		 uint32_t n))
SLOT_OF(ibv_mr, alloc_null_mr, (struct ibv_pd *p))
SLOT(read_counters, (struct ibv_counters *c, uint64_t *v, uint32_t n, uint32_t f))
SLOT(attach_counters_point_flow,
     (struct ibv_counters *c, struct ibv_counter_attach_attr *a, struct ibv_flow *f))
SLOT_OF(ibv_counters, create_counters,
	(struct ibv_context *c, struct ibv_counters_init_attr *a))
SLOT(destroy_counters, (struct ibv_counters *c))
SLOT_OF(ibv_mr, reg_dm_mr,
	(struct ibv_pd *p, struct ibv_dm *d, uint64_t o, size_t l, unsigned int a))
SLOT_OF(ibv_dm, alloc_dm, (struct ibv_context *c, struct ibv_alloc_dm_attr *a))
SLOT(free_dm, (struct ibv_dm *d))
SLOT(modify_flow_action_esp, (struct ibv_flow_action *f, struct ibv_flow_action_esp_attr *a))
SLOT(destroy_flow_action, (struct ibv_flow_action *f))
SLOT_OF(ibv_flow_action, create_flow_action_esp,
	(struct ibv_context *c, struct ibv_flow_action_esp_attr *a))
SLOT(modify_qp_rate_limit, (struct ibv_qp *q, struct ibv_qp_rate_limit_attr *a))
SLOT_OF(ibv_pd, alloc_parent_domain,
	(struct ibv_context *c, struct ibv_parent_domain_init_attr *a))
SLOT(dealloc_td, (struct ibv_td *t))
SLOT_OF(ibv_td, alloc_td, (struct ibv_context *c, struct ibv_td_init_attr *a))
SLOT(modify_cq, (struct ibv_cq *c, struct ibv_modify_cq_attr *a))
SLOT(post_srq_ops, (struct ibv_srq *s, struct ibv_ops_wr *o, struct ibv_ops_wr **b))
SLOT(destroy_rwq_ind_table, (struct ibv_rwq_ind_table *t))
SLOT_OF(ibv_rwq_ind_table, create_rwq_ind_table,
	(struct ibv_context *c, struct ibv_rwq_ind_table_init_attr *a))
SLOT(destroy_wq, (struct ibv_wq *w))
SLOT(modify_wq, (struct ibv_wq *w, struct ibv_wq_attr *a))
SLOT_OF(ibv_wq, create_wq, (struct ibv_context *c, struct ibv_wq_init_attr *a))
SLOT(query_rt_values, (struct ibv_context *c, struct ibv_values_ex *v))
SLOT_OF(ibv_cq_ex, create_cq_ex, (struct ibv_context *c, struct ibv_cq_init_attr_ex *a))
SLOT(query_device_ex, (struct ibv_context *c, const struct ibv_query_device_ex_input *i,
		       struct ibv_device_attr_ex *a, size_t l))
SLOT(ibv_destroy_flow, (struct ibv_flow *f))
SLOT_OF(ibv_flow, ibv_create_flow, (struct ibv_qp *q, struct ibv_flow_attr *a))
SLOT_OF(ibv_qp, open_qp, (struct ibv_context *c, struct ibv_qp_open_attr *a))
SLOT_OF(ibv_qp, create_qp_ex, (struct ibv_context *c, struct ibv_qp_init_attr_ex *a))
SLOT(get_srq_num, (struct ibv_srq *s, uint32_t *n))
SLOT_OF(ibv_srq, create_srq_ex, (struct ibv_context *c, struct ibv_srq_init_attr_ex *a))
SLOT_OF(ibv_xrcd, open_xrcd, (struct ibv_context *c, struct ibv_xrcd_init_attr *a))
SLOT(close_xrcd, (struct ibv_xrcd *x))
SLOT_OF(ibv_mw, alloc_mw, (struct ibv_pd *p, enum ibv_mw_type t))
SLOT(bind_mw, (struct ibv_qp *q, struct ibv_mw *m, struct ibv_mw_bind *b))
SLOT(dealloc_mw, (struct ibv_mw *m))
SLOT(poll_cq, (struct ibv_cq *c, int n, struct ibv_wc *w))
SLOT(req_notify_cq, (struct ibv_cq *c, int s))
SLOT(post_srq_recv, (struct ibv_srq *s, struct ibv_recv_wr *w, struct ibv_recv_wr **b))
SLOT(post_send, (struct ibv_qp *q, struct ibv_send_wr *w, struct ibv_send_wr **b))
SLOT(post_recv, (struct ibv_qp *q, struct ibv_recv_wr *w, struct ibv_recv_wr **b))
SLOT(post_recv_wq, (struct ibv_wq *q, struct ibv_recv_wr *w, struct ibv_recv_wr **b))
static FUNCTION(fake_query_device_unknown, int,
		(struct ibv_context *c, const struct ibv_query_device_ex_input *i,
		 struct ibv_device_attr_ex *a, size_t l), ENOSYS)

/* A context in which only the size is set; objects of every kind point to it. */
static void empty_context(void)
{
	memset(&vctx, 0, sizeof(vctx));
	memset(&object, 0, sizeof(object));
	vctx.sz = sizeof(vctx);
	ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	last = "";
	errno = 0;
}

/* Absent by each of the three ways, and present in a context just long enough. */
#define VERB(slot, call, is_answer, is_missing) \
	do { \
		const size_t need = sizeof(vctx) - offsetof(struct verbs_context, slot); \
		empty_context(); \
		expect(is_missing(call), #call, "without the slot"); \
		vctx.slot = fake_##slot; \
		expect(is_answer(call) && went("fake_" #slot), #call, "with the slot"); \
		vctx.sz = need; \
		expect(is_answer(call) && went("fake_" #slot), #call, "at its size"); \
		vctx.sz = need - 1; \
		expect(is_missing(call), #call, "in a context too short"); \
		vctx.sz = sizeof(vctx); \
		ctx->abi_compat = NULL; \
		expect(is_missing(call), #call, "in a plain context"); \
	} while (0)
#define IS_ANSWER(call) ((call) == ANSWER)
#define IS_UNSUPPORTED(call) ((call) == EOPNOTSUPP)
#define IS_OBJECT(call) ((void *)(call) == (void *)&object)
#define IS_NULL(call) (errno = 0, (call) == NULL && errno == EOPNOTSUPP)
#define INT_VERB(slot, call) VERB(slot, call, IS_ANSWER, IS_UNSUPPORTED)
#define PTR_VERB(slot, call) VERB(slot, call, IS_OBJECT, IS_NULL)

static void extended_verbs(void)
{
	struct ibv_pd pd = { .context = ctx };
	struct ibv_qp qp = { .context = ctx };
	struct ibv_cq cq = { .context = ctx };
	struct ibv_wq wq = { .context = ctx };
	struct ibv_dm dm = { .context = ctx };
	struct ibv_td td = { .context = ctx };
	struct ibv_srq srq = { .context = ctx };
	struct ibv_flow flow = { .context = ctx };
	struct ibv_flow_action action = { .context = ctx };
	struct ibv_counters counters = { .context = ctx };
	struct ibv_rwq_ind_table table = { .context = ctx };
	struct ibv_qp_init_attr_ex qp_attr = { .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_srq_init_attr_ex srq_attr = { .comp_mask = IBV_SRQ_INIT_ATTR_XRCD };
	struct ibv_wq_init_attr wq_attr = { .wq_context = &wq };
	struct ibv_ops_wr op, *bad_op;

	INT_VERB(advise_mr, ibv_advise_mr(&pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0));
	PTR_VERB(alloc_null_mr, ibv_alloc_null_mr(&pd));
	INT_VERB(read_counters, ibv_read_counters(&counters, NULL, 0, 0));
	INT_VERB(attach_counters_point_flow,
		 ibv_attach_counters_point_flow(&counters, NULL, &flow));
	PTR_VERB(create_counters, ibv_create_counters(ctx, NULL));
	INT_VERB(destroy_counters, ibv_destroy_counters(&counters));
	PTR_VERB(reg_dm_mr, ibv_reg_dm_mr(&pd, &dm, 0, 0, 0));
	PTR_VERB(alloc_dm, ibv_alloc_dm(ctx, NULL));
	INT_VERB(free_dm, ibv_free_dm(&dm));
	PTR_VERB(create_flow_action_esp, ibv_create_flow_action_esp(ctx, NULL));
	INT_VERB(modify_flow_action_esp, ibv_modify_flow_action_esp(&action, NULL));
	INT_VERB(destroy_flow_action, ibv_destroy_flow_action(&action));
	INT_VERB(modify_qp_rate_limit, ibv_modify_qp_rate_limit(&qp, NULL));
	PTR_VERB(alloc_parent_domain, ibv_alloc_parent_domain(ctx, NULL));
	PTR_VERB(alloc_td, ibv_alloc_td(ctx, NULL));
	INT_VERB(dealloc_td, ibv_dealloc_td(&td));
	INT_VERB(modify_cq, ibv_modify_cq(&cq, NULL));
	INT_VERB(post_srq_ops, ibv_post_srq_ops(&srq, &op, &bad_op));
	expect(bad_op == &op, "ibv_post_srq_ops", "about the operation not posted");
	PTR_VERB(create_rwq_ind_table, ibv_create_rwq_ind_table(ctx, NULL));
	INT_VERB(destroy_rwq_ind_table, ibv_destroy_rwq_ind_table(&table));
	PTR_VERB(create_wq, ibv_create_wq(ctx, &wq_attr));
	expect(((struct ibv_wq *)(void *)&object)->wq_context == &wq, "ibv_create_wq",
	       "about wq_context");
	INT_VERB(modify_wq, ibv_modify_wq(&wq, NULL));
	INT_VERB(destroy_wq, ibv_destroy_wq(&wq));
	INT_VERB(query_rt_values, ibv_query_rt_values_ex(ctx, NULL));
	PTR_VERB(create_cq_ex, ibv_create_cq_ex(ctx, NULL));
	PTR_VERB(ibv_create_flow, ibv_create_flow(&qp, NULL));
	INT_VERB(ibv_destroy_flow, ibv_destroy_flow(&flow));
	PTR_VERB(open_qp, ibv_open_qp(ctx, NULL));
	PTR_VERB(create_qp_ex, ibv_create_qp_ex(ctx, &qp_attr));
	PTR_VERB(create_srq_ex, ibv_create_srq_ex(ctx, &srq_attr));
	INT_VERB(get_srq_num, ibv_get_srq_num(&srq, NULL));
	PTR_VERB(open_xrcd, ibv_open_xrcd(ctx, NULL));
}

static void verbs_with_another_way(void)
{
	const uint32_t pd_type = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;
	struct ibv_qp_init_attr_ex qp_attr = { .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct ibv_srq_init_attr_ex srq_attr = { .comp_mask = IBV_SRQ_INIT_ATTR_PD };
	struct ibv_xrcd xrcd = { .context = ctx };

	empty_context();
	memset(&attr, 0xff, sizeof(attr));
	expect(ibv_query_device_ex(ctx, &input, &attr) == EINVAL && went(""),
	       "ibv_query_device_ex", "with input");
	input.comp_mask = 0;
	expect(ibv_query_device_ex(ctx, &input, &attr) == ANSWER &&
		       went("ibv_query_device") && attr.phys_port_cnt_ex == 0,
	       "ibv_query_device_ex", "without the slot");
	vctx.query_device_ex = fake_query_device_unknown;
	memset(&attr, 0xff, sizeof(attr));
	expect(ibv_query_device_ex(ctx, NULL, &attr) == ANSWER &&
		       went("ibv_query_device") && attr.phys_port_cnt_ex == 0,
	       "ibv_query_device_ex", "when the device does not know it");
	vctx.query_device_ex = fake_query_device_ex;
	expect(ibv_query_device_ex(ctx, NULL, &attr) == ANSWER &&
		       went("fake_query_device_ex"),
	       "ibv_query_device_ex", "with the slot");

	memset(&port, 0xff, sizeof(port));
	expect(___ibv_query_port(ctx, 1, &port) == ANSWER && went("ibv_query_port") &&
		       port.port_cap_flags2 == 0,
	       "ibv_query_port", "without the slot");
	vctx.query_port = fake_query_port;
	expect(___ibv_query_port(ctx, 1, &port) == ANSWER && went("fake_query_port"),
	       "ibv_query_port", "with the slot");

	expect(IS_OBJECT(ibv_create_qp_ex(ctx, &qp_attr)) && went("ibv_create_qp"),
	       "ibv_create_qp_ex", "with a domain alone");
	expect(IS_OBJECT(ibv_create_srq_ex(ctx, &srq_attr)) && went("ibv_create_srq"),
	       "ibv_create_srq_ex", "with a domain alone");
	srq_attr.comp_mask = pd_type;
	srq_attr.srq_type = IBV_SRQT_BASIC;
	expect(IS_OBJECT(ibv_create_srq_ex(ctx, &srq_attr)) && went("ibv_create_srq"),
	       "ibv_create_srq_ex", "of the basic type");
	srq_attr.srq_type = IBV_SRQT_XRC;
	expect(IS_NULL(ibv_create_srq_ex(ctx, &srq_attr)) && went(""), "ibv_create_srq_ex",
	       "of another type");
	srq_attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
	srq_attr.srq_type = IBV_SRQT_BASIC;
	expect(IS_NULL(ibv_create_srq_ex(ctx, &srq_attr)) && went(""), "ibv_create_srq_ex",
	       "without a domain");

	expect(ibv_query_gid_ex(ctx, 1, 0, NULL, 0) == 32 && went("_ibv_query_gid_ex"),
	       "ibv_query_gid_ex", "about the entry's size");
	expect(ibv_query_gid_table(ctx, NULL, 0, 0) == 32 && went("_ibv_query_gid_table"),
	       "ibv_query_gid_table", "about the entry's size");
	vctx.close_xrcd = fake_close_xrcd;
	expect(ibv_close_xrcd(&xrcd) == ANSWER && went("fake_close_xrcd"), "ibv_close_xrcd",
	       "with the slot");
}

static void registration(unsigned int known_at_run_time)
{
	const int optional = IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_LOCAL_WRITE;

	__ibv_reg_mr(NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE, 1);
	expect(went("ibv_reg_mr"), "ibv_reg_mr", "with constant flags");
	__ibv_reg_mr(NULL, NULL, 0, (unsigned int)optional, 1);
	expect(went("ibv_reg_mr_iova2"), "ibv_reg_mr", "with an optional flag");
	__ibv_reg_mr(NULL, NULL, 0, known_at_run_time, 0);
	expect(went("ibv_reg_mr_iova2"), "ibv_reg_mr", "with flags not constant");
	__ibv_reg_mr_iova(NULL, NULL, 0, 0, IBV_ACCESS_LOCAL_WRITE, 1);
	expect(went("ibv_reg_mr_iova"), "ibv_reg_mr_iova", "with constant flags");
	__ibv_reg_mr_iova(NULL, NULL, 0, 0, (unsigned int)optional, 1);
	expect(went("ibv_reg_mr_iova2"), "ibv_reg_mr_iova", "with an optional flag");
	__ibv_reg_mr_iova(NULL, NULL, 0, 0, known_at_run_time, 0);
	expect(went("ibv_reg_mr_iova2"), "ibv_reg_mr_iova", "with flags not constant");
}

static void windows(void)
{
	struct ibv_pd pd = { .context = ctx }, other = { .context = ctx };
	struct ibv_mr mr = { .context = ctx, .pd = &other };
	struct ibv_mw mw = { .context = ctx, .pd = &pd, .type = IBV_MW_TYPE_2 };
	struct ibv_mw_bind bind = { .wr_id = 0 };

	empty_context();
	expect(IS_NULL(ibv_alloc_mw(&pd, IBV_MW_TYPE_1)), "ibv_alloc_mw", "without the slot");
	ctx->ops.alloc_mw = fake_alloc_mw;
	ctx->ops.bind_mw = fake_bind_mw;
	ctx->ops.dealloc_mw = fake_dealloc_mw;
	expect(IS_OBJECT(ibv_alloc_mw(&pd, IBV_MW_TYPE_1)), "ibv_alloc_mw", "with the slot");
	expect(ibv_bind_mw(NULL, &mw, &bind) == EINVAL, "ibv_bind_mw", "of type 2");
	mw.type = IBV_MW_TYPE_1;
	bind.bind_info.addr = 1;
	expect(ibv_bind_mw(NULL, &mw, &bind) == EINVAL, "ibv_bind_mw", "without a region");
	bind.bind_info.mr = &mr;
	expect(ibv_bind_mw(NULL, &mw, &bind) == EPERM, "ibv_bind_mw", "of another domain");
	mr.pd = &pd;
	expect(ibv_bind_mw(NULL, &mw, &bind) == ANSWER, "ibv_bind_mw", "as it should be");
	expect(ibv_dealloc_mw(&mw) == ANSWER && went("fake_dealloc_mw"), "ibv_dealloc_mw",
	       "with the slot");
}

static void data_path(void)
{
	struct ibv_qp qp = { .context = ctx };
	struct ibv_cq cq = { .context = ctx };
	struct ibv_srq srq = { .context = ctx };
	struct ibv_wq wq = { .context = ctx, .post_recv = fake_post_recv_wq };

	empty_context();
	ctx->ops.poll_cq = fake_poll_cq;
	ctx->ops.req_notify_cq = fake_req_notify_cq;
	ctx->ops.post_srq_recv = fake_post_srq_recv;
	ctx->ops.post_send = fake_post_send;
	ctx->ops.post_recv = fake_post_recv;
#define DATA_PATH(name, call) \
	expect((call) == ANSWER && went("fake_" #name), #call, "about its way")
	DATA_PATH(poll_cq, ibv_poll_cq(&cq, 1, NULL));
	DATA_PATH(req_notify_cq, ibv_req_notify_cq(&cq, 0));
	DATA_PATH(post_srq_recv, ibv_post_srq_recv(&srq, NULL, NULL));
	DATA_PATH(post_send, ibv_post_send(&qp, NULL, NULL));
	DATA_PATH(post_recv, ibv_post_recv(&qp, NULL, NULL));
	DATA_PATH(post_recv_wq, ibv_post_wq_recv(&wq, NULL, NULL));
}

int main(int argc, char **argv)
{
	(void)argv;
	extended_verbs();
	verbs_with_another_way();
	registration((unsigned int)argc);
	windows();
	data_path();
	printf("%d checks, %d failures\n", checks, failures);
	return failures != 0;
}
