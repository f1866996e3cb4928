/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For authors of providers: plugins lib<name>-rdmav34.so that the library loads for
 * the devices they match. A provider
 *  - describes itself in a struct verbs_device_ops, given to PROVIDER_DRIVER();
 *  - allocates the device, and the context with verbs_init_and_alloc_context();
 *  - sets the operations that it supports with verbs_set_ops();
 *  - asks the kernel through ibv_cmd_*(), for objects it allocates itself.
 *
 * Everything here belongs to generation 34 (symbols of IBVERBS_PRIVATE_34), laid out
 * as in version 44. A provider is built for one generation and loads with no other.
 */
#ifndef INFINIBAND_DRIVER_H
#define INFINIBAND_DRIVER_H

#include <infiniband/driver/generation.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <infiniband/verbs.h>
#include <infiniband/kern-abi.h>
#include <infiniband/cmd_ioctl.h>
#include <infiniband/driver/support.h>
#include <infiniband/driver/ops.h>
#include <infiniband/driver/types.h>
#include <infiniband/driver/commands.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The generation, which is part of the registering function's name. */
#ifndef IBVERBS_PABI_VERSION
#define IBVERBS_PABI_VERSION 34
#endif

/*
 * Registration.
 */

typedef struct verbs_device *(*verbs_driver_init_func)(const char *uverbs_sys_path,
						       int abi_version);

#define ___make_verbs_register_driver(x) verbs_register_driver_##x
#define __make_verbs_register_driver(x) ___make_verbs_register_driver(x)
#define verbs_register_driver __make_verbs_register_driver(IBVERBS_PABI_VERSION)

/* To be called while the plugin is being loaded. */
void verbs_register_driver(const struct verbs_device_ops *ops);

/*
 * Registers drv_struct when the plugin is loaded, and makes it known under the name
 * by which programs linked statically refer to a provider.
 */
#ifdef __cplusplus
#define PROVIDER_DRIVER(provider_name, drv_struct) \
	extern "C" { \
	extern const struct verbs_device_ops verbs_provider_##provider_name; \
	const struct verbs_device_ops verbs_provider_##provider_name = \
		(drv_struct); \
	} \
	__attribute__((constructor)) static void \
	provider_name##__register_driver(void) \
	{ \
		verbs_register_driver(&(drv_struct)); \
	}
#else
#define PROVIDER_DRIVER(provider_name, drv_struct) \
	extern const struct verbs_device_ops verbs_provider_##provider_name \
		__attribute__((alias(stringify(drv_struct)))); \
	__attribute__((constructor)) static void \
	provider_name##__register_driver(void) \
	{ \
		verbs_register_driver(&drv_struct); \
	}
#endif

/*
 * Contexts.
 */

/* The work of the macro below. */
void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd,
				    size_t alloc_size,
				    struct verbs_context *context_offset,
				    uint32_t driver_id);

/*
 * A zeroed *drv_ctx_ptr, whose member ctx_memb, a struct verbs_context, is set up;
 * NULL and errno. Ended with verbs_uninit_context() and free(3).
 */
#define verbs_init_and_alloc_context(ibdev, cmd_fd, drv_ctx_ptr, ctx_memb, \
				     driver_id) \
	((__typeof__(drv_ctx_ptr))_verbs_init_and_alloc_context( \
		ibdev, cmd_fd, sizeof(*(drv_ctx_ptr)), \
		(struct verbs_context *)offsetof(__typeof__(*(drv_ctx_ptr)), \
						 ctx_memb), \
		(driver_id)))

void verbs_uninit_context(struct verbs_context *context);

/* Takes over the slots that are not NULL. May be called again. */
void verbs_set_ops(struct verbs_context *vctx,
		   const struct verbs_context_ops *ops);

/* Sets up the part of a queue that its verbs need; for create_cq_ex. */
void verbs_init_cq(struct ibv_cq *cq, struct ibv_context *context,
		   struct ibv_comp_channel *channel, void *cq_context);

/* ibv_open_device() with something for alloc_context; NULL and errno. */
struct ibv_context *verbs_open_device(struct ibv_device *device,
				      void *private_data);

/* Whether only supported bits are asked for. */
static inline bool check_comp_mask(uint64_t input, uint64_t supported)
{
	return (input & ~supported) == 0;
}

/* 0, or -1 and EINVAL for a parent domain without a domain. */
static inline int
ibv_check_alloc_parent_domain(struct ibv_parent_domain_init_attr *attr)
{
	if (attr->pd)
		return 0;
	errno = EINVAL;
	return -1;
}

/* Makes the parent domain pass for the contained one in every command. */
static inline void ibv_initialize_parent_domain(struct ibv_pd *parent_domain,
						struct ibv_pd *contained_pd)
{
	parent_domain->context = contained_pd->context;
	parent_domain->handle = contained_pd->handle;
}

/*
 * Fork protection of memory that a provider registers by itself: whole pages, counted
 * per page. 0, or -1 and errno.
 */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/*
 * Reading sysfs.
 */

/* Where sysfs is mounted, or the environment's SYSFS_PATH. Static. */
const char *ibv_get_sysfs_path(void);

/*
 * Read a small file into buf, a newline at the end cut off and a zero put behind.
 * How many bytes were read, or -1 and errno. The second one forms a file name, taken
 * below the device's directory, as printf(3) does.
 */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
			size_t size);
__attribute__((format(printf, 4, 5))) int
ibv_read_ibdev_sysfs_file(char *buf, size_t size,
			  struct verbs_sysfs_dev *sysfs_dev, const char *fnfmt,
			  ...);

/* 0, or -1 and errno. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num,
		       unsigned int index, enum ibv_gid_type_sysfs *type);

/*
 * Logging: to VERBS_LOG_FILE or stderr, at VERBS_LOG_LEVEL and below. errno is kept.
 * The _datapath forms cost nothing unless VERBS_DEBUG is defined.
 */
enum {
	VERBS_LOG_LEVEL_NONE = 0,
	VERBS_LOG_ERR = 1,
	VERBS_LOG_WARN = 2,
	VERBS_LOG_INFO = 3,
	VERBS_LOG_DEBUG = 4,
};

void __verbs_log(struct verbs_context *ctx, uint32_t level, const char *fmt,
		 ...);

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif

#define verbs_log(ctx, level, format, ...) \
	do { \
		const int __verbs_errno = errno; \
		__verbs_log(ctx, level, "%s: %s:%d: " format, \
			    (ctx)->context.device->name, __func__, __LINE__, \
			    ##__VA_ARGS__); \
		errno = __verbs_errno; \
	} while (0)

#define verbs_debug(ctx, format, ...) \
	verbs_log(ctx, VERBS_LOG_DEBUG, format, ##__VA_ARGS__)
#define verbs_info(ctx, format, ...) \
	verbs_log(ctx, VERBS_LOG_INFO, format, ##__VA_ARGS__)
#define verbs_warn(ctx, format, ...) \
	verbs_log(ctx, VERBS_LOG_WARN, format, ##__VA_ARGS__)
#define verbs_err(ctx, format, ...) \
	verbs_log(ctx, VERBS_LOG_ERR, format, ##__VA_ARGS__)

#ifdef VERBS_DEBUG
#define verbs_log_datapath(ctx, level, format, ...) \
	verbs_log(ctx, level, format, ##__VA_ARGS__)
#else
#define verbs_log_datapath(ctx, level, format, ...) \
	{ \
	}
#endif

#define verbs_debug_datapath(ctx, format, ...) \
	verbs_log_datapath(ctx, VERBS_LOG_DEBUG, format, ##__VA_ARGS__)
#define verbs_info_datapath(ctx, format, ...) \
	verbs_log_datapath(ctx, VERBS_LOG_INFO, format, ##__VA_ARGS__)
#define verbs_warn_datapath(ctx, format, ...) \
	verbs_log_datapath(ctx, VERBS_LOG_WARN, format, ##__VA_ARGS__)
#define verbs_err_datapath(ctx, format, ...) \
	verbs_log_datapath(ctx, VERBS_LOG_ERR, format, ##__VA_ARGS__)

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_DRIVER_H */
