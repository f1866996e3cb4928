//! Work that several threads share.
#![forbid(unsafe_code)]

use std::{
    collections::VecDeque,
    iter,
    sync::{Mutex, PoisonError},
};

/// The remaining work, in order.
pub struct Waiting<T>(Mutex<VecDeque<T>>);

impl<T> Waiting<T> {
    /// Takes the next items, until none is left.
    pub fn take(&self) -> impl Iterator<Item = T> {
        iter::from_fn(|| {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.pop_front()
        })
    }
}

impl<T> FromIterator<T> for Waiting<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        Self(Mutex::new(all.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_of_work_is_taken_once() {
        let waiting: Waiting<_> = (0..4).collect();
        let mut one = waiting.take();
        let mut other = waiting.take();
        assert_eq!((one.next(), other.next()), (Some(0), Some(1)));
        assert_eq!(one.collect::<Vec<_>>(), [2, 3]);
        assert_eq!(other.next(), None);
    }
}
