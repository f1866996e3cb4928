//! Tables of work queues, and queue pairs that spread received packets over one
//! (ibv_create_rwq_ind_table(3)).

use super::hash::{self, KEY};
use super::headers::Headers;
use super::wq::{Wq, number};
use crate::limits::MAX_TABLE;
use crate::node::Node;
use kit::abi::IBV_RX_HASH_FUNC_TOEPLITZ;
use kit::errno::{Errno, Result};
use kit::provider::{Provider, Rss};
use std::sync::Arc;

/// A table of work queues; their count is a power of 2.
pub struct Table {
    queues: Box<[Arc<Wq>]>,
}

impl Table {
    /// A table.
    ///
    /// # Errors
    /// EINVAL for more than [`MAX_TABLE`] queues, or a count that is no power of 2.
    pub fn new(queues: &[&Arc<Wq>]) -> Result<Self> {
        if queues.len() > MAX_TABLE || !queues.len().is_power_of_two() {
            return Err(Errno::INVAL);
        }
        let queues = queues.iter().map(|queue| Arc::clone(queue)).collect();
        Ok(Self { queues })
    }

    fn of(&self, hash: u32) -> Option<&Arc<Wq>> {
        let hash = usize::try_from(hash).ok()?;
        self.queues.get(hash % self.queues.len())
    }
}

/// A queue pair that only receives.
pub struct Spread {
    /// The number.
    pub number: u32,
    node: Arc<Node>,
    table: Arc<Table>,
    key: [u8; KEY],
    fields: u64,
}

impl Spread {
    /// Makes one.
    ///
    /// # Errors
    /// EOPNOTSUPP for a function or fields without support, EINVAL for a key that has not 40
    /// bytes; ENOMEM if there are no numbers left.
    pub fn create<P>(node: &Arc<Node>, rss: &Rss<'_, P>) -> Result<Self>
    where
        P: Provider<WqTable = Table>,
    {
        let known = u32::from(rss.function) == IBV_RX_HASH_FUNC_TOEPLITZ;
        if !known || rss.fields & !hash::FIELDS != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let key = <[u8; KEY]>::try_from(rss.key).map_err(|_| Errno::INVAL)?;
        Ok(Self {
            number: number(node)?,
            node: Arc::clone(node),
            table: Arc::clone(rss.table),
            key,
            fields: rss.fields,
        })
    }

    /// A frame that a rule leads here.
    pub fn receive(&self, headers: &Headers<'_>, frame: &[u8]) {
        let hash = hash::hash(&self.key, headers, self.fields);
        if let Some(queue) = self.table.of(hash) {
            queue.receive(frame);
        }
    }

    /// Out of service.
    pub fn end(&self) {
        self.node.detach(self.number);
    }
}
