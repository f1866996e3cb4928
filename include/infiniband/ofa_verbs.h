/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The XRC calls of the older verbs manual, over the XRC verbs of today.
 *
 * A receive queue pair is named by its number and belongs to a domain. It lives as
 * long as a process is registered with it; its creator is. A process that has
 * not registered may change and query it, and cannot rely on it.
 *
 * The calls return 0, or -1 with errno; a pointer, or NULL with errno. All of them return EINVAL
 * for NULL and for a domain that is not open. A sender is a queue pair of type IBV_QPT_XRC_SEND
 * (ibv_create_qp_ex(3)); it names the receiving queue in ibv_send_wr.qp_type.xrc.remote_srqn, whose
 * number ibv_get_srq_num(3) returns.
 */
#ifndef INFINIBAND_OFA_VERBS_H
#define INFINIBAND_OFA_VERBS_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A reference to an open XRC domain. */
struct ibv_xrc_domain {
	struct ibv_context *context;
	uint64_t handle;
};

/* The manual's struct ibv_qp_init_attr: that of today, and the domain. */
struct ofa_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	struct ibv_xrc_domain *xrc_domain;
};

/*
 * The exported functions. Their names differ from the manual's, because programs take a library
 * with the manual's names for one without the current XRC verbs.
 */
struct ibv_xrc_domain *ofa_open_xrc_domain(struct ibv_context *context, int fd, int oflag);
int ofa_close_xrc_domain(struct ibv_xrc_domain *d);
struct ibv_srq *ofa_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *xrc_domain,
				   struct ibv_cq *xrc_cq,
				   struct ibv_srq_init_attr *srq_init_attr);
int ofa_create_xrc_rcv_qp(struct ofa_qp_init_attr *init_attr, uint32_t *xrc_rcv_qpn);
int ofa_modify_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num,
			  struct ibv_qp_attr *attr, int attr_mask);
int ofa_query_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num,
			 struct ibv_qp_attr *attr, int attr_mask,
			 struct ofa_qp_init_attr *init_attr);
int ofa_reg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num);
int ofa_unreg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num);

/*
 * Another reference to the domain of the file; a new domain for fd -1. oflag is 0, O_CREAT, or
 * O_CREAT | O_EXCL. ENOENT: no domain exists, without O_CREAT; EEXIST: one exists, with O_EXCL;
 * EBADF; EINVAL: other flags, or fd -1 with other than O_CREAT.
 */
static inline struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd,
							 int oflag)
{
	return ofa_open_xrc_domain(context, fd, oflag);
}

/* EBUSY for the last reference while a queue or a registration of this process is left. */
static inline int ibv_close_xrc_domain(struct ibv_xrc_domain *d)
{
	return ofa_close_xrc_domain(d);
}

/* Writes the sizes that were made. Completions of its requests go to xrc_cq. */
static inline struct ibv_srq *ibv_create_xrc_srq(struct ibv_pd *pd,
						 struct ibv_xrc_domain *xrc_domain,
						 struct ibv_cq *xrc_cq,
						 struct ibv_srq_init_attr *srq_init_attr)
{
	return ofa_create_xrc_srq(pd, xrc_domain, xrc_cq, srq_init_attr);
}

/* Of init_attr, xrc_domain and qp_context count. Registers this process. */
static inline int ibv_create_xrc_rcv_qp(struct ofa_qp_init_attr *init_attr,
					uint32_t *xrc_rcv_qpn)
{
	return ofa_create_xrc_rcv_qp(init_attr, xrc_rcv_qpn);
}

/* As ibv_modify_qp(3). EINVAL: no such queue pair in the domain. */
static inline int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num,
					struct ibv_qp_attr *attr, int attr_mask)
{
	return ofa_modify_xrc_rcv_qp(xrc_domain, xrc_qp_num, attr, attr_mask);
}

/* As ibv_query_qp(3). EINVAL: no such queue pair in the domain. */
static inline int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num,
				       struct ibv_qp_attr *attr, int attr_mask,
				       struct ofa_qp_init_attr *init_attr)
{
	return ofa_query_xrc_rcv_qp(xrc_domain, xrc_qp_num, attr, attr_mask, init_attr);
}

/* EINVAL: no such queue pair in the domain. A process is registered once or not at all. */
static inline int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num)
{
	return ofa_reg_xrc_rcv_qp(xrc_domain, xrc_qp_num);
}

/*
 * The last one ends the queue pair; waits until this process has acknowledged its
 * events. EINVAL: not registered.
 */
static inline int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num)
{
	return ofa_unreg_xrc_rcv_qp(xrc_domain, xrc_qp_num);
}

#ifdef __cplusplus
}
#endif

#endif
