//! A management datagram: the header, and the message in it (IBTA volume 1, 13.4.2).

use super::{bits::BODY, messages::Message};

/// Bytes of a datagram.
pub const LEN: usize = HEADER + BODY;
const HEADER: usize = 24;

const BASE_VERSION: u8 = 1;
/// The management class of the communication manager.
const CLASS: u8 = 7;
const CLASS_VERSION: u8 = 2;
/// All messages are sent, none is got or set.
const SEND: u8 = 3;

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mad {
    /// Ties a message to those that it answers.
    pub transaction: u64,
    /// Enhanced connection options, in REQ, REP and SIDR REP; else 0.
    pub modifier: u32,
    /// The message.
    pub message: Message,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They are not as many as a datagram has.
    Length,
    /// The header is of another version, class or method.
    Header,
    /// The message is of no known kind.
    Attribute(u16),
}

impl Mad {
    /// Reads a datagram.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes: &[u8; LEN] = bytes.try_into().map_err(|_| Malformed::Length)?;
        let (head, body) = bytes
            .split_first_chunk::<HEADER>()
            .ok_or(Malformed::Length)?;
        let body: &[u8; BODY] = body.try_into().map_err(|_| Malformed::Length)?;
        // The status and the class's own bytes are 0 on sending, and ignored on receipt.
        let [
            BASE_VERSION,
            CLASS,
            CLASS_VERSION,
            SEND,
            _,
            _,
            _,
            _,
            t0,
            t1,
            t2,
            t3,
            t4,
            t5,
            t6,
            t7,
            a0,
            a1,
            _,
            _,
            m0,
            m1,
            m2,
            m3,
        ] = *head
        else {
            return Err(Malformed::Header);
        };
        let attribute = u16::from_be_bytes([a0, a1]);
        Ok(Self {
            transaction: u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            modifier: u32::from_be_bytes([m0, m1, m2, m3]),
            message: Message::read(attribute, body).ok_or(Malformed::Attribute(attribute))?,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let parts: [(usize, &[u8]); 5] = [
            (0, &[BASE_VERSION, CLASS, CLASS_VERSION, SEND]),
            (8, &self.transaction.to_be_bytes()),
            (16, &self.message.attribute().to_be_bytes()),
            (20, &self.modifier.to_be_bytes()),
            (HEADER, &self.message.body()),
        ];
        for (at, part) in parts {
            if let Some(place) = bytes.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Rtu, SidrReq};

    fn rtu() -> Mad {
        Mad {
            transaction: 0x0102_0304_0506_0708,
            modifier: 9,
            message: Rtu::default().into(),
        }
    }

    #[test]
    fn the_header_is_looked_at() {
        let good = rtu().emit();
        assert_eq!(Mad::parse(&good), Ok(rtu()));
        for at in 0..4 {
            let mut bad = good;
            bad[at] ^= 0x80;
            assert_eq!(Mad::parse(&bad), Err(Malformed::Header), "byte {at}");
        }
        let mut unknown = good;
        unknown[17] = 0x1b;
        assert_eq!(Mad::parse(&unknown), Err(Malformed::Attribute(0x1b)));
    }

    #[test]
    fn only_whole_datagrams_are_read() {
        let bytes = rtu().emit();
        assert_eq!(Mad::parse(&bytes[..LEN - 1]), Err(Malformed::Length));
        assert_eq!(
            Mad::parse(&[bytes.as_slice(), &[0]].concat()),
            Err(Malformed::Length)
        );
        assert_eq!(Mad::parse(&[]), Err(Malformed::Length));
    }

    #[test]
    fn a_message_is_named_as_the_specification_has_it() {
        let message: Message = SidrReq::default().into();
        assert_eq!((message.name(), message.attribute()), ("SIDR REQ", 0x17));
    }
}
