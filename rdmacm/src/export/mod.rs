//! The C interface: every exported function, by subject. Each converts its arguments, calls, and
//! converts the result. `wait.c` in this folder contains rdma_get_cm_event(3), `rsocket.c` the
//! calls of rsockets that may wait.

mod addrinfo;
mod channel;
mod connect;
mod device;
mod event;
mod id;
mod multicast;
mod queue_pair;
mod ret;
mod rsocket;
mod step;
