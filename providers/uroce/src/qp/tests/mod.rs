//! Queue pairs with a real node, in a network namespace of their own where that can be had.

pub mod end;
mod inside;

use crate::namespace;

/// Runs the tests of [`inside`] in a network namespace.
#[test]
fn in_a_namespace() {
    namespace::run("qp::tests::inside::", &[], &[]);
}
