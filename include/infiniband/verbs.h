/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RDMA verbs. A program includes only this file; the parts below infiniband/verbs/ are its chapters
 * and not separate interfaces.
 *
 * Many verbs are inline: they call the provider of the device directly, through function pointers
 * in the context or the object. Exported functions are declared without a body. The maker of an
 * object destroys it, in reverse order; a call that fails creates no object.
 */
#ifndef INFINIBAND_VERBS_H
#define INFINIBAND_VERBS_H

/* Programs rely on getting these from here. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <linux/types.h>
#ifdef __cplusplus
#include <limits>
#endif

#include <infiniband/verbs_api.h>

/* Types. */
#include <infiniband/verbs/address_types.h>
#include <infiniband/verbs/device_types.h>
#include <infiniband/verbs/memory_types.h>
#include <infiniband/verbs/cq_types.h>
#include <infiniband/verbs/wr_types.h>
#include <infiniband/verbs/srq_types.h>
#include <infiniband/verbs/qp_types.h>
#include <infiniband/verbs/event_types.h>
#include <infiniband/verbs/flow_types.h>
#include <infiniband/verbs/context.h>

/* Calls. */
#include <infiniband/verbs/lookup.h>
#include <infiniband/verbs/device.h>
#include <infiniband/verbs/memory.h>
#include <infiniband/verbs/address.h>
#include <infiniband/verbs/cq.h>
#include <infiniband/verbs/srq.h>
#include <infiniband/verbs/qp.h>
#include <infiniband/verbs/wr.h>
#include <infiniband/verbs/flow.h>
#include <infiniband/verbs/text.h>

#endif /* INFINIBAND_VERBS_H */
