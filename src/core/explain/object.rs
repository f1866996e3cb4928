#![forbid(unsafe_code)]
//! Why queues are not made (ibv_create_cq(3), ibv_create_srq(3)).

use super::qp::Limits;
use super::{Reasons, member};
use kit::errno::Errno;

/// Why a completion queue of `cqe` entries on completion vector `vector` was refused.
pub fn cq(cqe: i64, vector: i64, limits: &Limits, e: Errno) -> Reasons {
    let mut why = Reasons::default();
    why.add_if(cqe <= 0, || {
        format!("cqe is {cqe}; it has to be at least 1.")
    });
    let most = limits.cqe;
    why.add_if(most > 0 && cqe > most, || {
        format!("cqe is {cqe}, the device's max_cqe is {most}.")
    });
    let vectors = limits.vectors;
    why.add_if(vector < 0 || (vectors > 0 && vector >= vectors), || {
        format!(
            "comp_vector is {vector}; the context has 0 to {}.",
            vectors - 1
        )
    });
    why.add_most(e, "completion queues", "max_cq", limits.cqs);
    why
}

/// Why a shared receive queue of that size was refused.
pub fn srq(max_wr: u32, max_sge: u32, srq_limit: u32, limits: &Limits, e: Errno) -> Reasons {
    let mut why = Reasons::default();
    let mut most = |name: &str, value: u32, limit: &str, most: i64| {
        why.add_if(most > 0 && i64::from(value) > most, || {
            let value = member(value);
            format!("{name} is {value}, the device's {limit} is {most}.")
        });
    };
    most("max_wr", max_wr, "max_srq_wr", limits.srq_wr);
    most("max_sge", max_sge, "max_srq_sge", limits.srq_sge);
    why.add_if(max_wr == 0, || "max_wr is 0.".to_owned());
    why.add_if(srq_limit > max_wr && max_wr != 0, || {
        let srq_limit = member(srq_limit);
        format!("srq_limit is {srq_limit}, more than max_wr ({max_wr}).")
    });
    why.add_most(e, "shared receive queues", "max_srq", limits.srqs);
    why
}

#[cfg(test)]
mod tests {
    use super::*;

    const EINVAL: Errno = Errno::INVAL;

    #[test]
    fn sizes_stand_beside_the_devices() {
        let limits = Limits {
            cqe: 100,
            vectors: 2,
            srq_wr: 50,
            ..Limits::default()
        };
        assert!(
            cq(101, 0, &limits, EINVAL)
                .text()
                .contains("max_cqe is 100")
        );
        assert!(
            cq(0, 2, &limits, EINVAL)
                .text()
                .contains("comp_vector is 2; the context has 0 to 1.")
        );
        assert!(cq(100, 1, &limits, EINVAL).is_empty());
        assert!(
            srq(51, 1, 0, &limits, EINVAL)
                .text()
                .contains("max_srq_wr is 50")
        );
        let unset = srq(u32::MAX, 1, 0, &limits, EINVAL).text();
        assert!(unset.contains("max_wr is 4294967295 (-1 in 32 bits), the device's"));
        assert!(srq(50, 1, 50, &limits, EINVAL).is_empty());
    }
}
