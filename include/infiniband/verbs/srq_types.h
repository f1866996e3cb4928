/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared receive queues, work queues and RSS indirection tables. */
#ifndef INFINIBAND_VERBS_SRQ_TYPES_H
#define INFINIBAND_VERBS_SRQ_TYPES_H

#include <pthread.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;
struct ibv_cq;
struct ibv_pd;
struct ibv_recv_wr;
struct ibv_xrcd;

/*
 * A shared receive queue. mutex and cond guard events_completed, on which
 * ibv_destroy_srq(3) waits.
 */
struct ibv_srq {
	struct ibv_context *context;
	void *srq_context;
	struct ibv_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

/* The attributes that ibv_modify_srq(3) changes. */
enum ibv_srq_attr_mask {
	IBV_SRQ_MAX_WR = 1 << 0,
	IBV_SRQ_LIMIT = 1 << 1,
};

/* Sizes of a shared receive queue. */
struct ibv_srq_attr {
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t srq_limit; /* arms IBV_EVENT_SRQ_LIMIT_REACHED */
};

/* Argument of ibv_create_srq(3); afterwards attr has the granted values. */
struct ibv_srq_init_attr {
	void *srq_context;
	struct ibv_srq_attr attr;
};

enum ibv_srq_type {
	IBV_SRQT_BASIC = 0,
	IBV_SRQT_XRC = 1,
	IBV_SRQT_TM = 2,
};

enum ibv_srq_init_attr_mask {
	IBV_SRQ_INIT_ATTR_TYPE = 1 << 0,
	IBV_SRQ_INIT_ATTR_PD = 1 << 1,
	IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
	IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
	IBV_SRQ_INIT_ATTR_TM = 1 << 4,
	IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5, /* first bit that is not defined */
};

/* Tag-matching sizes asked for. */
struct ibv_tm_cap {
	uint32_t max_num_tags;
	uint32_t max_ops;
};

/*
 * Argument of ibv_create_srq_ex(3). It begins as struct ibv_srq_init_attr does.
 */
struct ibv_srq_init_attr_ex {
	void *srq_context;
	struct ibv_srq_attr attr;
	uint32_t comp_mask; /* enum ibv_srq_init_attr_mask */
	enum ibv_srq_type srq_type;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	struct ibv_cq *cq;
	struct ibv_tm_cap tm_cap;
};

enum ibv_wq_type {
	IBV_WQT_RQ = 0,
};

enum ibv_wq_state {
	IBV_WQS_RESET = 0,
	IBV_WQS_RDY = 1,
	IBV_WQS_ERR = 2,
	IBV_WQS_UNKNOWN = 3,
};

enum ibv_wq_init_attr_mask {
	IBV_WQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_WQ_INIT_ATTR_RESERVED = 1 << 1, /* first bit that is not defined */
};

enum ibv_wq_flags {
	IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
	IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
	IBV_WQ_FLAGS_DELAY_DROP = 1 << 2,
	IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
	IBV_WQ_FLAGS_RESERVED = 1 << 4, /* first bit that is not defined */
};

/* Argument of ibv_create_wq(3). */
struct ibv_wq_init_attr {
	void *wq_context;
	enum ibv_wq_type wq_type;
	uint32_t max_wr;
	uint32_t max_sge;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t comp_mask; /* enum ibv_wq_init_attr_mask */
	uint32_t create_flags; /* enum ibv_wq_flags */
};

/*
 * A work queue. The inline ibv_create_wq() fills wq_context, events_completed,
 * mutex and cond.
 */
struct ibv_wq {
	struct ibv_context *context;
	void *wq_context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t wq_num;
	uint32_t handle;
	enum ibv_wq_state state;
	enum ibv_wq_type wq_type;
	int (*post_recv)(
			struct ibv_wq *wq, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr);
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	uint32_t comp_mask;
};

enum ibv_wq_attr_mask {
	IBV_WQ_ATTR_STATE = 1 << 0,
	IBV_WQ_ATTR_CURR_STATE = 1 << 1,
	IBV_WQ_ATTR_FLAGS = 1 << 2,
	IBV_WQ_ATTR_RESERVED = 1 << 3, /* first bit that is not defined */
};

/* Argument of ibv_modify_wq(3). */
struct ibv_wq_attr {
	uint32_t attr_mask; /* enum ibv_wq_attr_mask */
	enum ibv_wq_state wq_state;
	enum ibv_wq_state curr_wq_state;
	uint32_t flags; /* enum ibv_wq_flags */
	uint32_t flags_mask; /* enum ibv_wq_flags */
};

enum ibv_ind_table_init_attr_mask {
	IBV_CREATE_IND_TABLE_RESERVED = 1 << 0, /* first bit that is not defined */
};

/* Argument of ibv_create_rwq_ind_table(3). */
struct ibv_rwq_ind_table_init_attr {
	uint32_t log_ind_tbl_size; /* 2^n entries */
	struct ibv_wq **ind_tbl; /* array of that many */
	uint32_t comp_mask; /* enum ibv_ind_table_init_attr_mask */
};

/* A table from receive hash to work queue. */
struct ibv_rwq_ind_table {
	struct ibv_context *context;
	int ind_tbl_handle;
	int ind_tbl_num;
	uint32_t comp_mask;
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_SRQ_TYPES_H */
