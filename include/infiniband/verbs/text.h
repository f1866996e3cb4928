/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Enumerators in words. The texts are static; every value has one. */
#ifndef INFINIBAND_VERBS_TEXT_H
#define INFINIBAND_VERBS_TEXT_H

#include <infiniband/verbs/cq_types.h>
#include <infiniband/verbs/device_types.h>
#include <infiniband/verbs/event_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ibv_event_type_str(3) */
const char *ibv_wc_status_str(enum ibv_wc_status status);
const char *ibv_node_type_str(enum ibv_node_type node_type);
const char *ibv_port_state_str(enum ibv_port_state port_state);
const char *ibv_event_type_str(enum ibv_event_type event);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_TEXT_H */
