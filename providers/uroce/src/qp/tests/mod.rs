//! Queue pairs with a real node, in separate network namespaces if they can be made.

pub mod end;
mod inside;

use crate::namespace;

/// Runs the tests of [`inside`] in a network namespace.
#[test]
fn in_a_namespace() {
    // The ring of a process with itself is one for all tests, and a test fills it.
    let options = ["--test-threads=1"];
    namespace::run("qp::tests::inside::", &[], &options);
}
