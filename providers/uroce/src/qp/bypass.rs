//! Messages past the protocol: sends to a process of this host while nothing else is under way.
//!
//! A message goes whole into the ring that leads to the peer's process, and the peer's poll puts it into
//! the next receive request. That is all as long as all is well. What the peer cannot take so (no
//! receive request, one that is too short, memory that may not be written, another state) it refuses,
//! with everything behind it, and the protocol sends it from here, which finds out the same in its own
//! way and has the answer to it.
//!
//! Order: the protocol has nothing under way while messages go past it, and gets the next request when
//! the fate of all of them is known.

use super::core::{Core, Inner};
use super::requests;
use super::sent::{self, Asked, Sent};
use crate::carrier::shm::{Directory, Fate, Few, GateSeen, Header, MESSAGE_MAX, Peer, Put};
use crate::clock;
use crate::context::Context;
use crate::cq::{Entry, Filling, success};
use crate::memory::{Care, Recent, Scattering, piece};
use crate::node::{Messages, Mover};
use kit::abi::*;
use kit::provider::{Data, SendView};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uroce_engine::host::Fault;
use uroce_engine::qp::{Service, State};
use uroce_engine::work::{Completion, CompletionOpcode, Receive, Sge, Status, WorkRequest};

/// Flags of requests that may go past the protocol.
const FLAGS: u32 = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
/// After a refusal so many requests take the long way before the short one is tried again; after each
/// that follows twice as many, up to the second number.
const PENALTY: [u32; 2] = [1, 64];

/// Nanoseconds after which a message that nobody took is lost, where nobody answers.
const UNRELIABLE: u64 = 1_000_000_000;

/// How long a send queue that drains waits for messages.
const DRAIN: Duration = Duration::from_millis(100);

/// What a queue pair has sent past the protocol, and expects.
#[derive(Debug, Default)]
pub struct Bypass {
    /// It may be used on this queue pair.
    open: bool,
    /// What the peer expects of the next message.
    epoch: u32,
    /// What is expected of the peer's next message.
    expected: u32,
    sent: sent::Queue,
    /// Requests that wait until the fate of all messages is known.
    deferred: VecDeque<WorkRequest>,
    /// Requests that are to take the long way.
    rest: u32,
    penalty: u32,
}

impl Bypass {
    /// Requests posted and not completed.
    pub fn outstanding(&self) -> usize {
        self.sent.len() + self.deferred.len()
    }

    /// Whether the next request has to wait for its turn.
    pub fn is_busy(&self) -> bool {
        !self.sent.is_empty() || !self.deferred.is_empty()
    }

    /// Keeps a request until its turn comes.
    pub fn defer(&mut self, wr: WorkRequest) {
        self.deferred.push_back(wr);
    }

    /// A request takes the long way.
    pub fn passed_by(&mut self) {
        self.rest = self.rest.saturating_sub(1);
    }

    /// Forgets everything, as in RESET.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The queue pair has a peer: what is expected of him begins with the PSN that his packets begin
    /// with, so that nothing of an earlier connection is taken for one of this.
    pub fn expect(&mut self, open: bool, psn: u32) {
        self.open = open;
        self.expected = psn << 8;
    }

    /// The queue pair may send.
    pub fn begin(&mut self, psn: u32) {
        self.epoch = psn << 8;
    }

    /// What is expected of the peer's next message.
    #[inline]
    pub fn expected(&self) -> u32 {
        self.expected
    }

    /// Whether that is what the peer expects.
    pub fn has_epoch(&self, epoch: u32) -> bool {
        self.epoch == epoch
    }

    fn refused(&mut self) {
        let [least, most] = PENALTY;
        self.penalty = (self.penalty * 2).clamp(least, most);
        self.rest = self.penalty;
    }
}

/// Sending.
impl Core {
    /// Sends a request past the protocol, if that may be. It is one that the long way would take.
    #[inline]
    pub(super) fn post_past<'a>(
        &self,
        inner: &mut Inner,
        given: &impl SendView<'a, Context>,
    ) -> bool {
        let Some(immediate) = sent::immediate(given) else {
            return false;
        };
        let bypass = &inner.bypass;
        let may = bypass.open
            && bypass.rest == 0
            && bypass.deferred.is_empty()
            && given.flags() & !FLAGS == 0
            && bypass.sent.len() < self.room()
            && inner.engine.may_send_past();
        let Some(data) = given.data().ok().filter(|_| may) else {
            return false;
        };
        let asked = Asked {
            id: given.id(),
            flags: given.flags(),
            immediate,
        };
        self.put_past(inner, &asked, &data).is_some()
    }

    // The same for every kind of view.
    #[inline(never)]
    fn put_past(&self, inner: &mut Inner, asked: &Asked, data: &Data<'_>) -> Option<()> {
        inner.peer.as_ref().filter(|peer| !peer.is_gone())?;
        let length = self.posting(&mut inner.binds).length(data)?;
        if usize::try_from(length).ok()? > MESSAGE_MAX {
            return None;
        }
        // In a forked child nothing is touched: it may have neither the memory nor the locks.
        let directory = self.node().directory()?;
        let few = match sent::one_piece(data) {
            Some(piece) => Some(self.read_few(&mut inner.local, piece)?),
            None => sent::few(data),
        };
        let Some((few, count)) = few else {
            return self.put_much(inner, directory, asked, data, length);
        };
        let permit = self.permit(inner, length);
        let header = self.header(inner, asked, permit);
        let gate = permit.unwrap_or_default();
        let peer = inner.peer.as_ref()?;
        let put = directory.put(peer, |peer| peer.short(&header, few, count, gate))?;
        if self.is_settled(inner, asked, length, put, permit) {
            return Some(());
        }
        inner
            .bypass
            .sent
            .add(asked, (put.position, length))?
            .keep_few(few, count);
        Some(())
    }

    /// A message is on its way, perhaps by a credit. Answers whether its success is told already.
    #[inline(always)]
    fn is_settled(
        &self,
        inner: &mut Inner,
        asked: &Asked,
        length: u32,
        put: Put,
        permit: Option<GateSeen>,
    ) -> bool {
        inner.engine.sent_past(length);
        inner.permit.sent();
        if put.settled {
            inner.permit.settled(put.position);
            inner.bypass.penalty = 0;
            self.sent_well(inner, asked.id, asked.flags, length);
        } else if permit.is_some() {
            inner.permit.doubt();
        }
        put.settled
    }

    #[inline(always)]
    fn header(&self, inner: &Inner, asked: &Asked, permit: Option<GateSeen>) -> Header {
        Header {
            source: self.number,
            destination: inner.engine.attributes().dest_qp_num,
            epoch: inner.bypass.epoch,
            immediate: asked.immediate,
            solicited: asked.flags & IBV_SEND_SOLICITED != 0,
            settled: permit.is_some(),
        }
    }

    /// The bytes of a piece that are few; `None` if they cannot be had.
    #[inline(always)]
    fn read_few(&self, local: &mut Recent, piece: Sge) -> Option<(Few, usize)> {
        let count = usize::try_from(piece.length).ok()?;
        if count == 0 {
            return Some((Few::default(), 0));
        }
        let few = self.keys().gather_few(piece, local).ok()?;
        Some((few, count))
    }

    /// Sends what is not in the first line.
    #[inline(never)]
    fn put_much(
        &self,
        inner: &mut Inner,
        directory: &Directory,
        asked: &Asked,
        data: &Data<'_>,
        length: u32,
    ) -> Option<()> {
        let size = usize::try_from(length).ok()?;
        let permit = self.permit(inner, length);
        let header = self.header(inner, asked, permit);
        let gate = permit.unwrap_or_default();
        let mut read = |room: &mut [u8]| self.read_past(data, room);
        let peer = inner.peer.as_ref()?;
        let put = directory.put(peer, |peer| peer.long(&header, size, &mut read, gate))?;
        if self.is_settled(inner, asked, length, put, permit) {
            return Some(());
        }
        inner
            .bypass
            .sent
            .add(asked, (put.position, length))?
            .keep(data);
        Some(())
    }

    /// Waits a moment until the fate of all messages is known: the protocol tells of the end of a send
    /// queue that drains, and knows nothing of them.
    pub(super) fn drain_past(&self) {
        let began = Instant::now();
        while self.is_busy_past() && began.elapsed() < DRAIN {
            self.node().progress(Mover::Node);
            std::thread::yield_now();
        }
    }

    fn read_past(&self, data: &Data<'_>, room: &mut [u8]) -> Result<(), Fault> {
        let pieces = match data {
            Data::Inline(inline) => return requests::copy(inline, room).ok_or(Fault),
            Data::Sges(pieces) => pieces.iter().map(piece),
        };
        let mut rest = room;
        for piece in pieces {
            let length = usize::try_from(piece.length).map_err(|_| Fault)?;
            let (now, later) = rest.split_at_mut_checked(length).ok_or(Fault)?;
            let memory = self.keys().using(Care::Plain);
            memory.gather(self.pd, piece, now)?;
            rest = later;
        }
        Ok(())
    }

    /// What became of messages. Answers whether the protocol has something to send now.
    pub(super) fn settle(&self, inner: &mut Inner, fate: Fate) -> bool {
        match fate {
            Fate::Taken(position) => self.complete_to(inner, position, true),
            Fate::Refused(position, epoch) => {
                self.complete_to(inner, position, false);
                let front = inner.bypass.sent.get(0);
                if front.is_some_and(|sent| sent.position == position) {
                    inner.bypass.epoch = epoch;
                    self.take_the_long_way(inner);
                }
            }
            Fate::Lost => self.take_the_long_way(inner),
        }
        self.resume(inner)
    }

    /// Completes messages up to a position.
    fn complete_to(&self, inner: &mut Inner, position: u64, inclusive: bool) {
        let is_done =
            |sent: &Sent| sent.position < position || inclusive && sent.position == position;
        let mut count = 0;
        for sent in inner.bypass.sent.iter().take_while(|sent| is_done(sent)) {
            self.sent_well(inner, sent.id, sent.flags, sent.length);
            count += 1;
        }
        if count > 0 {
            inner.bypass.penalty = 0;
            inner.bypass.sent.leave_out(count);
        }
    }

    /// A message was received, or is lost without anybody telling; that is told if it is signalled.
    #[inline(always)]
    fn sent_well(&self, inner: &Inner, id: u64, flags: u32, length: u32) {
        inner.counting.succeeded(Sent::OPCODE, length);
        if flags & IBV_SEND_SIGNALED != 0 || inner.engine.config().sq_sig_all {
            let wc = success(id, IBV_WC_SEND, length, self.number);
            self.push_success(self.parts.send_cq.as_ref(), wc, false);
        }
    }

    /// A request that went past the protocol, or waited for that, has failed.
    fn fail_past(&self, inner: &Inner, id: u64, status: Status, opcode: CompletionOpcode) {
        let completion = Completion::new(id, status, opcode);
        inner.counting.count(&completion);
        self.complete(Entry::new(completion, self.number));
    }

    /// The protocol sends all that is under way past it.
    fn take_the_long_way(&self, inner: &mut Inner) {
        if inner.bypass.sent.is_empty() {
            return;
        }
        inner.bypass.refused();
        let mut sent = std::mem::take(&mut inner.bypass.sent);
        inner.permit.refused(sent.len());
        let now = clock::now();
        while let Some(sent) = sent.pop_front() {
            self.post_to_engine(inner, sent.request(), now);
        }
    }

    /// The protocol takes the requests that wait, if their turn has come. Answers whether it has
    /// something to send.
    fn resume(&self, inner: &mut Inner) -> bool {
        if !inner.bypass.sent.is_empty() {
            return false;
        }
        if !inner.bypass.deferred.is_empty() {
            let now = clock::now();
            for wr in std::mem::take(&mut inner.bypass.deferred) {
                self.post_to_engine(inner, wr, now);
            }
        }
        inner.engine.outstanding() > 0
    }

    /// After calls of the protocol: if it has failed, nothing goes past it either.
    pub(super) fn flush_past(&self, inner: &mut Inner) {
        let failed = matches!(inner.engine.state(), State::Error | State::Sqe);
        if !failed || !inner.bypass.is_busy() {
            return;
        }
        let sent = std::mem::take(&mut inner.bypass.sent);
        let deferred = std::mem::take(&mut inner.bypass.deferred);
        for sent in sent.iter() {
            self.fail_past(inner, sent.id, Status::WrFlush, Sent::OPCODE);
        }
        for wr in deferred {
            let opcode = wr.request.completion_opcode();
            self.fail_past(inner, wr.id, Status::WrFlush, opcode);
        }
    }

    /// A peer has taken nothing for so many nanoseconds: the connection ends as it does when the
    /// protocol's repeated packets stay without an answer.
    pub(super) fn stalled_past(&self, inner: &mut Inner, nanos: u64) -> bool {
        if inner.bypass.sent.is_empty() || nanos < patience(inner) {
            return false;
        }
        if inner.engine.config().service != Service::Rc {
            // Nobody waits for an answer here: what was not taken is lost.
            while let Some(sent) = inner.bypass.sent.pop_front() {
                self.sent_well(inner, sent.id, sent.flags, sent.length);
            }
            return true;
        }
        if let Some(sent) = inner.bypass.sent.pop_front() {
            self.fail_past(inner, sent.id, Status::RetryExc, Sent::OPCODE);
        }
        true
    }
}

/// Nanoseconds for which a peer may take nothing.
fn patience(inner: &Inner) -> u64 {
    let attributes = inner.engine.attributes();
    if inner.engine.config().service != Service::Rc {
        return UNRELIABLE;
    }
    let tries = u64::from(attributes.retry_cnt) + 1;
    let once = attributes.timeout.nanos();
    once.map_or(u64::MAX, |once| once.saturating_mul(tries))
}

/// Receiving.
impl Core {
    pub(super) fn take_past(&self, inner: &mut Inner, messages: &mut Messages<'_>, care: Care) {
        let mut intake = Intake::of(self, inner, messages, care);
        loop {
            let received = self.receive_past(inner, &mut intake, messages);
            let more = match received {
                Some(()) => messages.accept(),
                None => {
                    let expected = &mut inner.bypass.expected;
                    if messages.header().epoch == *expected {
                        *expected = expected.wrapping_add(1);
                    }
                    messages.refuse(*expected)
                }
            };
            if !more {
                break;
            }
        }
        drop(intake);
        if inner.offer.runs_low() {
            self.mind_credit(inner);
        }
    }

    /// Puts a message into the next receive request. `None` if anything is not as it should be; then
    /// nothing has happened.
    #[inline(always)]
    fn receive_past(
        &self,
        inner: &mut Inner,
        intake: &mut Intake<'_>,
        messages: &mut Messages<'_>,
    ) -> Option<()> {
        let header = messages.header();
        if !intake.expects(inner, &header) {
            return None;
        }
        let length = u32::try_from(messages.length()).ok()?;
        let Intake {
            memory,
            queue,
            care,
            ..
        } = intake;
        let landing = (*care == Care::Plain).then_some(&inner.landing);
        let scatter = |receive: &Receive| {
            let Some(data) = messages.data() else {
                return false;
            };
            let landed = landing.and_then(|landing| landing.receive(&receive.sges, data));
            if landed.is_some() {
                return true;
            }
            if !memory.holds(&receive.sges)
                && let Some(queue) = queue
            {
                // Who changes that key may keep us waiting, but nobody who polls.
                queue.give_back();
            }
            memory.write(&receive.sges, data).is_ok()
        };
        let id = match (&mut inner.receives, self.srq()) {
            (Some(own), _) => own.take_alone_with(scatter).inspect(|_| inner.offer.took()),
            (None, Some(srq)) => srq.take_with(scatter),
            (None, None) => None,
        }?;
        inner.engine.received_past(length);
        inner.counting.succeeded(CompletionOpcode::Receive, length);
        let mut wc = success(id, IBV_WC_RECV, length, self.number);
        wc.src_qp = header.source;
        if let Some(immediate) = header.immediate {
            wc.imm.imm_data = be32::new(immediate);
            wc.wc_flags = IBV_WC_WITH_IMM;
        }
        if let Some(queue) = &mut intake.queue
            && !queue.push_success(wc, header.solicited)
        {
            self.overrun();
        }
        Some(())
    }
}

impl Intake<'_> {
    /// Whether the next message may be this one.
    #[inline(always)]
    fn expects(&self, inner: &Inner, header: &Header) -> bool {
        let is_next = self.is_open && header.epoch == inner.bypass.expected;
        is_next && header.source == self.source
    }
}

/// What messages that came together go into.
struct Intake<'a> {
    /// They may come past the protocol.
    is_open: bool,
    /// QP number of the connected peer.
    source: u32,
    memory: Scattering<'a>,
    care: Care,
    queue: Option<Filling<'a>>,
}

impl<'a> Intake<'a> {
    // What is asked here does not change while the queue pair is locked and messages come past the
    // protocol alone.
    fn of(core: &'a Core, inner: &Inner, messages: &Messages<'_>, care: Care) -> Self {
        let is_peer = |peer: &Arc<Peer>| peer.is(messages.peer());
        let is_open = inner.bypass.open
            && inner.peer.as_ref().is_some_and(is_peer)
            && inner.engine.may_receive_past();
        Self {
            is_open,
            source: inner.engine.attributes().dest_qp_num,
            memory: Scattering::new(core.keys(), core.pd, care),
            care,
            queue: core.parts.recv_cq.as_ref().map(|cq| cq.filling()),
        }
    }
}
