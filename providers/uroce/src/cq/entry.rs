//! Completions as verbs show them.

use kit::abi::*;
use uroce_engine::timer::Time;
use uroce_engine::work::{Completion, CompletionOpcode, Network, Status};

/// A completion on its way into a queue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The completion.
    pub completion: Completion,
    /// `qp_num`.
    pub qp_num: u32,
    /// `pkey_index`.
    pub pkey_index: u16,
    /// `IBV_WC_IP_CSUM_OK`: the check sums of a raw packet are right.
    pub checked: bool,
    /// When; `None` for the moment at which it is added.
    pub at: Option<Time>,
}

impl Entry {
    /// A completion of a queue pair.
    #[must_use]
    pub fn new(completion: Completion, qp_num: u32) -> Self {
        Self {
            completion,
            qp_num,
            pkey_index: 0,
            checked: false,
            at: None,
        }
    }

    /// The same, at a time that is known already, which saves asking the clock.
    #[must_use]
    pub fn at(self, at: Time) -> Self {
        let at = Some(at);
        Self { at, ..self }
    }

    /// Whether it counts as solicited: errors always do.
    pub(super) fn is_solicited(&self) -> bool {
        self.completion.solicited || self.completion.status != Status::Success
    }

    /// The union of `imm_data` and `invalidated_rkey`, as it lies in memory, and the flag that
    /// distinguishes them.
    pub(super) fn immediate(&self) -> (u32, ibv_wc_flags) {
        match (self.completion.immediate, self.completion.invalidated) {
            (Some(immediate), _) => (immediate.data.to_be(), IBV_WC_WITH_IMM),
            (None, Some(rkey)) => (rkey, IBV_WC_WITH_INV),
            (None, None) => (0, 0),
        }
    }

    /// As ibv_poll_cq(3) has it.
    pub(super) fn wc(&self) -> ibv_wc {
        let completion = &self.completion;
        let (invalidated_rkey, with) = self.immediate();
        let grh = completion.grh.map_or(0, |_| IBV_WC_GRH);
        let checked = if self.checked { IBV_WC_IP_CSUM_OK } else { 0 };
        let opcode = opcode(completion.opcode);
        ibv_wc {
            status: completion.status as ibv_wc_status,
            imm: ibv_wc_imm { invalidated_rkey },
            src_qp: completion.source,
            wc_flags: with | grh | checked,
            pkey_index: self.pkey_index,
            sl: completion.grh.map_or(0, service_level),
            ..success(completion.id, opcode, completion.length, self.qp_num)
        }
    }
}

/// A success in the form of ibv_poll_cq(3), of a queue pair with its P_Key.
#[inline(always)]
#[must_use]
pub fn success(id: u64, opcode: ibv_wc_opcode, length: u32, qp_num: u32) -> ibv_wc {
    ibv_wc {
        wr_id: id,
        status: IBV_WC_SUCCESS,
        opcode,
        vendor_err: 0,
        byte_len: length,
        imm: ibv_wc_imm {
            invalidated_rkey: 0,
        },
        qp_num,
        src_qp: 0,
        wc_flags: 0,
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}

/// RoCE v2 packets have no service level. ConnectX cards use its place in a completion for the kind
/// of packet (IBTA annex A17, 17.4.5.1, requires that, and verbs have no field for it): bit 3 for
/// UDP, below it 1 for IPv6 and 2 for IPv4. UCX relies on it to find the destination
/// address in the header.
fn service_level(network: Network) -> u8 {
    match network {
        Network::Ipv6 => 0b1001,
        Network::Ipv4 => 0b1010,
    }
}

fn opcode(opcode: CompletionOpcode) -> ibv_wc_opcode {
    match opcode {
        CompletionOpcode::Send => IBV_WC_SEND,
        CompletionOpcode::Write => IBV_WC_RDMA_WRITE,
        CompletionOpcode::Read => IBV_WC_RDMA_READ,
        CompletionOpcode::CompareSwap => IBV_WC_COMP_SWAP,
        CompletionOpcode::FetchAdd => IBV_WC_FETCH_ADD,
        CompletionOpcode::Bind => IBV_WC_BIND_MW,
        CompletionOpcode::LocalInvalidate => IBV_WC_LOCAL_INV,
        CompletionOpcode::AtomicWrite => IBV_WC_ATOMIC_WRITE,
        CompletionOpcode::Flush => IBV_WC_FLUSH,
        CompletionOpcode::Receive => IBV_WC_RECV,
        CompletionOpcode::ReceiveWithImm => IBV_WC_RECV_RDMA_WITH_IMM,
    }
}
