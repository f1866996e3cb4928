//! Finding and matching providers.
