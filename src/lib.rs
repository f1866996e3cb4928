//! libibverbs, the RDMA verbs library of Linux, written in Rust.
