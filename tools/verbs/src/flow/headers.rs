//! The fields of headers that rules compare, and their masks.

use std::net::{Ipv4Addr, Ipv6Addr};

use kit::abi::*;

/// The fields of an Ethernet header, or their masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ethernet {
    /// The destination.
    pub destination: [u8; 6],
    /// The source.
    pub source: [u8; 6],
    /// The type of what follows.
    pub ether_type: u16,
    /// The VLAN tag.
    pub vlan_tag: u16,
}

/// The fields of a header of IPv4, or their masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// The source.
    pub source: Ipv4Addr,
    /// The destination.
    pub destination: Ipv4Addr,
    /// The protocol.
    pub protocol: u8,
    /// Type of service.
    pub service: u8,
    /// Time to live.
    pub ttl: u8,
    /// The flags of fragments.
    pub flags: u8,
}

impl Default for Ipv4 {
    fn default() -> Self {
        Self {
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
            protocol: 0,
            service: 0,
            ttl: 0,
            flags: 0,
        }
    }
}

/// The fields of a header of IPv6, or their masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// The source.
    pub source: Ipv6Addr,
    /// The destination.
    pub destination: Ipv6Addr,
    /// The flow label.
    pub flow_label: u32,
    /// The next header.
    pub next_header: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// The hop limit.
    pub hop_limit: u8,
}

impl Default for Ipv6 {
    fn default() -> Self {
        Self {
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
            flow_label: 0,
            next_header: 0,
            traffic_class: 0,
            hop_limit: 0,
        }
    }
}

/// The ports of TCP or UDP, or their masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The destination.
    pub destination: u16,
    /// The source.
    pub source: u16,
}

/// The fields of a header of ESP (IPsec), or their masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Esp {
    /// The index of the security parameters (SPI).
    pub index: u32,
    /// The sequence number.
    pub sequence: u32,
}

/// The fields of a header of GRE, or their masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gre {
    /// The first 16 bits: the flags C, K and S from the highest bit on, and the version.
    pub flags: u16,
    /// The type of what follows, as of Ethernet.
    pub protocol: u16,
    /// The key.
    pub key: u32,
}

/// The fields of an entry of an MPLS label stack, or their masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mpls {
    /// The label, of 20 bits.
    pub label: u32,
    /// The traffic class, of 3 bits.
    pub traffic_class: u8,
    /// Whether it is the last entry. In a mask, whether this is compared.
    pub is_last: bool,
    /// Time to live.
    pub ttl: u8,
}

/// The fields of one header as `struct ibv_flow_*_filter`, for specifications and encapsulations.
pub(super) fn ethernet(of: Ethernet) -> Vec<u8> {
    let mut all = of.destination.to_vec();
    all.extend(of.source);
    all.extend(of.ether_type.to_be_bytes());
    all.extend(of.vlan_tag.to_be_bytes());
    all
}

/// `struct ibv_flow_ipv4_filter`.
pub(super) fn ipv4(of: Ipv4) -> Vec<u8> {
    [of.source.octets(), of.destination.octets()].concat()
}

/// `struct ibv_flow_ipv4_ext_filter`.
pub(super) fn ipv4_ext(of: Ipv4) -> Vec<u8> {
    let mut all = ipv4(of);
    all.extend(others(of));
    all
}

/// What the longer filter has in addition.
pub(super) fn others(of: Ipv4) -> [u8; 4] {
    [of.protocol, of.service, of.ttl, of.flags]
}

/// `struct ibv_flow_ipv6_filter`.
pub(super) fn ipv6(of: Ipv6) -> Vec<u8> {
    let mut all = [of.source.octets(), of.destination.octets()].concat();
    all.extend(of.flow_label.to_be_bytes());
    all.extend([of.next_header, of.traffic_class, of.hop_limit, 0]);
    all
}

/// `struct ibv_flow_tcp_udp_filter`.
pub(super) fn ports(of: Ports) -> Vec<u8> {
    [of.destination.to_be_bytes(), of.source.to_be_bytes()].concat()
}

/// `struct ibv_flow_esp_filter`.
pub(super) fn esp(of: Esp) -> Vec<u8> {
    [of.index.to_be_bytes(), of.sequence.to_be_bytes()].concat()
}

/// `struct ibv_flow_gre_filter`.
pub(super) fn gre(of: Gre) -> Vec<u8> {
    let mut all = [of.flags.to_be_bytes(), of.protocol.to_be_bytes()].concat();
    all.extend(of.key.to_be_bytes());
    all
}

/// `struct ibv_flow_mpls_filter`.
pub(super) fn mpls(of: Mpls) -> Vec<u8> {
    let word = (of.label & 0xf_ffff) << 12
        | u32::from(of.traffic_class & 7) << 9
        | u32::from(of.is_last) << 8
        | u32::from(of.ttl);
    word.to_be_bytes().to_vec()
}

// Each function above writes a filter from its first byte to its last.
const _: () = {
    assert!(size_of::<ibv_flow_eth_filter>() == 16 && size_of::<ibv_flow_ipv4_filter>() == 8);
    assert!(size_of::<ibv_flow_ipv4_ext_filter>() == 12 && size_of::<ibv_flow_ipv6_filter>() == 40);
    assert!(size_of::<ibv_flow_tcp_udp_filter>() == 4 && size_of::<ibv_flow_esp_filter>() == 8);
    assert!(size_of::<ibv_flow_gre_filter>() == 8 && size_of::<ibv_flow_mpls_filter>() == 4);
};
