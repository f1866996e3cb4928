/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared receive queues, work queues, RSS indirection tables. */
#ifndef INFINIBAND_VERBS_SRQ_H
#define INFINIBAND_VERBS_SRQ_H

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs/lookup.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL on failure. ibv_create_srq(3) */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
			       struct ibv_srq_init_attr *srq_init_attr);

/*
 * A basic queue is made by ibv_create_srq(3), whose attributes these begin with;
 * the other types need the extended verb. NULL and errno. ibv_create_srq_ex(3)
 */
static inline struct ibv_srq *
ibv_create_srq_ex(struct ibv_context *context,
		  struct ibv_srq_init_attr_ex *srq_init_attr_ex)
{
	const uint32_t known = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
	void *shorter = srq_init_attr_ex;
	struct verbs_context *vctx;
	uint32_t mask;
	int typed;

	if (!srq_init_attr_ex) {
		errno = EINVAL;
		return NULL;
	}
	mask = srq_init_attr_ex->comp_mask;
	typed = (mask & IBV_SRQ_INIT_ATTR_TYPE) != 0;
	if ((mask & IBV_SRQ_INIT_ATTR_PD) && !(mask & ~known) &&
	    (!typed || srq_init_attr_ex->srq_type == IBV_SRQT_BASIC))
		return ibv_create_srq(srq_init_attr_ex->pd,
				      (struct ibv_srq_init_attr *)shorter);

	vctx = verbs_get_ctx_op(context, create_srq_ex);
	if (vctx)
		return vctx->create_srq_ex(context, srq_init_attr_ex);
	errno = EOPNOTSUPP;
	return NULL;
}

/* srq_attr_mask: enum ibv_srq_attr_mask. 0 or a positive errno. */
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr,
		   int srq_attr_mask);

/* 0 or a positive errno. ibv_query_srq(3) */
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);

/* The number that XRC senders give. 0 or a positive errno. ibv_get_srq_num(3) */
static inline int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, get_srq_num);

	return vctx ? vctx->get_srq_num(srq, srq_num) : EOPNOTSUPP;
}

/* 0 or a positive errno; EBUSY while a queue pair uses it. */
int ibv_destroy_srq(struct ibv_srq *srq);

/*
 * 0 or a positive errno; then *bad_recv_wr is the first request not posted.
 * ibv_post_srq_recv(3)
 */
static inline int ibv_post_srq_recv(struct ibv_srq *srq,
				    struct ibv_recv_wr *recv_wr,
				    struct ibv_recv_wr **bad_recv_wr)
{
	return srq->context->ops.post_srq_recv(srq, recv_wr, bad_recv_wr);
}

/* 0 or a positive errno; then *bad_op is the first one not posted. */
static inline int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op,
				   struct ibv_ops_wr **bad_op)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, post_srq_ops);

	if (vctx)
		return vctx->post_srq_ops(srq, op, bad_op);
	*bad_op = op;
	return EOPNOTSUPP;
}

/*
 * NULL and errno. The parts of the queue that serve events are set up here and
 * not by the library: they belong to the program's header version.
 * ibv_create_wq(3)
 */
static inline struct ibv_wq *ibv_create_wq(struct ibv_context *context,
					   struct ibv_wq_init_attr *wq_init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_wq);
	struct ibv_wq *wq;

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	wq = vctx->create_wq(context, wq_init_attr);
	if (!wq)
		return NULL;
	pthread_mutex_init(&wq->mutex, NULL);
	pthread_cond_init(&wq->cond, NULL);
	wq->events_completed = 0;
	wq->wq_context = wq_init_attr->wq_context;
	return wq;
}

/* 0 or a positive errno. ibv_modify_wq(3) */
static inline int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(wq->context, modify_wq);

	return vctx ? vctx->modify_wq(wq, wq_attr) : EOPNOTSUPP;
}

/* 0 or a positive errno. ibv_create_wq(3) */
static inline int ibv_destroy_wq(struct ibv_wq *wq)
{
	struct verbs_context *vctx = verbs_get_ctx_op(wq->context, destroy_wq);

	return vctx ? vctx->destroy_wq(wq) : EOPNOTSUPP;
}

/* 0 or a positive errno; then *bad_recv_wr is the first one not posted. */
static inline int ibv_post_wq_recv(struct ibv_wq *wq,
				   struct ibv_recv_wr *recv_wr,
				   struct ibv_recv_wr **bad_recv_wr)
{
	return wq->post_recv(wq, recv_wr, bad_recv_wr);
}

/* NULL and errno. ibv_create_rwq_ind_table(3) */
static inline struct ibv_rwq_ind_table *
ibv_create_rwq_ind_table(struct ibv_context *context,
			 struct ibv_rwq_ind_table_init_attr *init_attr)
{
	struct verbs_context *vctx =
		verbs_get_ctx_op(context, create_rwq_ind_table);

	if (vctx)
		return vctx->create_rwq_ind_table(context, init_attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/* 0 or a positive errno. ibv_create_rwq_ind_table(3) */
static inline int
ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
{
	struct verbs_context *vctx = verbs_get_ctx_op(rwq_ind_table->context,
						      destroy_rwq_ind_table);

	return vctx ? vctx->destroy_rwq_ind_table(rwq_ind_table) : EOPNOTSUPP;
}

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_SRQ_H */
