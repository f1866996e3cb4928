//! The C door: every exported function, by object. Each converts, calls and converts back.

pub mod ret;

mod private;
