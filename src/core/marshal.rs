#![forbid(unsafe_code)]
//! Between the kernel's structures and the API's, for librdmacm, which hears of paths and queue
//! pair attributes from the kernel's connection manager.

use kit::abi::{kernel::*, *};

/// An address handle attribute as the kernel gave it.
pub fn ah_attr(src: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: src.grh.dgid },
            flow_label: src.grh.flow_label,
            sgid_index: src.grh.sgid_index,
            hop_limit: src.grh.hop_limit,
            traffic_class: src.grh.traffic_class,
        },
        dlid: src.dlid,
        sl: src.sl,
        src_path_bits: src.src_path_bits,
        static_rate: src.static_rate,
        is_global: src.is_global,
        port_num: src.port_num,
    }
}

/// Queue pair attributes as the kernel gave them. `qp_state` and `rate_limit` stay as they are:
/// the caller states the transition that it makes.
pub fn qp_attr(dst: &mut ibv_qp_attr, src: &ib_uverbs_qp_attr) {
    // One at a time: a whole structure would be made elsewhere and copied.
    macro_rules! copy {
        ($($member:ident),*) => { $(dst.$member = src.$member;)* };
    }
    copy!(
        cur_qp_state,
        path_mtu,
        path_mig_state,
        qkey,
        rq_psn,
        sq_psn,
        dest_qp_num,
        qp_access_flags,
        pkey_index,
        alt_pkey_index,
        en_sqd_async_notify,
        sq_draining,
        max_rd_atomic,
        max_dest_rd_atomic,
        min_rnr_timer,
        port_num,
        timeout,
        retry_cnt,
        rnr_retry,
        alt_port_num,
        alt_timeout
    );
    dst.cap = ibv_qp_cap {
        max_send_wr: src.max_send_wr,
        max_recv_wr: src.max_recv_wr,
        max_send_sge: src.max_send_sge,
        max_recv_sge: src.max_recv_sge,
        max_inline_data: src.max_inline_data,
    };
    dst.ah_attr = ah_attr(&src.ah_attr);
    dst.alt_ah_attr = ah_attr(&src.alt_ah_attr);
}

/// A path record for applications. Selectors, MTU and similar members are bytes in one and words in
/// the other; a value that is too large is truncated as by a C assignment.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
pub fn path_from_kernel(src: &ib_user_path_rec) -> ibv_sa_path_rec {
    ibv_sa_path_rec {
        dgid: ibv_gid { raw: src.dgid },
        sgid: ibv_gid { raw: src.sgid },
        dlid: src.dlid,
        slid: src.slid,
        raw_traffic: src.raw_traffic as i32,
        flow_label: src.flow_label,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        reversible: src.reversible as i32,
        numb_path: src.numb_path,
        pkey: src.pkey,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        mtu: src.mtu as u8,
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    }
}

/// A path record for the kernel.
#[allow(clippy::cast_sign_loss)]
pub fn path_to_kernel(src: &ibv_sa_path_rec) -> ib_user_path_rec {
    ib_user_path_rec {
        dgid: src.dgid.bytes(),
        sgid: src.sgid.bytes(),
        dlid: src.dlid,
        slid: src.slid,
        raw_traffic: src.raw_traffic as u32,
        flow_label: src.flow_label,
        reversible: src.reversible as u32,
        mtu: src.mtu.into(),
        pkey: src.pkey,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        numb_path: src.numb_path,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back() {
        let kernel = ib_user_path_rec {
            dgid: [1; 16],
            sgid: [2; 16],
            dlid: be16::new(3),
            slid: be16::new(4),
            raw_traffic: 1,
            flow_label: be32::new(5),
            reversible: 1,
            mtu: 4,
            pkey: be16::new(0xffff),
            hop_limit: 64,
            traffic_class: 6,
            numb_path: 7,
            sl: 8,
            mtu_selector: 2,
            rate_selector: 1,
            rate: 9,
            packet_life_time_selector: 2,
            packet_life_time: 10,
            preference: 11,
        };
        let back = path_to_kernel(&path_from_kernel(&kernel));
        assert_eq!(bytemuck::bytes_of(&back), bytemuck::bytes_of(&kernel));
    }
}
