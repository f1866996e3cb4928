//! Toeplitz hashing, by which frames are spread over work queues.

use super::headers::{Headers, Network, TCP, UDP};
use kit::abi::*;

/// Bytes of a key.
pub const KEY: usize = 40;

/// Fields that can be hashed: bits of `enum ibv_rx_hash_fields`.
pub const FIELDS: u64 = (IBV_RX_HASH_SRC_IPV4
    | IBV_RX_HASH_DST_IPV4
    | IBV_RX_HASH_SRC_IPV6
    | IBV_RX_HASH_DST_IPV6
    | IBV_RX_HASH_SRC_PORT_TCP
    | IBV_RX_HASH_DST_PORT_TCP
    | IBV_RX_HASH_SRC_PORT_UDP
    | IBV_RX_HASH_DST_PORT_UDP) as u64;

/// The hashed bytes, in order.
fn input(headers: &Headers<'_>, fields: u64) -> Vec<u8> {
    let wants = |bit: u32| fields & u64::from(bit) != 0;
    let mut bytes = Vec::with_capacity(36);
    let mut add = |bit, part: Option<&[u8]>| {
        if wants(bit) {
            bytes.extend_from_slice(part.unwrap_or_default());
        }
    };
    match headers.network {
        Some(Network::V4(header)) => {
            add(IBV_RX_HASH_SRC_IPV4, header.get(12..16));
            add(IBV_RX_HASH_DST_IPV4, header.get(16..20));
        }
        Some(Network::V6(header, _)) => {
            add(IBV_RX_HASH_SRC_IPV6, header.get(8..24));
            add(IBV_RX_HASH_DST_IPV6, header.get(24..40));
        }
        None => {}
    }
    if let Some(transport) = headers.transport {
        let (source, destination) = match transport.protocol {
            TCP => (IBV_RX_HASH_SRC_PORT_TCP, IBV_RX_HASH_DST_PORT_TCP),
            UDP => (IBV_RX_HASH_SRC_PORT_UDP, IBV_RX_HASH_DST_PORT_UDP),
            _ => (0, 0),
        };
        add(source, Some(&transport.source));
        add(destination, Some(&transport.destination));
    }
    bytes
}

/// The hash of the requested fields of a frame; 0 if none is present.
#[must_use]
pub fn hash(key: &[u8; KEY], headers: &Headers<'_>, fields: u64) -> u32 {
    toeplitz(key, &input(headers, fields))
}

/// For each bit of the input that is set, the 32 bits of the key that begin there.
fn toeplitz(key: &[u8; KEY], input: &[u8]) -> u32 {
    let mut hash = 0;
    for (at, byte) in input.iter().enumerate() {
        let Some(window) = key.get(at..).and_then(<[u8]>::first_chunk::<5>) else {
            break;
        };
        let window = window
            .iter()
            .fold(0u64, |sum, next| sum << 8 | u64::from(*next));
        for bit in 0..8 {
            if byte & 0x80 >> bit != 0 {
                hash ^= u32::try_from(window >> (8 - bit) & u64::from(u32::MAX)).unwrap_or(0);
            }
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and the flows with which makers of network cards check theirs.
    const PUBLISHED: [u8; KEY] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    fn of(source: [u8; 4], destination: [u8; 4], ports: &[u16]) -> u32 {
        let mut input = [source, destination].concat();
        input.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        toeplitz(&PUBLISHED, &input)
    }

    #[test]
    fn the_published_flows_have_their_hashes() {
        let (source, destination) = ([66, 9, 149, 187], [161, 142, 100, 80]);
        assert_eq!(of(source, destination, &[]), 0x323e_8fc2);
        assert_eq!(of(source, destination, &[2794, 1766]), 0x51cc_c178);
        let (source, destination) = ([199, 92, 111, 2], [65, 69, 140, 83]);
        assert_eq!(of(source, destination, &[]), 0xd718_262a);
        assert_eq!(of(source, destination, &[14230, 4739]), 0xc626_b0ea);
    }

    #[test]
    fn only_selected_fields_are_hashed() {
        let frames = [[1, 1, 1, 1], [1, 1, 1, 2]];
        let frames = frames.map(|source| super::super::headers::tests::udp4(None, source, 9));
        let [a, b] = [&frames[0], &frames[1]].map(|frame| Headers::read(frame).expect("a frame"));
        let source = u64::from(IBV_RX_HASH_SRC_IPV4);
        let destination = u64::from(IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_DST_PORT_UDP);
        let of = |headers, fields| hash(&PUBLISHED, headers, fields);
        assert_ne!(of(&a, source), of(&b, source));
        assert_eq!(of(&a, destination), of(&b, destination));
        assert_ne!(of(&a, destination), 0);
        assert_eq!(of(&a, u64::from(IBV_RX_HASH_SRC_PORT_TCP)), 0);
        let all = toeplitz(&PUBLISHED, &[0xff; 36]);
        assert_ne!(all, 0, "the longest input");
    }
}
