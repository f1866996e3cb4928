/*
 * The commands of queues, called as a provider calls them: requests and completions that go
 * through the kernel, objects that the kernel does not know, masks that a command cannot say.
 *
 * Providers keep the headers of these calls to themselves. The structures behind a command are
 * the kernel's (rdma/ib_user_verbs.h) behind a header of 8 bytes, of 24 in an extended command.
 */
#include "rdma.h"

#include <rdma/ib_user_verbs.h>

enum { HEADER = 8, EX_HEADER = 24, UNKNOWN = 0x7ffffff };

struct verbs_action {
	struct ibv_flow_action action;
	uint32_t handle;
	uint32_t type;
};

int ibv_cmd_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int ibv_cmd_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc);
int ibv_cmd_destroy_cq(struct ibv_cq *cq);
int ibv_cmd_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr, void *cmd, size_t size);
int ibv_cmd_destroy_srq(struct ibv_srq *srq);
int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, void *cmd, size_t size);
int ibv_cmd_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ibv_cmd_destroy_qp(struct ibv_qp *qp);
int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, void *cmd,
		      size_t size);
int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		     struct ibv_qp_init_attr *init, void *cmd, size_t size);
int ibv_cmd_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int ibv_cmd_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ibv_cmd_destroy_wq(struct ibv_wq *wq);
int ibv_cmd_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr, void *cmd, size_t size);
int ibv_cmd_create_rwq_ind_table(struct ibv_context *context,
				 struct ibv_rwq_ind_table_init_attr *attr,
				 struct ibv_rwq_ind_table *table, void *resp, size_t size);
int ibv_cmd_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);
int ibv_cmd_create_flow(struct ibv_qp *qp, struct ibv_flow *flow, struct ibv_flow_attr *attr,
			void *data, size_t size);
int ibv_cmd_destroy_flow(struct ibv_flow *flow);
int ibv_cmd_destroy_flow_action(struct verbs_action *action);

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

/* The value alone: a refusal without the kernel need not be in errno as well. */
#define VALUE(call) out("%s = %s", #call, errno_name(call))

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = init_attr(cq, type);
	struct ibv_qp_attr attr = attr_init();
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &init));

	MUST(ibv_modify_qp(qp, &attr, type == IBV_QPT_UD ? UD_INIT_MASK : RC_INIT_MASK));
	return qp;
}

static void completions(void)
{
	struct ibv_wc wc[4];

	RC(ibv_cmd_req_notify_cq(cq, 0));
	RC(ibv_cmd_req_notify_cq(cq, 7));
	COUNT(ibv_cmd_poll_cq(cq, 1, wc));
	COUNT(ibv_cmd_poll_cq(cq, 4, wc));
}

static void sends(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UD };
	struct ibv_ah_attr to = own_address(context);
	struct ibv_ah *ah = MUST_PTR(ibv_create_ah(pd, &to));
	size_t i;

	for (i = 0; i < ARRAY_LEN(types); i++) {
		struct ibv_qp *qp = make_qp(types[i]);
		struct ibv_sge sge[2] = { { .length = 0 }, { .length = 0 } };
		struct ibv_send_wr wr[3], *bad = NULL;
		size_t k;

		memset(wr, 0, sizeof(wr));
		for (k = 0; k < ARRAY_LEN(wr); k++) {
			wr[k].next = k + 1 < ARRAY_LEN(wr) ? &wr[k + 1] : NULL;
			wr[k].opcode = IBV_WR_SEND;
			wr[k].sg_list = sge;
			wr[k].num_sge = (int)k;
			if (types[i] == IBV_QPT_UD)
				wr[k].wr.ud.ah = ah;
		}
		/* Too early: sends want a queue pair that is ready. */
		RC(ibv_cmd_post_send(qp, wr, &bad));
		out("bad %td", bad ? bad - wr : -1);
		MUST(ibv_destroy_qp(qp));
	}
	MUST(ibv_destroy_ah(ah));
}

static void receives(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 2 } };
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_srq *srq = MUST_PTR(ibv_create_srq(pd, &init));
	struct ibv_sge sge[2] = { { .length = 0 }, { .length = 0 } };
	/* More than fit into either queue. */
	struct ibv_recv_wr wr[100], *bad;
	size_t k;

	memset(wr, 0, sizeof(wr));
	for (k = 0; k < ARRAY_LEN(wr); k++) {
		wr[k].next = k + 1 < ARRAY_LEN(wr) ? &wr[k + 1] : NULL;
		wr[k].wr_id = k;
		wr[k].sg_list = sge;
		wr[k].num_sge = (int)(k % 3);
	}
	wr[2].next = NULL;
	bad = NULL;
	RC(ibv_cmd_post_recv(qp, wr, &bad));
	out("bad %td", bad ? bad - wr : -1);
	wr[2].next = &wr[3];
	bad = NULL;
	RC(ibv_cmd_post_recv(qp, wr, &bad));
	out("bad %td", bad ? bad - wr : -1);
	bad = NULL;
	RC(ibv_cmd_post_srq_recv(srq, wr, &bad));
	out("bad %td", bad ? bad - wr : -1);
	MUST(ibv_destroy_srq(srq));
	MUST(ibv_destroy_qp(qp));
}

static void nobody_knows(void)
{
	struct ibv_cq no_cq = { .context = context, .handle = UNKNOWN };
	struct ibv_qp no_qp = { .context = context, .handle = UNKNOWN };
	struct ibv_srq no_srq = { .context = context, .handle = UNKNOWN };
	struct ibv_wq no_wq = { .context = context, .handle = UNKNOWN };
	struct ibv_flow no_flow = { .context = context, .handle = UNKNOWN };
	struct ibv_rwq_ind_table no_table = { .context = context, .ind_tbl_handle = UNKNOWN };
	struct verbs_action no_action = { .action = { context }, .handle = UNKNOWN };
	struct ibv_recv_wr receive = { .wr_id = 1 }, *bad_receive = NULL;
	struct ibv_send_wr send = { .wr_id = 1 }, *bad_send = NULL;
	struct ibv_srq_attr attr;
	struct ibv_wc wc;
	char query[HEADER + sizeof(struct ib_uverbs_query_srq)];

	RC(ibv_cmd_req_notify_cq(&no_cq, 0));
	COUNT(ibv_cmd_poll_cq(&no_cq, 1, &wc));
	RC(ibv_cmd_destroy_cq(&no_cq));
	RC(ibv_cmd_destroy_qp(&no_qp));
	RC(ibv_cmd_destroy_srq(&no_srq));
	RC(ibv_cmd_destroy_wq(&no_wq));
	RC(ibv_cmd_destroy_flow(&no_flow));
	RC(ibv_cmd_destroy_rwq_ind_table(&no_table));
	RC(ibv_cmd_destroy_flow_action(&no_action));
	RC(ibv_cmd_query_srq(&no_srq, &attr, query, sizeof(query)));
	RC(ibv_cmd_post_recv(&no_qp, &receive, &bad_receive));
	out("bad %d", bad_receive == &receive);
	bad_receive = NULL;
	RC(ibv_cmd_post_srq_recv(&no_srq, &receive, &bad_receive));
	out("bad %d", bad_receive == &receive);
	RC(ibv_cmd_post_send(&no_qp, &send, &bad_send));
	out("bad %d", bad_send == &send);
}

static void masks(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_wq wq = { .context = context, .handle = UNKNOWN, .state = IBV_WQS_ERR };
	struct ibv_modify_cq_attr moderate = { .attr_mask = IBV_CQ_ATTR_RESERVED };
	struct ibv_wq_attr change = { .attr_mask = IBV_WQ_ATTR_RESERVED };
	struct ibv_rwq_ind_table_init_attr spread = { .comp_mask = 1 };
	struct ibv_rwq_ind_table table;
	struct ib_uverbs_ex_create_rwq_ind_table_resp resp;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	char query[HEADER + sizeof(struct ib_uverbs_query_qp)];
	char modify[HEADER + sizeof(struct ib_uverbs_modify_qp)];
	char modify_cq[EX_HEADER + sizeof(struct ib_uverbs_ex_modify_cq)];
	char modify_wq[EX_HEADER + sizeof(struct ib_uverbs_ex_modify_wq)];

	memset(&attr, 0, sizeof(attr));
	memset(modify, 0, sizeof(modify));
	VALUE(ibv_cmd_query_qp(qp, &attr, IBV_QP_RATE_LIMIT, &init, query, sizeof(query)));
	VALUE(ibv_cmd_query_qp(qp, &attr, 1 << 30, &init, query, sizeof(query)));
	VALUE(ibv_cmd_modify_qp(qp, &attr, IBV_QP_RATE_LIMIT, modify, sizeof(modify)));
	VALUE(ibv_cmd_modify_cq(cq, &moderate, modify_cq, sizeof(modify_cq)));
	VALUE(ibv_cmd_modify_wq(&wq, &change, modify_wq, sizeof(modify_wq)));
	change.attr_mask = IBV_WQ_ATTR_FLAGS;
	change.flags_mask = IBV_WQ_FLAGS_RESERVED;
	VALUE(ibv_cmd_modify_wq(&wq, &change, modify_wq, sizeof(modify_wq)));
	VALUE(ibv_cmd_create_rwq_ind_table(context, &spread, &table, &resp, sizeof(resp)));

	moderate.attr_mask = IBV_CQ_ATTR_MODERATE;
	RC(ibv_cmd_modify_cq(cq, &moderate, modify_cq, sizeof(modify_cq)));
	change.attr_mask = IBV_WQ_ATTR_STATE;
	change.wq_state = IBV_WQS_RDY;
	RC(ibv_cmd_modify_wq(&wq, &change, modify_wq, sizeof(modify_wq)));
	out("state kept %d", wq.state == IBV_WQS_ERR);
	RC(ibv_cmd_query_qp(qp, &attr, IBV_QP_STATE, &init, query, sizeof(query)));
	out("state %d own %d", attr.qp_state, init.send_cq == cq && init.srq == NULL);
	MUST(ibv_destroy_qp(qp));
}

static void flows(void)
{
	static const uint32_t types[] = { IBV_FLOW_SPEC_ETH, IBV_FLOW_SPEC_IPV4_EXT,
					  IBV_FLOW_SPEC_ACTION_DROP, 0x999 };
	struct ibv_qp *qp = make_qp(IBV_QPT_UD);
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec spec;
	} rule;
	struct ibv_flow flow;
	size_t i;

	for (i = 0; i < ARRAY_LEN(types); i++) {
		memset(&rule, 0, sizeof(rule));
		rule.attr.type = IBV_FLOW_ATTR_NORMAL;
		rule.attr.size = sizeof(rule);
		rule.attr.num_of_specs = 1;
		rule.attr.port = 1;
		rule.spec.hdr.type = (enum ibv_flow_spec_type)types[i];
		rule.spec.hdr.size = types[i] == IBV_FLOW_SPEC_ETH ?
			sizeof(struct ibv_flow_spec_eth) : sizeof(struct ibv_flow_spec_ipv4_ext);
		out("type %#x", types[i]);
		RC(ibv_cmd_create_flow(qp, &flow, &rule.attr, NULL, 0));
	}
	/* Too short for its kind. */
	rule.spec.hdr.type = IBV_FLOW_SPEC_IPV4_EXT;
	rule.spec.hdr.size = sizeof(struct ibv_flow_spec_ipv4);
	RC(ibv_cmd_create_flow(qp, &flow, &rule.attr, NULL, 0));
	MUST(ibv_destroy_qp(qp));
}

int main(void)
{
	context = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(context));
	cq = MUST_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	completions();
	sends();
	receives();
	nobody_knows();
	masks();
	flows();
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
	return done();
}
