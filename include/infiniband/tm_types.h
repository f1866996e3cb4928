/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Headers that tag-matching messages start with, on the wire: network order. */
#ifndef _TM_TYPES_H
#define _TM_TYPES_H

#include <stdint.h>
#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values of ibv_tmh.opcode. */
enum ibv_tmh_op {
	IBV_TMH_NO_TAG = 0,
	IBV_TMH_RNDV = 1,
	IBV_TMH_FIN = 2,
	IBV_TMH_EAGER = 3,
};

/* Tag-matching header. */
struct ibv_tmh {
	uint8_t opcode; /* enum ibv_tmh_op */
	uint8_t reserved[3]; /* zero */
	__be32 app_ctx; /* the sender's opaque data */
	__be64 tag;
};

/*
 * Rendezvous header: the location of the sender's data. It follows an ibv_tmh whose opcode is
 * IBV_TMH_RNDV.
 */
struct ibv_rvh {
	__be64 va;
	__be32 rkey;
	__be32 len; /* bytes */
};

#ifdef __cplusplus
}
#endif

#endif /* _TM_TYPES_H */
