/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Attributes of devices and ports. */
#ifndef INFINIBAND_VERBS_DEVICE_TYPES_H
#define INFINIBAND_VERBS_DEVICE_TYPES_H

#include <pthread.h> /* struct timespec, in strict C99 too */
#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;
struct ibv_device;

/* Node type of a device; see ibv_node_type_str(3). */
enum ibv_node_type {
	IBV_NODE_UNKNOWN = -1,
	IBV_NODE_CA = 1, /* InfiniBand or RoCE channel adapter */
	IBV_NODE_SWITCH = 2,
	IBV_NODE_ROUTER = 3,
	IBV_NODE_RNIC = 4, /* iWARP */
	IBV_NODE_USNIC = 5,
	IBV_NODE_USNIC_UDP = 6,
	IBV_NODE_UNSPECIFIED = 7, /* as the kernel reports for some Ethernet devices */
};

/* The wire protocol of a device. */
enum ibv_transport_type {
	IBV_TRANSPORT_UNKNOWN = -1,
	IBV_TRANSPORT_IB = 0,
	IBV_TRANSPORT_IWARP = 1,
	IBV_TRANSPORT_USNIC = 2,
	IBV_TRANSPORT_USNIC_UDP = 3,
	IBV_TRANSPORT_UNSPECIFIED = 4,
};

/* Sizes of the name and path buffers below, terminator included. */
enum {
	IBV_SYSFS_NAME_MAX = 64,
	IBV_SYSFS_PATH_MAX = 256,
};

/* Two slots kept for the layout; nothing calls them. */
struct _ibv_device_ops {
	struct ibv_context *(*_dummy1)(struct ibv_device *device, int cmd_fd);
	void (*_dummy2)(struct ibv_context *context);
};

/*
 * A device found by ibv_get_device_list(3). Owned by the list, and by each
 * context opened on it.
 */
struct ibv_device {
	struct _ibv_device_ops _ops;
	enum ibv_node_type node_type;
	enum ibv_transport_type transport_type;
	char name[IBV_SYSFS_NAME_MAX]; /* of the RDMA device, as rxe0 */
	char dev_name[IBV_SYSFS_NAME_MAX]; /* of the uverbs device, as uverbs0 */
	char dev_path[IBV_SYSFS_PATH_MAX]; /* of the uverbs device in sysfs */
	char ibdev_path[IBV_SYSFS_PATH_MAX]; /* of the RDMA device in sysfs */
};

/* Device capabilities, bits 0 to 31. */
enum ibv_device_cap_flags {
	IBV_DEVICE_RESIZE_MAX_WR = 1 << 0,
	IBV_DEVICE_BAD_PKEY_CNTR = 1 << 1,
	IBV_DEVICE_BAD_QKEY_CNTR = 1 << 2,
	IBV_DEVICE_RAW_MULTI = 1 << 3,
	IBV_DEVICE_AUTO_PATH_MIG = 1 << 4,
	IBV_DEVICE_CHANGE_PHY_PORT = 1 << 5,
	IBV_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6,
	IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7,
	IBV_DEVICE_SHUTDOWN_PORT = 1 << 8,
	IBV_DEVICE_INIT_TYPE = 1 << 9,
	IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10,
	IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11,
	IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
	IBV_DEVICE_SRQ_RESIZE = 1 << 13,
	IBV_DEVICE_N_NOTIFY_CQ = 1 << 14,
	IBV_DEVICE_MEM_WINDOW = 1 << 17,
	IBV_DEVICE_UD_IP_CSUM = 1 << 18,
	IBV_DEVICE_XRC = 1 << 20,
	IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21,
	IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23,
	IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,
	IBV_DEVICE_RC_IP_CSUM = 1 << 25,
	IBV_DEVICE_RAW_IP_CSUM = 1 << 26,
	IBV_DEVICE_MANAGED_FLOW_STEERING = 1 << 29,
};

/*
 * Capabilities above bit 31. They are reported in device_cap_flags_ex only.
 */
#define IBV_DEVICE_RAW_SCATTER_FCS (1ULL << 34)
#define IBV_DEVICE_PCI_WRITE_END_PADDING (1ULL << 36)
/* In a confidential guest: device memory is copied through shared pages. */
#define IBV_DEVICE_CC_DMA_BOUNCE (1ULL << 41)

/* How far the device's atomics are atomic. */
enum ibv_atomic_cap {
	IBV_ATOMIC_NONE = 0,
	IBV_ATOMIC_HCA = 1, /* among QPs of this device */
	IBV_ATOMIC_GLOB = 2, /* also with the CPU */
};

/* Answer of ibv_is_fork_initialized(3). */
enum ibv_fork_status {
	IBV_FORK_DISABLED = 0, /* fork protection is off */
	IBV_FORK_ENABLED = 1, /* registered ranges are kept from children */
	IBV_FORK_UNNEEDED = 2, /* the kernel copies on fork by itself */
};

/*
 * Limits and capabilities; see ibv_query_device(3). Each max_ value is an upper
 * bound, and a request below it can still fail for want of resources.
 */
struct ibv_device_attr {
	char fw_ver[64]; /* text, zero-terminated */
	__be64 node_guid;
	__be64 sys_image_guid;
	uint64_t max_mr_size; /* bytes */
	uint64_t page_size_cap; /* bit n: pages of 2^n bytes */
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	unsigned int device_cap_flags; /* enum ibv_device_cap_flags */
	int max_sge; /* per work request other than RDMA read */
	int max_sge_rd; /* per RDMA read */
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom; /* as responder, per QP */
	int max_ee_rd_atom; /* as responder, per EE context */
	int max_res_rd_atom; /* as responder, all QPs */
	int max_qp_init_rd_atom; /* as initiator, per QP */
	int max_ee_init_rd_atom; /* as initiator, per EE context */
	enum ibv_atomic_cap atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay; /* 4.096 us * 2^n */
	uint8_t phys_port_cnt; /* ports are numbered from 1 */
};

/* Reserved: comp_mask must be 0. */
struct ibv_query_device_ex_input {
	uint32_t comp_mask;
};

enum ibv_odp_general_caps {
	IBV_ODP_SUPPORT = 1 << 0,
	IBV_ODP_SUPPORT_IMPLICIT = 1 << 1, /* the whole address space at once */
};

enum ibv_odp_transport_cap_bits {
	IBV_ODP_SUPPORT_SEND = 1 << 0,
	IBV_ODP_SUPPORT_RECV = 1 << 1,
	IBV_ODP_SUPPORT_WRITE = 1 << 2,
	IBV_ODP_SUPPORT_READ = 1 << 3,
	IBV_ODP_SUPPORT_ATOMIC = 1 << 4,
	IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5,
	IBV_ODP_SUPPORT_FLUSH = 1 << 6,
	IBV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
};

/* On-demand paging, per transport: bits of enum ibv_odp_transport_cap_bits. */
struct ibv_odp_caps {
	uint64_t general_caps; /* enum ibv_odp_general_caps */
	struct {
		uint32_t rc_odp_caps;
		uint32_t uc_odp_caps;
		uint32_t ud_odp_caps;
	} per_transport_caps;
};

/* TCP segmentation offload. */
struct ibv_tso_caps {
	uint32_t max_tso; /* bytes; 0: unsupported */
	uint32_t supported_qpts; /* bit n: QP type n */
};

enum ibv_rx_hash_function_flags {
	IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
};

__extension__ enum ibv_rx_hash_fields {
	IBV_RX_HASH_SRC_IPV4 = 1 << 0,
	IBV_RX_HASH_DST_IPV4 = 1 << 1,
	IBV_RX_HASH_SRC_IPV6 = 1 << 2,
	IBV_RX_HASH_DST_IPV6 = 1 << 3,
	IBV_RX_HASH_SRC_PORT_TCP = 1 << 4,
	IBV_RX_HASH_DST_PORT_TCP = 1 << 5,
	IBV_RX_HASH_SRC_PORT_UDP = 1 << 6,
	IBV_RX_HASH_DST_PORT_UDP = 1 << 7,
	IBV_RX_HASH_IPSEC_SPI = 1 << 8,
	IBV_RX_HASH_INNER = 1U << 31, /* hash the tunnelled header */
};

/* Receive-side scaling. */
struct ibv_rss_caps {
	uint32_t supported_qpts; /* bit n: QP type n */
	uint32_t max_rwq_indirection_tables;
	uint32_t max_rwq_indirection_table_size;
	uint64_t rx_hash_fields_mask; /* enum ibv_rx_hash_fields */
	uint8_t rx_hash_function; /* enum ibv_rx_hash_function_flags */
};

/* Packet pacing, in kbit/s; a maximum of 0 means unsupported. */
struct ibv_packet_pacing_caps {
	uint32_t qp_rate_limit_min;
	uint32_t qp_rate_limit_max;
	uint32_t supported_qpts; /* bit n: QP type n */
};

enum ibv_raw_packet_caps {
	IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0,
	IBV_RAW_PACKET_CAP_SCATTER_FCS = 1 << 1,
	IBV_RAW_PACKET_CAP_IP_CSUM = 1 << 2,
	IBV_RAW_PACKET_CAP_DELAY_DROP = 1 << 3,
};

enum ibv_tm_cap_flags {
	IBV_TM_CAP_RC = 1 << 0,
};

/* Tag matching on shared receive queues; all zero when unsupported. */
struct ibv_tm_caps {
	uint32_t max_rndv_hdr_size; /* bytes */
	uint32_t max_num_tags;
	uint32_t flags; /* enum ibv_tm_cap_flags */
	uint32_t max_ops; /* outstanding */
	uint32_t max_sge;
};

/* Largest values that ibv_modify_cq(3) takes; both 0 when unsupported. */
struct ibv_cq_moderation_caps {
	uint16_t max_cq_count;
	uint16_t max_cq_period; /* us */
};

enum ibv_pci_atomic_op_size {
	IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP = 1 << 0,
	IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP = 1 << 1,
	IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = 1 << 2,
};

/* Sizes of PCI atomics the device can issue, per operation. */
struct ibv_pci_atomic_caps {
	uint16_t fetch_add; /* enum ibv_pci_atomic_op_size */
	uint16_t swap;
	uint16_t compare_swap;
};

/*
 * Answer of ibv_query_device_ex(3). The caller's sizeof travels with the call:
 * members the library or the device does not know come back as 0.
 */
struct ibv_device_attr_ex {
	struct ibv_device_attr orig_attr;
	uint32_t comp_mask;
	struct ibv_odp_caps odp_caps;
	uint64_t completion_timestamp_mask; /* valid bits; 0: no timestamps */
	uint64_t hca_core_clock; /* kHz; 0: unknown */
	uint64_t device_cap_flags_ex; /* all 64 capability bits */
	struct ibv_tso_caps tso_caps;
	struct ibv_rss_caps rss_caps;
	uint32_t max_wq_type_rq;
	struct ibv_packet_pacing_caps packet_pacing_caps;
	uint32_t raw_packet_caps; /* enum ibv_raw_packet_caps */
	struct ibv_tm_caps tm_caps;
	struct ibv_cq_moderation_caps cq_mod_caps;
	uint64_t max_dm_size; /* bytes */
	struct ibv_pci_atomic_caps pci_atomic_caps;
	uint32_t xrc_odp_caps; /* enum ibv_odp_transport_cap_bits */
	uint32_t phys_port_cnt_ex; /* where 255 ports are not enough */
};

/* Path MTU, coded as on the wire. */
enum ibv_mtu {
	IBV_MTU_256 = 1,
	IBV_MTU_512 = 2,
	IBV_MTU_1024 = 3,
	IBV_MTU_2048 = 4,
	IBV_MTU_4096 = 5,
};

/* Logical state of a port. */
enum ibv_port_state {
	IBV_PORT_NOP = 0,
	IBV_PORT_DOWN = 1,
	IBV_PORT_INIT = 2,
	IBV_PORT_ARMED = 3,
	IBV_PORT_ACTIVE = 4,
	IBV_PORT_ACTIVE_DEFER = 5,
};

/* Values of ibv_port_attr.link_layer. */
enum {
	IBV_LINK_LAYER_UNSPECIFIED = 0,
	IBV_LINK_LAYER_INFINIBAND = 1,
	IBV_LINK_LAYER_ETHERNET = 2,
};

/* Bits of ibv_port_attr.port_cap_flags. */
enum ibv_port_cap_flags {
	IBV_PORT_SM = 1 << 1,
	IBV_PORT_NOTICE_SUP = 1 << 2,
	IBV_PORT_TRAP_SUP = 1 << 3,
	IBV_PORT_OPT_IPD_SUP = 1 << 4,
	IBV_PORT_AUTO_MIGR_SUP = 1 << 5,
	IBV_PORT_SL_MAP_SUP = 1 << 6,
	IBV_PORT_MKEY_NVRAM = 1 << 7,
	IBV_PORT_PKEY_NVRAM = 1 << 8,
	IBV_PORT_LED_INFO_SUP = 1 << 9,
	IBV_PORT_SYS_IMAGE_GUID_SUP = 1 << 11,
	IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12,
	IBV_PORT_EXTENDED_SPEEDS_SUP = 1 << 14,
	IBV_PORT_CAP_MASK2_SUP = 1 << 15,
	IBV_PORT_CM_SUP = 1 << 16,
	IBV_PORT_SNMP_TUNNEL_SUP = 1 << 17,
	IBV_PORT_REINIT_SUP = 1 << 18,
	IBV_PORT_DEVICE_MGMT_SUP = 1 << 19,
	IBV_PORT_VENDOR_CLASS_SUP = 1 << 20,
	IBV_PORT_DR_NOTICE_SUP = 1 << 21,
	IBV_PORT_CAP_MASK_NOTICE_SUP = 1 << 22,
	IBV_PORT_BOOT_MGMT_SUP = 1 << 23,
	IBV_PORT_LINK_LATENCY_SUP = 1 << 24,
	IBV_PORT_CLIENT_REG_SUP = 1 << 25,
	IBV_PORT_IP_BASED_GIDS = 1 << 26,
};

/* Bits of ibv_port_attr.port_cap_flags2, valid with IBV_PORT_CAP_MASK2_SUP. */
enum ibv_port_cap_flags2 {
	IBV_PORT_SET_NODE_DESC_SUP = 1 << 0,
	IBV_PORT_INFO_EXT_SUP = 1 << 1,
	IBV_PORT_VIRT_SUP = 1 << 2,
	IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP = 1 << 3,
	IBV_PORT_LINK_WIDTH_2X_SUP = 1 << 4,
	IBV_PORT_LINK_SPEED_HDR_SUP = 1 << 5,
	IBV_PORT_LINK_SPEED_NDR_SUP = 1 << 10,
	IBV_PORT_LINK_SPEED_XDR_SUP = 1 << 12,
};

/*
 * State of a port; see ibv_query_port(3). The caller's sizeof travels with the
 * call.
 */
struct ibv_port_attr {
	enum ibv_port_state state;
	enum ibv_mtu max_mtu;
	enum ibv_mtu active_mtu;
	int gid_tbl_len; /* entries */
	uint32_t port_cap_flags; /* enum ibv_port_cap_flags */
	uint32_t max_msg_sz; /* bytes */
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len; /* entries */
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t lmc; /* low bits of the LID that are free */
	uint8_t max_vl_num; /* coded: 1, 2, 3, 4, 5 for 1, 2, 4, 8, 15 lanes */
	uint8_t sm_sl;
	uint8_t subnet_timeout; /* 4.096 us * 2^n */
	uint8_t init_type_reply;
	uint8_t active_width; /* 1: 1x, 2: 4x, 4: 8x, 8: 12x, 16: 2x */
	/* 1: 2.5, 2: 5, 4 and 8: 10, 16: 14, 32: 25, 64: 50, 128: 100 Gbit/s a lane */
	uint8_t active_speed;
	uint8_t phys_state; /* 2: polling, 3: disabled, 5: link up */
	uint8_t link_layer; /* IBV_LINK_LAYER_* */
	uint8_t flags; /* IBV_QPF_GRH_REQUIRED */
	uint16_t port_cap_flags2; /* enum ibv_port_cap_flags2 */
#ifndef _IBV_PROVIDER_GENERATION
	/* As active_speed, with the bits that it has no room for: 256 is 200 Gbit/s a lane. */
	uint32_t active_speed_ex;
#endif
};

enum ibv_values_mask {
	IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
	IBV_VALUES_MASK_RESERVED = 1 << 1, /* first bit that is not defined */
};

/*
 * Real-time values of a device; see ibv_query_rt_values_ex(3). comp_mask asks
 * on entry and names the members that were filled on return.
 */
struct ibv_values_ex {
	uint32_t comp_mask; /* enum ibv_values_mask */
	struct timespec raw_clock; /* tv_nsec: device clock, in its own ticks */
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_DEVICE_TYPES_H */
