/* Every call that the rxe provider does not have: the answer of the library's defaults. */
#include "ece.h"

static void memory_calls(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_alloc_dm_attr dm_attr = { .length = 4096 };
	struct ibv_dm dm = { .context = context };
	struct ibv_sge sge = { 0 };

	PTR(ibv_alloc_null_mr(pd));
	PTR(ibv_alloc_dm(context, &dm_attr));
	RC(ibv_free_dm(&dm));
	PTR(ibv_reg_dm_mr(pd, &dm, 0, 4096, IBV_ACCESS_ZERO_BASED));
	RC(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	RC(ibv_advise_mr(pd, (enum ib_uverbs_advise_mr_advice)77, 0xff, &sge, 0));
}

static void domain_calls(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td td = { .context = context };
	struct ibv_parent_domain_init_attr parent = { .pd = pd };
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = 0100,
	};
	struct ibv_xrcd xrcd = { .context = context };
	struct ibv_td *made_td;
	struct ibv_pd *made;

	made_td = PTR(ibv_alloc_td(context, &td_attr));
	RC(ibv_dealloc_td(&td));
	made = PTR(ibv_alloc_parent_domain(context, &parent));
	/* Other providers than the plugin make them. */
	if (made)
		MUST(ibv_dealloc_pd(made));
	if (made_td)
		MUST(ibv_dealloc_td(made_td));
	PTR(ibv_open_xrcd(context, &xrcd_attr));
	RC(ibv_close_xrcd(&xrcd));
}

/*
 * Objects that were never made. A provider may read the memory around its object, which is the same
 * in each run here.
 */
static struct {
	char before[4096];
	struct ibv_flow flow;
	char between[4096];
	struct ibv_counters counters;
	char after[4096];
} never_made;

static void flow_calls(struct ibv_context *context, struct ibv_qp *qp)
{
	struct ibv_flow_attr attr = {
		.type = IBV_FLOW_ATTR_NORMAL,
		.size = sizeof(attr),
		.port = 1,
	};
	struct ibv_flow *flow = &never_made.flow;
	struct ibv_flow_action action = { .context = context };
	struct ibv_flow_action_esp_attr esp = { 0 };
	struct ibv_counters_init_attr counters_attr = { 0 };
	struct ibv_counters *counters = &never_made.counters;
	struct ibv_counter_attach_attr attach = { 0 };
	uint64_t values[1];

	flow->context = context;
	counters->context = context;
	PTR(ibv_create_flow(qp, &attr));
	RC(ibv_destroy_flow(flow));
	PTR(ibv_create_flow_action_esp(context, &esp));
	RC(ibv_modify_flow_action_esp(&action, &esp));
	RC(ibv_destroy_flow_action(&action));
	PTR(ibv_create_counters(context, &counters_attr));
	RC(ibv_attach_counters_point_flow(counters, &attach, flow));
	RC(ibv_read_counters(counters, values, 1, 0));
	RC(ibv_destroy_counters(counters));
}

static void queue_calls(struct ibv_context *context, struct ibv_pd *pd, struct ibv_cq *cq,
			struct ibv_qp *qp, struct ibv_srq *srq)
{
	struct ibv_wq_init_attr wq_attr = {
		.wq_type = IBV_WQT_RQ,
		.max_wr = 4,
		.max_sge = 1,
		.pd = pd,
		.cq = cq,
	};
	struct ibv_wq wq = { .context = context };
	struct ibv_wq_attr modify = { .attr_mask = IBV_WQ_ATTR_STATE };
	struct ibv_wq *table[1] = { &wq };
	struct ibv_rwq_ind_table_init_attr ind_attr = { .ind_tbl = table };
	struct ibv_rwq_ind_table ind = { .context = context };
	struct ibv_modify_cq_attr moderation = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = 1, .cq_period = 1 },
	};
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1 };
	struct ibv_qp_open_attr open = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_ops_wr ops = { .opcode = IBV_WR_TAG_ADD }, *bad_ops = NULL;
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	uint32_t number = 77;

	PTR(ibv_create_wq(context, &wq_attr));
	RC(ibv_modify_wq(&wq, &modify));
	RC(ibv_destroy_wq(&wq));
	PTR(ibv_create_rwq_ind_table(context, &ind_attr));
	RC(ibv_destroy_rwq_ind_table(&ind));
	RC(ibv_modify_cq(cq, &moderation));
	RC(ibv_modify_qp_rate_limit(qp, &rate));
	PTR(ibv_open_qp(context, &open));
	RC(ibv_post_srq_ops(srq, &ops, &bad_ops));
	out("bad operation %s", bad_ops == &ops ? "reported" : "not reported");
	RC(ibv_get_srq_num(srq, &number));
	RC(ibv_query_rt_values_ex(context, &values));
}

static void order_calls(struct ibv_qp *qp)
{
	int op;

	for (op = -1; op < 16; op++)
		out("data in order, opcode %d: %d %d %d", op,
		    ibv_query_qp_data_in_order(qp, (enum ibv_wr_opcode)op, 0),
		    ibv_query_qp_data_in_order(qp, (enum ibv_wr_opcode)op, 1),
		    ibv_query_qp_data_in_order(qp, (enum ibv_wr_opcode)op, 0xffffffffU));
}

int main(void)
{
	struct ibv_context *context = open_rxe();
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_qp_init_attr attr = init_attr(cq, IBV_QPT_RC);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &attr));
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = MUST_PTR(ibv_create_srq(pd, &srq_attr));

	memory_calls(context, pd);
	domain_calls(context, pd);
	flow_calls(context, qp);
	queue_calls(context, pd, cq, qp, srq);
	ece_is_refused(qp);
	order_calls(qp);
	out("extension: %s", verbs_get_ctx(context) ? "there" : "missing");
	/* A member that the structure has had since version 44: headers grow in front of it. */
	out("wide enough: %s", verbs_get_ctx(context)->sz >= sizeof(struct verbs_context) -
				   offsetof(struct verbs_context, query_port) ? "yes" : "no");
	RC(ibv_destroy_srq(srq));
	RC(ibv_destroy_qp(qp));
	RC(ibv_destroy_cq(cq));
	RC(ibv_dealloc_pd(pd));
	RC(ibv_close_device(context));
	return done();
}
