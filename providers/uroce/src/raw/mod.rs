//! Raw packets: queue pairs of type `IBV_QPT_RAW_PACKET` that send and receive whole Ethernet
//! frames, flow rules, and work queues. The protocol engine is not involved; the node assigns
//! numbers and calls for transmission.
//!
//! | type | contents |
//! | --- | --- |
//! | `RawQp` | a queue pair: its own packet(7) socket for sending, requests in order, the state table of raw packets (`states`) |
//! | `intake::Intake` | the receiving half of a queue pair or a work queue: one frame, one request |
//! | `tap` | one socket for each interface with rules of this process, watched by the progress thread |
//! | `headers::Headers` | the fields of a frame in the layout of the API's filters, so a rule is a masked comparison of bytes |
//! | `rule::Rule`, `steering::Steering` | a checked rule; rules in the order of evaluation. Both are pure |
//! | `Wq`, `Table`, `Spread` | work queues, tables of them, and queue pairs that spread frames by a Toeplitz hash (`hash`) |
//! | `checksum` | the check sums of IPv4, TCP and UDP |
//! | `Counters` | the counters of `IBV_FLOW_SPEC_ACTION_COUNT` |
//!
//! *Sending.* A frame longer than the interface allows fails with IBV_WC_LOC_LEN_ERR and stops
//! sending (SQE), as for datagrams. Without a carrier, or with a full queue behind the socket,
//! frames are lost. A socket without room is retried after 0.2 ms.
//!
//! *Steering.* The rule with the lowest priority value takes a frame. Rules of equal priority each
//! get a copy; sniffers always do. Rules apply within this process: other processes with rules on
//! the interface, and the host itself, get separate frames. Frames to a group that this host sends
//! also reach its rules, as with cards that loop groups back; on a loopback interface all sent
//! frames do. The interface is configured to receive the frames that a rule needs (one group, all
//! groups, everything) until the last rule is removed. A VLAN tag that the kernel keeps beside a
//! frame is inserted again.
//!
//! *Receiving.* A frame without a request, or longer than the next request, is dropped; the request
//! stays. The kernel leaves the check sums of TCP and UDP to the hardware. Frames of the host's own
//! programs come without them, with a mark, and the tap makes them. Frames of other queue pairs
//! stay as they are.
//!
//! Tests: `providers/uroce/tests/raw.rs`, as root, on `lo` and across a veth pair; property tests
//! and published values for rules, hashes and headers.

mod checksum;
mod counters;
mod hash;
mod headers;
mod intake;
mod made;
mod qp;
mod rule;
mod sending;
mod spread;
mod states;
mod steering;
mod tap;
mod wq;

pub use counters::Counters;
pub use made::Made;
pub use qp::{RawQp, RawQpParams, check_rights};
pub use rule::rule;
pub use spread::{Spread, Table};
pub use tap::{Flow, Target};
pub use wq::Wq;

pub use hash::FIELDS as HASH_FIELDS;
