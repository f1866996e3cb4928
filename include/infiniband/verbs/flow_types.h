/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Flow steering rules, their ESP actions, and counters. */
#ifndef INFINIBAND_VERBS_FLOW_TYPES_H
#define INFINIBAND_VERBS_FLOW_TYPES_H

#include <stdint.h>
#include <infiniband/verbs_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;

enum ibv_flow_flags {
	IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 1 << 1, /* later rules see the packet too */
	IBV_FLOW_ATTR_FLAGS_EGRESS = 1 << 2, /* on sending */
};

enum ibv_flow_attr_type {
	IBV_FLOW_ATTR_NORMAL = 0, /* by specifications */
	IBV_FLOW_ATTR_ALL_DEFAULT = 1, /* whatever no rule takes */
	IBV_FLOW_ATTR_MC_DEFAULT = 2, /* multicast that no rule takes */
	IBV_FLOW_ATTR_SNIFFER = 3, /* all traffic */
};

/*
 * Head of a flow rule; num_of_specs specifications follow it in memory, each of
 * its own size. See ibv_create_flow(3).
 */
struct ibv_flow_attr {
	uint32_t comp_mask;
	enum ibv_flow_attr_type type;
	uint16_t size; /* bytes, with the specifications */
	uint16_t priority; /* 0 is highest */
	uint8_t num_of_specs;
	uint8_t port;
	uint32_t flags; /* enum ibv_flow_flags */
};

/* A flow rule in force, until ibv_destroy_flow(3). */
struct ibv_flow {
	uint32_t comp_mask;
	struct ibv_context *context;
	uint32_t handle;
};

/*
 * Kinds of flow specification; OR with IBV_FLOW_SPEC_INNER for the header
 * inside a tunnel.
 */
enum ibv_flow_spec_type {
	IBV_FLOW_SPEC_ETH = 32,
	IBV_FLOW_SPEC_IPV4 = 48,
	IBV_FLOW_SPEC_IPV6 = 49,
	IBV_FLOW_SPEC_IPV4_EXT = 50,
	IBV_FLOW_SPEC_ESP = 52,
	IBV_FLOW_SPEC_TCP = 64,
	IBV_FLOW_SPEC_UDP = 65,
	IBV_FLOW_SPEC_VXLAN_TUNNEL = 80,
	IBV_FLOW_SPEC_GRE = 81,
	IBV_FLOW_SPEC_MPLS = 96,
	IBV_FLOW_SPEC_INNER = 256,
	IBV_FLOW_SPEC_ACTION_TAG = 4096,
	IBV_FLOW_SPEC_ACTION_DROP = 4097,
	IBV_FLOW_SPEC_ACTION_HANDLE = 4098,
	IBV_FLOW_SPEC_ACTION_COUNT = 4099,
};

/* Ethernet header fields, network order. */
struct ibv_flow_eth_filter {
	uint8_t dst_mac[6];
	uint8_t src_mac[6];
	uint16_t ether_type;
	uint16_t vlan_tag;
};

struct ibv_flow_spec_eth {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_eth_filter val;
	struct ibv_flow_eth_filter mask;
};

/* IPv4 addresses, network order. */
struct ibv_flow_ipv4_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
};

struct ibv_flow_spec_ipv4 {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_ipv4_filter val;
	struct ibv_flow_ipv4_filter mask;
};

/* IPv4 header fields, network order. */
struct ibv_flow_ipv4_ext_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
	uint8_t proto;
	uint8_t tos;
	uint8_t ttl;
	uint8_t flags;
};

struct ibv_flow_spec_ipv4_ext {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_ipv4_ext_filter val;
	struct ibv_flow_ipv4_ext_filter mask;
};

/* IPv6 header fields, network order. */
struct ibv_flow_ipv6_filter {
	uint8_t src_ip[16];
	uint8_t dst_ip[16];
	uint32_t flow_label;
	uint8_t next_hdr;
	uint8_t traffic_class;
	uint8_t hop_limit;
};

struct ibv_flow_spec_ipv6 {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_ipv6_filter val;
	struct ibv_flow_ipv6_filter mask;
};

/* IPsec ESP header fields, network order. */
struct ibv_flow_esp_filter {
	uint32_t spi;
	uint32_t seq;
};

struct ibv_flow_spec_esp {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_esp_filter val;
	struct ibv_flow_esp_filter mask;
};

/* Port numbers, network order. */
struct ibv_flow_tcp_udp_filter {
	uint16_t dst_port;
	uint16_t src_port;
};

struct ibv_flow_spec_tcp_udp {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_tcp_udp_filter val;
	struct ibv_flow_tcp_udp_filter mask;
};

/* GRE header fields, network order. */
struct ibv_flow_gre_filter {
	uint16_t c_ks_res0_ver;
	uint16_t protocol;
	uint32_t key;
};

struct ibv_flow_spec_gre {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_gre_filter val;
	struct ibv_flow_gre_filter mask;
};

/* One MPLS label stack entry, network order. */
struct ibv_flow_mpls_filter {
	uint32_t label;
};

struct ibv_flow_spec_mpls {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_mpls_filter val;
	struct ibv_flow_mpls_filter mask;
};

/* VXLAN network identifier, network order. */
struct ibv_flow_tunnel_filter {
	uint32_t tunnel_id;
};

struct ibv_flow_spec_tunnel {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_tunnel_filter val;
	struct ibv_flow_tunnel_filter mask;
};

struct ibv_flow_spec_action_tag {
	enum ibv_flow_spec_type type;
	uint16_t size;
	uint32_t tag_id;
};

struct ibv_flow_spec_action_drop {
	enum ibv_flow_spec_type type;
	uint16_t size;
};

/* An action, until ibv_destroy_flow_action(3). */
struct ibv_flow_action {
	struct ibv_context *context;
};

/* Sends matching packets through an action made beforehand. */
struct ibv_flow_spec_action_handle {
	enum ibv_flow_spec_type type;
	uint16_t size;
	const struct ibv_flow_action *action;
};

/* A set of counters; see ibv_create_counters(3). */
struct ibv_counters {
	struct ibv_context *context;
};

/* Counts matching packets. */
struct ibv_flow_spec_counter_action {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_counters *counters;
};

/* Large enough for any specification. */
__extension__ struct ibv_flow_spec {
	__extension__ union {
		struct {
			enum ibv_flow_spec_type type;
			uint16_t size;
		} hdr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_ipv4 ipv4;
		struct ibv_flow_spec_tcp_udp tcp_udp;
		struct ibv_flow_spec_ipv4_ext ipv4_ext;
		struct ibv_flow_spec_ipv6 ipv6;
		struct ibv_flow_spec_esp esp;
		struct ibv_flow_spec_tunnel tunnel;
		struct ibv_flow_spec_gre gre;
		struct ibv_flow_spec_mpls mpls;
		struct ibv_flow_spec_action_tag flow_tag;
		struct ibv_flow_spec_action_drop drop;
		struct ibv_flow_spec_action_handle handle;
		struct ibv_flow_spec_counter_action flow_count;
	};
};

enum ibv_flow_action_esp_mask {
	IBV_FLOW_ACTION_ESP_MASK_ESN = 1 << 0,
};

/*
 * Argument of ibv_create_flow_action(3) and ibv_modify_flow_action(3). The
 * pointers are read during the call only.
 */
struct ibv_flow_action_esp_attr {
	struct ibv_flow_action_esp *esp_attr;
	enum ibv_flow_action_esp_keymat keymat_proto;
	uint16_t keymat_len; /* bytes */
	void *keymat_ptr;
	enum ibv_flow_action_esp_replay replay_proto;
	uint16_t replay_len; /* bytes */
	void *replay_ptr;
	struct ibv_flow_action_esp_encap *esp_encap;
	uint32_t comp_mask; /* enum ibv_flow_action_esp_mask */
	uint32_t esn;
};

/* Reserved: comp_mask must be 0. */
struct ibv_counters_init_attr {
	uint32_t comp_mask;
};

/* The quantity that a counter counts. */
enum ibv_counter_description {
	IBV_COUNTER_PACKETS = 0,
	IBV_COUNTER_BYTES = 1, /* headers included */
};

/* Where a counter stands in the set; see ibv_attach_counters_point_flow(3). */
struct ibv_counter_attach_attr {
	enum ibv_counter_description counter_desc;
	uint32_t index; /* position in the values read */
	uint32_t comp_mask;
};

enum ibv_read_counters_flags {
	IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0, /* an older value will do */
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_FLOW_TYPES_H */
