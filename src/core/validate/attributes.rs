#![forbid(unsafe_code)]
//! Values that devices take, but not as they were given: bits beyond those that a field of the
//! protocol has.

use super::World;
use kit::abi::*;
use kit::names;

const FLAGS: u32 =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE | IBV_SEND_IP_CSUM;

impl World {
    /// Looks at the attributes that ibv_modify_qp(3) has taken.
    pub fn attributes(&mut self, qp: usize, attr: &ibv_qp_attr, mask: u32) {
        let Some(number) = self.queues.pair(qp).map(|pair| pair.number) else {
            return;
        };
        for (name, text) in beyond(attr, mask) {
            self.find_one_of("attribute", name, qp, || {
                format!("ibv_modify_qp gives QP {number:#x} {text}.")
            });
        }
    }

    /// Looks at the flags of a request that is about to be posted.
    pub(super) fn flags(&mut self, qp: usize, number: u32, flags: u32) {
        let unknown = flags & !FLAGS;
        if unknown == 0 {
            return;
        }
        self.find_one_of("attribute", "send_flags", qp, || {
            format!(
                "A send request on QP {number:#x} has send_flags {flags:#x}, of which {unknown:#x} \
                 are not in enum ibv_send_flags: they mean nothing."
            )
        });
    }
}

/// The errors of values that exceed their fields.
fn beyond(attr: &ibv_qp_attr, mask: u32) -> Vec<(&'static str, String)> {
    let fields = [
        (
            IBV_QP_MIN_RNR_TIMER,
            "min_rnr_timer",
            u32::from(attr.min_rnr_timer),
            5,
        ),
        (IBV_QP_DEST_QPN, "dest_qp_num", attr.dest_qp_num, 24),
        (IBV_QP_RQ_PSN, "rq_psn", attr.rq_psn, 24),
        (IBV_QP_SQ_PSN, "sq_psn", attr.sq_psn, 24),
        (IBV_QP_RETRY_CNT, "retry_cnt", u32::from(attr.retry_cnt), 3),
        (IBV_QP_RNR_RETRY, "rnr_retry", u32::from(attr.rnr_retry), 3),
    ];
    let given = fields
        .into_iter()
        .filter(|(bit, _, value, bits)| mask & bit != 0 && value >> bits != 0);
    let mut found: Vec<_> = given
        .map(|(_, name, value, bits)| {
            let low = value & ((1 << bits) - 1);
            let text = format!(
                "{name} {value:#x}, which has more than {bits} bits: devices keep the low ones \
                 ({low:#x}), or do each something else"
            );
            (name, text)
        })
        .collect();
    let known = names::ACCESS
        .iter()
        .fold(IBV_ACCESS_OPTIONAL_RANGE, |sum, (bit, _)| sum | bit);
    let unknown = attr.qp_access_flags & !known;
    if mask & IBV_QP_ACCESS_FLAGS != 0 && unknown != 0 {
        let text = format!("qp_access_flags {unknown:#x}, which are no flags of access");
        found.push(("qp_access_flags", text));
    }
    if mask & IBV_QP_PATH_MTU != 0 && !(IBV_MTU_256..=IBV_MTU_4096).contains(&attr.path_mtu) {
        let text = format!(
            "path_mtu {}, which is not a value of enum ibv_mtu: some devices refuse it, others take \
             it as they like",
            attr.path_mtu
        );
        found.push(("path_mtu", text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    fn names(attr: &ibv_qp_attr, mask: u32) -> Vec<&'static str> {
        let found = beyond(attr, mask).into_iter();
        found.map(|(name, _)| name).collect()
    }

    #[test]
    fn only_values_that_are_given_and_too_large_are_named() {
        let mut attr = ibv_qp_attr::zeroed();
        attr.min_rnr_timer = 32;
        attr.retry_cnt = 8;
        attr.rnr_retry = 7;
        attr.dest_qp_num = 0x0100_0000;
        attr.rq_psn = 0x00ff_ffff;
        attr.path_mtu = IBV_MTU_256;
        let all = IBV_QP_MIN_RNR_TIMER
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_PATH_MTU;
        assert_eq!(
            names(&attr, all),
            ["min_rnr_timer", "dest_qp_num", "retry_cnt"]
        );
        assert_eq!(names(&attr, IBV_QP_RQ_PSN), Vec::<&str>::new());
        attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | 1 << 30;
        assert_eq!(names(&attr, IBV_QP_ACCESS_FLAGS), ["qp_access_flags"]);
        attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;
        assert_eq!(names(&attr, IBV_QP_ACCESS_FLAGS), Vec::<&str>::new());
        attr.path_mtu = 0;
        assert_eq!(names(&attr, IBV_QP_PATH_MTU), ["path_mtu"]);
    }

    #[test]
    fn the_low_bits_are_named() {
        let mut attr = ibv_qp_attr::zeroed();
        attr.min_rnr_timer = 33;
        let (_, text) = beyond(&attr, IBV_QP_MIN_RNR_TIMER).remove(0);
        assert!(text.contains("min_rnr_timer 0x21"), "{text}");
        assert!(text.contains("5 bits") && text.contains("(0x1)"), "{text}");
    }
}
