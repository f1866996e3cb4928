//! The limits of a device. Each can be reached: a queue of the largest size can be made and filled.

use crate::{carrier::qpn, cq, memory, raw};
use kit::abi::kernel;
use kit::abi::*;
use uroce_engine::work::MAX_MESSAGE;

/// `max_qp_rd_atom`, `max_qp_init_rd_atom`: reads and atomics under way on a queue pair.
pub const MAX_READS: u32 = 128;
/// `max_qp_wr`, `max_srq_wr`.
pub const MAX_WR: u32 = 1 << 15;
/// `max_sge`, `max_srq_sge`, `max_sge_rd`.
pub const MAX_SGE: u32 = 32;
/// Most bytes of inline data.
pub const MAX_INLINE: u32 = 4096;
/// `max_cqe`.
const MAX_CQE: u32 = cq::MAX_ENTRIES;
/// The smallest completion queue. Programs that ask for 1 entry and post the next request before
/// they poll get by with the slack that cards have. Other devices make no more for 16, which the
/// tests of ruapc (crates.io) depend on.
pub const MIN_CQE: u32 = 31;
/// The smallest queue of requests: a ConnectX card has so many receive requests of one piece in the
/// 64 bytes that it allocates at least.
const LEAST_WR: u32 = 4;
/// Pieces that ConnectX cards have room for in the smallest send request, by connection and by
/// datagram, whether or not a program asks for any.
pub const LEAST_SGE: [u32; 2] = [10, 4];
/// Inline data of queue pairs that did not ask for any: the room in the smallest request that
/// ConnectX cards make for them. By connection, and by datagram.
pub const LEAST_INLINE: [u32; 2] = [60, 28];
/// Queue pairs and work queues together: the numbers of one process. The slot in front of each
/// number is never 0, so no number is a reserved one.
pub const MAX_QP: u32 = 1 << qpn::INDEX_BITS;
/// `max_rwq_indirection_table_size`: work queues of a table.
pub const MAX_TABLE: usize = 1 << 12;
/// Request packets of one queue pair in flight to a peer that does not report missing packets.
pub const MAX_IN_FLIGHT: u32 = 128;

/// `vendor_id` of devices without one (24 bits, as an OUI), which soft-RoCE in the kernel has too.
const NO_VENDOR: u32 = 0x00ff_ffff;

/// `IB_UVERBS_DEVICE_FLUSH_GLOBAL`, of Linux 6.2 and later. The flag for persistence is not
/// reported, because no region can have it.
const FLUSH_GLOBAL: u64 = 1 << 38;

/// Entries of a completion queue of at least `asked`. As with cards and soft-RoCE it is a power of
/// 2 less 1, and programs get by whose completions are a few more than they asked for. A number
/// that is too large is returned as it is.
pub fn completions(asked: u32) -> u32 {
    if asked > MAX_CQE {
        return asked;
    }
    let rounded = asked.saturating_add(1).next_power_of_two() - 1;
    rounded.clamp(MIN_CQE, MAX_CQE)
}

/// Requests of a queue of at least `asked`; none if none were asked for. As with cards and
/// soft-RoCE there is room for the next power of 2, and programs get by that post a few more than
/// they asked for. Requests take memory when they are posted. A number that is too large is
/// returned as it is.
pub fn requests(asked: u32) -> u32 {
    if asked == 0 || asked > MAX_WR {
        return asked;
    }
    let rounded = asked.saturating_add(1).next_power_of_two();
    rounded.clamp(LEAST_WR, MAX_WR)
}

/// `struct ibv_device_attr_ex`, except for the attributes of a single device (GUIDs).
pub fn report(attr: &mut ibv_device_attr_ex) {
    let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let many = number(memory::MAX_REGIONS);
    let orig = &mut attr.orig_attr;
    orig.vendor_id = NO_VENDOR;
    orig.max_mr_size = u64::MAX;
    orig.page_size_cap = 0xffff_f000;
    orig.max_qp = number(MAX_QP);
    orig.max_qp_wr = number(MAX_WR);
    orig.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD
        | IBV_DEVICE_RC_RNR_NAK_GEN
        | IBV_DEVICE_SRQ_RESIZE
        | IBV_DEVICE_SYS_IMAGE_GUID
        | IBV_DEVICE_XRC
        | IBV_DEVICE_MEM_WINDOW
        | IBV_DEVICE_MEM_WINDOW_TYPE_2B
        | IBV_DEVICE_MEM_MGT_EXTENSIONS
        | IBV_DEVICE_PORT_ACTIVE_EVENT
        | IBV_DEVICE_RAW_IP_CSUM
        | IBV_DEVICE_MANAGED_FLOW_STEERING;
    orig.max_sge = number(MAX_SGE);
    orig.max_sge_rd = number(MAX_SGE);
    orig.max_cq = many;
    orig.max_cqe = number(MAX_CQE);
    orig.max_mr = many;
    orig.max_pd = many;
    orig.max_qp_rd_atom = number(MAX_READS);
    orig.max_res_rd_atom = number(MAX_READS).saturating_mul(number(MAX_QP));
    orig.max_qp_init_rd_atom = number(MAX_READS);
    orig.atomic_cap = IBV_ATOMIC_HCA;
    orig.max_mw = number(memory::MAX_WINDOWS);
    orig.max_mcast_grp = 1 << 10;
    orig.max_mcast_qp_attach = number(MAX_QP);
    orig.max_total_mcast_qp_attach = many;
    orig.max_ah = many;
    orig.max_srq = many;
    orig.max_srq_wr = number(MAX_WR);
    orig.max_srq_sge = number(MAX_SGE);
    orig.max_pkeys = 1;
    orig.local_ca_ack_delay = 15;
    orig.phys_port_cnt = 1;
    attr.phys_port_cnt_ex = 1;
    attr.device_cap_flags_ex =
        u64::from(orig.device_cap_flags) | kernel::IB_UVERBS_DEVICE_ATOMIC_WRITE | FLUSH_GLOBAL;
    attr.completion_timestamp_mask = u64::MAX;
    // In kHz: the clock counts nanoseconds.
    attr.hca_core_clock = 1_000_000;
    attr.max_dm_size = u64::try_from(memory::MAX_DEVICE_MEMORY).unwrap_or(0);
    attr.cq_mod_caps.max_cq_count = u16::MAX;
    attr.cq_mod_caps.max_cq_period = u16::MAX;
    let send = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
    let connected = send | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV;
    let reliable = connected
        | IBV_ODP_SUPPORT_READ
        | IBV_ODP_SUPPORT_ATOMIC
        | IBV_ODP_SUPPORT_FLUSH
        | IBV_ODP_SUPPORT_ATOMIC_WRITE;
    attr.odp_caps.general_caps = u64::from(IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
    attr.odp_caps.per_transport_caps.rc_odp_caps = reliable;
    attr.odp_caps.per_transport_caps.uc_odp_caps = connected;
    attr.odp_caps.per_transport_caps.ud_odp_caps = send | IBV_ODP_SUPPORT_SRQ_RECV;
    attr.xrc_odp_caps = reliable;
    let rss = &mut attr.rss_caps;
    rss.supported_qpts = 1 << IBV_QPT_RAW_PACKET;
    rss.max_rwq_indirection_tables = MAX_QP;
    rss.max_rwq_indirection_table_size = u32::try_from(MAX_TABLE).unwrap_or(0);
    rss.rx_hash_function = u8::try_from(IBV_RX_HASH_FUNC_TOEPLITZ).unwrap_or(0);
    rss.rx_hash_fields_mask = raw::HASH_FIELDS;
    attr.max_wq_type_rq = MAX_QP;
    attr.raw_packet_caps = IBV_RAW_PACKET_CAP_IP_CSUM;
}

/// `max_msg_sz`, in bytes.
pub const MAX_MESSAGE_SIZE: u32 = MAX_MESSAGE;
/// `num_comp_vectors`.
pub const VECTORS: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_have_some_slack() {
        for (asked, made) in [
            (1, 31),
            (16, 31),
            (31, 31),
            (32, 63),
            (63, 63),
            (64, 127),
            (100, 127),
            (128, 255),
            (MAX_CQE / 2, MAX_CQE - 1),
            (MAX_CQE, MAX_CQE),
            (MAX_CQE + 1, MAX_CQE + 1),
            (u32::MAX, u32::MAX),
        ] {
            assert_eq!(completions(asked), made, "{asked}");
        }
        for (asked, made) in [
            (0, 0),
            (1, 4),
            (4, 8),
            (10, 16),
            (16, 32),
            (31, 32),
            (MAX_WR - 1, MAX_WR),
            (MAX_WR, MAX_WR),
            (MAX_WR + 1, MAX_WR + 1),
            (u32::MAX, u32::MAX),
        ] {
            assert_eq!(requests(asked), made, "{asked}");
        }
    }
}
