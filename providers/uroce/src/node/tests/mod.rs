//! Nodes and the engine over real sockets, in separate network namespaces if they can be made.
//! Several nodes in one process behave like several processes.

mod end;
mod inside;

/// The modules that [`end`] uses; an example also uses it, with other paths.
mod api {
    pub use crate::carrier::qpn::INDEX_BITS;
    pub use crate::carrier::shm::Peer;
    pub use crate::carrier::udp::Path;
    pub use crate::carrier::{Sender, Via};
    pub use crate::node::{Caller, Endpoint, Incoming, Node};
}

use super::{Caller, Endpoint, Incoming};
use crate::carrier::Sender;
use crate::namespace::{self, there};
use uroce_engine::timer::Time;

/// An endpoint that drops packets, sends none and has no deadline.
pub struct Idle;

impl Endpoint for Idle {
    fn receive(&self, _: Time, _: &Incoming<'_>, _: Caller) -> bool {
        false
    }

    fn transmit(&self, _: Time, _: &mut Sender<'_>, _: Caller) {}
    fn on_time(&self, _: Time) {}

    fn deadline(&self) -> Option<Time> {
        None
    }
}

/// Runs the tests of [`inside`] in a network namespace.
#[test]
fn in_a_namespace() {
    let address = "ip addr add 10.77.1.1/32 dev lo";
    namespace::run("node::tests::inside::", &[address], &[]);
}
