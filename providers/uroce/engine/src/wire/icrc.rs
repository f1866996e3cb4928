//! Invariant CRC of RoCE v2 (IBTA volume 1, 7.8.1 and annex A17): Ethernet's CRC-32 over a dummy
//! LRH of ones, the IP header, the UDP header and everything up to the ICRC itself, with the fields
//! that change on the way read as ones: type of service, time to live and header checksum (IPv4),
//! traffic class, flow label and hop limit (IPv6), the UDP checksum, and the BTH's FECN/BECN byte.
//!
//! A UDP socket does not report the IPv4 identification that the sender's CRC covers. The CRC is
//! linear: the difference between the received value and the one computed with identification 0
//! depends on the identification alone. [`identify`] recovers the 16 bits from it. The remaining
//! check has 16 bits, as TCP's checksum, under the link's own CRC.

use super::ICRC_LEN;
use super::crc::Register;

/// Bytes of the dummy LRH.
const DUMMY_LRH: usize = 8;
/// Those of an IPv6 header.
const IPV6_LEN: usize = 40;
/// Bytes of the longest [`Front`].
const FRONT: usize = DUMMY_LRH + IPV6_LEN + UDP_LEN as usize + MASKED_BYTE + 1;
const IPV4_LEN: u16 = 20;
const UDP_LEN: u16 = 8;
const UDP_PROTOCOL: u8 = 17;
/// Where FECN, BECN and six reserved bits stand in the BTH.
const MASKED_BYTE: usize = 4;
/// Bytes covered between the identification and the BTH: rest of the IPv4 header, UDP header.
const AFTER_IDENTIFICATION: usize = 14 + 8;

/// The IP header's invariant fields. Headers have no options, and no fragments are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// IPv4.
    V4 {
        /// Source address.
        source: [u8; 4],
        /// Destination address.
        destination: [u8; 4],
        /// Identification.
        identification: u16,
        /// The DF flag.
        dont_fragment: bool,
    },
    /// IPv6.
    V6 {
        /// Source address.
        source: [u8; 16],
        /// Destination address.
        destination: [u8; 16],
    },
}

/// Everything below the BTH that the ICRC covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The IP header.
    pub network: Network,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port; 4791 for RoCE v2.
    pub destination_port: u16,
}

/// An ICRC being computed: begin with the headers, then the payload piece by piece, then the pad.
#[derive(Clone, Debug)]
pub struct Icrc(Register);

impl Icrc {
    /// Begins with the route and the headers, BTH first. `datagram` is the length of the UDP
    /// payload, ICRC included; it must fit into a UDP datagram, and a longer one gives a CRC that
    /// no receiver agrees with.
    #[must_use]
    pub fn begin(route: &Route, headers: &[u8], datagram: usize) -> Self {
        let (masked, rest) = split(headers);
        let mut register = Register::new();
        register.update(Front::new(route, datagram, masked).bytes());
        register.update(rest);
        Self(register)
    }

    /// Adds payload or pad.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The four bytes that end the packet.
    #[must_use]
    pub fn finish(self) -> [u8; ICRC_LEN] {
        self.0.finish().to_le_bytes()
    }
}

/// The headers up to the byte that changes on the path, and behind it.
fn split(headers: &[u8]) -> (&[u8], &[u8]) {
    headers
        .split_at_checked(MASKED_BYTE + 1)
        .unwrap_or((headers, &[]))
}

/// ICRCs of packets whose routes and lengths are mostly those of earlier ones, but for the
/// identification: the sum of all below the BTH was computed then. The results are those of the
/// functions without it.
#[derive(Debug, Default)]
pub struct Latest([Option<Below>; LATEST]);

/// Lengths that are remembered: of packets in one direction, mostly.
const LATEST: usize = 4;

/// All below the BTH, with the identification 0.
#[derive(Debug)]
struct Below {
    route: Route,
    datagram: usize,
    register: Register,
}

impl Route {
    /// The same with the identification 0, and the identification.
    fn apart(self) -> (Self, u16) {
        let Network::V4 {
            source,
            destination,
            identification,
            dont_fragment,
        } = self.network
        else {
            return (self, 0);
        };
        let network = Network::V4 {
            source,
            destination,
            identification: 0,
            dont_fragment,
        };
        (Self { network, ..self }, identification)
    }
}

impl Latest {
    /// As [`Icrc::begin`].
    #[must_use]
    pub fn begin(&mut self, route: &Route, headers: &[u8], datagram: usize) -> Icrc {
        let (masked, rest) = split(headers);
        let Some(place) = self.0.get_mut(datagram / 4 % LATEST) else {
            return Icrc::begin(route, headers, datagram);
        };
        let Some(same) = masked.first_chunk::<MASKED_BYTE>() else {
            return Icrc::begin(route, headers, datagram);
        };
        let (route, identification) = route.apart();
        let is_same = |below: &Below| below.datagram == datagram && below.route == route;
        let mut register = match place {
            Some(below) if is_same(below) => below.register.clone(),
            _ => {
                let mut register = Register::new();
                register.update(Front::new(&route, datagram, &[]).bytes());
                *place = Some(Below {
                    route,
                    datagram,
                    register: register.clone(),
                });
                register
            }
        };
        // A change of the register is one of the four bytes that follow.
        let same = u32::from_le_bytes(*same) ^ identified(identification);
        let mut first = [0xff; MASKED_BYTE + 1];
        if let Some(place) = first.first_chunk_mut() {
            *place = same.to_le_bytes();
        }
        register.update(first.get(..masked.len()).unwrap_or_default());
        register.update(rest);
        Icrc(register)
    }

    /// As [`identify`].
    #[must_use]
    pub fn identify(&mut self, route: &Route, datagram: &[u8]) -> Option<u16> {
        let begin = |covered: &[u8]| self.begin(route, covered, datagram.len());
        identify_by(begin, route, datagram)
    }
}

/// The covered bytes up to the byte of the BTH that changes on the path: one piece, because a CRC
/// of many small pieces takes longer than that of a short packet.
struct Front {
    bytes: [u8; FRONT],
    length: usize,
}

impl Front {
    /// With the first bytes of the BTH.
    fn new(route: &Route, datagram: usize, bth: &[u8]) -> Self {
        let payload = u16::try_from(datagram).unwrap_or(u16::MAX);
        let udp_length = payload.saturating_add(UDP_LEN);
        let mut front = Self {
            bytes: [0xff; FRONT],
            length: DUMMY_LRH,
        };
        front.add_network(&route.network, udp_length);
        front.add(&route.source_port.to_be_bytes());
        front.add(&route.destination_port.to_be_bytes());
        front.add(&udp_length.to_be_bytes());
        front.length += 2;
        let (same, changing) = bth.split_at_checked(MASKED_BYTE).unwrap_or((bth, &[]));
        front.add(same);
        front.length += changing.len();
        front
    }

    fn add_network(&mut self, network: &Network, udp_length: u16) {
        match network {
            Network::V4 {
                source,
                destination,
                identification,
                dont_fragment,
            } => {
                self.add(&[0x45, 0xff]);
                self.add(&udp_length.saturating_add(IPV4_LEN).to_be_bytes());
                self.add(&identification.to_be_bytes());
                self.add(&[u8::from(*dont_fragment) << 6, 0]);
                self.add(&[0xff, UDP_PROTOCOL, 0xff, 0xff]);
                self.add(source);
                self.add(destination);
            }
            Network::V6 {
                source,
                destination,
            } => {
                self.add(&[0x6f, 0xff, 0xff, 0xff]);
                self.add(&udp_length.to_be_bytes());
                self.add(&[UDP_PROTOCOL, 0xff]);
                self.add(source);
                self.add(destination);
            }
        }
    }

    fn add(&mut self, some: &[u8]) {
        let end = self.length + some.len();
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(some);
        }
        self.length = end;
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// The ICRC of a UDP payload that ends in one, and the one it ends in.
fn both(begin: impl FnOnce(&[u8]) -> Icrc, datagram: &[u8]) -> Option<(u32, u32)> {
    let (covered, received) = datagram.split_last_chunk::<ICRC_LEN>()?;
    let computed = begin(covered).finish();
    Some((u32::from_le_bytes(computed), u32::from_le_bytes(*received)))
}

/// Whether a UDP payload ends in its ICRC.
#[must_use]
pub fn verify(route: &Route, datagram: &[u8]) -> bool {
    let begin = |covered: &[u8]| Icrc::begin(route, covered, datagram.len());
    both(begin, datagram).is_some_and(|(computed, received)| computed == received)
}

/// The IPv4 identification with which the datagram's ICRC is right; the one in `route` is where the
/// search starts, and best the likely one. `None` if no identification matches: the packet is
/// damaged, or `route` differs in another field. With IPv6 every field is known, and 0 means
/// "right".
#[must_use]
pub fn identify(route: &Route, datagram: &[u8]) -> Option<u16> {
    let begin = |covered: &[u8]| Icrc::begin(route, covered, datagram.len());
    identify_by(begin, route, datagram)
}

fn identify_by(begin: impl FnOnce(&[u8]) -> Icrc, route: &Route, datagram: &[u8]) -> Option<u16> {
    let (computed, received) = both(begin, datagram)?;
    let Network::V4 { identification, .. } = route.network else {
        return (computed == received).then_some(0);
    };
    if computed == received {
        return Some(identification);
    }
    let covered = datagram.len().checked_sub(ICRC_LEN)?;
    let state = rewind(computed ^ received, covered + AFTER_IDENTIFICATION + 2);
    // Two bytes entering an empty register are its low half, the first one lowest.
    let [first, second, 0, 0] = state.to_le_bytes() else {
        return None;
    };
    Some(identification ^ u16::from_be_bytes([first, second]))
}

/// What an identification changes in the register in front of the BTH, compared with 0: the sum of
/// what its bits change.
fn identified(identification: u16) -> u32 {
    let bits = IDENTIFIED.iter().enumerate();
    bits.filter(|(bit, _)| identification >> bit & 1 != 0)
        .fold(0, |sum, (_, change)| sum ^ change)
}

/// The same for each bit.
const IDENTIFIED: [u32; 16] = changes();

const fn changes() -> [u32; 16] {
    let mut table = [0; 16];
    let mut bit = 0;
    while bit < table.len() {
        // The bytes enter the register in network order, the first one lowest.
        let mut register = (1u16 << bit).swap_bytes() as u32;
        let mut zeros = 8 * (2 + AFTER_IDENTIFICATION);
        while zeros > 0 {
            register = multiply_by_x(register);
            zeros -= 1;
        }
        table[bit] = register;
        bit += 1;
    }
    table
}

/// The polynomial, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// `INVERSE[k]` = x^(-8 * 2^k) modulo the polynomial: takes back 2^k zero bytes.
const INVERSE: [u32; 17] = inverses();

const fn inverses() -> [u32; 17] {
    let mut power = 0x8000_0000;
    let mut bit = 0;
    while bit < 8 {
        power = divide_by_x(power);
        bit += 1;
    }
    let mut table = [0; 17];
    let mut k = 0;
    while k < table.len() {
        table[k] = power;
        power = multiply(power, power);
        k += 1;
    }
    table
}

const fn divide_by_x(value: u32) -> u32 {
    if value & 0x8000_0000 != 0 {
        (value ^ POLYNOMIAL) << 1 | 1
    } else {
        value << 1
    }
}

const fn multiply_by_x(value: u32) -> u32 {
    if value & 1 != 0 {
        value >> 1 ^ POLYNOMIAL
    } else {
        value >> 1
    }
}

const fn multiply(left: u32, mut right: u32) -> u32 {
    let mut product = 0;
    let mut bit = 0x8000_0000u32;
    while bit != 0 {
        if left & bit != 0 {
            product ^= right;
        }
        right = multiply_by_x(right);
        bit >>= 1;
    }
    product
}

/// The register from which `bytes` zero bytes lead to `register`.
fn rewind(mut register: u32, bytes: usize) -> u32 {
    for (k, inverse) in INVERSE.iter().enumerate() {
        if bytes >> k & 1 != 0 {
            register = multiply(*inverse, register);
        }
    }
    register
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(identification: u16) -> Route {
        Route {
            network: Network::V4 {
                source: [10, 9, 0, 1],
                destination: [10, 9, 0, 2],
                identification,
                dont_fragment: true,
            },
            source_port: 0xc123,
            destination_port: 4791,
        }
    }

    fn sealed(route: &Route, body: &[u8]) -> Vec<u8> {
        let mut bytes = body.to_vec();
        let crc = Icrc::begin(route, body, body.len() + ICRC_LEN).finish();
        bytes.extend(crc);
        bytes
    }

    proptest! {
        #[test]
        fn the_identification_is_found(
            real in any::<u16>(),
            guess in any::<u16>(),
            body in proptest::collection::vec(any::<u8>(), 12..4200),
        ) {
            let datagram = sealed(&route(real), &body);
            prop_assert!(verify(&route(real), &datagram));
            prop_assert_eq!(identify(&route(guess), &datagram), Some(real));
        }

        #[test]
        fn pieces_make_the_same_sum(body in proptest::collection::vec(any::<u8>(), 12..600), cut in 12usize..600) {
            let cut = cut.min(body.len());
            let whole = Icrc::begin(&route(7), &body, body.len() + ICRC_LEN).finish();
            let mut pieces = Icrc::begin(&route(7), &body[..cut], body.len() + ICRC_LEN);
            pieces.update(&body[cut..]);
            prop_assert_eq!(pieces.finish(), whole);
        }

        #[test]
        fn earlier_packets_change_no_sum(
            packets in proptest::collection::vec(
                (prop_oneof![0u16..3, any::<u16>()], any::<bool>(), 0usize..40),
                1..40,
            ),
        ) {
            let mut latest = Latest::default();
            for (identification, v6, length) in packets {
                let network = Network::V6 { source: [1; 16], destination: [2; 16] };
                let network = if v6 { network } else { route(identification).network };
                let route = Route { network, ..route(0) };
                let body = &[0xa5; 40][..length];
                let sum = latest.begin(&route, body, length + ICRC_LEN).finish();
                prop_assert_eq!(sum, Icrc::begin(&route, body, length + ICRC_LEN).finish());
                let datagram = sealed(&route, body);
                prop_assert_eq!(latest.identify(&route, &datagram), identify(&route, &datagram));
            }
        }

        #[test]
        fn one_flipped_bit_is_noticed(
            body in proptest::collection::vec(any::<u8>(), 12..300),
            at in any::<prop::sample::Index>(),
            bit in 0u8..8,
        ) {
            let mut datagram = sealed(&route(0), &body);
            let at = at.index(datagram.len());
            if at == MASKED_BYTE {
                return Ok(());
            }
            datagram[at] ^= 1 << bit;
            prop_assert!(!verify(&route(0), &datagram));
        }
    }

    #[test]
    fn congestion_marks_do_not_break_the_sum() {
        let mut datagram = sealed(&route(3), &[7; 40]);
        datagram[MASKED_BYTE] ^= 0xc0;
        assert!(verify(&route(3), &datagram));
    }

    #[test]
    fn too_short_is_wrong() {
        assert!(!verify(&route(0), &[]));
        assert!(!verify(&route(0), &[1, 2, 3]));
        assert_eq!(identify(&route(0), &[1, 2, 3]), None);
    }
}
