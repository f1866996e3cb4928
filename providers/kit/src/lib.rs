//! What every provider of ferroverbs is built with.

pub mod abi;
