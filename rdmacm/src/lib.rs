//! librdmacm, the RDMA connection manager of Linux, written in Rust: `librdmacm.so.1`.
//!
//! | module | contents |
//! | --- | --- |
//! | `export` | the C interface: each exported function converts its arguments, calls, and converts the result |
//! | `abi` | the C structures that programs read and write, and the objects that own them |
//! | `registry` | ids, joins and events, by the address that the program or the kernel uses for them |
//! | `addressed` | objects by their addresses |
//! | `id` | `id::Id`: a `struct rdma_cm_id`, its connection manager, and the number of its acknowledged events |
//! | `backend` | `backend::Backend`: the operations of a connection manager on an id |
//! | `command` | ids of connection managers that take the kernel's commands |
//! | `request` | such commands with their headers |
//! | `kernel` | the kernel's connection manager: the character device |
//! | `uroce` | the connection manager of devices in user space, which libibverbs contains |
//! | `source` | the connection manager that delivers the events of a channel |
//! | `device` | open devices (one context for each device and process), and the domains that ids share |
//! | `verbs` | the functions of libibverbs that this library calls |
//! | `channel`, `address`, `connect`, `queue_pair`, `multicast`, `endpoint`, `addrinfo`, `migrate`, `destroy` | the calls, by subject |
//! | `transition` | state transitions of queue pairs |
//! | `path`, `lookup` | path records; getaddrinfo(3) |
//! | `kept` | events of cancelled threads |
//! | `event`, `ack` | preparing events for the program, and their acknowledgement |
//! | `observe` | explanations and records of calls |
//! | `rsocket` | sockets: rsocket(7) |
//! | `sync` | ids without an event channel of the program: calls in steps, which wait for their event |
//!
//! **An id.** The program has a pointer to `struct rdma_cm_id` and reads and writes its members.
//! The block belongs to a reference-counted `id::Id`: a thread that prepares an event of an id
//! holds a reference, so an id destroyed meanwhile remains until the thread has finished. Functions
//! find the `Id` by its address in the registry. An address that is not registered (NULL, freed,
//! another library's) is EINVAL.
//!
//! **An event.** `rdma_get_cm_event` asks the backend for a record, which names an id by the number
//! that the id was created with. `event` does the work that the event requires: it fills in the
//! id's addresses, opens the device, and moves the queue pair. Some events are swallowed. The
//! program receives a separate block with the private data in it; `rdma_ack_cm_event` frees the
//! block and counts it for the id. The backend reports how many events of an id it has delivered,
//! and `rdma_destroy_id`, `rdma_leave_multicast` and `rdma_migrate_id` wait until as many are
//! acknowledged.
//!
//! **Waiting.** `rdma_get_cm_event`, calls of synchronous ids and those of rsockets wait in C
//! (`export/wait.c`, `export/rsocket.c`), where a thread can be cancelled. A call of a synchronous
//! id runs in steps (`sync::Step`), between which `wait.c` waits. No cancellation takes effect in
//! the calls that wait for acknowledgements (`rdma_destroy_id`, `rdma_leave_multicast`,
//! `rdma_migrate_id`), nor in `rdma_getaddrinfo`. A call that changes queue pairs has its thread's
//! cancellation deferred once, and calls verbs that are no cancellation points (`kit::cm::Verbs`).
//! Over a libibverbs without them, or where another object provides the exported verbs, it disables
//! cancellation around each exported verb.
//!
//! `unsafe` is allowed in `export`, `abi`, `verbs`, `lookup`, `kernel::file` and `uroce::table`.

#![allow(non_camel_case_types)]

#[allow(unused_macros)] // the macros for providers of libibverbs
mod symver;

mod abi;
mod ack;
mod address;
mod addressed;
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
mod kept;
mod kernel;
mod lookup;
mod migrate;
mod multicast;
mod observe;
mod path;
mod queue_pair;
mod registry;
mod request;
mod rsocket;
mod source;
mod sync;
mod transition;
mod uroce;
mod verbs;
