//! Where datagrams are sent.
#![forbid(unsafe_code)]

use std::fmt;

use kit::abi::ibv_ah_attr;

use crate::{
    address::AddressHandle, domain::ProtectionDomain, error::Result, qp::QueuePair,
    transport::Datagram,
};

/// The address of a queue pair for datagrams, or of a multicast group, as an event reports it
/// (`struct rdma_ud_param`).
#[derive(Clone, Copy)]
pub struct Destination {
    attr: ibv_ah_attr,
    number: u32,
    qkey: u32,
}

impl Destination {
    pub(in crate::connection) fn new(attr: ibv_ah_attr, number: u32, qkey: u32) -> Self {
        Self { attr, number, qkey }
    }

    /// The number of the queue pair; 0xffffff of a group.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The key of the queue pair.
    #[must_use]
    pub fn qkey(&self) -> u32 {
        self.qkey
    }

    /// The GID.
    #[must_use]
    pub fn gid(&self) -> [u8; 16] {
        self.attr.grh.dgid.bytes()
    }

    /// The LID, on InfiniBand.
    #[must_use]
    pub fn lid(&self) -> u16 {
        self.attr.dlid
    }

    /// The way there for queue pairs of a protection domain, which is of the device of the id that
    /// the event is of.
    ///
    /// # Errors
    /// Of ibv_create_ah(3).
    pub fn peer(&self, pd: &ProtectionDomain) -> Result<Peer> {
        Ok(Peer {
            address: AddressHandle::new(pd, self.attr)?,
            number: self.number,
            qkey: self.qkey,
        })
    }

    /// Has a queue pair receive the datagrams of this group, until [`Destination::detach`].
    ///
    /// # Errors
    /// Of ibv_attach_mcast(3): EINVAL if it is not a group.
    pub fn attach(&self, qp: &QueuePair<Datagram>) -> Result<()> {
        qp.attach((self.gid(), self.lid()))
    }

    /// Ends that.
    ///
    /// # Errors
    /// Of ibv_detach_mcast(3).
    pub fn detach(&self, qp: &QueuePair<Datagram>) -> Result<()> {
        qp.detach((self.gid(), self.lid()))
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Destination");
        shown.field("number", &self.number);
        shown.field("qkey", &self.qkey);
        shown.field("gid", &self.gid());
        shown.finish_non_exhaustive()
    }
}

/// What a send request needs to reach a queue pair or a group
/// ([`QueuePair::post_to`](crate::QueuePair::post_to)).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// The way.
    pub address: AddressHandle,
    /// The number of the queue pair.
    pub number: u32,
    /// The key of the queue pair.
    pub qkey: u32,
}

impl Peer {
    pub(super) fn new(address: AddressHandle, number: u32, qkey: u32) -> Self {
        Self {
            address,
            number,
            qkey,
        }
    }
}
