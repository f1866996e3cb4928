//! librdmacm, the RDMA connection manager of Linux, written in Rust: `librdmacm.so.1`.
//!
//! | module | what it is |
//! | --- | --- |
//! | `export` | the C door: each exported function converts its arguments, calls, and converts the answer |
//! | `abi` | the C structures that programs read and write, and the objects that own them |
//! | `registry` | ids, joins and events by the address that the program or the kernel names them by |
//! | `id` | `id::Id`: a `struct rdma_cm_id`, its connection manager, and how many of its events were acknowledged |
//! | `backend` | `backend::Backend`: what a connection manager does for an id |
//! | `command` | ids at connection managers that take the kernel's commands |
//! | `kernel` | the kernel's connection manager: the character device |
//! | `uroce` | that of devices in user space, which is in libibverbs |
//! | `source` | which of them the events of a channel come from |
//! | `device` | open devices, one context a device a process, with the domains that ids share |
//! | `verbs` | the functions of libibverbs that are called |
//! | `channel`, `address`, `connect`, `queue_pair`, `multicast`, `endpoint`, `addrinfo`, `migrate`, `destroy` | the calls, by subject |
//! | `transition` | moving queue pairs from state to state |
//! | `path`, `lookup` | path records; getaddrinfo(3) |
//! | `event`, `ack` | what becomes of an event before the program gets it, and when it gives it back |
//! | `rsocket` | sockets: rsocket(7) |
//! | `sync` | ids without an event channel of the program: calls wait for their event |
//!
//! **An id.** The program has a pointer to `struct rdma_cm_id` and reads and writes its members.
//! The block belongs to an `id::Id`, which is counted: a thread that prepares an event of an id
//! holds it, so an id that is destroyed meanwhile stays until that thread has done. Functions find
//! the `Id` by the address in the registry. An address that is not there (NULL, freed, another
//! library's) is EINVAL.
//!
//! **An event.** `rdma_get_cm_event` asks the backend for a record, which names an id by the number
//! that the id was created with. `event` does the work that the event stands for: it fills the id's
//! addresses, opens the device, and moves the queue pair. Some events are swallowed. What the
//! program gets is a block of its own with the private data in it; `rdma_ack_cm_event` frees the
//! block and counts it for the id. The backend says how many events of an id it has handed out, and
//! `rdma_destroy_id`, `rdma_leave_multicast` and `rdma_migrate_id` wait until as many were
//! acknowledged.
//!
//! **Waiting.** `rdma_get_cm_event` waits in C (`export/wait.c`), where a thread can be cancelled.
//! Calls of synchronous ids wait in Rust, and no cancellation takes effect in them.
//!
//! `unsafe` stands in `export`, `abi`, `verbs`, `lookup`, `kernel::file` and
//! `uroce::table`.

#![allow(non_camel_case_types)]

#[path = "../../src/symver.rs"]
#[allow(unused_macros)] // the macros for providers of libibverbs
mod symver;

mod abi;
mod ack;
mod address;
mod addrinfo;
mod backend;
mod channel;
mod command;
mod connect;
mod destroy;
mod device;
mod endpoint;
mod event;
mod export;
mod id;
mod kernel;
mod lookup;
mod migrate;
mod multicast;
mod path;
mod queue_pair;
mod registry;
mod rsocket;
mod source;
mod sync;
mod transition;
mod uroce;
mod verbs;
