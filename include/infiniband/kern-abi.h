/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests of the write() interface as a provider passes them to ibv_cmd_*(): the
 * command header, the kernel's request, and behind it the provider's own part. The
 * library fills header and request, the provider its part.
 */
#ifndef KERN_ABI_H
#define KERN_ABI_H

#include <infiniband/driver/generation.h>
#include <assert.h>
#include <stddef.h>
#include <linux/types.h>
#include <rdma/ib_user_verbs.h>
#include <infiniband/driver/requests.h>
#include <infiniband/driver/support.h>

/*
 * A missing part. A member of no size keeps it empty in C++, where it may not be in extern "C".
 */
__extension__ struct empty {
	char _none[0];
};
#define _STRUCT_empty \
	__extension__ struct { \
		char _none[0]; \
	}

#ifdef __cplusplus
extern "C" {
#endif

/* The versions of the kernel's interface this header is for. */
#define IB_USER_VERBS_MIN_ABI_VERSION 3
#define IB_USER_VERBS_MAX_ABI_VERSION 6

/* The header of an extended command. */
struct ex_hdr {
	struct ib_uverbs_cmd_hdr hdr;
	struct ib_uverbs_ex_cmd_hdr ex_hdr;
};

/*
 * Names made from a command's enumerator: the request with its header, the kernel's
 * request, the kernel's answer, and the multiple of bytes their sizes keep to.
 */
#define IBV_ABI_REQ(_enum) _ABI_REQ_STRUCT_##_enum
#define IBV_KABI_REQ(_enum) _KABI_REQ_STRUCT_##_enum
#define IBV_KABI_RESP(_enum) _KABI_RESP_STRUCT_##_enum
#define IBV_ABI_ALIGN(_enum) _ABI_ALIGN_##_enum

/*
 * Declares struct _name for a command: header, then the kernel's request, whose
 * members can be reached directly and, together, as core_payload.
 */
#define _VERBS_DECLARE_CMD(_enum, _name, _kabi, _kabi_resp, _hdr, _align) \
	__extension__ struct _name { \
		struct _hdr hdr; \
		__extension__ union { \
			_STRUCT_##_kabi; \
			struct _kabi core_payload; \
		}; \
	}; \
	typedef struct _name IBV_ABI_REQ(_enum); \
	typedef struct _kabi IBV_KABI_REQ(_enum); \
	typedef struct _kabi_resp IBV_KABI_RESP(_enum); \
	enum { IBV_ABI_ALIGN(_enum) = (_align) }; \
	__VERBS_ASSERT((int)_enum >= 0, "no such command"); \
	__VERBS_ASSERT(sizeof(struct _kabi_resp) % (_align) == 0, \
		       "the answer's size is no multiple of its unit"); \
	__VERBS_ASSERT(sizeof(struct _name) == \
			       sizeof(struct _hdr) + sizeof(struct _kabi), \
		       "padding, or members that differ from the kernel's")

/* A plain command; the X form where the answer has another name, or none. */
#define DECLARE_CMDX(_enum, _name, _kabi, _kabi_resp) \
	_VERBS_DECLARE_CMD(_enum, _name, _kabi, _kabi_resp, ib_uverbs_cmd_hdr, 4)
#define DECLARE_CMD(_enum, _name, _kabi) \
	DECLARE_CMDX(_enum, _name, _kabi, _kabi##_resp)

/* An extended command, counted in units of eight bytes. */
#define DECLARE_CMD_EXX(_enum, _name, _kabi, _kabi_resp) \
	_VERBS_DECLARE_CMD(_enum, _name, _kabi, _kabi_resp, ex_hdr, 8); \
	__VERBS_ASSERT(sizeof(struct _kabi) % 8 == 0, \
		       "the request's size is no multiple of its unit")
#define DECLARE_CMD_EX(_enum, _name, _kabi) \
	DECLARE_CMD_EXX(_enum, _name, _kabi, _kabi##_resp)

/*
 * struct _name: the common part, then the provider's. Both lie in a union, the second
 * behind room for the first, because the kernel's structures may end in an array of no
 * size, which nothing may follow.
 */
#define _VERBS_JOIN(_name, _common_type, _common, _kabi) \
	__extension__ struct _name { \
		__extension__ union { \
			_common_type _common; \
			__extension__ struct { \
				char _common_room[sizeof(_common_type)]; \
				__extension__ union { \
					_STRUCT_##_kabi; \
					struct _kabi drv_payload; \
				}; \
			}; \
		}; \
	}

/*
 * Declares a provider's own request, struct _name, and answer, struct _name_resp:
 * the common part (ibv_cmd, ibv_resp), then the provider's, whose members can be
 * reached directly and, together, as drv_payload. For a provider structure
 *	struct foo { __aligned_u64 addr; };
 * the members must also be given as
 *	#define _STRUCT_foo struct { __aligned_u64 addr; }
 * and "empty" for a provider without one. Padding between the parts, or after them, does not
 * compile: the kernel counts bytes from the end of the common part.
 */
#define DECLARE_DRV_CMD(_name, _enum, _kabi_req, _kabi_resp) \
	_VERBS_JOIN(_name, IBV_ABI_REQ(_enum), ibv_cmd, _kabi_req); \
	_VERBS_JOIN(_name##_resp, IBV_KABI_RESP(_enum), ibv_resp, _kabi_resp); \
	__VERBS_ASSERT(sizeof(IBV_KABI_REQ(_enum)) % \
				       __alignof__(struct _kabi_req) == 0, \
		       "padding in front of the provider's request"); \
	__VERBS_ASSERT(sizeof(struct _name) == \
			       sizeof(IBV_ABI_REQ(_enum)) + \
				       sizeof(struct _kabi_req), \
		       "padding in the request"); \
	__VERBS_ASSERT(sizeof(struct _name) % IBV_ABI_ALIGN(_enum) == 0, \
		       "the request's size is no multiple of its unit"); \
	__VERBS_ASSERT(sizeof(IBV_KABI_RESP(_enum)) % \
				       __alignof__(struct _kabi_resp) == 0, \
		       "padding in front of the provider's answer"); \
	__VERBS_ASSERT(sizeof(struct _name##_resp) == \
			       sizeof(IBV_KABI_RESP(_enum)) + \
				       sizeof(struct _kabi_resp), \
		       "padding in the answer"); \
	__VERBS_ASSERT(sizeof(struct _name##_resp) % IBV_ABI_ALIGN(_enum) == 0, \
		       "the answer's size is no multiple of its unit");

/* Plain commands. */
DECLARE_CMD(IB_USER_VERBS_CMD_ALLOC_MW, ibv_alloc_mw, ib_uverbs_alloc_mw);
DECLARE_CMD(IB_USER_VERBS_CMD_ALLOC_PD, ibv_alloc_pd, ib_uverbs_alloc_pd);
DECLARE_CMDX(IB_USER_VERBS_CMD_ATTACH_MCAST, ibv_attach_mcast,
	    ib_uverbs_attach_mcast, empty);
DECLARE_CMDX(IB_USER_VERBS_CMD_CLOSE_XRCD, ibv_close_xrcd, ib_uverbs_close_xrcd, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_CREATE_AH, ibv_create_ah, ib_uverbs_create_ah);
DECLARE_CMD(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, ibv_create_comp_channel,
	    ib_uverbs_create_comp_channel);
DECLARE_CMD(IB_USER_VERBS_CMD_CREATE_CQ, ibv_create_cq, ib_uverbs_create_cq);
DECLARE_CMD(IB_USER_VERBS_CMD_CREATE_QP, ibv_create_qp, ib_uverbs_create_qp);
DECLARE_CMD(IB_USER_VERBS_CMD_CREATE_SRQ, ibv_create_srq, ib_uverbs_create_srq);
DECLARE_CMDX(IB_USER_VERBS_CMD_CREATE_XSRQ, ibv_create_xsrq,
	    ib_uverbs_create_xsrq, ib_uverbs_create_srq_resp);
DECLARE_CMDX(IB_USER_VERBS_CMD_DEALLOC_MW, ibv_dealloc_mw, ib_uverbs_dealloc_mw, empty);
DECLARE_CMDX(IB_USER_VERBS_CMD_DEALLOC_PD, ibv_dealloc_pd, ib_uverbs_dealloc_pd, empty);
DECLARE_CMDX(IB_USER_VERBS_CMD_DEREG_MR, ibv_dereg_mr, ib_uverbs_dereg_mr, empty);
DECLARE_CMDX(IB_USER_VERBS_CMD_DESTROY_AH, ibv_destroy_ah, ib_uverbs_destroy_ah, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_DESTROY_CQ, ibv_destroy_cq, ib_uverbs_destroy_cq);
DECLARE_CMD(IB_USER_VERBS_CMD_DESTROY_QP, ibv_destroy_qp, ib_uverbs_destroy_qp);
DECLARE_CMD(IB_USER_VERBS_CMD_DESTROY_SRQ, ibv_destroy_srq, ib_uverbs_destroy_srq);
DECLARE_CMDX(IB_USER_VERBS_CMD_DETACH_MCAST, ibv_detach_mcast,
	    ib_uverbs_detach_mcast, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_GET_CONTEXT, ibv_get_context, ib_uverbs_get_context);
DECLARE_CMDX(IB_USER_VERBS_CMD_MODIFY_QP, ibv_modify_qp, ib_uverbs_modify_qp, empty);
DECLARE_CMDX(IB_USER_VERBS_CMD_MODIFY_SRQ, ibv_modify_srq, ib_uverbs_modify_srq, empty);
DECLARE_CMDX(IB_USER_VERBS_CMD_OPEN_QP, ibv_open_qp,
	    ib_uverbs_open_qp, ib_uverbs_create_qp_resp);
DECLARE_CMD(IB_USER_VERBS_CMD_OPEN_XRCD, ibv_open_xrcd, ib_uverbs_open_xrcd);
DECLARE_CMD(IB_USER_VERBS_CMD_POLL_CQ, ibv_poll_cq, ib_uverbs_poll_cq);
DECLARE_CMD(IB_USER_VERBS_CMD_POST_RECV, ibv_post_recv, ib_uverbs_post_recv);
DECLARE_CMD(IB_USER_VERBS_CMD_POST_SEND, ibv_post_send, ib_uverbs_post_send);
DECLARE_CMD(IB_USER_VERBS_CMD_POST_SRQ_RECV, ibv_post_srq_recv,
	    ib_uverbs_post_srq_recv);
DECLARE_CMD(IB_USER_VERBS_CMD_QUERY_DEVICE, ibv_query_device, ib_uverbs_query_device);
DECLARE_CMD(IB_USER_VERBS_CMD_QUERY_PORT, ibv_query_port, ib_uverbs_query_port);
DECLARE_CMD(IB_USER_VERBS_CMD_QUERY_QP, ibv_query_qp, ib_uverbs_query_qp);
DECLARE_CMD(IB_USER_VERBS_CMD_QUERY_SRQ, ibv_query_srq, ib_uverbs_query_srq);
DECLARE_CMD(IB_USER_VERBS_CMD_REG_MR, ibv_reg_mr, ib_uverbs_reg_mr);
DECLARE_CMDX(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, ibv_req_notify_cq,
	    ib_uverbs_req_notify_cq, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_REREG_MR, ibv_rereg_mr, ib_uverbs_rereg_mr);
DECLARE_CMD(IB_USER_VERBS_CMD_RESIZE_CQ, ibv_resize_cq, ib_uverbs_resize_cq);

/* Extended commands. */
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_CREATE_CQ, ibv_create_cq_ex,
	    ib_uverbs_ex_create_cq);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_CREATE_FLOW, ibv_create_flow,
	    ib_uverbs_create_flow);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_CREATE_QP, ibv_create_qp_ex,
	    ib_uverbs_ex_create_qp);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, ibv_create_rwq_ind_table,
	    ib_uverbs_ex_create_rwq_ind_table);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_CREATE_WQ, ibv_create_wq, ib_uverbs_ex_create_wq);
DECLARE_CMD_EXX(IB_USER_VERBS_EX_CMD_DESTROY_FLOW, ibv_destroy_flow,
	    ib_uverbs_destroy_flow, empty);
DECLARE_CMD_EXX(IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL, ibv_destroy_rwq_ind_table,
	    ib_uverbs_ex_destroy_rwq_ind_table, empty);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_DESTROY_WQ, ibv_destroy_wq,
	    ib_uverbs_ex_destroy_wq);
DECLARE_CMD_EXX(IB_USER_VERBS_EX_CMD_MODIFY_CQ, ibv_modify_cq,
	    ib_uverbs_ex_modify_cq, empty);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_MODIFY_QP, ibv_modify_qp_ex,
	    ib_uverbs_ex_modify_qp);
DECLARE_CMD_EXX(IB_USER_VERBS_EX_CMD_MODIFY_WQ, ibv_modify_wq,
	    ib_uverbs_ex_modify_wq, empty);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, ibv_query_device_ex,
	    ib_uverbs_ex_query_device);

/*
 * Requests and answers of old interface versions, where they differ.
 */
struct ib_uverbs_modify_srq_v3 {
	__u32 srq_handle;
	__u32 attr_mask;
	__u32 max_wr;
	__u32 max_sge;
	__u32 srq_limit;
	__u32 reserved;
};
#define _STRUCT_ib_uverbs_modify_srq_v3 \
	__extension__ struct { \
		__u32 srq_handle; \
		__u32 attr_mask; \
		__u32 max_wr; \
		__u32 max_sge; \
		__u32 srq_limit; \
		__u32 reserved; \
	}

struct ibv_create_qp_resp_v3 {
	__u32 qp_handle;
	__u32 qpn;
};

struct ibv_create_qp_resp_v4 {
	__u32 qp_handle;
	__u32 qpn;
	__u32 max_send_wr;
	__u32 max_recv_wr;
	__u32 max_send_sge;
	__u32 max_recv_sge;
	__u32 max_inline_data;
};

struct ibv_create_srq_resp_v5 {
	__u32 srq_handle;
};

enum { IB_USER_VERBS_CMD_MODIFY_SRQ_V3 = IB_USER_VERBS_CMD_MODIFY_SRQ };
enum { IB_USER_VERBS_CMD_CREATE_SRQ_V5 = IB_USER_VERBS_CMD_CREATE_SRQ };
enum { IB_USER_VERBS_CMD_CREATE_QP_V4 = IB_USER_VERBS_CMD_CREATE_QP };
enum { IB_USER_VERBS_CMD_CREATE_QP_V3 = IB_USER_VERBS_CMD_CREATE_QP };

DECLARE_CMDX(IB_USER_VERBS_CMD_MODIFY_SRQ_V3, ibv_modify_srq_v3,
	    ib_uverbs_modify_srq_v3, empty);
DECLARE_CMDX(IB_USER_VERBS_CMD_CREATE_SRQ_V5, ibv_create_srq_v5,
	    ib_uverbs_create_srq, ibv_create_srq_resp_v5);
DECLARE_CMDX(IB_USER_VERBS_CMD_CREATE_QP_V4, ibv_create_qp_v4,
	    ib_uverbs_create_qp, ibv_create_qp_resp_v4);
DECLARE_CMDX(IB_USER_VERBS_CMD_CREATE_QP_V3, ibv_create_qp_v3,
	    ib_uverbs_create_qp, ibv_create_qp_resp_v3);

/*
 * Flow specifications in the kernel's form. The kernel knows one kind of IPv4
 * filter; the short one is the program's.
 */
struct ibv_kern_ipv4_filter {
	__u32 src_ip;
	__u32 dst_ip;
};

struct ibv_kern_spec_ipv4 {
	__u32 type;
	__u16 size;
	__u16 reserved;
	struct ibv_kern_ipv4_filter val;
	struct ibv_kern_ipv4_filter mask;
};

__extension__ struct ibv_kern_spec {
	__extension__ union {
		struct ib_uverbs_flow_spec_hdr hdr;
		struct ib_uverbs_flow_spec_eth eth;
		struct ibv_kern_spec_ipv4 ipv4;
		struct ib_uverbs_flow_spec_ipv4 ipv4_ext;
		struct ib_uverbs_flow_spec_ipv6 ipv6;
		struct ib_uverbs_flow_spec_tcp_udp tcp_udp;
		struct ib_uverbs_flow_spec_esp esp;
		struct ib_uverbs_flow_spec_gre gre;
		struct ib_uverbs_flow_spec_mpls mpls;
		struct ib_uverbs_flow_spec_tunnel tunnel;
		struct ib_uverbs_flow_spec_action_tag flow_tag;
		struct ib_uverbs_flow_spec_action_drop drop;
		struct ib_uverbs_flow_spec_action_handle handle;
		struct ib_uverbs_flow_spec_action_count flow_count;
	};
};

/*
 * An extended create-QP request seen as a plain one. Both have the same members from
 * user_handle on; response, which the plain one has in front, must not be touched.
 */
static inline struct ib_uverbs_create_qp *
ibv_create_qp_ex_to_reg(struct ibv_create_qp_ex *cmd_ex)
{
	char *user_handle = (char *)&cmd_ex->user_handle;

	return (struct ib_uverbs_create_qp *)(void *)
		(user_handle - offsetof(struct ib_uverbs_create_qp, user_handle));
}

#ifdef __cplusplus
}
#endif

#endif /* KERN_ABI_H */
