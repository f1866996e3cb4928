/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Protection domains, memory regions and windows, device memory. */
#ifndef INFINIBAND_VERBS_MEMORY_H
#define INFINIBAND_VERBS_MEMORY_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs/lookup.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL on failure. ibv_alloc_pd(3) */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);

/* 0 or a positive errno; EBUSY while something uses it. ibv_alloc_pd(3) */
int ibv_dealloc_pd(struct ibv_pd *pd);

/* NULL and errno. ibv_import_pd(3) */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);

/* Forgets the import; the kernel's domain stays. ibv_import_pd(3) */
void ibv_unimport_pd(struct ibv_pd *pd);

/* NULL and errno. ibv_alloc_td(3) */
static inline struct ibv_td *ibv_alloc_td(struct ibv_context *context,
					  struct ibv_td_init_attr *init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_td);

	if (vctx)
		return vctx->alloc_td(context, init_attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/* 0 or a positive errno. ibv_alloc_td(3) */
static inline int ibv_dealloc_td(struct ibv_td *td)
{
	struct verbs_context *vctx = verbs_get_ctx_op(td->context, dealloc_td);

	return vctx ? vctx->dealloc_td(td) : EOPNOTSUPP;
}

/* NULL and errno. Freed with ibv_dealloc_pd(3). ibv_alloc_parent_domain(3) */
static inline struct ibv_pd *
ibv_alloc_parent_domain(struct ibv_context *context,
			struct ibv_parent_domain_init_attr *attr)
{
	struct verbs_context *vctx =
		verbs_get_ctx_op(context, alloc_parent_domain);

	if (vctx)
		return vctx->alloc_parent_domain(context, attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/* NULL and errno. ibv_open_xrcd(3) */
static inline struct ibv_xrcd *
ibv_open_xrcd(struct ibv_context *context,
	      struct ibv_xrcd_init_attr *xrcd_init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, open_xrcd);

	if (vctx)
		return vctx->open_xrcd(context, xrcd_init_attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/* 0 or a positive errno. The slot is there if ibv_open_xrcd() succeeded. */
static inline int ibv_close_xrcd(struct ibv_xrcd *xrcd)
{
	return verbs_get_ctx(xrcd->context)->close_xrcd(xrcd);
}

/*
 * Registration. Each call answers NULL and errno on failure; a region is freed
 * with ibv_dereg_mr(3). ibv_reg_mr(3)
 *
 * Only ibv_reg_mr_iova2 knows the access flags that a device may ignore
 * (IBV_ACCESS_OPTIONAL_RANGE). So ibv_reg_mr and ibv_reg_mr_iova are macros that
 * go there, unless it is known at compile time that no such flag is asked for:
 * a program that does not use them runs on a library that lacks it.
 */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				uint64_t iova, unsigned int access);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  int access);
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
			       uint64_t iova, int access);

__attribute__((__always_inline__)) static inline struct ibv_mr *
__ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access,
	     int is_access_const)
{
	if (!is_access_const || (access & IBV_ACCESS_OPTIONAL_RANGE))
		return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr,
					access);
	return ibv_reg_mr(pd, addr, length, (int)access);
}

__attribute__((__always_inline__)) static inline struct ibv_mr *
__ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
		  unsigned int access, int is_access_const)
{
	if (!is_access_const || (access & IBV_ACCESS_OPTIONAL_RANGE))
		return ibv_reg_mr_iova2(pd, addr, length, iova, access);
	return ibv_reg_mr_iova(pd, addr, length, iova, (int)access);
}

/* Numbers on both sides: C++20 deprecates mixing two enumerations. */
#define _IBV_ACCESS_OPTIONAL(access) \
	((unsigned int)(access) & (unsigned int)IBV_ACCESS_OPTIONAL_RANGE)

#define ibv_reg_mr(pd, addr, length, access) \
	__ibv_reg_mr(pd, addr, length, access, \
		     __builtin_constant_p(_IBV_ACCESS_OPTIONAL(access) == 0))

#define ibv_reg_mr_iova(pd, addr, length, iova, access) \
	__ibv_reg_mr_iova(pd, addr, length, iova, access, \
			  __builtin_constant_p( \
				  _IBV_ACCESS_OPTIONAL(access) == 0))

/* NULL and errno; EOPNOTSUPP where the device has none. ibv_reg_mr(3) */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				 size_t length, uint64_t iova, int fd,
				 int access);

/*
 * All kinds of regions in one call. NULL and errno; EOPNOTSUPP for features that the device lacks,
 * EINVAL for contradictory members. ibv_reg_mr(3)
 */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);

/*
 * Memory allocated as the domain's device likes it, page aligned; *buf is for the
 * calls below. NULL and errno. The domain stays until ibv_free_buf().
 * ibv_alloc_buf(3)
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);

/* addr and length lie in the buffer, pd is its domain. NULL and errno. */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf,
			      void *addr, size_t length, int access);

/* A new descriptor, the caller's; -1 and errno, ENODATA: it is no DMA buffer. */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

/* NULL and errno. ibv_alloc_dmah(3) */
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context,
				struct ibv_dmah_init_attr *attr);

/* 0 or a positive errno. ibv_alloc_dmah(3) */
int ibv_dealloc_dmah(struct ibv_dmah *dmah);

/* flags: enum ibv_rereg_mr_flags. 0 or an enum ibv_rereg_mr_err_code. */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		 size_t length, int access);

/* 0 or a positive errno; EBUSY while a window is bound. ibv_reg_mr(3) */
int ibv_dereg_mr(struct ibv_mr *mr);

/* NULL and errno. ibv_import_mr(3) */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);

/* Forgets the import; the kernel's region stays. ibv_import_mr(3) */
void ibv_unimport_mr(struct ibv_mr *mr);

/* A key that reads zeroes and drops writes; NULL and errno. */
static inline struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, alloc_null_mr);

	if (vctx)
		return vctx->alloc_null_mr(pd);
	errno = EOPNOTSUPP;
	return NULL;
}

/*
 * flags: IBV_ADVISE_MR_FLAG_FLUSH waits for the result. 0 or a positive errno.
 * ibv_advise_mr(3)
 */
static inline int ibv_advise_mr(struct ibv_pd *pd,
				enum ibv_advise_mr_advice advice,
				uint32_t flags, struct ibv_sge *sg_list,
				uint32_t num_sge)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, advise_mr);

	return vctx ? vctx->advise_mr(pd, advice, flags, sg_list, num_sge) :
		      EOPNOTSUPP;
}

/* NULL and errno. ibv_alloc_mw(3) */
static inline struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd,
					  enum ibv_mw_type type)
{
	if (pd->context->ops.alloc_mw)
		return pd->context->ops.alloc_mw(pd, type);
	errno = EOPNOTSUPP;
	return NULL;
}

/* 0 or a positive errno. ibv_alloc_mw(3) */
static inline int ibv_dealloc_mw(struct ibv_mw *mw)
{
	return mw->context->ops.dealloc_mw(mw);
}

/* The key with its low byte, which the consumer owns, counted up. */
static inline uint32_t ibv_inc_rkey(uint32_t rkey)
{
	return (rkey & 0xffffff00U) | ((rkey + 1) & 0xffU);
}

/*
 * 0 or a positive errno: EINVAL (not a type 1 window, or a range without a
 * region), EPERM (window and region of different domains). ibv_bind_mw(3)
 */
static inline int ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
			      struct ibv_mw_bind *mw_bind)
{
	const struct ibv_mw_bind_info *info = &mw_bind->bind_info;

	if (mw->type != IBV_MW_TYPE_1)
		return EINVAL;
	if (!info->mr && (info->addr || info->length))
		return EINVAL;
	if (info->mr && info->mr->pd != mw->pd)
		return EPERM;
	return mw->context->ops.bind_mw(qp, mw, mw_bind);
}

/* NULL and errno. ibv_alloc_dm(3) */
static inline struct ibv_dm *ibv_alloc_dm(struct ibv_context *context,
					  struct ibv_alloc_dm_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_dm);

	if (vctx)
		return vctx->alloc_dm(context, attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/* 0 or a positive errno. ibv_alloc_dm(3) */
static inline int ibv_free_dm(struct ibv_dm *dm)
{
	struct verbs_context *vctx = verbs_get_ctx_op(dm->context, free_dm);

	return vctx ? vctx->free_dm(dm) : EOPNOTSUPP;
}

/* 0 or a positive errno. Offset and length in bytes. ibv_alloc_dm(3) */
static inline int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset,
				   const void *host_addr, size_t length)
{
	return dm->memcpy_to_dm(dm, dm_offset, host_addr, length);
}

/* 0 or a positive errno. Offset and length in bytes. ibv_alloc_dm(3) */
static inline int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm,
				     uint64_t dm_offset, size_t length)
{
	return dm->memcpy_from_dm(host_addr, dm, dm_offset, length);
}

/* NULL and errno. ibv_alloc_dm(3) */
static inline struct ibv_mr *ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm,
					   uint64_t dm_offset, size_t length,
					   unsigned int access)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, reg_dm_mr);

	if (vctx)
		return vctx->reg_dm_mr(pd, dm, dm_offset, length, access);
	errno = EOPNOTSUPP;
	return NULL;
}

/* A descriptor, the caller's; -1 and errno. ibv_dm_export_dmabuf_fd(3) */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

/* NULL and errno. ibv_import_dm(3) */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);

/* Forgets the import; the kernel's memory stays. ibv_import_dm(3) */
void ibv_unimport_dm(struct ibv_dm *dm);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_MEMORY_H */
