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
//! **Waits.** The program's own waits (a receive, poll(2)) end as it has asked. The other waits are
//! those of servers that fork (`fork.c`):
//!
//! | wait | bound |
//! | --- | --- |
//! | `epoll_ctl`, for the peer of an accepted socket | a second, then the socket joins as TCP and becomes an rsocket later |
//! | for the port that the first transfer of another connection uses | a minute, then the socket stays TCP |
//! | for the last message of a peer that has connected | 30 s, then the socket stays TCP |
//! | to connect, with `FIONREAD` and sends too | that of the connection manager |
//! | for another thread that takes a step of the same socket | that of its step |
//! | a send, for the peer's first wait or transfer | `SO_SNDTIMEO`; otherwise none |
//! | dup(2), dup2(2), `F_DUPFD`, for the peer's first transfer | none |
//!
//! The last two cannot have a bound. The accepting side has nothing that it could do instead: if it
//! closed its listener, a peer that connects at that moment would lose its connection, as the
//! protocol has no message by which the peer could be asked. The connecting side could send by TCP,
//! but the announcement of a listener may be on its way, and would be data of the program then. A
//! send that returned EAGAIN would be repeated at once, because TCP has room. Two numbers of one
//! socket have to represent the same object when it becomes an rsocket.
//!
//! **Why C.** A thread may be cancelled in these calls, and the cancellation unwinds its stack.
//! Rust does not define such an unwinding through its frames.

mod config;
mod export;
mod table;
