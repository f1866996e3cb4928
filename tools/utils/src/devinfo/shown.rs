//! The displayed data of a device: its attributes, its GIDs, and failures.

use std::io;

use verbs::tools::{
    Context, Device,
    abi::{ibv_device_attr_ex, ibv_port_attr},
};

/// A failure, and its exit status.
pub(super) enum Trouble {
    Open,
    Query,
    Port,
    Close,
    /// Of a port or of its GIDs: the errno is the status.
    Errno(u8),
    /// The reader of the output has gone.
    Output,
}

impl Trouble {
    pub(super) fn status(self) -> u8 {
        match self {
            Self::Open | Self::Output => 1,
            Self::Query => 2,
            Self::Close => 3,
            Self::Port => 4,
            Self::Errno(errno) => errno,
        }
    }

    pub(super) fn with_message(self, words: &str) -> Self {
        eprintln!("{words}");
        self
    }

    /// An errno as the status, which is its lowest byte.
    pub(super) fn errno(error: &io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or(1);
        Self::Errno(crate::numbers::byte(number))
    }
}

impl From<io::Error> for Trouble {
    fn from(_: io::Error) -> Self {
        Self::Output
    }
}

/// A device that is shown.
pub(super) struct Shown<'a> {
    pub(super) device: Device<'a>,
    pub(super) context: &'a Context,
    pub(super) attr: ibv_device_attr_ex,
    pub(super) verbose: bool,
}

/// A GID as it is printed: `None` for the type where the device does not report it.
pub(super) struct Gid {
    pub(super) index: i32,
    pub(super) raw: [u8; 16],
    pub(super) kind: Option<GidKind>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum GidKind {
    /// Of InfiniBand, or RoCE version 1.
    IbOrV1,
    V2,
}

/// The GIDs of a port whose lower half is not zero. The whole table is read first, so that the
/// readable entries are not lost when one cannot be read.
pub(super) fn gids(
    shown: &Shown<'_>,
    port: u8,
    attr: &ibv_port_attr,
) -> (Vec<Gid>, Result<(), Trouble>) {
    let mut found = Vec::new();
    for index in 0..attr.gid_tbl_len {
        let gid = match shown.context.query_gid(port, index) {
            Ok(gid) => gid.bytes(),
            Err(error) => {
                eprintln!("Failed to query gid to port {port}, index {index}");
                return (found, Err(Trouble::errno(&error)));
            }
        };
        if gid.iter().skip(8).all(|byte| *byte == 0) {
            continue;
        }
        let index_there = u32::try_from(index).unwrap_or(0);
        let entry = shown.context.query_gid_entry(u32::from(port), index_there);
        found.push(Gid {
            index,
            raw: gid,
            kind: entry.ok().map(|entry| match entry.gid_type {
                verbs::tools::abi::IBV_GID_TYPE_ROCE_V2 => GidKind::V2,
                _ => GidKind::IbOrV1,
            }),
        });
    }
    (found, Ok(()))
}
