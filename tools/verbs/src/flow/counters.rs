//! Counters of flows.

use std::{fmt, sync::Arc};

use kit::abi::*;

use crate::{context::Context, error::Result, sys::flow as sys};

/// A quantity that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counted {
    /// Frames.
    Packets,
    /// Their bytes.
    Bytes,
}

/// Counters of flows ([`Context::counters`]). Copies are the same ones.
#[derive(Clone)]
pub struct Counters(pub(super) Arc<sys::Counting>);

impl Counters {
    pub(super) fn object(&self) -> &sys::Counting {
        &self.0
    }

    /// Counts a quantity at an index. It is called before a flow has the counters.
    ///
    /// # Errors
    /// Of ibv_attach_counters_point_flow(3): EINVAL for an index that there is not, EBUSY if a flow
    /// has them, EOPNOTSUPP for a quantity that the device does not count.
    pub fn attach(&self, what: Counted, index: u32) -> Result<()> {
        let what = match what {
            Counted::Packets => IBV_COUNTER_PACKETS,
            Counted::Bytes => IBV_COUNTER_BYTES,
        };
        sys::attach_counter(&self.0, what, index)
    }

    /// Reads that many, from index 0 on.
    ///
    /// # Errors
    /// Of ibv_read_counters(3): EINVAL for more than there are.
    pub fn read(&self, count: usize) -> Result<Vec<u64>> {
        let mut values = vec![0; count];
        sys::read_counters(&self.0, &mut values, false)?;
        Ok(values)
    }

    /// The same; the values may be older, and take less time to read.
    ///
    /// # Errors
    /// As above.
    pub fn read_cached(&self, count: usize) -> Result<Vec<u64>> {
        let mut values = vec![0; count];
        sys::read_counters(&self.0, &mut values, true)?;
        Ok(values)
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

impl Context {
    /// Makes counters for flows.
    ///
    /// # Errors
    /// Of ibv_create_counters(3): EOPNOTSUPP if the device has none.
    pub fn counters(&self) -> Result<Counters> {
        Ok(Counters(Arc::new(sys::create_counters(self)?)))
    }
}
