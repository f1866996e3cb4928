//! A pass that may turn out not to be needed.

use super::pass::Pass;
use crate::carrier::shm::Directory;
use crate::clock;
use crate::node::caller::Caller;
use crate::node::transport::Transport;

/// A pass that begins when there is need of it: most looks find nothing.
pub(in crate::node) struct LazyPass<'a> {
    transport: &'a Transport,
    caller: Caller,
    pass: Option<Pass<'a>>,
}

impl<'a> LazyPass<'a> {
    pub fn new(transport: &'a Transport, caller: Caller) -> Self {
        Self {
            transport,
            caller,
            pass: None,
        }
    }

    /// The transport of the queue pairs.
    pub fn transport(&self) -> &'a Transport {
        self.transport
    }

    /// The thread that begins it.
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// The pass, begun at the latest now.
    pub fn pass(&mut self) -> &mut Pass<'a> {
        self.pass
            .get_or_insert_with(|| Pass::new(self.transport, self.caller))
    }

    /// Informs queue pairs whose connection the peer has used without a packet, of which any thread
    /// may have received the notice.
    pub fn serve_used(&mut self) {
        let directory = self.transport.directory.as_ref();
        for index in directory.map(Directory::take_used).unwrap_or_default() {
            self.pass().used(index);
        }
    }

    /// Whether a moment may have come.
    pub fn may_be_past(&self, moment: u64) -> bool {
        match &self.pass {
            Some(pass) => pass.may_be_past(moment),
            None => clock::may_have_come(moment),
        }
    }

    pub fn finish(self) {
        if let Some(pass) = self.pass {
            pass.finish();
        }
    }
}
