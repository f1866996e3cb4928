/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The headers of providers come with a part of the public structures: those that a
 * provider allocates or fills are laid out as its generation knows them, and have
 * grown for applications since. So this stands in front of infiniband/verbs.h.
 */
#ifndef INFINIBAND_DRIVER_GENERATION_H
#define INFINIBAND_DRIVER_GENERATION_H

#ifdef INFINIBAND_VERBS_H
#error "a provider includes infiniband/driver.h before infiniband/verbs.h"
#endif

/* As in version 44: IBVERBS_PRIVATE_34. */
#define _IBV_PROVIDER_GENERATION 34

#endif /* INFINIBAND_DRIVER_GENERATION_H */
