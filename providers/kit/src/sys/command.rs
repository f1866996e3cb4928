//! The write commands of the kernel: their numbers, structures and responses.

use crate::abi::kernel::*;
use bytemuck::Pod;
use core::mem::size_of;

/// Marks an extended command (`IB_USER_VERBS_CMD_FLAG_EXTENDED`).
pub const EXTENDED: u32 = 0x8000_0000;
/// Bytes of a plain command's header.
pub const HEADER: usize = size_of::<ib_uverbs_cmd_hdr>();
/// Bytes of an extended command's header.
pub const EX_HEADER: usize = HEADER + size_of::<ib_uverbs_ex_cmd_hdr>();

/// A write command, named by the structure that follows its header.
///
/// # Safety
/// `NUMBER`, `EXTENDED` and `Resp` are the kernel's for this structure. A plain command with a
/// response keeps the response's address in the first 8 bytes of its structure; one without a
/// response has no address anywhere in it.
pub unsafe trait WriteCommand: Pod {
    /// Command number (`IB_USER_VERBS_CMD_*`, `IB_USER_VERBS_EX_CMD_*`).
    const NUMBER: u32;
    /// Whether the long header goes in front.
    const EXTENDED: bool;
    /// The kernel's response, before any driver data.
    type Resp: Pod;
    /// The number that the kernel gets, with the bit of an extended command.
    const CODE: u32 = if Self::EXTENDED {
        Self::NUMBER | EXTENDED
    } else {
        Self::NUMBER
    };
    /// Bytes of the header.
    const HEADER: usize = if Self::EXTENDED { EX_HEADER } else { HEADER };
    /// Bytes of header and structure: where driver data starts.
    const FRONT: usize = Self::HEADER + size_of::<Self>();
}

macro_rules! commands {
    (@each $extended:literal; $( $req:ident = $number:ident -> $resp:ty; )*) => { $(
        // SAFETY: number, kind and response are those of linux-libc-dev's rdma/ib_user_verbs.h.
        unsafe impl WriteCommand for $req {
            const NUMBER: u32 = $number;
            const EXTENDED: bool = $extended;
            type Resp = $resp;
        }
    )* };
    (answered { $($answered:tt)* } silent { $($silent:tt)* } extended { $($extended:tt)* }) => {
        commands!(@plain $($answered)*);
        commands!(@each false; $($silent)*);
        commands!(@each true; $($extended)*);
    };
    (@plain $( $req:ident = $number:ident -> $resp:ty; )*) => {
        $( const _: () = assert!(core::mem::offset_of!($req, response) == 0); )*
        commands!(@each false; $( $req = $number -> $resp; )*);
    };
}

commands! {
    answered {
        ib_uverbs_get_context = IB_USER_VERBS_CMD_GET_CONTEXT -> ib_uverbs_get_context_resp;
        ib_uverbs_query_device = IB_USER_VERBS_CMD_QUERY_DEVICE -> ib_uverbs_query_device_resp;
        ib_uverbs_query_port = IB_USER_VERBS_CMD_QUERY_PORT -> ib_uverbs_query_port_resp;
        ib_uverbs_alloc_pd = IB_USER_VERBS_CMD_ALLOC_PD -> ib_uverbs_alloc_pd_resp;
        ib_uverbs_create_ah = IB_USER_VERBS_CMD_CREATE_AH -> ib_uverbs_create_ah_resp;
        ib_uverbs_reg_mr = IB_USER_VERBS_CMD_REG_MR -> ib_uverbs_reg_mr_resp;
        ib_uverbs_rereg_mr = IB_USER_VERBS_CMD_REREG_MR -> ib_uverbs_rereg_mr_resp;
        ib_uverbs_alloc_mw = IB_USER_VERBS_CMD_ALLOC_MW -> ib_uverbs_alloc_mw_resp;
        ib_uverbs_open_xrcd = IB_USER_VERBS_CMD_OPEN_XRCD -> ib_uverbs_open_xrcd_resp;
        ib_uverbs_create_comp_channel = IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL -> ib_uverbs_create_comp_channel_resp;
        ib_uverbs_create_cq = IB_USER_VERBS_CMD_CREATE_CQ -> ib_uverbs_create_cq_resp;
        ib_uverbs_resize_cq = IB_USER_VERBS_CMD_RESIZE_CQ -> ib_uverbs_resize_cq_resp;
        ib_uverbs_poll_cq = IB_USER_VERBS_CMD_POLL_CQ -> ib_uverbs_poll_cq_resp;
        ib_uverbs_destroy_cq = IB_USER_VERBS_CMD_DESTROY_CQ -> ib_uverbs_destroy_cq_resp;
        ib_uverbs_create_qp = IB_USER_VERBS_CMD_CREATE_QP -> ib_uverbs_create_qp_resp;
        ib_uverbs_open_qp = IB_USER_VERBS_CMD_OPEN_QP -> ib_uverbs_create_qp_resp;
        ib_uverbs_query_qp = IB_USER_VERBS_CMD_QUERY_QP -> ib_uverbs_query_qp_resp;
        ib_uverbs_destroy_qp = IB_USER_VERBS_CMD_DESTROY_QP -> ib_uverbs_destroy_qp_resp;
        ib_uverbs_create_srq = IB_USER_VERBS_CMD_CREATE_SRQ -> ib_uverbs_create_srq_resp;
        ib_uverbs_create_xsrq = IB_USER_VERBS_CMD_CREATE_XSRQ -> ib_uverbs_create_srq_resp;
        ib_uverbs_query_srq = IB_USER_VERBS_CMD_QUERY_SRQ -> ib_uverbs_query_srq_resp;
        ib_uverbs_destroy_srq = IB_USER_VERBS_CMD_DESTROY_SRQ -> ib_uverbs_destroy_srq_resp;
        ib_uverbs_post_send = IB_USER_VERBS_CMD_POST_SEND -> ib_uverbs_post_send_resp;
        ib_uverbs_post_recv = IB_USER_VERBS_CMD_POST_RECV -> ib_uverbs_post_recv_resp;
        ib_uverbs_post_srq_recv = IB_USER_VERBS_CMD_POST_SRQ_RECV -> ib_uverbs_post_srq_recv_resp;
    }
    silent {
        ib_uverbs_dealloc_pd = IB_USER_VERBS_CMD_DEALLOC_PD -> ();
        ib_uverbs_destroy_ah = IB_USER_VERBS_CMD_DESTROY_AH -> ();
        ib_uverbs_dereg_mr = IB_USER_VERBS_CMD_DEREG_MR -> ();
        ib_uverbs_dealloc_mw = IB_USER_VERBS_CMD_DEALLOC_MW -> ();
        ib_uverbs_close_xrcd = IB_USER_VERBS_CMD_CLOSE_XRCD -> ();
        ib_uverbs_attach_mcast = IB_USER_VERBS_CMD_ATTACH_MCAST -> ();
        ib_uverbs_detach_mcast = IB_USER_VERBS_CMD_DETACH_MCAST -> ();
        ib_uverbs_req_notify_cq = IB_USER_VERBS_CMD_REQ_NOTIFY_CQ -> ();
        ib_uverbs_modify_qp = IB_USER_VERBS_CMD_MODIFY_QP -> ();
        ib_uverbs_modify_srq = IB_USER_VERBS_CMD_MODIFY_SRQ -> ();
    }
    extended {
        ib_uverbs_ex_query_device = IB_USER_VERBS_EX_CMD_QUERY_DEVICE -> ib_uverbs_ex_query_device_resp;
        ib_uverbs_ex_create_cq = IB_USER_VERBS_EX_CMD_CREATE_CQ -> ib_uverbs_ex_create_cq_resp;
        ib_uverbs_ex_modify_cq = IB_USER_VERBS_EX_CMD_MODIFY_CQ -> ();
        ib_uverbs_ex_create_qp = IB_USER_VERBS_EX_CMD_CREATE_QP -> ib_uverbs_ex_create_qp_resp;
        ib_uverbs_ex_modify_qp = IB_USER_VERBS_EX_CMD_MODIFY_QP -> ib_uverbs_ex_modify_qp_resp;
        ib_uverbs_create_flow = IB_USER_VERBS_EX_CMD_CREATE_FLOW -> ib_uverbs_create_flow_resp;
        ib_uverbs_destroy_flow = IB_USER_VERBS_EX_CMD_DESTROY_FLOW -> ();
        ib_uverbs_ex_create_wq = IB_USER_VERBS_EX_CMD_CREATE_WQ -> ib_uverbs_ex_create_wq_resp;
        ib_uverbs_ex_modify_wq = IB_USER_VERBS_EX_CMD_MODIFY_WQ -> ();
        ib_uverbs_ex_destroy_wq = IB_USER_VERBS_EX_CMD_DESTROY_WQ -> ib_uverbs_ex_destroy_wq_resp;
        ib_uverbs_ex_create_rwq_ind_table = IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL -> ib_uverbs_ex_create_rwq_ind_table_resp;
        ib_uverbs_ex_destroy_rwq_ind_table = IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL -> ();
    }
}
