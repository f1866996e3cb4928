/*
 * Numbers that the kernel does not know, written into objects: a provider in C
 * names the object by them. The error is returned, the object stays.
 */
#include "rdma.h"

enum { UNKNOWN = 0xfffff0 };

static struct pair pair;

/* Exchanges the number of an object. */
static uint32_t exchange(uint32_t *handle, uint32_t other)
{
	uint32_t before = *handle;

	*handle = other;
	return before;
}

static void domain(void)
{
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(pair.context));
	uint32_t handle = exchange(&pd->handle, UNKNOWN);

	RC(ibv_dealloc_pd(pd));
	PTR(ibv_reg_mr(pd, pair.buffer, 4096, IBV_ACCESS_LOCAL_WRITE));
	pd->handle = handle;
	RC(ibv_dealloc_pd(pd));
}

static void memory(void)
{
	struct ibv_mr *mr =
		MUST_PTR(ibv_reg_mr(pair.pd, pair.buffer, 4096, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_mw *mw = MUST_PTR(ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2));
	uint32_t handle = exchange(&mr->handle, UNKNOWN);

	RC(ibv_dereg_mr(mr));
	mr->handle = handle;
	RC(ibv_dereg_mr(mr));
	handle = exchange(&mw->handle, UNKNOWN);
	RC(ibv_dealloc_mw(mw));
	mw->handle = handle;
	RC(ibv_dealloc_mw(mw));
}

static void address(void)
{
	struct ibv_ah_attr attr = own_address(pair.context);
	struct ibv_ah *ah = MUST_PTR(ibv_create_ah(pair.pd, &attr));
	uint32_t handle = exchange(&ah->handle, UNKNOWN);

	RC(ibv_destroy_ah(ah));
	ah->handle = handle;
	RC(ibv_destroy_ah(ah));
}

static void completions(void)
{
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(pair.context, 10, NULL, NULL, 0));
	uint32_t handle = exchange(&cq->handle, UNKNOWN);

	RC(ibv_destroy_cq(cq));
	RC(ibv_resize_cq(cq, 20));
	RC(ibv_req_notify_cq(cq, 0));
	cq->handle = handle;
	RC(ibv_req_notify_cq(cq, 0));
	RC(ibv_destroy_cq(cq));
}

static void shared_receives(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 10, .max_sge = 2 } };
	struct ibv_srq_attr attr = { .srq_limit = 5 };
	struct ibv_srq *srq = MUST_PTR(ibv_create_srq(pair.pd, &init));
	uint32_t handle = exchange(&srq->handle, UNKNOWN);

	RC(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	RC(ibv_query_srq(srq, &attr));
	RC(ibv_destroy_srq(srq));
	srq->handle = handle;
	RC(ibv_destroy_srq(srq));
}

static void queue_pair(void)
{
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, [12] = 224, [15] = 77 } };
	struct ibv_qp_init_attr init = init_attr(pair.cq[0], IBV_QPT_UD);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pair.pd, &init));
	struct ibv_qp_attr attr = attr_init();
	uint32_t handle = exchange(&qp->handle, UNKNOWN);

	RC(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	RC(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	RC(ibv_attach_mcast(qp, &group, 0));
	RC(ibv_detach_mcast(qp, &group, 0));
	RC(ibv_destroy_qp(qp));
	qp->handle = handle;
	RC(ibv_destroy_qp(qp));
}

int main(void)
{
	make_pair(&pair, IBV_QPT_RC);
	domain();
	memory();
	address();
	completions();
	shared_receives();
	queue_pair();
	free_pair(&pair);
	return done();
}
