//! The delegate's side of the migration of an XRC target.
//!
//! [`Delegate`] owns which process is the owner, which delegation this is, and whether the target
//! is here.
//!
//! *Invariants.* The target is here from the owner's message on until it is returned, once for each
//! delegation. It is returned when no message is half received and all is answered, or in ERR.

use crate::xrc::{DelegateState, Link, Message};
use std::sync::Arc;
use uroce_engine::qp::Rest;

/// A target of another process.
pub(super) struct Delegate {
    owner: Arc<Link>,
    /// It is here now.
    here: bool,
    /// The owner wants it back.
    revoked: bool,
    /// The number of the delegation.
    delegation: u32,
}

impl Delegate {
    /// The target comes here.
    pub fn new(owner: Arc<Link>, delegation: u32) -> Self {
        Self {
            owner,
            here: true,
            revoked: false,
            delegation,
        }
    }

    /// Whether the target is here now.
    pub fn is_here(&self) -> bool {
        self.here
    }

    /// Whether this is the delegation of that number.
    pub fn is_of(&self, delegation: u32) -> bool {
        self.delegation == delegation
    }

    /// Whether the owner wants the target back, and it is still here.
    pub fn is_to_return(&self) -> bool {
        self.here && self.revoked
    }

    /// The owner wants it back.
    pub fn revoke(&mut self) {
        self.revoked = true;
    }

    /// Reports the received state to the owner. The report may be lost.
    pub fn report_progress(&self, number: u32, rest: Rest) {
        self.owner
            .send_or_drop(&Message::Rest(number, DelegateState::Running, rest));
    }

    /// The same, so that it arrives.
    pub fn report(&self, number: u32, rest: Rest) {
        self.owner
            .send(&Message::Rest(number, DelegateState::Running, rest));
    }

    /// Returns the target, in ERR if it has failed.
    pub fn give_back(&mut self, number: u32, failed: bool, rest: Rest) {
        self.here = false;
        let state = match failed {
            true => DelegateState::Failed,
            false => DelegateState::Returned,
        };
        self.owner.send(&Message::Rest(number, state, rest));
    }

    /// Another process has taken the target over and asks how it is.
    pub fn answer_successor(
        &mut self,
        successor: &Arc<Link>,
        number: u32,
        failed: bool,
        rest: Rest,
    ) {
        self.owner = Arc::clone(successor);
        let state = match (self.here, failed) {
            (true, _) => DelegateState::Running,
            (false, true) => DelegateState::Failed,
            (false, false) => DelegateState::Returned,
        };
        successor.send(&Message::Rest(number, state, rest));
    }
}

#[cfg(test)]
mod tests {
    use crate::namespace;

    /// Runs the tests of [`inside`] in a network namespace.
    #[test]
    fn in_a_namespace() {
        namespace::run("qp::xrc_target::delegate::tests::inside::", &[], &[]);
    }

    mod inside {
        use super::super::*;
        use crate::namespace::there;
        use crate::node::Node;
        use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
        use std::os::fd::OwnedFd;

        const NUMBER: u32 = 77;

        /// A link, and its other end.
        fn link(node: &Node) -> (Arc<Link>, OwnedFd) {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let sockets = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
            let (own, other) = sockets.expect("sockets");
            (Link::new(node, 9, own, |_, _| {}).expect("a link"), other)
        }

        /// The states that were reported to the other end by now.
        fn reported(other: &OwnedFd) -> Vec<DelegateState> {
            let mut buffer = vec![0; 1 << 16];
            let mut states = Vec::new();
            // A link that was dropped ends with a message of no bytes.
            while let Ok((length @ 1.., _)) = recv(other, &mut buffer[..], RecvFlags::DONTWAIT) {
                match Message::parse(&buffer[..length]) {
                    Some(Message::Rest(NUMBER, state, _)) => states.push(state),
                    _ => panic!("another message"),
                }
            }
            states
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_target_is_here_until_it_is_returned() {
            if !there() {
                return;
            }
            let node = Node::get().expect("a node");
            let (owner, other) = link(&node);
            let mut delegate = Delegate::new(owner, 3);
            assert!(delegate.is_of(3) && !delegate.is_of(4));
            assert!(delegate.is_here() && !delegate.is_to_return());
            delegate.report_progress(NUMBER, Rest::default());
            delegate.report(NUMBER, Rest::default());
            delegate.revoke();
            assert!(delegate.is_to_return());
            delegate.give_back(NUMBER, false, Rest::default());
            assert!(!delegate.is_here() && !delegate.is_to_return());
            let (running, returned) = (DelegateState::Running, DelegateState::Returned);
            assert_eq!(reported(&other), [running, running, returned]);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_failed_target_is_returned_as_such() {
            if !there() {
                return;
            }
            let node = Node::get().expect("a node");
            let (owner, other) = link(&node);
            let mut delegate = Delegate::new(owner, 1);
            delegate.give_back(NUMBER, true, Rest::default());
            assert_eq!(reported(&other), [DelegateState::Failed]);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_successor_learns_the_state_and_is_the_owner_from_then_on() {
            if !there() {
                return;
            }
            let node = Node::get().expect("a node");
            let (owner, other) = link(&node);
            let (successor, of_successor) = link(&node);
            let mut delegate = Delegate::new(owner, 1);
            delegate.answer_successor(&successor, NUMBER, false, Rest::default());
            delegate.give_back(NUMBER, false, Rest::default());
            delegate.answer_successor(&successor, NUMBER, true, Rest::default());
            delegate.answer_successor(&successor, NUMBER, false, Rest::default());
            assert_eq!(reported(&other), []);
            let expected = [
                DelegateState::Running,
                DelegateState::Returned,
                DelegateState::Failed,
                DelegateState::Returned,
            ];
            assert_eq!(reported(&of_successor), expected);
        }
    }
}
