//! librspreload: loaded by LD_PRELOAD, it carries the sockets of an unmodified program over RDMA,
//! as rsockets (rsocket(7)).
//!
//! | part | contents |
//! | --- | --- |
//! | `calls.c` | the functions that replace those of the C library |
//! | `wait.c` | the functions that wait for several descriptors |
//! | `fork.c` | sockets that begin as TCP and become rsockets at their first transfer, for servers that fork |
//! | `fortified.c` | the names that `_FORTIFY_SOURCE` gives to some of them |
//! | `export` | the Rust functions that the C files call |
//! | `table` | which descriptors of the program are rsockets |
//! | `config` | which sockets of which programs become rsockets: `/etc/rdma/rsocket/preload_config` |
//!
//! **Descriptors.** The program gets the number of a descriptor of `/dev/null`, so that no other
//! call of the program reaches the descriptors of an rsocket. Behind the number is an rsocket, or a
//! TCP socket: the one that a socket begins as, or the one that it became when its peer has no
//! rsocket.
//!
//! **Why C.** A thread may be cancelled in these calls, and the cancellation unwinds its stack.
//! Rust does not define such an unwinding through its frames.

mod config;
mod export;
mod table;
