/* Queue pairs: types, sizes, every change of state, queries. */
#include "rdma.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void by_type(void)
{
	static const int types[] = { 0, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET,
				     IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_DRIVER, 77, -1 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(types); i++) {
		struct ibv_qp_init_attr attr = init_attr(cq, (enum ibv_qp_type)types[i]);
		struct ibv_qp *qp;

		attr.qp_context = &context;
		attr.sq_sig_all = 1;
		out("type %d", types[i]);
		qp = PTR(ibv_create_qp(pd, &attr));
		if (!qp)
			continue;
		out("state %d type %d own %d pd %d cqs %d %d number %d", qp->state, qp->qp_type,
		    qp->qp_context == &context, qp->pd == pd, qp->send_cq == cq,
		    qp->recv_cq == cq, qp->qp_num > 1);
		out("caps %u %u %u %u %u", attr.cap.max_send_wr, attr.cap.max_recv_wr,
		    attr.cap.max_send_sge, attr.cap.max_recv_sge, attr.cap.max_inline_data);
		out("extended %s", ibv_qp_to_qp_ex(qp) ? "yes" : "no");
		RC(ibv_destroy_qp(qp));
	}
}

static void by_size(void)
{
	static const struct ibv_qp_cap caps[] = {
		{ 0, 0, 0, 0, 0 },	   { 1, 1, 1, 1, 0 },	     { 1, 1, 1, 1, 1 },
		{ 1, 1, 32, 32, 0 },	   { 1, 1, 33, 1, 0 },	     { 1, 1, 1, 33, 0 },
		{ 1048577, 1, 1, 1, 0 },   { 1, 1048577, 1, 1, 0 },  { 1, 1, 1, 1, 512 },
		{ 1, 1, 1, 1, 513 },	   { 1, 1, 1, 1, 100000 },   { 0xffffffffU, 1, 1, 1, 0 },
		{ 1, 0xffffffffU, 1, 1, 0 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(caps); i++) {
		struct ibv_qp_init_attr attr = init_attr(cq, IBV_QPT_RC);
		struct ibv_qp *qp;

		attr.cap = caps[i];
		out("caps %u %u %u %u %u", attr.cap.max_send_wr, attr.cap.max_recv_wr,
		    attr.cap.max_send_sge, attr.cap.max_recv_sge, attr.cap.max_inline_data);
		qp = PTR(ibv_create_qp(pd, &attr));
		if (!qp)
			continue;
		out("got  %u %u %u %u %u", attr.cap.max_send_wr, attr.cap.max_recv_wr,
		    attr.cap.max_send_sge, attr.cap.max_recv_sge, attr.cap.max_inline_data);
		RC(ibv_destroy_qp(qp));
	}
}

static void show_ah(const char *title, const struct ibv_ah_attr *ah)
{
	out("  %s global %u index %u hops %u class %u label %u port %u sl %u lid %u bits %u rate %u",
	    title, ah->is_global, ah->grh.sgid_index, ah->grh.hop_limit, ah->grh.traffic_class,
	    ah->grh.flow_label, ah->port_num, ah->sl, ah->dlid, ah->src_path_bits,
	    ah->static_rate);
}

static void query(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	memset(&attr, 0xff, sizeof(attr));
	memset(&init, 0xff, sizeof(init));
	RC(ibv_query_qp(qp, &attr, 0xfffff, &init));
	out("  state %d cur %d of object %d mtu %d mig %d", attr.qp_state, attr.cur_qp_state,
	    qp->state, attr.path_mtu, attr.path_mig_state);
	out("  qkey %x rq_psn %u sq_psn %u access %x", attr.qkey, attr.rq_psn, attr.sq_psn,
	    attr.qp_access_flags);
	out("  pkey %u %u notify %u draining %u", attr.pkey_index, attr.alt_pkey_index,
	    attr.en_sqd_async_notify, attr.sq_draining);
	out("  rd %u %u rnr %u port %u timeout %u retry %u %u alt %u %u", attr.max_rd_atomic,
	    attr.max_dest_rd_atomic, attr.min_rnr_timer, attr.port_num, attr.timeout,
	    attr.retry_cnt, attr.rnr_retry, attr.alt_port_num, attr.alt_timeout);
	show_ah("path", &attr.ah_attr);
	out("  cap %u %u %u %u %u", attr.cap.max_send_wr, attr.cap.max_recv_wr,
	    attr.cap.max_send_sge, attr.cap.max_recv_sge, attr.cap.max_inline_data);
	out("  init cap %u %u %u %u %u", init.cap.max_send_wr, init.cap.max_recv_wr,
	    init.cap.max_send_sge, init.cap.max_recv_sge, init.cap.max_inline_data);
	out("  init type %d cqs %d %d srq %d own %d all %d", init.qp_type, init.send_cq == cq,
	    init.recv_cq == cq, init.srq == NULL, init.qp_context == qp->qp_context,
	    init.sq_sig_all);
}

/* The object's idea of the state, when another process changed it. */
static void query_updates_state(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	enum ibv_qp_state state = qp->state;

	qp->state = IBV_QPS_UNKNOWN;
	MUST(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	out("after a query without the state: %d", qp->state == IBV_QPS_UNKNOWN);
	MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	out("after a query with the state: %d", qp->state == state);
}

static void life(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = init_attr(cq, type);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &init));
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	out("life of type %d", type);
	query(qp);
	if (type == IBV_QPT_UD)
		ready_ud(qp);
	else
		connect_qp(qp, qp->qp_num);
	query(qp);
	query_updates_state(qp);
	to_error(qp);
	query(qp);
	RC(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	query(qp);
	RC(ibv_destroy_qp(qp));
}

/* The following calls depend on whether the send queue is drained yet. */
static void wait_drained(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	do
		MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	while (attr.sq_draining);
}

/* Brings a fresh queue pair to a state; false if it cannot be reached. */
static bool bring_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;

	if (state == IBV_QPS_RESET)
		return true;
	attr = attr_init();
	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	if (state == IBV_QPS_INIT)
		return true;
	attr = attr_rtr(context, qp->qp_num);
	MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	if (state == IBV_QPS_RTR)
		return true;
	attr = attr_rts();
	MUST(ibv_modify_qp(qp, &attr, RC_RTS_MASK));
	if (state == IBV_QPS_RTS)
		return true;
	if (state == IBV_QPS_SQE)
		return false;
	attr.qp_state = state;
	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	if (state == IBV_QPS_SQD)
		wait_drained(qp);
	return true;
}

static int mask_for(enum ibv_qp_state state, struct ibv_qp_attr *attr, uint32_t peer)
{
	switch (state) {
	case IBV_QPS_INIT:
		*attr = attr_init();
		return RC_INIT_MASK;
	case IBV_QPS_RTR:
		*attr = attr_rtr(context, peer);
		return RC_RTR_MASK;
	case IBV_QPS_RTS:
		*attr = attr_rts();
		return RC_RTS_MASK;
	default:
		*attr = (struct ibv_qp_attr){ .qp_state = state };
		return IBV_QP_STATE;
	}
}

/* From every state to every state, first with all attributes, then each one missing. */
static void all_changes(void)
{
	int from, to, bit;

	for (from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++)
		for (to = IBV_QPS_RESET; to <= IBV_QPS_UNKNOWN + 1; to++)
			for (bit = -1; bit < 26; bit++) {
				struct ibv_qp_init_attr init = init_attr(cq, IBV_QPT_RC);
				struct ibv_qp *qp;
				struct ibv_qp_attr attr;
				int mask = mask_for((enum ibv_qp_state)to, &attr, 0), ret;

				if (bit >= 0 && !(mask & 1 << bit))
					continue;
				qp = MUST_PTR(ibv_create_qp(pd, &init));
				mask = mask_for((enum ibv_qp_state)to, &attr, qp->qp_num);
				if (bring_to(qp, (enum ibv_qp_state)from)) {
					errno = 0;
					ret = ibv_modify_qp(qp, &attr,
							    bit < 0 ? mask : mask & ~(1 << bit));
					out("from %d to %d without %d: %s errno %s state %d", from, to,
					    bit, errno_name(ret), ret ? errno_name(errno) : "-",
					    qp->state);
				}
				MUST(ibv_destroy_qp(qp));
			}
}

static void wrong_values(void)
{
	struct ibv_qp_init_attr init = init_attr(cq, IBV_QPT_RC);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &init));
	struct ibv_qp_attr attr = attr_init();

	RC(ibv_modify_qp(qp, &attr, 0));
	RC(ibv_modify_qp(qp, &attr, RC_INIT_MASK | IBV_QP_QKEY));
	/* These return an errno; whether errno is set as well is documented nowhere. */
	out("all bits: %s", errno_name(ibv_modify_qp(qp, &attr, -1)));
	out("rate limit: %s",
	    errno_name(ibv_modify_qp(qp, &attr, RC_INIT_MASK | IBV_QP_RATE_LIMIT)));
	attr.port_num = 0;
	RC(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr.port_num = 2;
	RC(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr.port_num = 1;
	attr.pkey_index = 1000;
	RC(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr.pkey_index = 0;
	attr.qp_access_flags = 0xffffffffU;
	RC(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = attr_init();
	RC(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(context, qp->qp_num);
	attr.path_mtu = (enum ibv_mtu)0;
	RC(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr.path_mtu = (enum ibv_mtu)6;
	RC(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr.path_mtu = IBV_MTU_4096;
	RC(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr = attr_rtr(context, qp->qp_num);
	attr.ah_attr.is_global = 0;
	RC(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr = attr_rtr(context, qp->qp_num);
	attr.ah_attr.grh.sgid_index = 200;
	RC(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr = attr_rtr(context, qp->qp_num);
	attr.ah_attr.port_num = 2;
	RC(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr = attr_rtr(context, qp->qp_num);
	attr.max_dest_rd_atomic = 255;
	RC(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr = attr_rtr(context, qp->qp_num);
	attr.min_rnr_timer = 32;
	RC(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	out("state %d", qp->state);
	RC(ibv_destroy_qp(qp));
}

static void extended(void)
{
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp *qp;
	int bit;

	for (bit = -1; bit < 12; bit++) {
		attr = (struct ibv_qp_init_attr_ex){
			.send_cq = cq,
			.recv_cq = cq,
			.qp_type = IBV_QPT_RC,
			.cap = { 4, 4, 1, 1, 0 },
			.pd = pd,
			.comp_mask = IBV_QP_INIT_ATTR_PD | (bit < 0 ? 0 : 1U << bit),
		};
		out("mask bit %d", bit);
		/* The domain, the indirection table and the like must be objects. */
		if (bit == 1 || bit == 4)
			continue;
		qp = PTR(ibv_create_qp_ex(context, &attr));
		if (!qp)
			continue;
		out("extended %s", ibv_qp_to_qp_ex(qp) ? "yes" : "no");
		RC(ibv_destroy_qp(qp));
	}
	for (bit = 0; bit < 32; bit++) {
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
		attr.create_flags = 1U << bit;
		out("create flag %d", bit);
		qp = PTR(ibv_create_qp_ex(context, &attr));
		if (qp)
			RC(ibv_destroy_qp(qp));
	}
	for (bit = 0; bit < 20; bit++) {
		int type;

		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = 1ULL << bit;
		for (type = IBV_QPT_RC; type <= IBV_QPT_UD; type++) {
			attr.qp_type = (enum ibv_qp_type)type;
			out("operation %d type %d", bit, type);
			qp = PTR(ibv_create_qp_ex(context, &attr));
			if (!qp)
				continue;
			out("extended %s", ibv_qp_to_qp_ex(qp) ? "yes" : "no");
			RC(ibv_destroy_qp(qp));
		}
	}
}

int main(void)
{
	context = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(context));
	cq = MUST_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	by_type();
	by_size();
	life(IBV_QPT_RC);
	life(IBV_QPT_UC);
	life(IBV_QPT_UD);
	all_changes();
	wrong_values();
	extended();
	RC(ibv_destroy_cq(cq));
	RC(ibv_dealloc_pd(pd));
	RC(ibv_close_device(context));
	return done();
}
