//! The immediate data of an RDMA write: three bits of operation, 29 of data.

const SHIFT: u32 = 29;
const DATA: u32 = (1 << SHIFT) - 1;

const OP_DATA: u32 = 0;
const OP_WRITE: u32 = 2;
const OP_SGL: u32 = 4;
const OP_IOMAP: u32 = 6;
const OP_CONTROL: u32 = 7;

/// The kinds of control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Both directions end.
    Disconnect,
    /// Asks whether the peer still responds. It is never sent as a message.
    KeepAlive,
    /// The sender's direction ends.
    Shutdown,
    /// An undefined number.
    Unknown(u32),
}

/// A message; its 32 bits are in network byte order on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Number of written bytes. Reserved operations are treated as this, too.
    Data(u32),
    /// A write without a message; it appears only in completions of the sender.
    Write(u32),
    /// The sequence number up to which the peer may send.
    Credits(u16),
    /// This entry of the receiver's iomap was written.
    Iomap(u32),
    /// A [`Control`] message.
    Control(Control),
}

impl Message {
    /// Decodes the 32 bits of a completion.
    #[must_use]
    pub fn decode(word: u32) -> Self {
        let data = word & DATA;
        match word >> SHIFT {
            OP_WRITE => Self::Write(data),
            // The rest of the field is reserved.
            OP_SGL => {
                let [.., high, low] = data.to_be_bytes();
                Self::Credits(u16::from_be_bytes([high, low]))
            }
            OP_IOMAP => Self::Iomap(data),
            OP_CONTROL => Self::Control(match data {
                0 => Control::Disconnect,
                1 => Control::KeepAlive,
                2 => Control::Shutdown,
                other => Control::Unknown(other),
            }),
            _ => Self::Data(data),
        }
    }

    /// Encodes the message; data beyond 29 bits is cut off.
    #[must_use]
    pub fn encode(self) -> u32 {
        let (op, data) = match self {
            Self::Data(length) => (OP_DATA, length),
            Self::Write(length) => (OP_WRITE, length),
            Self::Credits(sequence) => (OP_SGL, u32::from(sequence)),
            Self::Iomap(index) => (OP_IOMAP, index),
            Self::Control(control) => (
                OP_CONTROL,
                match control {
                    Control::Disconnect => 0,
                    Control::KeepAlive => 1,
                    Control::Shutdown => 2,
                    Control::Unknown(other) => other,
                },
            ),
        };
        op << SHIFT | data & DATA
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_bits() {
        assert_eq!(Message::Data(0x1_0000).encode(), 0x0001_0000);
        assert_eq!(Message::Credits(0xfffe).encode(), 0x8000_fffe);
        assert_eq!(Message::Iomap(3).encode(), 0xc000_0003);
        let control = |control| Message::Control(control).encode();
        assert_eq!(control(Control::Disconnect), 0xe000_0000);
        assert_eq!(control(Control::KeepAlive), 0xe000_0001);
        assert_eq!(control(Control::Shutdown), 0xe000_0002);
    }

    #[test]
    fn reserved_operations_are_data() {
        for op in [1_u32, 3, 5] {
            assert_eq!(Message::decode(op << 29 | 7), Message::Data(7));
        }
        let unknown = Message::Control(Control::Unknown(9));
        assert_eq!(Message::decode(0xe000_0009), unknown);
    }

    proptest::proptest! {
        #[test]
        fn every_word_is_read_and_known_ones_are_written_alike(word: u32) {
            let message = Message::decode(word);
            proptest::prop_assert_eq!(Message::decode(message.encode()), message);
        }
    }
}
