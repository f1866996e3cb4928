//! The verbs table: what a context carries for the library, and how it is filled.

mod private;

pub use private::Private;
