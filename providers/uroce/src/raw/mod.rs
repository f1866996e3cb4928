//! Raw packets: queue pairs that send and receive whole Ethernet frames, the rules by which frames
//! are steered, and the work queues over which they are spread.

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
pub use qp::{Parts, RawQp, permit};
pub use rule::rule;
pub use spread::{Spread, Table};
pub use tap::{Flow, Target};
pub use wq::Wq;

pub use hash::FIELDS as HASH_FIELDS;
pub use spread::MOST as MAX_TABLE;
