//! Borrowed C objects.
//!
//! A handle is made once, by an exported function, from the pointer that C passed; from then on
//! the code is safe. Objects are used in place: a handle gives out values and borrowed parts,
//! never a copy of the object.

mod context;
mod object;

pub use context::Ctx;
pub use object::*;
