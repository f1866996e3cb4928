/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The parts of the write() fallback that a provider needs: to state which fallbacks suffice for a
 * command, and to distinguish a failed destroy from one that may pass. The fallback itself happens
 * inside the library.
 */
#ifndef __INFINIBAND_VERBS_WRITE_H
#define __INFINIBAND_VERBS_WRITE_H

#include <infiniband/driver/generation.h>
#include <errno.h>
#include <stdbool.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <infiniband/cmd_ioctl.h>
#include <infiniband/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a command continues after ioctl was tried. */
enum write_fallback { TRY_WRITE, TRY_WRITE_EX, ERROR, SUCCESS };

/* A kernel without ioctl must have the extended command. */
static inline void fallback_require_ex(struct ibv_command_buffer *cmdb)
{
	cmdb->fallback_require_ex = 1;
}

/* A kernel without ioctl cannot do it: EOPNOTSUPP. Outranks the above. */
static inline void fallback_require_ioctl(struct ibv_command_buffer *cmdb)
{
	cmdb->fallback_ioctl_only = 1;
}

/*
 * Set by the environment (RDMAV_ALLOW_DISASSOC_DESTROY): objects of a device that is
 * gone may be destroyed.
 */
extern bool verbs_allow_disassociate_destroy;

/*
 * Whether a destroy ends here, *ret being the kernel's answer and then the caller's.
 * EIO from a device that is gone becomes 0 where that is allowed.
 */
static inline bool verbs_is_destroy_err(int *ret)
{
	if (*ret != EIO || !verbs_allow_disassociate_destroy)
		return *ret != 0;
	*ret = 0;
	return true;
}

#ifdef __cplusplus
}
#endif

#endif /* __INFINIBAND_VERBS_WRITE_H */
