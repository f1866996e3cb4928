/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queue pairs: attributes, states, and the extended posting interface. */
#ifndef INFINIBAND_VERBS_QP_TYPES_H
#define INFINIBAND_VERBS_QP_TYPES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>
#include <infiniband/verbs/address_types.h>
#include <infiniband/verbs/device_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;
struct ibv_cq;
struct ibv_data_buf;
struct ibv_mw;
struct ibv_mw_bind_info;
struct ibv_pd;
struct ibv_rwq_ind_table;
struct ibv_sge;
struct ibv_srq;
struct ibv_xrcd;

/* Transport service of a queue pair. */
enum ibv_qp_type {
	IBV_QPT_RC = 2,
	IBV_QPT_UC = 3,
	IBV_QPT_UD = 4,
	IBV_QPT_RAW_PACKET = 8,
	IBV_QPT_XRC_SEND = 9,
	IBV_QPT_XRC_RECV = 10,
	IBV_QPT_DRIVER = 255,
};

/* States of a queue pair; see ibv_modify_qp(3) for the ways between them. */
enum ibv_qp_state {
	IBV_QPS_RESET = 0,
	IBV_QPS_INIT = 1,
	IBV_QPS_RTR = 2,
	IBV_QPS_RTS = 3,
	IBV_QPS_SQD = 4, /* send queue drained */
	IBV_QPS_SQE = 5, /* send queue error */
	IBV_QPS_ERR = 6,
	IBV_QPS_UNKNOWN = 7,
};

/* Path migration. */
enum ibv_mig_state {
	IBV_MIG_MIGRATED = 0,
	IBV_MIG_REARM = 1,
	IBV_MIG_ARMED = 2,
};

/*
 * A queue pair. mutex and cond guard events_completed, on which
 * ibv_destroy_qp(3) waits.
 */
struct ibv_qp {
	struct ibv_context *context;
	void *qp_context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	uint32_t handle;
	uint32_t qp_num;
	enum ibv_qp_state state;
	enum ibv_qp_type qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

/* Sizes of a queue pair. */
struct ibv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data; /* bytes */
};

/* Argument of ibv_create_qp(3); afterwards cap has the granted values. */
struct ibv_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all; /* not 0: every send completes visibly */
};

enum ibv_qp_init_attr_mask {
	IBV_QP_INIT_ATTR_PD = 1 << 0,
	IBV_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3,
	IBV_QP_INIT_ATTR_IND_TABLE = 1 << 4,
	IBV_QP_INIT_ATTR_RX_HASH = 1 << 5,
	IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6,
};

enum ibv_qp_create_flags {
	IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 1 << 1,
	IBV_QP_CREATE_SCATTER_FCS = 1 << 8,
	IBV_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
	IBV_QP_CREATE_SOURCE_QPN = 1 << 10, /* source_qpn counts */
	IBV_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11,
};

/* Which ibv_wr_* calls the queue pair shall take. */
enum ibv_qp_create_send_ops_flags {
	IBV_QP_EX_WITH_RDMA_WRITE = 1 << 0,
	IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM = 1 << 1,
	IBV_QP_EX_WITH_SEND = 1 << 2,
	IBV_QP_EX_WITH_SEND_WITH_IMM = 1 << 3,
	IBV_QP_EX_WITH_RDMA_READ = 1 << 4,
	IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP = 1 << 5,
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD = 1 << 6,
	IBV_QP_EX_WITH_LOCAL_INV = 1 << 7,
	IBV_QP_EX_WITH_BIND_MW = 1 << 8,
	IBV_QP_EX_WITH_SEND_WITH_INV = 1 << 9,
	IBV_QP_EX_WITH_TSO = 1 << 10,
	IBV_QP_EX_WITH_FLUSH = 1 << 11,
	IBV_QP_EX_WITH_ATOMIC_WRITE = 1 << 12,
};

/* How received packets are spread over an indirection table. */
struct ibv_rx_hash_conf {
	uint8_t rx_hash_function; /* enum ibv_rx_hash_function_flags */
	uint8_t rx_hash_key_len; /* bytes */
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask; /* enum ibv_rx_hash_fields */
};

/*
 * Argument of ibv_create_qp_ex(3). It begins as struct ibv_qp_init_attr; comp_mask states which of
 * the later members are valid.
 */
struct ibv_qp_init_attr_ex {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all; /* not 0: every send completes visibly */
	uint32_t comp_mask; /* enum ibv_qp_init_attr_mask */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t create_flags; /* enum ibv_qp_create_flags */
	uint16_t max_tso_header; /* bytes */
	struct ibv_rwq_ind_table *rwq_ind_tbl;
	struct ibv_rx_hash_conf rx_hash_conf;
	uint32_t source_qpn;
	uint64_t send_ops_flags; /* enum ibv_qp_create_send_ops_flags */
};

enum ibv_qp_open_attr_mask {
	IBV_QP_OPEN_ATTR_NUM = 1 << 0,
	IBV_QP_OPEN_ATTR_XRCD = 1 << 1,
	IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2,
	IBV_QP_OPEN_ATTR_TYPE = 1 << 3,
	IBV_QP_OPEN_ATTR_RESERVED = 1 << 4, /* first bit that is not defined */
};

/* Argument of ibv_open_qp(3). */
struct ibv_qp_open_attr {
	uint32_t comp_mask; /* enum ibv_qp_open_attr_mask */
	uint32_t qp_num;
	struct ibv_xrcd *xrcd;
	void *qp_context;
	enum ibv_qp_type qp_type;
};

/* Which members of struct ibv_qp_attr a call is about. */
enum ibv_qp_attr_mask {
	IBV_QP_STATE = 1 << 0,
	IBV_QP_CUR_STATE = 1 << 1,
	IBV_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
	IBV_QP_ACCESS_FLAGS = 1 << 3,
	IBV_QP_PKEY_INDEX = 1 << 4,
	IBV_QP_PORT = 1 << 5,
	IBV_QP_QKEY = 1 << 6,
	IBV_QP_AV = 1 << 7,
	IBV_QP_PATH_MTU = 1 << 8,
	IBV_QP_TIMEOUT = 1 << 9,
	IBV_QP_RETRY_CNT = 1 << 10,
	IBV_QP_RNR_RETRY = 1 << 11,
	IBV_QP_RQ_PSN = 1 << 12,
	IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	IBV_QP_ALT_PATH = 1 << 14,
	IBV_QP_MIN_RNR_TIMER = 1 << 15,
	IBV_QP_SQ_PSN = 1 << 16,
	IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	IBV_QP_PATH_MIG_STATE = 1 << 18,
	IBV_QP_CAP = 1 << 19,
	IBV_QP_DEST_QPN = 1 << 20,
	IBV_QP_RATE_LIMIT = 1 << 25,
};

/* See ibv_query_qp_data_in_order(3). */
enum ibv_query_qp_data_in_order_flags {
	IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = 1 << 0, /* answer bits of the enum below */
	IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = 1 << 1, /* leave the CPU's part out */
};

enum ibv_query_qp_data_in_order_caps {
	IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = 1 << 0,
	IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 1 << 1,
};

/* Argument of ibv_modify_qp(3), answer of ibv_query_qp(3). */
struct ibv_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn; /* 24 bits */
	uint32_t sq_psn; /* 24 bits */
	uint32_t dest_qp_num;
	unsigned int qp_access_flags; /* enum ibv_access_flags */
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic; /* outstanding as initiator */
	uint8_t max_dest_rd_atomic; /* outstanding as responder */
	uint8_t min_rnr_timer; /* code of the specification, 0 to 31 */
	uint8_t port_num;
	uint8_t timeout; /* 4.096 us * 2^n; 0: for ever */
	uint8_t retry_cnt; /* 0 to 7 */
	uint8_t rnr_retry; /* 0 to 7; 7: for ever */
	uint8_t alt_port_num;
	uint8_t alt_timeout; /* 4.096 us * 2^n */
	uint32_t rate_limit; /* kbit/s */
};

/* Argument of ibv_modify_qp_rate_limit(3). */
struct ibv_qp_rate_limit_attr {
	uint32_t rate_limit; /* kbit/s; 0: no limit */
	uint32_t max_burst_sz; /* bytes */
	uint16_t typical_pkt_sz; /* bytes */
	uint32_t comp_mask; /* reserved: 0 */
};

/*
 * Enhanced connection establishment; see ibv_query_ece(3) and ibv_set_ece(3).
 */
struct ibv_ece {
	uint32_t vendor_id;
	uint32_t options;
	uint32_t comp_mask;
};

/*
 * A queue pair posted to call by call; see ibv_wr_post(3). It begins with its
 * struct ibv_qp. wr_id and wr_flags are read by the next ibv_wr_* call that
 * starts a work request.
 */
struct ibv_qp_ex {
	struct ibv_qp qp_base;
	uint64_t comp_mask;
	uint64_t wr_id;
	unsigned int wr_flags; /* enum ibv_send_flags */
	void (*wr_atomic_cmp_swp)(
			struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			uint64_t compare, uint64_t swap);
	void (*wr_atomic_fetch_add)(
			struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			uint64_t add);
	void (*wr_bind_mw)(
			struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
			const struct ibv_mw_bind_info *bind_info);
	void (*wr_local_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
	void (*wr_rdma_read)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
	void (*wr_rdma_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
	void (*wr_rdma_write_imm)(
			struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			__be32 imm_data);
	void (*wr_send)(struct ibv_qp_ex *qp);
	void (*wr_send_imm)(struct ibv_qp_ex *qp, __be32 imm_data);
	void (*wr_send_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
	void (*wr_send_tso)(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss);
	void (*wr_set_ud_addr)(
			struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
			uint32_t remote_qkey);
	void (*wr_set_xrc_srqn)(struct ibv_qp_ex *qp, uint32_t remote_srqn);
	void (*wr_set_inline_data)(struct ibv_qp_ex *qp, void *addr, size_t length);
	void (*wr_set_inline_data_list)(
			struct ibv_qp_ex *qp, size_t num_buf,
			const struct ibv_data_buf *buf_list);
	void (*wr_set_sge)(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length);
	void (*wr_set_sge_list)(
			struct ibv_qp_ex *qp, size_t num_sge,
			const struct ibv_sge *sg_list);
	void (*wr_start)(struct ibv_qp_ex *qp);
	/* 0, or a positive errno, and then nothing was posted. */
	int (*wr_complete)(struct ibv_qp_ex *qp);
	void (*wr_abort)(struct ibv_qp_ex *qp);
	void (*wr_atomic_write)(
			struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			const void *atomic_wr);
#ifndef _IBV_PROVIDER_GENERATION
	void (*wr_flush)(
			struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			size_t len, uint8_t type, uint8_t level);
#endif
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_QP_TYPES_H */
