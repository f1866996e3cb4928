/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Work requests, which are posted to a queue. */
#ifndef INFINIBAND_VERBS_WR_TYPES_H
#define INFINIBAND_VERBS_WR_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>
#include <infiniband/verbs/memory_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_ah;

/* The operation of a send work request. */
enum ibv_wr_opcode {
	IBV_WR_RDMA_WRITE = 0,
	IBV_WR_RDMA_WRITE_WITH_IMM = 1,
	IBV_WR_SEND = 2,
	IBV_WR_SEND_WITH_IMM = 3,
	IBV_WR_RDMA_READ = 4,
	IBV_WR_ATOMIC_CMP_AND_SWP = 5,
	IBV_WR_ATOMIC_FETCH_AND_ADD = 6,
	IBV_WR_LOCAL_INV = 7,
	IBV_WR_BIND_MW = 8,
	IBV_WR_SEND_WITH_INV = 9,
	IBV_WR_TSO = 10,
	IBV_WR_DRIVER1 = 11,
	IBV_WR_FLUSH = 14,
	IBV_WR_ATOMIC_WRITE = 15,
};

/* How far the bytes of a flush shall get; bits. */
enum ibv_placement_type {
	IBV_FLUSH_GLOBAL = 1 << 0, /* to where every observer sees them */
	IBV_FLUSH_PERSISTENT = 1 << 1, /* to where they outlive a power failure */
};

/* Which bytes a flush is about. */
enum ibv_selectivity_level {
	IBV_FLUSH_RANGE = 0,
	IBV_FLUSH_MR = 1, /* all of the region */
};

enum ibv_send_flags {
	IBV_SEND_FENCE = 1 << 0, /* wait for earlier reads and atomics */
	IBV_SEND_SIGNALED = 1 << 1, /* ask for a completion */
	IBV_SEND_SOLICITED = 1 << 2, /* raise a solicited event at the receiver */
	IBV_SEND_INLINE = 1 << 3, /* data is copied during the post */
	IBV_SEND_IP_CSUM = 1 << 4, /* compute IPv4 and TCP/UDP checksums */
};

/* A piece of inline data. */
struct ibv_data_buf {
	void *addr;
	size_t length;
};

/* A scatter/gather element: local memory under a key. */
struct ibv_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* Descriptors and how many they are. */
struct ibv_fd_arr {
	int *arr;
	uint32_t count;
};

/*
 * A send work request; see ibv_post_send(3). The provider has read it, its list
 * of elements and its inline data when the post returns; the buffers are the
 * device's until the completion.
 */
struct ibv_send_wr {
	uint64_t wr_id; /* returned in the completion */
	struct ibv_send_wr *next; /* NULL: the last */
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	unsigned int send_flags; /* enum ibv_send_flags */
	__extension__ union {
		__be32 imm_data;
		uint32_t invalidate_rkey; /* SEND_WITH_INV and LOCAL_INV */
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add; /* the comparand, or the addend */
			uint64_t swap; /* compare and swap only */
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
	union {
		struct {
			uint32_t remote_srqn;
		} xrc;
	} qp_type;
	__extension__ union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey;
			struct ibv_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz; /* bytes */
			uint16_t mss; /* bytes */
		} tso;
	};
};

/* A receive work request; see ibv_post_recv(3). */
struct ibv_recv_wr {
	uint64_t wr_id; /* returned in the completion */
	struct ibv_recv_wr *next; /* NULL: the last */
	struct ibv_sge *sg_list;
	int num_sge;
};

enum ibv_ops_wr_opcode {
	IBV_WR_TAG_ADD = 0,
	IBV_WR_TAG_DEL = 1,
	IBV_WR_TAG_SYNC = 2,
};

enum ibv_ops_flags {
	IBV_OPS_SIGNALED = 1 << 0,
	IBV_OPS_TM_SYNC = 1 << 1,
};

/*
 * A tag-matching operation on a shared receive queue; see ibv_post_srq_ops(3).
 */
struct ibv_ops_wr {
	uint64_t wr_id;
	struct ibv_ops_wr *next;
	enum ibv_ops_wr_opcode opcode;
	int flags; /* enum ibv_ops_flags */
	struct {
		uint32_t unexpected_cnt; /* unexpected messages seen by the program */
		uint32_t handle; /* out of ADD, into DEL */
		struct {
			uint64_t recv_wr_id;
			struct ibv_sge *sg_list;
			int num_sge;
			uint64_t tag;
			uint64_t mask;
		} add;
	} tm;
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_WR_TYPES_H */
