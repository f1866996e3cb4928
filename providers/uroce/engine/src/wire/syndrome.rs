//! Meanings of the AETH's syndrome (IBTA volume 1, 9.7.5.2, tables 44 to 46).

use crate::timer::RnrTimer;

/// Codes of a negative acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nak {
    /// PSN Sequence Error: a packet is missing.
    Sequence,
    /// Invalid Request.
    InvalidRequest,
    /// Remote Access Error.
    RemoteAccess,
    /// Remote Operational Error.
    RemoteOperational,
    /// Invalid RD Request.
    InvalidRd,
}

/// The syndrome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Acknowledged; with the end-to-end credits, `None` where the responder does not count them.
    Ack(Option<u32>),
    /// Receiver not ready: send again after the time.
    Rnr(RnrTimer),
    /// Negative acknowledgement.
    Nak(Nak),
}

/// Credit counts by code; code 31 means "not counted".
const CREDITS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
];
const NOT_COUNTED: u8 = 31;

impl Syndrome {
    /// Reads the byte; `None` for reserved codes.
    #[must_use]
    pub fn parse(byte: u8) -> Option<Self> {
        let value = byte & 0x1f;
        match byte >> 5 {
            0 => Some(Self::Ack(CREDITS.get(usize::from(value)).copied())),
            1 => Some(Self::Rnr(RnrTimer::new(value)?)),
            3 => Some(Self::Nak(match value {
                0 => Nak::Sequence,
                1 => Nak::InvalidRequest,
                2 => Nak::RemoteAccess,
                3 => Nak::RemoteOperational,
                4 => Nak::InvalidRd,
                _ => return None,
            })),
            _ => None,
        }
    }

    /// The byte. Credits between two codes are rounded down.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Self::Ack(credits) => credits.map_or(NOT_COUNTED, credit_code),
            Self::Rnr(timer) => 0x20 | timer.code(),
            Self::Nak(nak) => {
                0x60 | match nak {
                    Nak::Sequence => 0,
                    Nak::InvalidRequest => 1,
                    Nak::RemoteAccess => 2,
                    Nak::RemoteOperational => 3,
                    Nak::InvalidRd => 4,
                }
            }
        }
    }
}

fn credit_code(credits: u32) -> u8 {
    let above = CREDITS.partition_point(|count| *count <= credits);
    u8::try_from(above.saturating_sub(1)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_and_written_alike() {
        let mut known = 0;
        for byte in 0..=255u8 {
            // The top bit is reserved.
            let Some(syndrome) = Syndrome::parse(byte) else {
                continue;
            };
            known += 1;
            assert_eq!(syndrome.byte(), byte);
        }
        assert_eq!(known, 32 + 32 + 5);
    }

    #[test]
    fn credits_never_exceed_the_receive_requests() {
        for (credits, reported) in [
            (0, 0),
            (1, 1),
            (5, 4),
            (6, 6),
            (7, 6),
            (100, 96),
            (u32::MAX, 32768),
        ] {
            let byte = Syndrome::Ack(Some(credits)).byte();
            assert_eq!(Syndrome::parse(byte), Some(Syndrome::Ack(Some(reported))));
        }
        assert_eq!(Syndrome::Ack(None).byte(), 31);
        assert_eq!(Syndrome::parse(31), Some(Syndrome::Ack(None)));
    }
}
