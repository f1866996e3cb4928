//! Addresses of queue pairs, and address handles.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use bytemuck::Zeroable;
use kit::abi::{ibv_ah_attr, ibv_gid};

use crate::{completion::Completion, domain::ProtectionDomain, error::Result, sys::calls};

/// Where a queue pair is, and how its peer speaks to it. Peers exchange it as bytes, by whatever
/// way they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// The number of the queue pair.
    pub number: u32,
    /// The first packet sequence number, of connections.
    pub psn: u32,
    /// The key, of datagrams.
    pub qkey: u32,
    /// The LID, on InfiniBand.
    pub lid: u16,
    /// The path MTU: `enum ibv_mtu`. A connection takes the smaller of the two.
    pub mtu: u8,
    /// The GID.
    pub gid: [u8; 16],
}

impl Endpoint {
    /// Bytes of its encoding.
    pub const SIZE: usize = 31;

    /// Its encoding: the members in their order, in network order.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let members: [&[u8]; 6] = [
            &self.number.to_be_bytes(),
            &self.psn.to_be_bytes(),
            &self.qkey.to_be_bytes(),
            &self.lid.to_be_bytes(),
            &[self.mtu],
            &self.gid,
        ];
        let all = members.into_iter().flatten();
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// The endpoint that [`Endpoint::to_bytes`] encoded.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        let [
            n0,
            n1,
            n2,
            n3,
            p0,
            p1,
            p2,
            p3,
            q0,
            q1,
            q2,
            q3,
            l0,
            l1,
            mtu,
            gid @ ..,
        ] = bytes;
        Self {
            number: u32::from_be_bytes([n0, n1, n2, n3]),
            psn: u32::from_be_bytes([p0, p1, p2, p3]),
            qkey: u32::from_be_bytes([q0, q1, q2, q3]),
            lid: u16::from_be_bytes([l0, l1]),
            mtu,
            gid,
        }
    }
}

/// How packets leave: the port, the GID of their source, and their marks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub port: u8,
    pub gid_index: u8,
    pub pkey_index: u16,
    pub service_level: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
}

impl Default for Route {
    fn default() -> Self {
        Self {
            port: 1,
            gid_index: 0,
            pkey_index: 0,
            service_level: 0,
            traffic_class: 0,
            hop_limit: 64,
        }
    }
}

impl Route {
    pub(crate) fn to(self, lid: u16, gid: [u8; 16]) -> ibv_ah_attr {
        let mut attr = ibv_ah_attr::zeroed();
        attr.dlid = lid;
        attr.sl = self.service_level;
        attr.port_num = self.port;
        if gid != [0; 16] {
            attr.is_global = 1;
            attr.grh.dgid = ibv_gid { raw: gid };
            attr.grh.sgid_index = self.gid_index;
            attr.grh.hop_limit = self.hop_limit;
            attr.grh.traffic_class = self.traffic_class;
        }
        attr
    }
}

/// The way to a port, for datagrams. Copies are the same one.
#[derive(Clone)]
pub struct AddressHandle(Arc<calls::Ah>);

impl AddressHandle {
    pub(crate) fn new(pd: &ProtectionDomain, attr: ibv_ah_attr) -> Result<Self> {
        Ok(Self(Arc::new(calls::create_ah(pd, attr)?)))
    }

    pub(crate) fn of_sender(
        pd: &ProtectionDomain,
        datagram: &Completion,
        port: u8,
    ) -> Result<Self> {
        let handle = calls::create_ah_from_wc(pd, datagram, port)?;
        Ok(Self(Arc::new(handle)))
    }

    pub(crate) fn object(&self) -> &calls::Ah {
        &self.0
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        &self.0
    }
}

impl fmt::Debug for AddressHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressHandle").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_survives_its_encoding() {
        let endpoint = Endpoint {
            number: 0x0001_0203,
            psn: 0x0004_0506,
            qkey: 0x0708_090a,
            lid: 0x0b0c,
            mtu: 3,
            gid: *b"0123456789abcdef",
        };
        assert_eq!(Endpoint::from_bytes(endpoint.to_bytes()), endpoint);
    }
}
