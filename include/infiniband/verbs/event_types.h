/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Asynchronous events. */
#ifndef INFINIBAND_VERBS_EVENT_TYPES_H
#define INFINIBAND_VERBS_EVENT_TYPES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_cq;
struct ibv_qp;
struct ibv_srq;
struct ibv_wq;

/* Kinds of asynchronous event; see ibv_get_async_event(3). */
enum ibv_event_type {
	IBV_EVENT_CQ_ERR = 0,
	IBV_EVENT_QP_FATAL = 1,
	IBV_EVENT_QP_REQ_ERR = 2,
	IBV_EVENT_QP_ACCESS_ERR = 3,
	IBV_EVENT_COMM_EST = 4, /* first packet on a QP not yet in RTS */
	IBV_EVENT_SQ_DRAINED = 5,
	IBV_EVENT_PATH_MIG = 6,
	IBV_EVENT_PATH_MIG_ERR = 7,
	IBV_EVENT_DEVICE_FATAL = 8, /* no element */
	IBV_EVENT_PORT_ACTIVE = 9,
	IBV_EVENT_PORT_ERR = 10,
	IBV_EVENT_LID_CHANGE = 11,
	IBV_EVENT_PKEY_CHANGE = 12,
	IBV_EVENT_SM_CHANGE = 13,
	IBV_EVENT_SRQ_ERR = 14,
	IBV_EVENT_SRQ_LIMIT_REACHED = 15,
	/* QP of an SRQ: no more receives will be consumed */
	IBV_EVENT_QP_LAST_WQE_REACHED = 16,
	IBV_EVENT_CLIENT_REREGISTER = 17,
	IBV_EVENT_GID_CHANGE = 18,
	IBV_EVENT_WQ_FATAL = 19,
	IBV_EVENT_DEVICE_SPEED_CHANGE = 20, /* no element */
};

/*
 * An asynchronous event. Each one got must be given to ibv_ack_async_event(3).
 */
struct ibv_async_event {
	/* Which member counts follows from event_type. */
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ibv_srq *srq;
		struct ibv_wq *wq;
		int port_num;
	} element;
	enum ibv_event_type event_type;
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_EVENT_TYPES_H */
