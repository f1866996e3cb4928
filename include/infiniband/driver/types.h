/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Objects as a provider allocates them: the verbs object first, then the library's members. A
 * provider puts one at the start of its structure, and the size of each belongs to the provider ABI
 * of this generation.
 */
#ifndef INFINIBAND_DRIVER_TYPES_H
#define INFINIBAND_DRIVER_TYPES_H

#include <infiniband/driver/generation.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <infiniband/driver/ops.h>
#include <infiniband/driver/support.h>
#include <infiniband/verbs.h>

/* A counter of its language's atomic type; both are a plain int in memory. */
#ifdef __cplusplus
#include <atomic>
typedef std::atomic<int> __verbs_atomic_int;
#else
#include <stdatomic.h>
typedef atomic_int __verbs_atomic_int;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of verbs_xrcd.comp_mask. */
enum verbs_xrcd_mask {
	VERBS_XRCD_HANDLE = 1 << 0,
	VERBS_XRCD_RESERVED = 1 << 1, /* first bit that is not defined */
};

struct verbs_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t comp_mask;
	uint32_t handle;
};

struct verbs_srq {
	struct ibv_srq srq;
	enum ibv_srq_type srq_type;
	struct verbs_xrcd *xrcd; /* IBV_SRQT_XRC */
	struct ibv_cq *cq; /* IBV_SRQT_XRC */
	uint32_t srq_num;
};

/* Bits of verbs_qp.comp_mask. */
enum verbs_qp_mask {
	VERBS_QP_XRCD = 1 << 0, /* xrcd is set */
	VERBS_QP_EX = 1 << 1, /* qp_ex is: ibv_qp_to_qp_ex() answers it */
};

__extension__ struct verbs_qp {
	__extension__ union {
		struct ibv_qp qp;
		struct ibv_qp_ex qp_ex;
	};
	uint32_t comp_mask; /* written by ibv_cmd_create_qp_ex() and the like */
	struct verbs_xrcd *xrcd;
};

__VERBS_ASSERT(offsetof(struct ibv_qp_ex, qp_base) == 0,
	       "one pointer serves as both kinds of queue pair");

__extension__ struct verbs_cq {
	__extension__ union {
		struct ibv_cq cq;
		struct ibv_cq_ex cq_ex; /* by create_cq_ex only */
	};
};

/* Argument cmd_flags of ibv_cmd_create_cq_ex(). */
enum create_cq_cmd_flags {
	CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX = 1 << 0, /* timestamps are the provider's */
};

/* The origin of a memory region, which determines how it is destroyed. */
enum ibv_mr_type {
	IBV_MR_TYPE_MR = 0,
	IBV_MR_TYPE_NULL_MR = 1,
	IBV_MR_TYPE_IMPORTED_MR = 2,
	IBV_MR_TYPE_DMABUF_MR = 3,
};

struct verbs_mr {
	struct ibv_mr ibv_mr;
	enum ibv_mr_type mr_type;
	int access; /* enum ibv_access_flags */
};

static inline struct verbs_mr *verbs_get_mr(struct ibv_mr *mr)
{
	return container_of(mr, struct verbs_mr, ibv_mr);
}

enum ibv_flow_action_type {
	IBV_FLOW_ACTION_UNSPECIFIED = 0,
	IBV_FLOW_ACTION_ESP = 1,
};

struct verbs_flow_action {
	struct ibv_flow_action action;
	uint32_t handle;
	enum ibv_flow_action_type type;
};

struct verbs_dm {
	struct ibv_dm dm;
	uint32_t handle;
};

struct verbs_counters {
	struct ibv_counters counters;
	uint32_t handle;
};

/* A GID's type as the kernel's sysfs shows it. */
enum ibv_gid_type_sysfs {
	IBV_GID_TYPE_SYSFS_IB_ROCE_V1 = 0,
	IBV_GID_TYPE_SYSFS_ROCE_V2 = 1,
};

/* Parts of a GID entry that may be read the slow way. */
enum verbs_query_gid_attr_mask {
	VERBS_QUERY_GID_ATTR_GID = 1 << 0,
	VERBS_QUERY_GID_ATTR_TYPE = 1 << 1,
	VERBS_QUERY_GID_ATTR_NDEV_IFINDEX = 1 << 2,
};

/* Values of verbs_match_ent.kind. */
enum {
	VERBS_MATCH_SENTINEL = 0,
	VERBS_MATCH_PCI = 1,
	VERBS_MATCH_MODALIAS = 2,
	VERBS_MATCH_DRIVER_ID = 3,
};

/* One line of a match table; an empty one ends it. Made by the macros below. */
struct verbs_match_ent {
	void *driver_data; /* the provider's; may be NULL */
	union {
		const char *modalias; /* a pattern of fnmatch(3) */
		uint64_t driver_id; /* enum rdma_driver_id */
	} u;
	uint16_t vendor;
	uint16_t device;
	uint8_t kind;
};

/* Devices of a kernel driver: the way for new providers. */
#define VERBS_DRIVER_ID(_id) \
	{ NULL, { .driver_id = (_id) }, 0, 0, VERBS_MATCH_DRIVER_ID }

/* A PCI device by its two numbers. */
#define VERBS_PCI_MATCH(_vendor, _device, _data) \
	{ (void *)(_data), { NULL }, (_vendor), (_device), VERBS_MATCH_PCI }

/* Devices whose modalias fits the pattern. */
#define VERBS_MODALIAS_MATCH(_mod_str, _data) \
	{ (void *)(_data), { (_mod_str) }, 0, 0, VERBS_MATCH_MODALIAS }

/*
 * Devices by the beginning of their name, where there is nothing better: names can
 * be changed.
 */
#define VERBS_NAME_MATCH(_name_prefix, _data) \
	{ (void *)(_data), { "rdma_device:*N" _name_prefix "*" }, 0, 0, \
	  VERBS_MATCH_MODALIAS }

/* Bits of verbs_sysfs_dev.flags: the members read so far. */
enum {
	VSYSFS_READ_MODALIAS = 1 << 0,
	VSYSFS_READ_NODE_GUID = 1 << 1,
};

/* A device the kernel has. The library's, valid as long as its verbs_device. */
struct verbs_sysfs_dev {
	struct list_node entry;
	void *provider_data; /* between match_device and alloc_device */
	const struct verbs_match_ent *match; /* the line that fitted; NULL: none */
	unsigned int flags;
	char sysfs_name[IBV_SYSFS_NAME_MAX]; /* uverbs0 */
	dev_t sysfs_cdev;
	char ibdev_name[IBV_SYSFS_NAME_MAX]; /* rxe0 */
	char ibdev_path[IBV_SYSFS_PATH_MAX];
	char modalias[512];
	uint64_t node_guid; /* host order, with VSYSFS_READ_NODE_GUID */
	uint32_t driver_id; /* enum rdma_driver_id */
	enum ibv_node_type node_type;
	int ibdev_idx; /* -1: unknown */
	uint32_t num_ports;
	uint32_t abi_ver; /* of the kernel driver */
	struct timespec time_created;
};

/* Registration of a provider. Static: the library keeps the pointer. */
struct verbs_device_ops {
	const char *name;

	/* Both ends included; other versions are refused with a warning. */
	uint32_t match_min_abi_version;
	uint32_t match_max_abi_version;
	const struct verbs_match_ent *match_table;
	const struct verbs_device_ops **static_providers; /* ends with NULL */

	/* Decides after the table, if it is set; match is the matching entry. */
	bool (*match_device)(struct verbs_sysfs_dev *sysfs_dev);

	/* NULL and errno. private_data is that of verbs_open_device(). */
	struct verbs_context *(*alloc_context)(struct ibv_device *device,
					       int cmd_fd, void *private_data);
	struct verbs_context *(*import_context)(struct ibv_device *device,
						int cmd_fd);

	/* NULL and errno. */
	struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *sysfs_dev);
	void (*uninit_device)(struct verbs_device *device);
};

/* A device with a provider; alloc_device makes it, uninit_device frees it. */
struct verbs_device {
	struct ibv_device device;
	const struct verbs_device_ops *ops;
	__verbs_atomic_int refcount;
	struct list_node entry;
	struct verbs_sysfs_dev *sysfs;
	uint64_t core_support; /* enum ib_uverbs_core_support */
};

static inline struct verbs_device *verbs_get_device(const struct ibv_device *dev)
{
	return container_of(dev, struct verbs_device, device);
}

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_DRIVER_TYPES_H */
