//! RDMA in user space: RoCE v2 devices over ordinary network interfaces, with no kernel module and
//! no root.
#![forbid(unsafe_code)]
