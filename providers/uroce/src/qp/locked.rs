//! The data under a queue pair's lock: [`Locked`], and the way of a request to its part.

use super::connection::Connection;
use super::fast_path::{Budget, FastPath};
use super::resources::Resources;
use super::xrc_target::XrcTarget;
use crate::objects::Objects;
use kit::errno::{Errno, Result};
use kit::provider::{SendRequest, SendView};
use uroce_engine::qp::Refused;
use uroce_engine::timer::Time;
use uroce_engine::work::WorkRequest;

/// The data under the queue pair's lock.
pub(super) struct Locked {
    pub connection: Connection,
    pub fast_path: FastPath,
    pub target: Option<Box<XrcTarget>>,
    /// Calls that posted requests, as far as the node does not know of them.
    posts: u8,
}

/// The node learns of so many calls at once: all threads write its count.
const POSTS: u8 = 8;

impl Locked {
    pub fn new(
        connection: Connection,
        fast_path: FastPath,
        target: Option<Box<XrcTarget>>,
    ) -> Self {
        Self {
            connection,
            fast_path,
            target,
            posts: 0,
        }
    }

    /// A call has posted requests. Returns whether the node has learned of some.
    #[inline]
    pub fn count_post(&mut self, qp: &Resources) -> bool {
        self.posts += 1;
        if self.posts < POSTS {
            return false;
        }
        self.posts = 0;
        qp.node().posted();
        true
    }

    /// Applies the consequences of engine calls.
    pub fn after_protocol(&mut self, qp: &Resources, now: Time) {
        self.fast_path.after_protocol(&mut self.connection, qp, now);
    }

    /// Whether there is room for that many more requests.
    #[inline]
    pub fn has_room(&self, qp: &Resources, requests: usize) -> bool {
        let outstanding = self.connection.engine().outstanding() + self.fast_path.outstanding();
        requests <= qp.max_send_wr().saturating_sub(outstanding)
    }

    /// Carries out a request without the protocol, if it may be and there is room. `budget` is that
    /// of the call of the verb.
    #[inline]
    pub fn post_at_once<'a, P: Objects>(
        &mut self,
        qp: &Resources,
        given: &impl SendView<'a, P>,
        budget: &mut Budget,
    ) -> bool {
        if !self.has_room(qp, 1) {
            return false;
        }
        let (connection, fast_path) = (&mut self.connection, &mut self.fast_path);
        fast_path.post_message(connection, qp, given, budget)
            || fast_path.post_one_sided(connection, qp, given, budget)
    }

    /// Takes a request that the protocol carries out, if it is right and there is room.
    pub fn post_to_protocol(&mut self, qp: &Resources, wr: WorkRequest, now: Time) -> Result<()> {
        let may = self.connection.engine().may_post(&wr).map_err(errno);
        let refused = may.and_then(|()| match self.has_room(qp, 1) {
            true => Ok(()),
            false => Err(Errno::NOMEM),
        });
        if refused.is_err() {
            self.connection.discard(&wr);
            return refused;
        }
        self.hand_over(qp, wr, now);
        Ok(())
    }

    /// The same of a request that was found right, and that there is room for.
    pub fn hand_over(&mut self, qp: &Resources, wr: WorkRequest, now: Time) {
        let connection = &mut self.connection;
        self.fast_path.post_to_protocol(connection, qp, wr, now);
    }

    /// A request as the engine takes it.
    pub fn convert<P: Objects>(
        &mut self,
        qp: &Resources,
        given: &SendRequest<'_, P>,
    ) -> Result<WorkRequest> {
        self.connection.posting(qp).convert(given)
    }

    /// The same of several requests, which are found right; none is kept if one is not.
    pub fn convert_all<'a, P: Objects>(
        &mut self,
        qp: &Resources,
        given: impl Iterator<Item = SendRequest<'a, P>>,
    ) -> Result<Vec<WorkRequest>> {
        let mut converted = Vec::with_capacity(given.size_hint().0);
        for given in given {
            let refused = self.convert(qp, &given).and_then(|wr| {
                let may = self.connection.engine().may_post(&wr).map_err(errno);
                converted.push(wr);
                may
            });
            if let Err(error) = refused {
                converted.iter().for_each(|wr| self.connection.discard(wr));
                return Err(error);
            }
        }
        Ok(converted)
    }

    /// The link with the peer's process is used, if there is one.
    pub fn use_link_if_found(&mut self, qp: &Resources) {
        if let Some(peer) = self.connection.find_link(qp) {
            self.fast_path.use_link(&mut self.connection, qp, &peer);
        }
    }

    /// Writes down the state of an XRC target, if there may be a successor.
    pub fn record(&self, qp: &Resources) {
        if let Some(target) = &self.target {
            target.record(&self.connection, qp);
        }
    }
}

/// The errno of a call that the engine refuses.
pub(super) fn errno(refused: Refused) -> Errno {
    match refused {
        Refused::Invalid => Errno::INVAL,
        Refused::Full => Errno::NOMEM,
    }
}
