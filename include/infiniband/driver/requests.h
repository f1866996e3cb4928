/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The members of the kernel's request structures, one macro each, so that kern-abi.h
 * can lay them out without a name around them. The kernel's definitions are in
 * rdma/ib_user_verbs.h; kern-abi.h asserts that the sizes agree.
 */
#ifndef INFINIBAND_DRIVER_REQUESTS_H
#define INFINIBAND_DRIVER_REQUESTS_H

#include <linux/types.h>

#define _STRUCT_ib_uverbs_alloc_mw \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 pd_handle; \
		__u8 mw_type; \
		__u8 reserved[3]; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_alloc_pd \
	__extension__ struct { \
		__aligned_u64 response; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_attach_mcast \
	__extension__ struct { \
		__u8 gid[16]; \
		__u32 qp_handle; \
		__u16 mlid; \
		__u16 reserved; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_close_xrcd \
	__extension__ struct { \
		__u32 xrcd_handle; \
	}

#define _STRUCT_ib_uverbs_create_ah \
	__extension__ struct { \
		__aligned_u64 response; \
		__aligned_u64 user_handle; \
		__u32 pd_handle; \
		__u32 reserved; \
		struct ib_uverbs_ah_attr attr; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_create_comp_channel \
	__extension__ struct { \
		__aligned_u64 response; \
	}

#define _STRUCT_ib_uverbs_create_cq \
	__extension__ struct { \
		__aligned_u64 response; \
		__aligned_u64 user_handle; \
		__u32 cqe; \
		__u32 comp_vector; \
		__s32 comp_channel; \
		__u32 reserved; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_create_flow \
	__extension__ struct { \
		__u32 comp_mask; \
		__u32 qp_handle; \
		struct ib_uverbs_flow_attr flow_attr; \
	}

#define _STRUCT_ib_uverbs_create_qp \
	__extension__ struct { \
		__aligned_u64 response; \
		__aligned_u64 user_handle; \
		__u32 pd_handle; \
		__u32 send_cq_handle; \
		__u32 recv_cq_handle; \
		__u32 srq_handle; \
		__u32 max_send_wr; \
		__u32 max_recv_wr; \
		__u32 max_send_sge; \
		__u32 max_recv_sge; \
		__u32 max_inline_data; \
		__u8 sq_sig_all; \
		__u8 qp_type; \
		__u8 is_srq; \
		__u8 reserved; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_create_srq \
	__extension__ struct { \
		__aligned_u64 response; \
		__aligned_u64 user_handle; \
		__u32 pd_handle; \
		__u32 max_wr; \
		__u32 max_sge; \
		__u32 srq_limit; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_create_xsrq \
	__extension__ struct { \
		__aligned_u64 response; \
		__aligned_u64 user_handle; \
		__u32 srq_type; \
		__u32 pd_handle; \
		__u32 max_wr; \
		__u32 max_sge; \
		__u32 srq_limit; \
		__u32 max_num_tags; \
		__u32 xrcd_handle; \
		__u32 cq_handle; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_dealloc_mw \
	__extension__ struct { \
		__u32 mw_handle; \
	}

#define _STRUCT_ib_uverbs_dealloc_pd \
	__extension__ struct { \
		__u32 pd_handle; \
	}

#define _STRUCT_ib_uverbs_dereg_mr \
	__extension__ struct { \
		__u32 mr_handle; \
	}

#define _STRUCT_ib_uverbs_destroy_ah \
	__extension__ struct { \
		__u32 ah_handle; \
	}

#define _STRUCT_ib_uverbs_destroy_cq \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 cq_handle; \
		__u32 reserved; \
	}

#define _STRUCT_ib_uverbs_destroy_flow \
	__extension__ struct { \
		__u32 comp_mask; \
		__u32 flow_handle; \
	}

#define _STRUCT_ib_uverbs_destroy_qp \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 qp_handle; \
		__u32 reserved; \
	}

#define _STRUCT_ib_uverbs_destroy_srq \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 srq_handle; \
		__u32 reserved; \
	}

#define _STRUCT_ib_uverbs_detach_mcast \
	__extension__ struct { \
		__u8 gid[16]; \
		__u32 qp_handle; \
		__u16 mlid; \
		__u16 reserved; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_ex_create_cq \
	__extension__ struct { \
		__aligned_u64 user_handle; \
		__u32 cqe; \
		__u32 comp_vector; \
		__s32 comp_channel; \
		__u32 comp_mask; \
		__u32 flags; \
		__u32 reserved; \
	}

#define _STRUCT_ib_uverbs_ex_create_qp \
	__extension__ struct { \
		__aligned_u64 user_handle; \
		__u32 pd_handle; \
		__u32 send_cq_handle; \
		__u32 recv_cq_handle; \
		__u32 srq_handle; \
		__u32 max_send_wr; \
		__u32 max_recv_wr; \
		__u32 max_send_sge; \
		__u32 max_recv_sge; \
		__u32 max_inline_data; \
		__u8 sq_sig_all; \
		__u8 qp_type; \
		__u8 is_srq; \
		__u8 reserved; \
		__u32 comp_mask; \
		__u32 create_flags; \
		__u32 rwq_ind_tbl_handle; \
		__u32 source_qpn; \
	}

#define _STRUCT_ib_uverbs_ex_create_rwq_ind_table \
	__extension__ struct { \
		__u32 comp_mask; \
		__u32 log_ind_tbl_size; \
		__u32 wq_handles[0]; \
	}

#define _STRUCT_ib_uverbs_ex_create_wq \
	__extension__ struct { \
		__u32 comp_mask; \
		__u32 wq_type; \
		__aligned_u64 user_handle; \
		__u32 pd_handle; \
		__u32 cq_handle; \
		__u32 max_wr; \
		__u32 max_sge; \
		__u32 create_flags; \
		__u32 reserved; \
	}

#define _STRUCT_ib_uverbs_ex_destroy_rwq_ind_table \
	__extension__ struct { \
		__u32 comp_mask; \
		__u32 ind_tbl_handle; \
	}

#define _STRUCT_ib_uverbs_ex_destroy_wq \
	__extension__ struct { \
		__u32 comp_mask; \
		__u32 wq_handle; \
	}

#define _STRUCT_ib_uverbs_ex_modify_cq \
	__extension__ struct { \
		__u32 cq_handle; \
		__u32 attr_mask; \
		struct ib_uverbs_cq_moderation attr; \
		__u32 reserved; \
	}

#define _STRUCT_ib_uverbs_ex_modify_qp \
	__extension__ struct { \
		struct ib_uverbs_modify_qp base; \
		__u32 rate_limit; \
		__u32 reserved; \
	}

#define _STRUCT_ib_uverbs_ex_modify_wq \
	__extension__ struct { \
		__u32 attr_mask; \
		__u32 wq_handle; \
		__u32 wq_state; \
		__u32 curr_wq_state; \
		__u32 flags; \
		__u32 flags_mask; \
	}

#define _STRUCT_ib_uverbs_ex_query_device \
	__extension__ struct { \
		__u32 comp_mask; \
		__u32 reserved; \
	}

#define _STRUCT_ib_uverbs_get_context \
	__extension__ struct { \
		__aligned_u64 response; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_modify_qp \
	__extension__ struct { \
		struct ib_uverbs_qp_dest dest; \
		struct ib_uverbs_qp_dest alt_dest; \
		__u32 qp_handle; \
		__u32 attr_mask; \
		__u32 qkey; \
		__u32 rq_psn; \
		__u32 sq_psn; \
		__u32 dest_qp_num; \
		__u32 qp_access_flags; \
		__u16 pkey_index; \
		__u16 alt_pkey_index; \
		__u8 qp_state; \
		__u8 cur_qp_state; \
		__u8 path_mtu; \
		__u8 path_mig_state; \
		__u8 en_sqd_async_notify; \
		__u8 max_rd_atomic; \
		__u8 max_dest_rd_atomic; \
		__u8 min_rnr_timer; \
		__u8 port_num; \
		__u8 timeout; \
		__u8 retry_cnt; \
		__u8 rnr_retry; \
		__u8 alt_port_num; \
		__u8 alt_timeout; \
		__u8 reserved[2]; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_modify_srq \
	__extension__ struct { \
		__u32 srq_handle; \
		__u32 attr_mask; \
		__u32 max_wr; \
		__u32 srq_limit; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_modify_srq_v3 \
	__extension__ struct { \
		__u32 srq_handle; \
		__u32 attr_mask; \
		__u32 max_wr; \
		__u32 max_sge; \
		__u32 srq_limit; \
		__u32 reserved; \
	}

#define _STRUCT_ib_uverbs_open_qp \
	__extension__ struct { \
		__aligned_u64 response; \
		__aligned_u64 user_handle; \
		__u32 pd_handle; \
		__u32 qpn; \
		__u8 qp_type; \
		__u8 reserved[7]; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_open_xrcd \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 fd; \
		__u32 oflags; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_poll_cq \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 cq_handle; \
		__u32 ne; \
	}

#define _STRUCT_ib_uverbs_post_recv \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 qp_handle; \
		__u32 wr_count; \
		__u32 sge_count; \
		__u32 wqe_size; \
		struct ib_uverbs_recv_wr recv_wr[0]; \
	}

#define _STRUCT_ib_uverbs_post_send \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 qp_handle; \
		__u32 wr_count; \
		__u32 sge_count; \
		__u32 wqe_size; \
		struct ib_uverbs_send_wr send_wr[0]; \
	}

#define _STRUCT_ib_uverbs_post_srq_recv \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 srq_handle; \
		__u32 wr_count; \
		__u32 sge_count; \
		__u32 wqe_size; \
		struct ib_uverbs_recv_wr recv[0]; \
	}

#define _STRUCT_ib_uverbs_query_device \
	__extension__ struct { \
		__aligned_u64 response; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_query_port \
	__extension__ struct { \
		__aligned_u64 response; \
		__u8 port_num; \
		__u8 reserved[7]; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_query_qp \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 qp_handle; \
		__u32 attr_mask; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_query_srq \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 srq_handle; \
		__u32 reserved; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_reg_mr \
	__extension__ struct { \
		__aligned_u64 response; \
		__aligned_u64 start; \
		__aligned_u64 length; \
		__aligned_u64 hca_va; \
		__u32 pd_handle; \
		__u32 access_flags; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_req_notify_cq \
	__extension__ struct { \
		__u32 cq_handle; \
		__u32 solicited_only; \
	}

#define _STRUCT_ib_uverbs_rereg_mr \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 mr_handle; \
		__u32 flags; \
		__aligned_u64 start; \
		__aligned_u64 length; \
		__aligned_u64 hca_va; \
		__u32 pd_handle; \
		__u32 access_flags; \
		__aligned_u64 driver_data[0]; \
	}

#define _STRUCT_ib_uverbs_resize_cq \
	__extension__ struct { \
		__aligned_u64 response; \
		__u32 cq_handle; \
		__u32 cqe; \
		__aligned_u64 driver_data[0]; \
	}

#endif /* INFINIBAND_DRIVER_REQUESTS_H */
