//! The C types that applications, providers and the kernel share with the library.
