//! Raw system and C library calls, one a function.

pub mod errno;
