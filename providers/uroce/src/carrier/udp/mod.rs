//! Carrier 1: RoCE v2 in UDP datagrams to port 4791.
//!
//! *Numbers.* A QP number (`super::qpn`) is 10 bits of slot, which name a process
//! (`super::registry`), and 14 bits of index. All processes of a user share the port
//! (SO_REUSEPORT), so the kernel may deliver a packet to another process, which forwards it to the
//! process of the slot. Forwarded packets are accepted only from processes of the same user, whose
//! statement of the origin is trusted.
//!
//! *Direct delivery.* The UDP source port is 0xc000 + the slot of the destination QP number. A
//! process that receives packets through another one opens a socket connected to the sender's
//! address and that port. The kernel prefers it to the shared sockets, so later packets arrive
//! directly.
//!
//! *Sending.* Packets are built in place in a buffer (headers, one copy of the payload, padding,
//! ICRC), joined to runs with one path and equal size, and sent by sendmmsg(2) with UDP_SEGMENT.
//! The ICRC covers the IPv4 identification, which the kernel chooses: 0 for a single packet,
//! counting up from 0 in a run. If the kernel refuses a run, its packets are sent one by one with
//! new ICRCs. Packets that the kernel does not accept are lost and counted.
//!
//! *Receiving* uses recvmmsg(2) with UDP_GRO. Other implementations of RoCE v2 may omit the UDP
//! checksum, over IPv6 too, and rely on the ICRC; the sockets accept that. Their IPv4
//! identification is arbitrary and is solved from the ICRC (`uroce_engine::wire::icrc`).
//!
//! *ICRC.* The CRC is computed by carry-less multiplication, or by words where that is emulated;
//! `crc` measures once for each process which one is faster.
//!
//! *Diagnostics.* `UROCE_FAULTS` damages packets on sending, `UROCE_PCAP` records sent and received
//! packets. Set-user-ID programs ignore both.

pub mod capture;
pub mod connected;
pub mod crc;
pub mod faults;
pub mod outbox;
mod path;
mod port;
pub mod send_sockets;
pub mod slot;
pub mod socket;
mod targets;
pub mod tools;

pub use connected::ConnectedSockets;
pub use outbox::Outbox;
pub use path::Path;
pub use port::port_user;
pub use send_sockets::SendSockets;
pub use slot::Slot;
pub use socket::{Socket, Sockets};
pub use tools::Tools;

/// The UDP port of RoCE v2 (IBTA volume 1, annex A17).
pub const PORT: u16 = 4791;
