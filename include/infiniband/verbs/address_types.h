/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Addresses: GIDs, global routing, rates, address handles. */
#ifndef INFINIBAND_VERBS_ADDRESS_TYPES_H
#define INFINIBAND_VERBS_ADDRESS_TYPES_H

#include <stdint.h>
#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;
struct ibv_pd;

/* A global identifier: 16 bytes, network order throughout. */
union ibv_gid {
	uint8_t raw[16];
	struct {
		__be64 subnet_prefix;
		__be64 interface_id;
	} global;
};

enum ibv_gid_type {
	IBV_GID_TYPE_IB = 0,
	IBV_GID_TYPE_ROCE_V1 = 1,
	IBV_GID_TYPE_ROCE_V2 = 2,
};

/* One line of a port's GID table; see ibv_query_gid_ex(3). */
struct ibv_gid_entry {
	union ibv_gid gid;
	uint32_t gid_index;
	uint32_t port_num;
	uint32_t gid_type; /* enum ibv_gid_type */
	uint32_t ndev_ifindex; /* 0: no net device */
};

/* The fields of a GRH that the sender chooses. */
struct ibv_global_route {
	union ibv_gid dgid;
	uint32_t flow_label; /* 20 bits */
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
};

/*
 * A global route header as it stands in front of a received UD message (40
 * bytes, network order). On RoCE v2 over IPv4 the first 20 bytes are undefined
 * and the IPv4 header fills the last 20.
 */
struct ibv_grh {
	__be32 version_tclass_flow; /* 4 + 8 + 20 bits */
	__be16 paylen; /* bytes */
	uint8_t next_hdr;
	uint8_t hop_limit;
	union ibv_gid sgid;
	union ibv_gid dgid;
};

/*
 * A static rate limit, coded as in the InfiniBand specification. Convert with
 * ibv_rate_to_mbps(3) and ibv_rate_to_mult(3).
 */
enum ibv_rate {
	IBV_RATE_MAX = 0, /* as fast as the port */
	IBV_RATE_2_5_GBPS = 2,
	IBV_RATE_5_GBPS = 5,
	IBV_RATE_10_GBPS = 3,
	IBV_RATE_20_GBPS = 6,
	IBV_RATE_30_GBPS = 4,
	IBV_RATE_40_GBPS = 7,
	IBV_RATE_60_GBPS = 8,
	IBV_RATE_80_GBPS = 9,
	IBV_RATE_120_GBPS = 10,
	IBV_RATE_14_GBPS = 11,
	IBV_RATE_56_GBPS = 12,
	IBV_RATE_112_GBPS = 13,
	IBV_RATE_168_GBPS = 14,
	IBV_RATE_25_GBPS = 15,
	IBV_RATE_100_GBPS = 16,
	IBV_RATE_200_GBPS = 17,
	IBV_RATE_300_GBPS = 18,
	IBV_RATE_28_GBPS = 19,
	IBV_RATE_50_GBPS = 20,
	IBV_RATE_400_GBPS = 21,
	IBV_RATE_600_GBPS = 22,
	IBV_RATE_800_GBPS = 23,
	IBV_RATE_1200_GBPS = 24,
};

/* Where a datagram, or a connected QP's path, goes; see ibv_create_ah(3). */
struct ibv_ah_attr {
	struct ibv_global_route grh;
	uint16_t dlid; /* InfiniBand only */
	uint8_t sl; /* service level, 4 bits */
	uint8_t src_path_bits; /* low bits of the source LID, where LMC > 0 */
	uint8_t static_rate; /* enum ibv_rate */
	uint8_t is_global; /* grh counts; always so on Ethernet */
	uint8_t port_num;
};

/* An address handle. Owned by the caller until ibv_destroy_ah(3). */
struct ibv_ah {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t handle;
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_ADDRESS_TYPES_H */
