//! Counters of flow rules: ibv_create_counters(3).

use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a set.
pub const MOST: usize = 64;

/// A set of counters, and the quantity of each.
pub struct Counters {
    values: [AtomicU64; MOST],
    points: Mutex<Vec<(ibv_counter_description, usize)>>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            values: [const { AtomicU64::new(0) }; MOST],
            points: Mutex::default(),
        }
    }
}

impl Counters {
    /// Counts a quantity at an index; several quantities add up.
    ///
    /// # Errors
    /// ENOTSUP for a quantity that cannot be counted, EINVAL for an index beyond the set.
    pub fn attach(&self, what: ibv_counter_description, index: u32) -> Result<()> {
        if !matches!(what, IBV_COUNTER_PACKETS | IBV_COUNTER_BYTES) {
            return Err(Errno(libc::ENOTSUP));
        }
        let index = usize::try_from(index).map_err(|_| Errno::INVAL)?;
        if index >= MOST {
            return Err(Errno::INVAL);
        }
        self.points.lock().push((what, index));
        Ok(())
    }

    /// A frame has met a rule.
    pub fn count(&self, bytes: usize) {
        for (what, index) in self.points.lock().iter() {
            let more = match *what {
                IBV_COUNTER_BYTES => u64::try_from(bytes).unwrap_or(u64::MAX),
                _ => 1,
            };
            if let Some(value) = self.values.get(*index) {
                value.fetch_add(more, Relaxed);
            }
        }
    }

    /// The values.
    ///
    /// # Errors
    /// EINVAL for more than there are in a set.
    pub fn read(&self, to: &mut [u64]) -> Result<()> {
        if to.len() > MOST {
            return Err(Errno::INVAL);
        }
        for (to, value) in to.iter_mut().zip(&self.values) {
            *to = value.load(Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_flows_are_counted() {
        let counters = Counters::default();
        counters.attach(IBV_COUNTER_PACKETS, 0).expect("attached");
        counters.attach(IBV_COUNTER_BYTES, 63).expect("attached");
        counters.attach(IBV_COUNTER_PACKETS, 1).expect("attached");
        counters.attach(IBV_COUNTER_PACKETS, 1).expect("adds up");
        assert_eq!(counters.attach(2, 0), Err(Errno(libc::ENOTSUP)));
        assert_eq!(counters.attach(0, 64), Err(Errno::INVAL));
        counters.count(100);
        counters.count(60);
        let mut values = [9; MOST];
        counters.read(&mut values).expect("read");
        assert_eq!(
            (values[0], values[1], values[2], values[63]),
            (2, 4, 0, 160)
        );
        assert_eq!(counters.read(&mut [0; MOST + 1]), Err(Errno::INVAL));
    }
}
