//! One connection: which data may be sent, which messages are due, which data has arrived.

use crate::connect::ConnectData;
use crate::entry::{IOMAP_ENTRY, IomapEntry, SGE, Sge};
use crate::message::{Control, Message};
use crate::receive::{Piece, Receive, Violation, pieces};

/// Entries of a target SGL.
pub const TARGET_ENTRIES: u32 = 2;
/// Slots of the send queue that are reserved for control messages, which need no credit.
pub const CONTROL_PLACES: u16 = 4;
/// Bytes of the send buffer that must be free before data is sent.
pub const SEND_LOW_WATER: usize = 2048;
/// Maximum length of a write in bytes.
pub const MAX_WRITE: usize = 65536;

/// Sizes of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Slots of the send queue, including those for control messages.
    pub send_places: u16,
    /// Receive requests.
    pub receive_requests: u16,
    /// Bytes that the device takes inline.
    pub inline: usize,
    /// Bytes of the send buffer.
    pub send_buffer: usize,
    /// The receive buffer: its length is even.
    pub receive_buffer: Sge,
    /// iWARP: a message is a separate send after the write.
    pub message_is_send: bool,
}

/// The table into which the peer writes entries.
pub trait TargetSgl {
    /// Takes an entry that the peer has written, and sets its length to 0.
    fn take(&mut self, index: u32) -> Option<Sge>;
}

/// The payload of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// No bytes.
    Empty,
    /// The next bytes of the caller, inline.
    Inline(usize),
    /// The next bytes of the caller, copied to these pieces of the send buffer.
    Ring([Piece; 2]),
    /// The first bytes of this entry, inline.
    Entry([u8; IOMAP_ENTRY], usize),
    /// The first bytes of this entry, through a slot of a table of [`CONTROL_PLACES`].
    ControlEntry([u8; IOMAP_ENTRY], usize, usize),
    /// The entry, copied to these pieces of the send buffer.
    RingEntry([u8; IOMAP_ENTRY], [Piece; 2]),
}

/// A write into the peer's memory; the caller posts it at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// Number of the work request.
    pub id: u64,
    /// Immediate data in native byte order; none for a plain write.
    pub message: Option<u32>,
    /// The payload.
    pub payload: Payload,
    /// Destination and length.
    pub target: Sge,
}

/// Bytes of an entry.
fn length_of(entry: usize) -> u32 {
    u32::try_from(entry).unwrap_or(u32::MAX)
}

/// Flag in the number of a work request: the send after a write, whose completion returns no bytes.
const SEND_PART: u64 = 1 << 32;

impl Write {
    /// Number of the send after a write, where messages are sends.
    #[must_use]
    pub fn send_id(&self) -> u64 {
        self.id | SEND_PART
    }
}

/// One connection.
#[derive(Debug)]
pub struct Stream {
    limits: Limits,
    /// The byte order of entries in the peer's memory.
    peer_big_endian: bool,
    peer_sgl: Sge,
    peer_iomap: u16,

    /// Free slots of the send queue, for data and for control messages.
    places: u16,
    control_places: u16,
    control_count: usize,
    /// Free bytes of the send buffer, and the offset of the next ones.
    send_free: usize,
    send_at: usize,
    /// Sequence number of the next message, and the first one that may not be sent.
    next: u16,
    stop: u16,
    /// Where data goes, the entry in use, and the entry that the peer writes next.
    targets: [Sge; TARGET_ENTRIES as usize],
    target: usize,
    expected: usize,

    receive: Receive,
    /// Entry of the peer's table that this side writes next.
    give_entry: u32,

    state: State,
    readable: bool,
    writable: bool,
    /// A message to be sent as soon as a slot is free.
    farewell: Option<Control>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Connected,
    Disconnected,
    Failed,
}

impl Stream {
    /// A connection with a peer that sent these parameters.
    #[must_use]
    pub fn new(limits: Limits, peer: &ConnectData) -> Self {
        let size = usize::try_from(limits.receive_buffer.length).unwrap_or(usize::MAX);
        Self {
            limits,
            peer_big_endian: peer.big_endian,
            peer_sgl: peer.target_sgl,
            peer_iomap: peer.iomap_size,
            places: limits.send_places.saturating_sub(CONTROL_PLACES),
            control_places: CONTROL_PLACES,
            control_count: 0,
            send_free: limits.send_buffer,
            send_at: 0,
            next: 0,
            stop: peer.credits,
            targets: [peer.data, Sge::default()],
            target: 0,
            expected: 1,
            receive: Receive::new(size, limits.receive_requests),
            // The first half of the ring was in the data of the connection.
            give_entry: 1 % peer.target_sgl.length.max(1),
            state: State::Connected,
            readable: true,
            writable: true,
            farewell: None,
        }
    }

    /// Work requests of one message.
    fn cost(&self) -> u16 {
        if self.limits.message_is_send { 2 } else { 1 }
    }

    /// Whether neither side has closed the connection.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Whether the transport has failed, or the peer has violated the protocol.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// Whether more data can arrive.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether data may be sent.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Bytes that wait to be read.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.receive.unread()
    }

    /// Whether [`Self::send`] returns a write.
    #[must_use]
    pub fn can_send(&self) -> bool {
        self.writable
            && self.has_place()
            && self.next != self.stop
            && self.targets[self.target].length != 0
    }

    fn has_place(&self) -> bool {
        self.state == State::Connected
            && self.places >= self.cost()
            && self.send_free >= SEND_LOW_WATER.min(self.limits.send_buffer)
    }

    /// Whether all posted requests are completed, and no message is due.
    #[must_use]
    pub fn is_all_sent(&self) -> bool {
        self.farewell.is_none()
            && self.places + self.control_places == self.limits.send_places.max(CONTROL_PLACES)
    }

    fn message(&self, message: Message, payload: Payload, target: Sge) -> Write {
        let word = message.encode();
        Write {
            id: word.into(),
            message: Some(word),
            payload,
            target,
        }
    }

    /// Takes a slot, and bytes of the send buffer. Returns pieces of the ring unless the bytes go
    /// inline.
    fn reserve(&mut self, length: usize, places: u16) -> Option<[Piece; 2]> {
        self.places -= places;
        self.send_free -= length;
        if length <= self.limits.inline {
            return None;
        }
        let taken = pieces(self.send_at, length, self.limits.send_buffer);
        self.send_at = (self.send_at + length) % self.limits.send_buffer;
        Some(taken)
    }

    /// A write of the next bytes: there are `length` of them, and at most `most` are written. None
    /// without a free slot, a credit, or space in the peer's memory.
    pub fn send(&mut self, length: usize, most: usize) -> Option<Write> {
        if !self.can_send() || length == 0 {
            return None;
        }
        let target = self.targets[self.target];
        let room = usize::try_from(target.length).unwrap_or(usize::MAX);
        let length = length
            .min(most.min(MAX_WRITE))
            .min(room)
            .min(self.send_free);
        let sent = u32::try_from(length).ok()?;
        let payload = match self.reserve(length, self.cost()) {
            None => Payload::Inline(length),
            Some(pieces) => Payload::Ring(pieces),
        };
        self.next = self.next.wrapping_add(1);
        let current = &mut self.targets[self.target];
        current.address = current.address.wrapping_add(sent.into());
        current.length -= sent;
        if current.length == 0 {
            self.target = (self.target + 1) % self.targets.len();
        }
        let target = Sge {
            length: sent,
            ..target
        };
        Some(self.message(Message::Data(sent), payload, target))
    }

    /// A write into an iomap of the peer, without a message.
    pub fn write_mapped(&mut self, memory: Sge) -> Option<Write> {
        let length = usize::try_from(memory.length).unwrap_or(usize::MAX);
        if !self.writable || !self.has_place() || length == 0 {
            return None;
        }
        let length = length.min(MAX_WRITE).min(self.send_free);
        let sent = u32::try_from(length).ok()?;
        let payload = match self.reserve(length, 1) {
            None => Payload::Inline(length),
            Some(pieces) => Payload::Ring(pieces),
        };
        Some(Write {
            id: Message::Write(sent).encode().into(),
            message: None,
            payload,
            target: Sge {
                length: sent,
                ..memory
            },
        })
    }

    /// Entries of the peer's iomap.
    #[must_use]
    pub fn peer_iomap(&self) -> u16 {
        self.peer_iomap
    }

    /// Writes an entry of the peer's iomap. None without a free slot or a credit.
    pub fn write_iomap(&mut self, index: u16, entry: &IomapEntry) -> Option<Write> {
        if !self.writable || !self.has_place() || self.next == self.stop || index >= self.peer_iomap
        {
            return None;
        }
        let bytes = entry.encode(self.peer_big_endian);
        let payload = match self.reserve(IOMAP_ENTRY, self.cost()) {
            None => Payload::Entry(bytes, IOMAP_ENTRY),
            Some(pieces) => Payload::RingEntry(bytes, pieces),
        };
        self.next = self.next.wrapping_add(1);
        let table = SGE as u64 * u64::from(self.peer_sgl.length);
        let at = table + IOMAP_ENTRY as u64 * u64::from(index);
        let target = Sge {
            address: self.peer_sgl.address.wrapping_add(at),
            key: self.peer_sgl.key,
            length: length_of(IOMAP_ENTRY),
        };
        Some(self.message(Message::Iomap(index.into()), payload, target))
    }

    /// The next control message that is due. The caller asks after every call that changes the
    /// state.
    pub fn next_control(&mut self) -> Option<Write> {
        if self.state != State::Connected {
            return None;
        }
        if let Some(farewell) = self.farewell {
            if self.control_places == 0 {
                return None;
            }
            self.farewell = None;
            return Some(self.control(farewell));
        }
        if self.receive.is_due() && self.control_places >= self.cost() {
            return Some(self.credits());
        }
        None
    }

    fn control(&mut self, control: Control) -> Write {
        self.control_places -= 1;
        self.message(Message::Control(control), Payload::Empty, Sge::default())
    }

    fn credits(&mut self) -> Write {
        self.control_places -= 1;
        let (upto, half) = self.receive.give();
        let message = Message::Credits(upto);
        let Some(half) = half else {
            return self.message(message, Payload::Empty, Sge::default());
        };
        if self.limits.message_is_send {
            self.control_places -= 1;
        }
        let ring = self.limits.receive_buffer;
        let entry = Sge {
            address: ring.address.wrapping_add(half.offset as u64),
            key: ring.key,
            length: u32::try_from(half.length).unwrap_or(u32::MAX),
        };
        let mut bytes = [0; IOMAP_ENTRY];
        bytes[..SGE].copy_from_slice(&entry.encode(self.peer_big_endian));
        let payload = if SGE <= self.limits.inline {
            Payload::Entry(bytes, SGE)
        } else {
            self.control_count = (self.control_count + 1) % usize::from(CONTROL_PLACES);
            Payload::ControlEntry(bytes, SGE, self.control_count)
        };
        let at = SGE as u64 * u64::from(self.give_entry);
        self.give_entry = (self.give_entry + 1) % self.peer_sgl.length.max(1);
        let target = Sge {
            address: self.peer_sgl.address.wrapping_add(at),
            key: self.peer_sgl.key,
            length: length_of(SGE),
        };
        self.message(message, payload, target)
    }

    /// An empty write that only asks the transport whether the peer still responds. None if all
    /// control slots are in use: those writes ask the same.
    pub fn keep_alive(&mut self) -> Option<Write> {
        if self.state != State::Connected || self.control_places == 0 {
            return None;
        }
        self.control_places -= 1;
        Some(Write {
            id: Message::Control(Control::KeepAlive).encode().into(),
            message: None,
            payload: Payload::Empty,
            target: Sge::default(),
        })
    }

    /// Closes directions of this side. [`Self::next_control`] notifies the peer.
    pub fn shut_down(&mut self, reading: bool, writing: bool) {
        let (readable, writable) = (self.readable, self.writable);
        self.readable &= !reading;
        self.writable &= !writing;
        if self.state != State::Connected || (readable, writable) == (self.readable, self.writable)
        {
            return;
        }
        match (self.readable, self.writable) {
            (false, false) => self.farewell = Some(Control::Disconnect),
            (true, false) => self.farewell = Some(Control::Shutdown),
            // The peer continues; this side does not read its data.
            (_, true) => {}
        }
    }

    fn end(&mut self, state: State) {
        if self.state == State::Connected {
            self.state = state;
        }
        self.readable = false;
        self.writable = false;
        self.farewell = None;
    }

    /// The transport reports an orderly end of the connection.
    pub fn disconnected(&mut self) {
        self.end(State::Disconnected);
    }

    /// The transport reports a failure.
    pub fn failed(&mut self) {
        self.end(State::Failed);
    }

    /// A message has arrived; the caller posts its receive request again.
    ///
    /// # Errors
    /// [`Violation`] for data that exceeds the granted space; the connection has failed then.
    pub fn received(&mut self, word: u32, sgl: &mut impl TargetSgl) -> Result<(), Violation> {
        match Message::decode(word) {
            Message::Credits(upto) => {
                self.stop = upto;
                self.take_targets(sgl);
            }
            Message::Iomap(_) => self.receive.count(),
            Message::Control(Control::Disconnect) => self.disconnected(),
            Message::Control(Control::Shutdown) => {
                self.readable = false;
                if !self.writable {
                    self.disconnected();
                }
            }
            Message::Control(_) | Message::Write(_) => {}
            Message::Data(length) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                self.receive
                    .arrived(length)
                    .inspect_err(|_| self.failed())?;
            }
        }
        Ok(())
    }

    /// Takes the entries that the peer has written, in the order of its writes. An entry that is
    /// not used up stays in the table.
    fn take_targets(&mut self, sgl: &mut impl TargetSgl) {
        for _ in 0..self.targets.len() {
            if self.targets[self.expected].length != 0 {
                return;
            }
            let index = u32::try_from(self.expected).unwrap_or(0);
            let Some(entry) = sgl.take(index) else {
                return;
            };
            self.targets[self.expected] = entry;
            self.expected = (self.expected + 1) % self.targets.len();
        }
    }

    /// A work request is completed.
    pub fn sent(&mut self, id: u64, succeeded: bool) {
        let [.., a, b, c, d] = id.to_be_bytes();
        let is_send_part = id & SEND_PART != 0;
        let limits = self.limits;
        let mut give_back = |bytes: u32| {
            let bytes = usize::try_from(bytes).unwrap_or(0);
            self.places = (self.places + 1).min(limits.send_places.saturating_sub(CONTROL_PLACES));
            if !is_send_part {
                self.send_free = (self.send_free + bytes).min(limits.send_buffer);
            }
        };
        match Message::decode(u32::from_be_bytes([a, b, c, d])) {
            Message::Data(length) | Message::Write(length) => give_back(length),
            Message::Iomap(_) => give_back(length_of(IOMAP_ENTRY)),
            Message::Credits(_) => self.give_back_control(),
            Message::Control(control) => {
                self.give_back_control();
                if control == Control::Disconnect {
                    self.disconnected();
                }
            }
        }
        if !succeeded {
            self.failed();
        }
    }

    fn give_back_control(&mut self) {
        self.control_places = (self.control_places + 1).min(CONTROL_PLACES);
    }

    /// The unread bytes after the first `skip` of them, at most `length`.
    #[must_use]
    pub fn peek(&self, skip: usize, length: usize) -> [Piece; 2] {
        self.receive.peek(skip, length)
    }

    /// Removes up to `length` bytes. The caller copies them before it calls [`Self::next_control`],
    /// which may grant their space to the peer.
    pub fn take(&mut self, length: usize) -> [Piece; 2] {
        self.receive.take(length)
    }
}
