//! Changes of a connected queue pair.
#![forbid(unsafe_code)]

use bytemuck::Zeroable;
use kit::abi::*;

use crate::{
    error::{Error, Result},
    memory::Access,
};

/// New values for attributes of a queue pair ([`QueuePair::modify`](crate::QueuePair::modify)).
///
/// | attribute | queue pairs | states |
/// | --- | --- | --- |
/// | [`rnr_timer`](Self::rnr_timer) | reliable | ready to send, drained |
/// | [`access`](Self::access) | reliable, unreliable | ready to send, drained |
/// | [`qkey`](Self::qkey) | datagrams | ready to send, drained |
/// | [`timeout`](Self::timeout), [`retries`](Self::retries), [`rnr_retries`](Self::rnr_retries), [`reads`](Self::reads), [`peer_reads`](Self::peer_reads) | reliable | drained |
#[derive(Clone, Copy)]
#[must_use = "`QueuePair::modify` makes the changes"]
pub struct Changes {
    attr: ibv_qp_attr,
    mask: ibv_qp_attr_mask,
    refused: Option<&'static str>,
}

impl Changes {
    /// None.
    pub fn new() -> Self {
        Self {
            attr: ibv_qp_attr::zeroed(),
            mask: 0,
            refused: None,
        }
    }

    /// Enters a number into the mask, which ends at `most`.
    fn number(
        mut self,
        mask: ibv_qp_attr_mask,
        value: u8,
        most: u8,
        refused: &'static str,
    ) -> Self {
        self.mask |= mask;
        if value > most {
            self.refused = Some(refused);
        }
        self
    }

    /// How long the peer waits before it repeats a message for which there was no receive request:
    /// a code of ibv_modify_qp(3), up to 31.
    pub fn rnr_timer(mut self, code: u8) -> Self {
        self.attr.min_rnr_timer = code;
        self.number(
            IBV_QP_MIN_RNR_TIMER,
            code,
            31,
            "codes of the RNR timer end at 31",
        )
    }

    /// What the peer may do. A memory region has to allow it as well.
    pub fn access(mut self, access: Access) -> Self {
        self.attr.qp_access_flags = access.bits();
        self.mask |= IBV_QP_ACCESS_FLAGS;
        self
    }

    /// The key of datagrams.
    pub fn qkey(mut self, qkey: u32) -> Self {
        self.attr.qkey = qkey;
        self.mask |= IBV_QP_QKEY;
        self
    }

    /// How long the peer may take to acknowledge a packet, before it is repeated: 4.096 µs times
    /// two to this power, up to 31; 0 is for ever.
    pub fn timeout(mut self, exponent: u8) -> Self {
        self.attr.timeout = exponent;
        self.number(
            IBV_QP_TIMEOUT,
            exponent,
            31,
            "exponents of the timeout end at 31",
        )
    }

    /// How often a packet is repeated before the request fails, up to 7.
    pub fn retries(mut self, count: u8) -> Self {
        self.attr.retry_cnt = count;
        self.number(IBV_QP_RETRY_CNT, count, 7, "retry counts end at 7")
    }

    /// How often a message is repeated while the peer has no receive request, up to 6; 7 is for
    /// ever.
    pub fn rnr_retries(mut self, count: u8) -> Self {
        self.attr.rnr_retry = count;
        self.number(IBV_QP_RNR_RETRY, count, 7, "retry counts end at 7")
    }

    /// How many RDMA reads and atomic operations are in flight at once.
    pub fn reads(mut self, count: u8) -> Self {
        self.attr.max_rd_atomic = count;
        self.mask |= IBV_QP_MAX_QP_RD_ATOMIC;
        self
    }

    /// How many RDMA reads and atomic operations of the peer are answered at once.
    pub fn peer_reads(mut self, count: u8) -> Self {
        self.attr.max_dest_rd_atomic = count;
        self.mask |= IBV_QP_MAX_DEST_RD_ATOMIC;
        self
    }

    /// The attributes and their mask.
    pub(crate) fn checked(&self) -> Result<(ibv_qp_attr, ibv_qp_attr_mask)> {
        match self.refused {
            Some(reason) => Err(Error::new("ibv_modify_qp", libc::EINVAL).because(reason)),
            None => Ok((self.attr, self.mask)),
        }
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Changes");
        shown.field("mask", &format_args!("{:#x}", self.mask));
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_names_the_values_that_are_set() {
        let changes = Changes::new().rnr_timer(31).retries(7).timeout(0);
        let (attr, mask) = changes.checked().unwrap();
        assert_eq!(
            mask,
            IBV_QP_MIN_RNR_TIMER | IBV_QP_RETRY_CNT | IBV_QP_TIMEOUT
        );
        assert_eq!(
            (attr.min_rnr_timer, attr.retry_cnt, attr.timeout),
            (31, 7, 0)
        );
    }

    #[test]
    fn numbers_that_a_field_does_not_hold_are_refused() {
        for changes in [
            Changes::new().rnr_timer(32),
            Changes::new().timeout(32),
            Changes::new().retries(8),
            Changes::new().rnr_retries(8).retries(1),
        ] {
            let refused = changes.checked().err().unwrap();
            assert_eq!(refused.errno(), libc::EINVAL);
            assert!(refused.reason().is_some());
        }
    }
}
