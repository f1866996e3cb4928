/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Completion channels, completion queues and work completions. */
#ifndef INFINIBAND_VERBS_CQ_TYPES_H
#define INFINIBAND_VERBS_CQ_TYPES_H

#include <pthread.h>
#include <stdint.h>
#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;
struct ibv_pd;

/*
 * A descriptor on which completion events arrive; see
 * ibv_create_comp_channel(3).
 */
struct ibv_comp_channel {
	struct ibv_context *context;
	int fd;
	int refcnt; /* completion queues using it */
};

/*
 * A completion queue. mutex and cond guard the two event counts, on which
 * ibv_destroy_cq(3) waits.
 */
struct ibv_cq {
	struct ibv_context *context;
	struct ibv_comp_channel *channel; /* NULL: none */
	void *cq_context;
	uint32_t handle;
	int cqe; /* entries granted */
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};

/*
 * How a work request ended; see ibv_wc_status_str(). Of the completion of one
 * that failed only wr_id, status, qp_num and vendor_err are valid.
 */
enum ibv_wc_status {
	IBV_WC_SUCCESS = 0,
	IBV_WC_LOC_LEN_ERR = 1, /* a message did not fit */
	IBV_WC_LOC_QP_OP_ERR = 2,
	IBV_WC_LOC_EEC_OP_ERR = 3,
	IBV_WC_LOC_PROT_ERR = 4, /* a local key did not allow it */
	IBV_WC_WR_FLUSH_ERR = 5, /* the QP was in the error state */
	IBV_WC_MW_BIND_ERR = 6,
	IBV_WC_BAD_RESP_ERR = 7,
	IBV_WC_LOC_ACCESS_ERR = 8,
	IBV_WC_REM_INV_REQ_ERR = 9,
	IBV_WC_REM_ACCESS_ERR = 10, /* a remote key did not allow it */
	IBV_WC_REM_OP_ERR = 11, /* the peer failed */
	IBV_WC_RETRY_EXC_ERR = 12, /* the peer did not answer */
	IBV_WC_RNR_RETRY_EXC_ERR = 13, /* the peer posted no receive */
	IBV_WC_LOC_RDD_VIOL_ERR = 14,
	IBV_WC_REM_INV_RD_REQ_ERR = 15,
	IBV_WC_REM_ABORT_ERR = 16,
	IBV_WC_INV_EECN_ERR = 17,
	IBV_WC_INV_EEC_STATE_ERR = 18,
	IBV_WC_FATAL_ERR = 19,
	IBV_WC_RESP_TIMEOUT_ERR = 20,
	IBV_WC_GENERAL_ERR = 21,
	IBV_WC_TM_ERR = 22,
	IBV_WC_TM_RNDV_INCOMPLETE = 23, /* rendezvous left to the program */
};

/*
 * The completed operation. IBV_WC_RECV is a bit: opcode & IBV_WC_RECV is set for a receive.
 */
enum ibv_wc_opcode {
	IBV_WC_SEND = 0,
	IBV_WC_RDMA_WRITE = 1,
	IBV_WC_RDMA_READ = 2,
	IBV_WC_COMP_SWAP = 3,
	IBV_WC_FETCH_ADD = 4,
	IBV_WC_BIND_MW = 5,
	IBV_WC_LOCAL_INV = 6,
	IBV_WC_TSO = 7,
	IBV_WC_FLUSH = 8,
	IBV_WC_ATOMIC_WRITE = 9,
	IBV_WC_RECV = 128, /* smallest opcode of the receive side */
	IBV_WC_RECV_RDMA_WITH_IMM = 129,
	IBV_WC_TM_ADD = 130,
	IBV_WC_TM_DEL = 131,
	IBV_WC_TM_SYNC = 132,
	IBV_WC_TM_RECV = 133,
	IBV_WC_TM_NO_TAG = 134,
	IBV_WC_DRIVER1 = 135,
	IBV_WC_DRIVER2 = 136,
	IBV_WC_DRIVER3 = 137,
};

/* Position of IBV_WC_IP_CSUM_OK. */
enum {
	IBV_WC_IP_CSUM_OK_SHIFT = 2,
};

enum ibv_wc_flags {
	IBV_WC_GRH = 1 << 0, /* a GRH stands in front of the data */
	IBV_WC_WITH_IMM = 1 << 1,
	IBV_WC_IP_CSUM_OK = 1 << IBV_WC_IP_CSUM_OK_SHIFT,
	IBV_WC_WITH_INV = 1 << 3,
	IBV_WC_TM_SYNC_REQ = 1 << 4,
	IBV_WC_TM_MATCH = 1 << 5,
	IBV_WC_TM_DATA_VALID = 1 << 6, /* data arrived without rendezvous */
};

/* A work completion, as ibv_poll_cq(3) returns it. */
struct ibv_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor_err; /* vendor's code on failure */
	uint32_t byte_len; /* bytes received */
	__extension__ union {
		__be32 imm_data; /* with IBV_WC_WITH_IMM */
		uint32_t invalidated_rkey; /* with IBV_WC_WITH_INV */
	};
	uint32_t qp_num; /* the local QP */
	uint32_t src_qp; /* UD: the sender */
	unsigned int wc_flags; /* enum ibv_wc_flags */
	uint16_t pkey_index; /* GSI only */
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

/* Which readers of struct ibv_cq_ex shall work; see ibv_create_cq_ex(3). */
enum ibv_create_cq_wc_flags {
	IBV_WC_EX_WITH_BYTE_LEN = 1 << 0,
	IBV_WC_EX_WITH_IMM = 1 << 1,
	IBV_WC_EX_WITH_QP_NUM = 1 << 2,
	IBV_WC_EX_WITH_SRC_QP = 1 << 3,
	IBV_WC_EX_WITH_SLID = 1 << 4,
	IBV_WC_EX_WITH_SL = 1 << 5,
	IBV_WC_EX_WITH_DLID_PATH_BITS = 1 << 6,
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7,
	IBV_WC_EX_WITH_CVLAN = 1 << 8,
	IBV_WC_EX_WITH_FLOW_TAG = 1 << 9,
	IBV_WC_EX_WITH_TM_INFO = 1 << 10,
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11,
};

/* Fields of a completion that struct ibv_wc has, too. */
enum {
	IBV_WC_STANDARD_FLAGS = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM |
		IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
		IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
		IBV_WC_EX_WITH_DLID_PATH_BITS,
};

/* Every reader this interface knows. */
enum {
	IBV_CREATE_CQ_SUP_WC_FLAGS = (int)IBV_WC_STANDARD_FLAGS |
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
		IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG |
		IBV_WC_EX_WITH_TM_INFO |
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
};

enum ibv_cq_init_attr_mask {
	IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
	IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1,
};

enum ibv_create_cq_attr_flags {
	IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0, /* the caller serialises all use */
	IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1, /* overrun is the caller's care */
};

/* Argument of ibv_create_cq_ex(3). */
struct ibv_cq_init_attr_ex {
	uint32_t cqe; /* at least so many entries */
	void *cq_context;
	struct ibv_comp_channel *channel; /* NULL: none */
	uint32_t comp_vector;
	uint64_t wc_flags; /* enum ibv_create_cq_wc_flags */
	uint32_t comp_mask; /* enum ibv_cq_init_attr_mask */
	uint32_t flags; /* enum ibv_create_cq_attr_flags */
	struct ibv_pd *parent_domain; /* with IBV_CQ_INIT_ATTR_MASK_PD */
};

/* Reserved: comp_mask must be 0. */
struct ibv_poll_cq_attr {
	uint32_t comp_mask;
};

/* The matched tag, from ibv_wc_read_tm_info(). */
struct ibv_wc_tm_info {
	uint64_t tag;
	uint32_t priv; /* the sender's opaque data */
};

/*
 * A completion queue read field by field. It begins as struct ibv_cq does, so
 * that one pointer serves as both; ibv_cq_ex_to_cq() converts. status and wr_id
 * are those of the current completion.
 */
struct ibv_cq_ex {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
	uint32_t comp_mask;
	enum ibv_wc_status status;
	uint64_t wr_id;
	/*
	 * 0: a completion is current; ENOENT: none; after any error call no end_poll.
	 */
	int (*start_poll)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);
	/* 0: the next one is current; ENOENT: none. */
	int (*next_poll)(struct ibv_cq_ex *cq);
	void (*end_poll)(struct ibv_cq_ex *cq);
	enum ibv_wc_opcode (*read_opcode)(struct ibv_cq_ex *cq);
	uint32_t (*read_vendor_err)(struct ibv_cq_ex *cq);
	uint32_t (*read_byte_len)(struct ibv_cq_ex *cq);
	__be32 (*read_imm_data)(struct ibv_cq_ex *cq);
	uint32_t (*read_qp_num)(struct ibv_cq_ex *cq);
	uint32_t (*read_src_qp)(struct ibv_cq_ex *cq);
	unsigned int (*read_wc_flags)(struct ibv_cq_ex *cq);
	uint32_t (*read_slid)(struct ibv_cq_ex *cq);
	uint8_t (*read_sl)(struct ibv_cq_ex *cq);
	uint8_t (*read_dlid_path_bits)(struct ibv_cq_ex *cq);
	uint64_t (*read_completion_ts)(struct ibv_cq_ex *cq);
	uint16_t (*read_cvlan)(struct ibv_cq_ex *cq);
	uint32_t (*read_flow_tag)(struct ibv_cq_ex *cq);
	void (*read_tm_info)(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *tm_info);
	uint64_t (*read_completion_wallclock_ns)(struct ibv_cq_ex *cq);
};

enum ibv_cq_attr_mask {
	IBV_CQ_ATTR_MODERATE = 1 << 0,
	IBV_CQ_ATTR_RESERVED = 1 << 1, /* first bit that is not defined */
};

/* An event after so many completions, or so much time. */
struct ibv_moderate_cq {
	uint16_t cq_count;
	uint16_t cq_period; /* us */
};

/* Argument of ibv_modify_cq(3). */
struct ibv_modify_cq_attr {
	uint32_t attr_mask; /* enum ibv_cq_attr_mask */
	struct ibv_moderate_cq moderate;
};

/* The completions of a queue pair that a counter counts; bits. */
enum ibv_qp_attach_comp_cntr_op {
	IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
	IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3, /* the peer reads here */
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5, /* the peer writes here */
};

/* See ibv_query_comp_cntr_caps(3). */
struct ibv_comp_cntr_caps {
	uint64_t max_value; /* counting on begins at 0 */
	uint32_t max_counters;
	uint32_t supported_qp_attach_ops; /* enum ibv_qp_attach_comp_cntr_op */
};

/* A completion counter. Owned by the caller until ibv_destroy_comp_cntr(3). */
struct ibv_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};

enum ibv_comp_cntr_type {
	IBV_COMP_CNTR_TYPE_WRS = 0, /* completed requests */
	IBV_COMP_CNTR_TYPE_BYTES = 1, /* their bytes */
};

/* See ibv_create_comp_cntr(3). comp_mask and flags must be 0. */
struct ibv_comp_cntr_init_attr {
	uint32_t comp_mask;
	enum ibv_comp_cntr_type type;
	uint32_t flags;
};

/* See ibv_qp_attach_comp_cntr(3). comp_mask must be 0. */
struct ibv_qp_attach_comp_cntr_attr {
	uint32_t comp_mask;
	uint32_t op_mask; /* enum ibv_qp_attach_comp_cntr_op */
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_CQ_TYPES_H */
