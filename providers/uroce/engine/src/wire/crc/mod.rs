//! Ethernet's CRC-32, computed in either of two ways.
//!
//! Carry-less multiplication, or the CRC instructions of arm64, are many times as fast as anything
//! else on a processor that has them, and slow where they are emulated. A program cannot query
//! which of the two its machine is, but can measure it. The engine has no clock, so its user
//! measures and calls [`prefer`].

mod tables;
mod words;

use crc32fast::Hasher;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How a CRC is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By carry-less multiplication, or by the CRC instructions of arm64, where the processor has
    /// them.
    Multiplication,
    /// By shifting words, and tables for short data.
    Words,
}

static BY_WORDS: AtomicBool = AtomicBool::new(false);

/// Has CRCs computed in that way from now on.
pub fn prefer(method: Method) {
    BY_WORDS.store(method == Method::Words, Relaxed);
}

/// A CRC being computed.
#[derive(Clone)]
pub struct Register(Computation);

#[derive(Clone)]
enum Computation {
    Multiplication(Hasher),
    /// The register.
    Words(u32),
}

impl Register {
    /// Of nothing yet, by the method that is preferred.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        if BY_WORDS.load(Relaxed) {
            return Self::by(Method::Words);
        }
        Self::by(Method::Multiplication)
    }

    /// Of nothing yet, by that method.
    #[must_use]
    pub fn by(method: Method) -> Self {
        Self(match method {
            Method::Multiplication => Computation::Multiplication(Hasher::new()),
            Method::Words => Computation::Words(!0),
        })
    }

    /// Adds bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Computation::Multiplication(hasher) => hasher.update(bytes),
            Computation::Words(register) => *register = words::update(*register, bytes),
        }
    }

    /// The CRC.
    #[must_use]
    #[inline]
    pub fn finish(self) -> u32 {
        match self.0 {
            Computation::Multiplication(hasher) => hasher.finalize(),
            Computation::Words(register) => !register,
        }
    }
}

impl Default for Register {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Register {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Register({:#x})", self.clone().finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn crc(method: Method, pieces: &[Vec<u8>]) -> u32 {
        let mut register = Register::by(method);
        for piece in pieces {
            register.update(piece);
        }
        register.finish()
    }

    proptest! {
        #[test]
        fn both_ways_lead_to_the_same(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..600), 0..5),
        ) {
            let [one, other] = [Method::Multiplication, Method::Words].map(|way| crc(way, &pieces));
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn it_is_that_of_ethernet() {
        for way in [Method::Multiplication, Method::Words] {
            // The check value of its entry in catalogues of CRCs.
            assert_eq!(crc(way, &[b"123456789".to_vec()]), 0xcbf4_3926);
            assert_eq!(crc(way, &[]), 0);
        }
    }

    #[test]
    fn the_preferred_method_is_used() {
        // Others compute meanwhile, to the same end.
        prefer(Method::Words);
        assert!(matches!(Register::new().0, Computation::Words(_)));
        prefer(Method::Multiplication);
        assert!(matches!(Register::new().0, Computation::Multiplication(_)));
    }
}
