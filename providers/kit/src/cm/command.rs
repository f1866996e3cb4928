//! The commands.
#![allow(missing_docs)] // member names are those of the kernel header

use super::event::{Ece, Param, Record};
use crate::abi::{be16, be64, kernel::*};
use bytemuck::{Pod, Zeroable};

/// A command and its response.
pub trait Command: Pod {
    const NUMBER: u32;
    /// A command that waits ends with a signal; others are given again.
    const WAITS: bool = Self::NUMBER == 12;
    type Response: Pod;
    /// Says where the response goes.
    fn respond(&mut self, _at: u64) {}
}

macro_rules! command {
    ($t:ident, $number:literal, $size:literal) => {
        command!(@ $t, $number, $size, (), {});
    };
    ($t:ident, $number:literal, $size:literal => $response:ty) => {
        command!(@ $t, $number, $size, $response, { fn respond(&mut self, at: u64) { self.response = at; } });
    };
    (@ $t:ident, $number:literal, $size:literal, $response:ty, { $($respond:item)? }) => {
        impl Command for $t {
            const NUMBER: u32 = $number;
            type Response = $response;
            $($respond)?
        }
        const _: () = assert!(size_of::<$t>() == $size);
    };
}

pub type Storage = [u8; 128];

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct CreateId {
    pub uid: u64,
    pub response: u64,
    pub ps: u16,
    pub qp_type: u8,
    pub reserved: [u8; 5],
}
command!(CreateId, 0, 24 => Number);

/// The id of a new object, or the number of its events that were delivered.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Number {
    pub number: u32,
}

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct DestroyId {
    pub response: u64,
    pub id: u32,
    pub reserved: u32,
}
command!(DestroyId, 1, 16 => Number);

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ResolveRoute {
    pub id: u32,
    pub timeout_ms: u32,
}
command!(ResolveRoute, 4, 8);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Connect {
    pub conn_param: Param,
    pub id: u32,
    pub reserved: u32,
    pub ece: Ece,
}
command!(Connect, 6, 288);

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Listen {
    pub id: u32,
    pub backlog: i32,
}
command!(Listen, 7, 8);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Accept {
    pub uid: u64,
    pub conn_param: Param,
    pub id: u32,
    pub reserved: u32,
    pub ece: Ece,
}
command!(Accept, 8, 296);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Reject {
    pub id: u32,
    pub private_data_len: u8,
    pub reason: u8,
    pub reserved: [u8; 2],
    pub private_data: [u8; 256],
}
command!(Reject, 9, 264);

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Disconnect {
    pub id: u32,
}
command!(Disconnect, 10, 4);

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct InitQpAttr {
    pub response: u64,
    pub id: u32,
    pub qp_state: u32,
}
command!(InitQpAttr, 11, 16 => ib_uverbs_qp_attr);

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct GetEvent {
    pub response: u64,
}
command!(GetEvent, 12, 8 => Record);

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct SetOption {
    pub optval: u64,
    pub id: u32,
    pub level: u32,
    pub optname: u32,
    pub optlen: u32,
}
command!(SetOption, 14, 24);

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Notify {
    pub id: u32,
    pub event: u32,
}
command!(Notify, 15, 8);

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct LeaveMulticast {
    pub response: u64,
    pub id: u32,
    pub reserved: u32,
}
command!(LeaveMulticast, 17, 16 => Number);

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct MigrateId {
    pub response: u64,
    pub id: u32,
    pub fd: u32,
}
command!(MigrateId, 18, 16 => Number);

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct QueryAddr {
    pub response: u64,
    pub id: u32,
    pub option: u32,
}
command!(QueryAddr, 19, 16 => Addresses);

/// Values of `option`.
pub mod query {
    pub const ADDR: u32 = 0;
    pub const PATH: u32 = 1;
    pub const GID: u32 = 2;
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Addresses {
    pub node_guid: be64,
    pub port_num: u8,
    pub reserved: u8,
    pub pkey: be16,
    pub src_size: u16,
    pub dst_size: u16,
    pub src_addr: Storage,
    pub dst_addr: Storage,
    pub ibdev_index: u32,
    pub reserved1: u32,
}
const _: () = assert!(size_of::<Addresses>() == 280);

impl Addresses {
    /// Room for an answer, which has no device and no addresses as long as nothing is written to
    /// it. What need not be zero is not: the rest is short enough to be cleared without a call.
    #[inline(always)]
    #[must_use]
    pub fn unanswered() -> Self {
        Self {
            node_guid: be64::from_wire(u64::MAX),
            port_num: 0,
            reserved: 0,
            pkey: be16::from_wire(u16::MAX),
            src_size: u16::MAX,
            dst_size: u16::MAX,
            src_addr: [0; 128],
            dst_addr: [0; 128],
            ibdev_index: u32::MAX,
            reserved1: 0,
        }
    }
}

#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct QueryPath {
    pub response: u64,
    pub id: u32,
    pub option: u32,
}
command!(QueryPath, 19, 16 => Paths);

/// Path records that are asked for at most.
pub const PATHS: usize = 6;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Paths {
    pub num_paths: u32,
    pub reserved: u32,
    pub path_data: [PathData; PATHS],
}
const _: () = assert!(size_of::<Paths>() == 8 + 72 * PATHS);

/// Flags, and a record as it stands on the wire.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct PathData {
    pub flags: u32,
    pub reserved: u32,
    pub path: [u8; 64],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Bind {
    pub id: u32,
    pub addr_size: u16,
    pub reserved: u16,
    pub addr: Storage,
}
command!(Bind, 20, 136);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct ResolveAddr {
    pub id: u32,
    pub timeout_ms: u32,
    pub src_size: u16,
    pub dst_size: u16,
    pub reserved: u32,
    pub src_addr: Storage,
    pub dst_addr: Storage,
}
command!(ResolveAddr, 21, 272);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct JoinMulticast {
    pub response: u64,
    pub uid: u64,
    pub id: u32,
    pub addr_size: u16,
    pub join_flags: u16,
    pub addr: Storage,
}
command!(JoinMulticast, 22, 152 => Number);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct WriteEvent {
    pub id: u32,
    pub reserved: u32,
    pub event: u32,
    pub status: i32,
    pub arg: u64,
    pub rest: [u8; 296],
}
command!(WriteEvent, 24, 320);
