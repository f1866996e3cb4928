/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queue pairs: making, changing, asking, and posting by work requests. */
#ifndef INFINIBAND_VERBS_QP_H
#define INFINIBAND_VERBS_QP_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs/lookup.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL on failure. ibv_create_qp(3) */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
			     struct ibv_qp_init_attr *qp_init_attr);

/*
 * If only the domain is set beyond the plain attributes, with which these begin, ibv_create_qp(3)
 * is called. NULL and errno. ibv_create_qp_ex(3)
 */
static inline struct ibv_qp *
ibv_create_qp_ex(struct ibv_context *context,
		 struct ibv_qp_init_attr_ex *qp_init_attr_ex)
{
	void *shorter = qp_init_attr_ex;
	struct verbs_context *vctx;

	if (!qp_init_attr_ex) {
		errno = EINVAL;
		return NULL;
	}
	if (qp_init_attr_ex->comp_mask == IBV_QP_INIT_ATTR_PD)
		return ibv_create_qp(qp_init_attr_ex->pd,
				     (struct ibv_qp_init_attr *)shorter);

	vctx = verbs_get_ctx_op(context, create_qp_ex);
	if (vctx)
		return vctx->create_qp_ex(context, qp_init_attr_ex);
	errno = EOPNOTSUPP;
	return NULL;
}

/* A shared XRC receive QP by number; NULL and errno. ibv_open_qp(3) */
static inline struct ibv_qp *ibv_open_qp(struct ibv_context *context,
					 struct ibv_qp_open_attr *qp_open_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, open_qp);

	if (vctx)
		return vctx->open_qp(context, qp_open_attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/* attr_mask: enum ibv_qp_attr_mask. 0 or a positive errno. ibv_modify_qp(3) */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/* 0 or a positive errno. ibv_modify_qp_rate_limit(3) */
static inline int ibv_modify_qp_rate_limit(struct ibv_qp *qp,
					   struct ibv_qp_rate_limit_attr *attr)
{
	struct verbs_context *vctx =
		verbs_get_ctx_op(qp->context, modify_qp_rate_limit);

	return vctx ? vctx->modify_qp_rate_limit(qp, attr) : EOPNOTSUPP;
}

/*
 * attr_mask names the required attributes; more may be filled. 0 or a positive errno.
 * ibv_query_qp(3)
 */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr);

/*
 * Whether the bytes of an incoming message reach memory in order. flags 0: 1 or 0,
 * for whole messages; IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS: bits of enum
 * ibv_query_qp_data_in_order_caps. ibv_query_qp_data_in_order(3)
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
			       uint32_t flags);

/*
 * Counts the queue pair's operations from now on; in RESET and INIT only. 0 or a
 * positive errno. ibv_qp_attach_comp_cntr(3)
 */
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr);

/* Waits until every event got is acknowledged. 0 or a positive errno. */
int ibv_destroy_qp(struct ibv_qp *qp);

/* Whether the QP type's bit stands in a mask of capabilities: 0 or 1. */
static inline int ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
{
	const unsigned int bit = (unsigned int)qpt;

	return bit < 32 && ((caps >> bit) & 1U) != 0;
}

/* 0 or a positive errno. ibv_set_ece(3) */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* 0 or a positive errno. ibv_query_ece(3) */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/*
 * A list of work requests to the send queue. 0 or a positive errno; then *bad_wr
 * is the first one not posted. ibv_post_send(3)
 */
static inline int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
				struct ibv_send_wr **bad_wr)
{
	return qp->context->ops.post_send(qp, wr, bad_wr);
}

/* The same for the receive queue. ibv_post_recv(3) */
static inline int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
				struct ibv_recv_wr **bad_wr)
{
	return qp->context->ops.post_recv(qp, wr, bad_wr);
}

/* 0 or a positive errno. ibv_attach_mcast(3) */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* 0 or a positive errno. ibv_attach_mcast(3) */
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_QP_H */
