//! Packets and messages on their way in.
//!
//! | module | contents |
//! | --- | --- |
//! | `inbox` | all sources together; one thread at a time takes from them |
//! | `sources` | the sockets, by place, and where to look for packets |
//! | `sort` | the queue pair, group or process that a packet is for; whether the packet is whole |
//! | `identification` | the IPv4 identifications that a sender may use |
//! | `backlog` | packets for other processes that have no room for them yet |
//! | `rings`, `messages` | packets and eager messages from the links with processes of this host |
//!
//! *Sockets.* recvmmsg(2) with UDP_GRO takes a batch from each: port 4791 in both families, the
//! socket of the slot, and the connected sockets. A poller whose last look found nothing takes one
//! packet, or run, by recvmsg(2). A socket that stayed idle is looked at less often. Consecutive
//! packets for one queue pair are handed over together.
//!
//! *Packets of other processes.* All processes of a user share port 4791, so a packet may reach the
//! wrong process. That process forwards it to the socket of the slot that the QP number names.
//! Packets that exceed that socket's room wait in the backlog, in order, for a second at most.
//!
//! *Rings.* A poller looks at all of up to 16 rings. Of more it looks at up to 16 that had
//! something in the last 64 looks, and at 8 others in turn: a look at hundreds takes longer than a
//! peer takes to answer. The progress thread looks at all of them before it sleeps, and then at
//! those that had something and those whose peers rang. The queue pair that was called last is
//! kept; taking it out of the table makes the rings forget it.
//!
//! *Lock.* The inbox's, held while queue pairs are called. Code that holds a queue pair's lock, or
//! runs inside a call of one, must not take it.

pub(super) mod backlog;
mod identification;
pub(super) mod inbox;
pub(super) mod messages;
pub(super) mod rings;
pub(super) mod sort;
pub(super) mod sources;
