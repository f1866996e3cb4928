/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Protection domains, memory regions and windows, device memory. */
#ifndef INFINIBAND_VERBS_MEMORY_TYPES_H
#define INFINIBAND_VERBS_MEMORY_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;

/*
 * A protection domain, or a parent domain. Owned by the caller until
 * ibv_dealloc_pd(3).
 */
struct ibv_pd {
	struct ibv_context *context;
	uint32_t handle;
};

/* Reserved: comp_mask must be 0. */
struct ibv_td_init_attr {
	uint32_t comp_mask;
};

/* A thread domain: objects made in it are used by one thread at a time. */
struct ibv_td {
	struct ibv_context *context;
};

/* As alloc's answer: take the allocator the library would have used. */
#define IBV_ALLOCATOR_USE_DEFAULT ((void *)-1)

enum ibv_parent_domain_init_attr_mask {
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1 << 0,
	IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1,
	/* buffers of ibv_alloc_buf(3) may lie in memory shared with the host */
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2,
};

/*
 * A protection domain joined with a thread domain and allocators; see
 * ibv_alloc_parent_domain(3).
 */
struct ibv_parent_domain_init_attr {
	struct ibv_pd *pd;
	struct ibv_td *td; /* NULL: none */
	uint32_t comp_mask;
	/* NULL is failure, IBV_ALLOCATOR_USE_DEFAULT declines. */
	void *(*alloc)(
			struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
			uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context; /* given to alloc and free */
};

enum ibv_xrcd_init_attr_mask {
	IBV_XRCD_INIT_ATTR_FD = 1 << 0,
	IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
	IBV_XRCD_INIT_ATTR_RESERVED = 1 << 2, /* first bit that is not defined */
};

/* How to open an XRC domain; see ibv_open_xrcd(3). */
struct ibv_xrcd_init_attr {
	uint32_t comp_mask;
	int fd; /* inode that names the domain; -1: private */
	int oflags; /* O_CREAT, O_EXCL */
};

/* An XRC domain. Owned by the caller until ibv_close_xrcd(3). */
struct ibv_xrcd {
	struct ibv_context *context;
};

/*
 * Permitted uses of a key. Remote write and remote atomic need local write.
 */
enum ibv_access_flags {
	IBV_ACCESS_LOCAL_WRITE = 1 << 0,
	IBV_ACCESS_REMOTE_WRITE = 1 << 1,
	IBV_ACCESS_REMOTE_READ = 1 << 2,
	IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
	IBV_ACCESS_MW_BIND = 1 << 4,
	IBV_ACCESS_ZERO_BASED = 1 << 5, /* remote addresses count from 0 */
	IBV_ACCESS_ON_DEMAND = 1 << 6, /* pages are not pinned */
	IBV_ACCESS_HUGETLB = 1 << 7, /* with ON_DEMAND: huge pages throughout */
	IBV_ACCESS_FLUSH_GLOBAL = 1 << 8, /* remote flush to global visibility */
	IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9, /* remote flush to persistence */
	/* optional: ignored where unsupported */
	IBV_ACCESS_RELAXED_ORDERING = IBV_ACCESS_OPTIONAL_FIRST,
};

/*
 * A memory region. Owned by the caller until ibv_dereg_mr(3); the memory itself
 * stays the caller's throughout.
 */
struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length; /* bytes */
	uint32_t handle;
	uint32_t lkey; /* host order */
	uint32_t rkey; /* host order */
};

/* Which members of ibv_mr_init_attr are given. */
enum ibv_mr_init_attr_mask {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
	IBV_REG_MR_MASK_FD = 1 << 2,
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
	IBV_REG_MR_MASK_DMAH = 1 << 4,
	IBV_REG_MR_MASK_BUF = 1 << 5,
};

/* Hints for the device's accesses to memory; see ibv_alloc_dmah(3). */
struct ibv_dmah {
	struct ibv_context *context;
};

/* Memory of ibv_alloc_buf(3), opaque. */
struct ibv_buf;

/* Memory for ibv_reg_mr_ex(3): addr, or fd with fd_offset and iova. */
struct ibv_mr_init_attr {
	size_t length; /* bytes */
	int access; /* enum ibv_access_flags */
	uint64_t comp_mask; /* enum ibv_mr_init_attr_mask */
	uint64_t iova; /* address under the keys; addr without it */
	void *addr;
	int fd; /* of a DMA buffer */
	uint64_t fd_offset; /* bytes */
	struct ibv_dmah *dmah;
	struct ibv_buf *buf; /* addr lies in it */
};

enum ibv_tph_mem_type {
	IBV_TPH_MEM_TYPE_VM = 0, /* volatile memory */
	IBV_TPH_MEM_TYPE_PM = 1, /* persistent memory */
};

enum ibv_dmah_init_attr_mask {
	IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1 << 0,
	IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
	IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2,
};

/* TLP processing hints; see ibv_alloc_dmah(3). */
struct ibv_dmah_init_attr {
	uint32_t comp_mask; /* enum ibv_dmah_init_attr_mask */
	uint32_t cpu_id; /* the CPU whose cache the data should be near */
	uint8_t ph; /* the two bits of the hint */
	uint8_t tph_mem_type; /* enum ibv_tph_mem_type */
};

/* The parts that ibv_rereg_mr(3) changes. */
enum ibv_rereg_mr_flags {
	IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0,
	IBV_REREG_MR_CHANGE_PD = 1 << 1,
	IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
	IBV_REREG_MR_FLAGS_SUPPORTED = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
		IBV_REREG_MR_CHANGE_ACCESS,
};

/* Results of ibv_rereg_mr(3), and the state of the region afterwards. */
enum ibv_rereg_mr_err_code {
	IBV_REREG_MR_ERR_INPUT = -1, /* the old region stands: bad arguments */
	/* the old region stands: fork protection of the new range failed */
	IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,
	/* the new region stands: fork protection of the old range was not undone */
	IBV_REREG_MR_ERR_DO_FORK_OLD = -3,
	IBV_REREG_MR_ERR_CMD = -4, /* the region must not be used: the command failed */
	/* the region must not be used, and the new range is still protected */
	IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5,
};

/* Type 1 windows are bound by ibv_bind_mw(3), type 2 by a work request. */
enum ibv_mw_type {
	IBV_MW_TYPE_1 = 1,
	IBV_MW_TYPE_2 = 2,
};

/* The range a window opens. */
struct ibv_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr;
	uint64_t length;
	unsigned int mw_access_flags; /* enum ibv_access_flags */
};

/* Argument of ibv_bind_mw(3). */
struct ibv_mw_bind {
	uint64_t wr_id;
	unsigned int send_flags; /* enum ibv_send_flags */
	struct ibv_mw_bind_info bind_info;
};

/* A memory window. Owned by the caller until ibv_dealloc_mw(3). */
struct ibv_mw {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t rkey;
	uint32_t handle;
	enum ibv_mw_type type;
};

/* How much device memory, and how aligned; see ibv_alloc_dm(3). */
struct ibv_alloc_dm_attr {
	size_t length; /* bytes */
	uint32_t log_align_req; /* 2^n bytes */
	uint32_t comp_mask;
};

enum ibv_dm_mask {
	IBV_DM_MASK_HANDLE = 1 << 0,
};

/*
 * Memory on the device. Reached with ibv_memcpy_to_dm(3) and
 * ibv_memcpy_from_dm(3).
 */
struct ibv_dm {
	struct ibv_context *context;
	int (*memcpy_to_dm)(
			struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
			size_t length);
	int (*memcpy_from_dm)(
			void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
			size_t length);
	uint32_t comp_mask; /* enum ibv_dm_mask */
	uint32_t handle;
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_MEMORY_TYPES_H */
