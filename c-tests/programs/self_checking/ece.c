/*
 * uroce answers calls about options of connections as soft-RoCE does (rxe/unsupported.c), for each
 * kind of queue pair and in each state on the way to RTS. In a network namespace of the program's
 * own.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "ece.h"
#include "network.h"

static void of_kind(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = init_attr(cq, type);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &init));
	struct ibv_qp_attr attr = attr_init();

	ece_is_refused(qp);
	if (type == IBV_QPT_RC) {
		MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
		ece_is_refused(qp);
		attr = attr_rtr(pd->context, qp->qp_num);
		MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
		ece_is_refused(qp);
		attr = attr_rts();
		MUST(ibv_modify_qp(qp, &attr, RC_RTS_MASK));
		ece_is_refused(qp);
	}
	MUST(ibv_destroy_qp(qp));
}

int main(void)
{
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;

	if (!own_device())
		return done();
	context = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(context));
	cq = MUST_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	of_kind(pd, cq, IBV_QPT_RC);
	of_kind(pd, cq, IBV_QPT_UC);
	of_kind(pd, cq, IBV_QPT_UD);
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
	return done();
}
