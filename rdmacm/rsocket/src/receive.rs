//! The receive buffer: a ring that the peer writes into, granted to it in halves.

use std::collections::VecDeque;

/// The peer has violated the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation;

/// A contiguous range of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// Offset in the buffer.
    pub offset: usize,
    /// Number of bytes.
    pub length: usize,
}

/// The pieces of `length` bytes from `offset` on in a ring of `size`; the second is empty if they
/// do not wrap.
pub(crate) fn pieces(offset: usize, length: usize, size: usize) -> [Piece; 2] {
    let first = length.min(size - offset);
    [
        Piece {
            offset,
            length: first,
        },
        Piece {
            offset: 0,
            length: length - first,
        },
    ]
}

/// The ring, and the data messages that have arrived.
#[derive(Debug)]
pub(crate) struct Receive {
    size: usize,
    /// Where the next unread byte is.
    read_at: usize,
    /// Bytes that are read, but not granted to the peer again.
    free: usize,
    /// Offset of the next grant: one of the two halves.
    give_at: usize,
    /// Bytes that are granted, but not filled.
    given: usize,
    /// Lengths of the messages that are not read completely.
    messages: VecDeque<usize>,
    /// Limit of their number.
    most: usize,
    /// Sum of their lengths.
    unread: usize,
    /// Messages that are read, and other messages that used a credit.
    sequence: u16,
    /// Sequence number at which the next credits are due.
    due_at: u16,
    /// Receive requests.
    requests: u16,
}

impl Receive {
    /// A ring whose first half is granted. The size is even.
    pub(crate) fn new(size: usize, requests: u16) -> Self {
        let half = size / 2;
        Self {
            size,
            read_at: 0,
            free: half,
            give_at: half,
            given: half,
            messages: VecDeque::new(),
            most: requests.into(),
            unread: 0,
            sequence: 0,
            due_at: requests / 2,
            requests,
        }
    }

    pub(crate) fn unread(&self) -> usize {
        self.unread
    }

    /// The peer has written so many bytes.
    pub(crate) fn arrived(&mut self, length: usize) -> Result<(), Violation> {
        if length > self.given || self.messages.len() >= self.most {
            return Err(Violation);
        }
        self.given -= length;
        self.unread += length;
        if length == 0 {
            self.count();
        } else {
            self.messages.push_back(length);
        }
        Ok(())
    }

    /// A message without data used a credit of the peer.
    pub(crate) fn count(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// The unread bytes after the first `skip` of them, at most `length`.
    pub(crate) fn peek(&self, skip: usize, length: usize) -> [Piece; 2] {
        let skip = skip.min(self.unread);
        let at = (self.read_at + skip) % self.size;
        pieces(at, length.min(self.unread - skip), self.size)
    }

    /// Removes up to `length` bytes, which the caller has copied. Their space may be granted to the
    /// peer from now on.
    pub(crate) fn take(&mut self, length: usize) -> [Piece; 2] {
        let taken = self.peek(0, length);
        let mut left = taken[0].length + taken[1].length;
        self.read_at = (self.read_at + left) % self.size;
        self.free += left;
        self.unread -= left;
        while let Some(message) = self.messages.front_mut() {
            if *message > left {
                *message -= left;
                break;
            }
            left -= *message;
            self.messages.pop_front();
            self.count();
        }
        taken
    }

    /// Whether a grant of space or credits is due.
    pub(crate) fn is_due(&self) -> bool {
        // A signed difference of 16 bits, because sequence numbers wrap.
        let passed = self.sequence.wrapping_sub(self.due_at);
        self.has_half() || passed < 0x8000
    }

    fn has_half(&self) -> bool {
        self.free >= self.size / 2
    }

    /// The sequence number up to which the peer may send, and a half of the ring if one is free.
    pub(crate) fn give(&mut self) -> (u16, Option<Piece>) {
        self.due_at = self.sequence.wrapping_add(self.requests / 2);
        let upto = self.sequence.wrapping_add(self.requests);
        if !self.has_half() {
            return (upto, None);
        }
        let half = self.size / 2;
        let piece = Piece {
            offset: self.give_at,
            length: half,
        };
        self.free -= half;
        self.given += half;
        self.give_at = (self.give_at + half) % self.size;
        (upto, Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_in_order_across_the_end() {
        let mut ring = Receive::new(16, 8);
        assert!(ring.is_due());
        assert_eq!(
            ring.give().1,
            Some(Piece {
                offset: 8,
                length: 8
            })
        );
        ring.arrived(6).unwrap();
        ring.arrived(10).unwrap();
        assert_eq!(ring.arrived(1), Err(Violation));
        assert_eq!(
            ring.take(7)[0],
            Piece {
                offset: 0,
                length: 7
            }
        );
        assert!(!ring.has_half());
        assert_eq!(
            ring.take(3)[0],
            Piece {
                offset: 7,
                length: 3
            }
        );
        let (upto, half) = ring.give();
        assert_eq!(
            (upto, half),
            (
                9,
                Some(Piece {
                    offset: 0,
                    length: 8
                })
            )
        );
        ring.arrived(2).unwrap();
        assert_eq!(
            ring.peek(4, 9)[0],
            Piece {
                offset: 14,
                length: 2
            }
        );
        let [first, second] = ring.take(100);
        assert_eq!(
            first,
            Piece {
                offset: 10,
                length: 6
            }
        );
        assert_eq!(
            second,
            Piece {
                offset: 0,
                length: 2
            }
        );
        assert_eq!(ring.unread(), 0);
    }

    #[test]
    fn more_messages_than_receive_requests_are_refused() {
        let mut ring = Receive::new(1024, 2);
        ring.arrived(1).unwrap();
        ring.arrived(1).unwrap();
        assert_eq!(ring.arrived(1), Err(Violation));
    }

    #[test]
    fn credits_are_due_after_half_of_the_requests() {
        let mut ring = Receive::new(1 << 20, 4);
        ring.give();
        for _ in 0..2 {
            assert!(!ring.is_due());
            ring.arrived(1).unwrap();
            ring.take(1);
        }
        assert!(ring.is_due());
        assert_eq!(ring.give(), (6, None));
        assert!(!ring.is_due());
    }
}
