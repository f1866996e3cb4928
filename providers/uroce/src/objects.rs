//! The objects that work requests name.
//!
//! Requests of [`kit::provider`] are generic over the provider, because they name its regions,
//! windows and address handles. Queue pairs only need those three types, so they take requests of
//! any provider that has them and do not import the context, which makes queue pairs.

use crate::address::Ah;
use crate::memory::{Mr, Mw};
use kit::provider::Provider;

/// A provider whose requests name this crate's objects.
pub trait Objects: Provider<Mr = Mr, Mw = Mw, Ah = Ah> {}

impl<P: Provider<Mr = Mr, Mw = Mw, Ah = Ah>> Objects for P {}
