/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Address handles, Ethernet addresses, rates. */
#ifndef INFINIBAND_VERBS_ADDRESS_H
#define INFINIBAND_VERBS_ADDRESS_H

#include <stdint.h>
#include <infiniband/verbs/address_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;
struct ibv_pd;
struct ibv_wc;

/* NULL on failure. ibv_create_ah(3) */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/*
 * Fills ah_attr with the way back to the sender of a UD message; grh points to the
 * first 40 bytes of the message. 0 or -1. ibv_create_ah_from_wc(3)
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num,
			struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *ah_attr);

/* Both steps at once; NULL on failure. ibv_create_ah_from_wc(3) */
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
				     struct ibv_grh *grh, uint8_t port_num);

/* 0 or a positive errno. ibv_create_ah(3) */
int ibv_destroy_ah(struct ibv_ah *ah);

/* Bytes of an Ethernet address. */
#define ETHERNET_LL_SIZE 6

/* The Ethernet address and VLAN (or 0xffff) behind attr's GID; 0 or an error. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context,
				struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE],
				uint16_t *vid);

/* UDP source ports of RoCE v2. */
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN (0xC000)
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX (0xFFFF)
/* The 20 bits of a flow label. */
#define IB_GRH_FLOWLABEL_MASK (0x000FFFFF)

/*
 * The source port for a flow label: its low 14 bits, combined with the high 6 bits, inside the
 * range above.
 */
static inline uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
{
	const uint32_t high = (fl & IB_GRH_FLOWLABEL_MASK) >> 14;
	const uint32_t low = fl & 0x3fff;

	return (uint16_t)(IB_ROCE_UDP_ENCAP_VALID_PORT_MIN | (low ^ high));
}

/* Multiples of 2.5 Gbit/s; -1 for an unknown rate. ibv_rate_to_mult(3) */
__attribute__((const)) int ibv_rate_to_mult(enum ibv_rate rate);

/* IBV_RATE_MAX where no rate is that multiple. ibv_rate_to_mult(3) */
__attribute__((const)) enum ibv_rate mult_to_ibv_rate(int mult);

/* Mbit/s; -1 for an unknown rate. ibv_rate_to_mbps(3) */
__attribute__((const)) int ibv_rate_to_mbps(enum ibv_rate rate);

/* IBV_RATE_MAX where no rate is that fast. ibv_rate_to_mbps(3) */
__attribute__((const)) enum ibv_rate mbps_to_ibv_rate(int mbps);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_ADDRESS_H */
