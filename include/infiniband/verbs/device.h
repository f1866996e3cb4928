/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Devices and contexts: finding, opening, asking, asynchronous events. */
#ifndef INFINIBAND_VERBS_DEVICE_H
#define INFINIBAND_VERBS_DEVICE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <linux/types.h>
#include <infiniband/verbs/address_types.h>
#include <infiniband/verbs/lookup.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Every RDMA device there is, ended by NULL; num_devices may be NULL. NULL and
 * errno on failure: EPERM, ENOSYS (no kernel support), ENOMEM. Owned by the
 * caller until ibv_free_device_list(3). ibv_get_device_list(3)
 */
struct ibv_device **ibv_get_device_list(int *num_devices);

#ifdef RDMA_STATIC_PROVIDERS
/*
 * A program linked to the static library names its providers, separated by
 * commas, in RDMA_STATIC_PROVIDERS; a reference to each makes the linker keep it.
 * The list is filled up with the provider that does nothing.
 */
struct verbs_device_ops;

extern const struct verbs_device_ops verbs_provider_bnxt_re;
extern const struct verbs_device_ops verbs_provider_cxgb4;
extern const struct verbs_device_ops verbs_provider_efa;
extern const struct verbs_device_ops verbs_provider_erdma;
extern const struct verbs_device_ops verbs_provider_hfi1verbs;
extern const struct verbs_device_ops verbs_provider_hns;
extern const struct verbs_device_ops verbs_provider_ipathverbs;
extern const struct verbs_device_ops verbs_provider_irdma;
extern const struct verbs_device_ops verbs_provider_mana;
extern const struct verbs_device_ops verbs_provider_mlx4;
extern const struct verbs_device_ops verbs_provider_mlx5;
extern const struct verbs_device_ops verbs_provider_mthca;
extern const struct verbs_device_ops verbs_provider_ocrdma;
extern const struct verbs_device_ops verbs_provider_qedr;
extern const struct verbs_device_ops verbs_provider_rxe;
extern const struct verbs_device_ops verbs_provider_siw;
extern const struct verbs_device_ops verbs_provider_vmw_pvrdma;
extern const struct verbs_device_ops verbs_provider_all;
extern const struct verbs_device_ops verbs_provider_none;

/* Only in the static library. Both ends of the list are NULL. */
void ibv_static_providers(void *unused, ...);

#define _RDMA_STATIC_PREFIX_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, \
			     r, s, ...) \
	&verbs_provider_##a, &verbs_provider_##b, &verbs_provider_##c, \
	&verbs_provider_##d, &verbs_provider_##e, &verbs_provider_##f, \
	&verbs_provider_##g, &verbs_provider_##h, &verbs_provider_##i, \
	&verbs_provider_##j, &verbs_provider_##k, &verbs_provider_##l, \
	&verbs_provider_##m, &verbs_provider_##n, &verbs_provider_##o, \
	&verbs_provider_##p, &verbs_provider_##q, &verbs_provider_##r, \
	&verbs_provider_##s
#define _RDMA_STATIC_PREFIX(list) \
	_RDMA_STATIC_PREFIX_(list, none, none, none, none, none, none, none, \
			     none, none, none, none, none, none, none, none, \
			     none, none, none)

static inline struct ibv_device **__ibv_get_device_list(int *num_devices)
{
	ibv_static_providers(NULL, _RDMA_STATIC_PREFIX(RDMA_STATIC_PROVIDERS),
			     NULL);
	return ibv_get_device_list(num_devices);
}

#define ibv_get_device_list(num_devices) __ibv_get_device_list(num_devices)
#endif /* RDMA_STATIC_PROVIDERS */

/* Frees the list; devices opened meanwhile stay. ibv_get_device_list(3) */
void ibv_free_device_list(struct ibv_device **list);

/* The device's name, as rxe0, valid as long as the device. */
const char *ibv_get_device_name(struct ibv_device *device);

/* The kernel's index of the device, -1 where it has none. */
int ibv_get_device_index(struct ibv_device *device);

/* The node GUID; 0 where it cannot be read. */
__be64 ibv_get_device_guid(struct ibv_device *device);

/* NULL on failure. Owned by the caller until ibv_close_device(3). */
struct ibv_context *ibv_open_device(struct ibv_device *device);

/*
 * 0 or -1. Objects of the context that were not destroyed before are lost to the
 * process, the kernel frees its part.
 */
int ibv_close_device(struct ibv_context *context);

/* A context on another process's cmd_fd; NULL and errno. ibv_import_device(3) */
struct ibv_context *ibv_import_device(int cmd_fd);

/* Waits for an event; 0 or -1. Acknowledge each. ibv_get_async_event(3) */
int ibv_get_async_event(struct ibv_context *context,
			struct ibv_async_event *event);

/* Destroying the event's object waits for this. ibv_get_async_event(3) */
void ibv_ack_async_event(struct ibv_async_event *event);

/* 0 or a positive errno. ibv_query_device(3) */
int ibv_query_device(struct ibv_context *context,
		     struct ibv_device_attr *device_attr);

/*
 * 0 or a positive errno; EINVAL without attr, and when input asks for something. A device without
 * the extended query fills orig_attr and leaves the rest 0.
 * ibv_query_device_ex(3)
 */
static inline int
ibv_query_device_ex(struct ibv_context *context,
		    const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr)
{
	struct verbs_context *vctx;
	int ret = EOPNOTSUPP;

	if (!attr || (input && input->comp_mask))
		return EINVAL;

	vctx = verbs_get_ctx_op(context, query_device_ex);
	if (vctx)
		ret = vctx->query_device_ex(context, input, attr, sizeof(*attr));
	if (ret != EOPNOTSUPP && ret != ENOSYS)
		return ret;

	memset(attr, 0, sizeof(*attr));
	return ibv_query_device(context, &attr->orig_attr);
}

/* 0 or a positive errno. ibv_query_rt_values_ex(3) */
static inline int ibv_query_rt_values_ex(struct ibv_context *context,
					 struct ibv_values_ex *values)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_rt_values);

	return vctx ? vctx->query_rt_values(context, values) : EOPNOTSUPP;
}

/*
 * The exported function writes the 48 bytes of old; programs reach it through the
 * macro below, which passes the size of their structure to the library.
 * 0 or a positive errno. ibv_query_port(3)
 */
struct _compat_ibv_port_attr;
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *port_attr);

static inline int ___ibv_query_port(struct ibv_context *context,
				    uint8_t port_num,
				    struct ibv_port_attr *port_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);
	void *compat = port_attr;

	if (vctx)
		return vctx->query_port(context, port_num, port_attr,
					sizeof(*port_attr));

	memset(port_attr, 0, sizeof(*port_attr));
	return ibv_query_port(context, port_num,
			      (struct _compat_ibv_port_attr *)compat);
}

#define ibv_query_port(context, port_num, port_attr) \
	___ibv_query_port(context, port_num, port_attr)

/*
 * How fast the port is now, in units of 100 Mbit/s. 0 or a positive errno;
 * EOPNOTSUPP where neither device nor kernel reports it. ibv_query_port_speed(3)
 */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num,
			 uint64_t *port_speed);

/* 0 or -1. ibv_query_gid(3) */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
		  union ibv_gid *gid);

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
		      uint32_t gid_index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t entry_size);

/* flags: 0. 0 or a positive errno; ENODATA: no such entry. ibv_query_gid_ex(3) */
static inline int ibv_query_gid_ex(struct ibv_context *context,
				   uint32_t port_num, uint32_t gid_index,
				   struct ibv_gid_entry *entry, uint32_t flags)
{
	return _ibv_query_gid_ex(context, port_num, gid_index, entry, flags,
				 sizeof(*entry));
}

ssize_t _ibv_query_gid_table(struct ibv_context *context,
			     struct ibv_gid_entry *entries, size_t max_entries,
			     uint32_t flags, size_t entry_size);

/*
 * The valid entries of every port. flags: 0. How many were stored, or a negative
 * errno. ibv_query_gid_table(3)
 */
static inline ssize_t ibv_query_gid_table(struct ibv_context *context,
					  struct ibv_gid_entry *entries,
					  size_t max_entries, uint32_t flags)
{
	return _ibv_query_gid_table(context, entries, max_entries, flags,
				    sizeof(*entries));
}

/* 0 or -1. ibv_query_pkey(3) */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index,
		   __be16 *pkey);

/* The index of a partition key, -1 where the port has none such. */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num,
		       __be16 pkey);

/*
 * Keeps registered memory from moving in the parent when it forks; to be called
 * before any registration. 0 or a positive errno; EINVAL: too late.
 * ibv_fork_init(3)
 */
int ibv_fork_init(void);

/* ibv_is_fork_initialized(3) */
enum ibv_fork_status ibv_is_fork_initialized(void);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_DEVICE_H */
