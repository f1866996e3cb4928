//! librspreload: loaded by LD_PRELOAD, it carries the sockets of an unmodified program over RDMA,
//! as rsockets (rsocket(7)).
//!
//! | part | what it is |
//! | --- | --- |
//! | `calls.c` | the functions that stand in front of those of the C library |
//! | `wait.c` | those of them that wait for several descriptors |
//! | `fork.c` | sockets that begin as TCP and become rsockets at their first transfer, for servers that fork |
//! | `export` | what those call in Rust |
//! | `table` | which descriptors of the program are rsockets |
//! | `config` | which sockets of which programs become rsockets: `/etc/rdma/rsocket/preload_config` |
//!
//! **Descriptors.** The program gets the number of a descriptor of `/dev/null`, so that no other
//! call of the program reaches the descriptors of an rsocket. Behind the number is an rsocket, or a
//! TCP socket: the one that a socket begins as, or the one that it became when its peer has no
//! rsocket.
//!
//! **Why C.** A thread may be cancelled in these calls, and be unwound from there, of which Rust
//! says nothing through its frames.

mod config;
mod export;
mod table;
