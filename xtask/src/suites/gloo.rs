//! Gloo, by which PyTorch's processes exchange data, over its transport of verbs.
#![forbid(unsafe_code)]

use super::{Case, Check, Target};

pub fn cases(target: &Target) -> Vec<Case> {
    let helpers = target.helpers.display();
    let line = format!("{helpers}/gloo-ranks {} {}", target.device, target.gid);
    let ranks = Case::single("ranks", &line)
        .users(9)
        .check(Check::Says("2 ranks: all sums are right"))
        .check(Check::Says("3 ranks: all sums are right"))
        .check(Check::Says("4 ranks: all sums are right"));
    vec![ranks]
}
