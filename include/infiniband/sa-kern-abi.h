/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Obsolete: old names of a kernel type. Use rdma/ib_user_sa.h instead. */
#ifndef INFINIBAND_SA_KERN_ABI_H
#define INFINIBAND_SA_KERN_ABI_H

#include <rdma/ib_user_sa.h>

#define ib_kern_path_rec ib_user_path_rec
#define ibv_kern_path_rec ib_user_path_rec

#endif /* INFINIBAND_SA_KERN_ABI_H */
