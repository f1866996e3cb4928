//! A provider in memory that records its calls.

use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::*;
use crate::sys::application::ApplicationMemory;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The state that tests read, and the answers that they set.
#[derive(Default)]
pub struct State {
    /// Objects that were made and not dropped; the provider is one.
    pub live: AtomicI64,
    /// Numbers given out: keys, queue pairs, queues.
    numbers: AtomicU32,
    /// The error of the next call, which then does nothing else.
    refuse: Mutex<Option<Errno>>,
    /// The recorded calls, except requests.
    asked: Mutex<Vec<String>>,
    /// Write ends of the channels.
    channels: Mutex<Vec<(RawFd, OwnedFd)>>,
    /// Events that queues have reported.
    pub reported: Mutex<ReportedEvents>,
    /// Completions for the next polls.
    pub ready: Mutex<VecDeque<Polled>>,
    /// Completions that a poll of an empty queue goes and gets.
    pub coming: Mutex<VecDeque<Polled>>,
}

impl State {
    /// Records a call; the error that the test has set for it.
    fn may(&self, what: String) -> Result<()> {
        self.asked.lock().unwrap().push(what);
        match self.refuse.lock().unwrap().take() {
            None => Ok(()),
            Some(e) => Err(e),
        }
    }

    /// The next call answers this error.
    pub fn refuse(&self, e: Errno) {
        *self.refuse.lock().unwrap() = Some(e);
    }

    /// The calls recorded since the last time.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 100
    }

    pub fn live(&self) -> i64 {
        self.live.load(Ordering::SeqCst)
    }
}

/// An object, counted while it is there.
pub struct Counted<T> {
    pub value: T,
    state: Arc<State>,
}

impl<T> Counted<T> {
    pub fn new(state: &Arc<State>, value: T) -> Self {
        state.live.fetch_add(1, Ordering::SeqCst);
        let state = Arc::clone(state);
        Self { value, state }
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.state.live.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A send request as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub id: u64,
    pub opcode: u32,
    pub flags: u32,
    pub sges: Vec<(u64, u32, u32)>,
    pub inline: Option<Vec<u8>>,
    pub imm: [u8; 4],
    pub invalidate: u32,
    pub to: (u64, u32),
    pub atomic: (u64, u64),
    pub atomic_write: Option<[u8; 8]>,
    pub flush: Option<(usize, u8, u8)>,
    /// `dlid` of the address handle, queue pair and Q_Key.
    pub datagram: Option<(u16, u32, u32)>,
    pub srqn: u32,
    /// R_Key of the window at its birth, its new one, L_Key of the region, range, access.
    pub bind: Option<(u32, u32, Option<u32>, u64, u64, u32)>,
    pub tso: Option<(Vec<u8>, u16)>,
}

fn sges(sges: &[ibv_sge]) -> Vec<(u64, u32, u32)> {
    sges.iter().map(|s| (s.addr, s.length, s.lkey)).collect()
}

impl Sent {
    fn of(request: &SendRequest<'_, Fake>) -> Self {
        let (sges, inline) = match request.data {
            Data::Sges(list) => (sges(list), None),
            Data::Inline(bytes) => (Vec::new(), Some(bytes.to_vec())),
        };
        Self {
            id: request.id,
            opcode: request.opcode,
            flags: request.flags,
            sges,
            inline,
            imm: request.imm,
            invalidate: request.invalidate_rkey,
            to: (request.remote_address, request.rkey),
            atomic: (request.compare_add, request.swap),
            atomic_write: request.atomic_write,
            flush: request
                .flush
                .map(|flush| (flush.length, flush.placement, flush.selectivity)),
            datagram: request
                .ah
                .map(|ah| (ah.value, request.remote_qpn, request.remote_qkey)),
            srqn: request.remote_srqn,
            bind: request.bind.as_ref().map(|bind| {
                let info = &bind.info;
                let mr = info.mr.map(|mr| mr.value);
                (
                    bind.mw.value,
                    bind.rkey,
                    mr,
                    info.address,
                    info.length,
                    info.access,
                )
            }),
            tso: request.tso.map(|tso| (tso.header.to_vec(), tso.mss)),
        }
    }
}

/// A receive request as it came.
pub type Received = (u64, Vec<(u64, u32, u32)>);

/// The capacity of queues of requests here.
pub const ROOM: usize = 4;
/// The same, one more: the capacity that queue pairs report.
pub const SEND_WRS: u32 = 5;

#[derive(Default)]
pub struct Queue {
    pub sent: Mutex<Vec<Sent>>,
    pub received: Mutex<Vec<Received>>,
}

impl Queue {
    fn receive<'a>(&self, requests: &mut impl Iterator<Item = ReceiveRequest<'a>>) -> Result<()> {
        let mut received = self.received.lock().unwrap();
        for request in requests {
            if received.len() == ROOM {
                return Err(Errno::NOMEM);
            }
            received.push((request.id, sges(request.sges)));
        }
        Ok(())
    }
}

/// Requests that no queue takes.
pub const BAD_OPCODE: u32 = 99;

fn push(sent: &mut MutexGuard<'_, Vec<Sent>>, request: &SendRequest<'_, Fake>) -> Result<()> {
    if request.opcode == BAD_OPCODE {
        return Err(Errno::INVAL);
    }
    if sent.len() == ROOM {
        return Err(Errno::NOMEM);
    }
    sent.push(Sent::of(request));
    Ok(())
}

pub struct Fake(pub Counted<()>);

impl Fake {
    fn state(&self) -> &Arc<State> {
        &self.0.state
    }
    fn made<T>(&self, value: T) -> Counted<T> {
        Counted::new(self.state(), value)
    }
    fn key(&self) -> (Counted<u32>, Keys) {
        let lkey = self.state().number();
        let rkey = lkey + 1000;
        (self.made(lkey), Keys { lkey, rkey })
    }
}

impl Edges for Fake {
    fn create_comp_channel(&self) -> Result<OwnedFd> {
        let (read, write) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let mut channels = self.state().channels.lock().unwrap();
        channels.push((read.as_raw_fd(), write));
        Ok(read)
    }
    fn destroy_comp_channel(&self, channel: BorrowedFd<'_>) {
        let mut channels = self.state().channels.lock().unwrap();
        channels.retain(|(fd, _)| *fd != channel.as_raw_fd());
    }
    fn gid_entry(&self, _: u32, _: u32) -> Result<ibv_gid_entry> {
        Err(Errno::NODATA)
    }
    fn gid_table(&self) -> Result<Vec<ibv_gid_entry>> {
        Ok(Vec::new())
    }
    fn pkey(&self, _: u8, _: u32) -> Result<be16> {
        Ok(be16::new(0xffff))
    }
}

type O<T> = Arc<Counted<T>>;

impl Provider for Fake {
    type Pd = Counted<u32>;
    type Mr = Counted<u32>;
    type Mw = Counted<u32>;
    type Dm = Counted<Mutex<Vec<u8>>>;
    type Cq = Counted<Token>;
    type Srq = Counted<Queue>;
    type Qp = Counted<Queue>;
    type Ah = Counted<u16>;
    type Xrcd = Counted<i32>;
    type Wq = Counted<Queue>;
    type WqTable = Counted<usize>;
    type Flow = Counted<()>;
    type Counters = Counted<()>;

    fn comp_vectors(&self) -> u32 {
        2
    }
    fn close(&self) {
        let _ = self.state().may("close".into());
    }
    fn query_device(&self, attr: &mut ibv_device_attr_ex) -> Result<()> {
        self.state().may("query_device".into())?;
        attr.orig_attr.max_qp = 17;
        attr.orig_attr.phys_port_cnt = 1;
        attr.max_dm_size = 4096;
        Ok(())
    }
    fn query_port(&self, port: u8, attr: &mut ibv_port_attr) -> Result<()> {
        self.state().may(format!("query_port {port}"))?;
        if port != 1 {
            return Err(Errno::INVAL);
        }
        attr.gid_tbl_len = 8;
        Ok(())
    }
    fn raw_clock(&self) -> Result<libc::timespec> {
        self.state().may("raw_clock".into())?;
        Ok(libc::timespec {
            tv_sec: 3,
            tv_nsec: 4,
        })
    }
    fn alloc_pd(&self) -> Result<Counted<u32>> {
        self.state().may("alloc_pd".into())?;
        Ok(self.made(self.state().number()))
    }
    fn dealloc_pd(&self, _: &O<u32>) -> Result<()> {
        self.state().may("dealloc_pd".into())
    }
    fn reg_mr(
        &self,
        _: &O<u32>,
        memory: ApplicationMemory,
        iova: u64,
        access: u32,
    ) -> Result<(Counted<u32>, Keys)> {
        let length = memory.length();
        self.state()
            .may(format!("reg_mr {length} {iova} {access}"))?;
        Ok(self.key())
    }
    fn rereg_mr(&self, mr: &O<u32>, change: &Rereg<'_, Self>) -> Result<Keys> {
        self.state().may(format!(
            "rereg_mr {:?} {} {:?}",
            change.range.map(|range| range.length()),
            change.pd.is_some(),
            change.access
        ))?;
        let (lkey, rkey) = (mr.value + 1, mr.value + 1001);
        Ok(Keys { lkey, rkey })
    }
    fn dereg_mr(&self, _: &O<u32>) -> Result<()> {
        self.state().may("dereg_mr".into())
    }
    fn alloc_null_mr(&self, _: &O<u32>) -> Result<(Counted<u32>, Keys)> {
        self.state().may("alloc_null_mr".into())?;
        Ok(self.key())
    }
    fn advise_mr(&self, _: &O<u32>, advice: u32, flags: u32, list: &[ibv_sge]) -> Result<()> {
        let count = list.len();
        self.state()
            .may(format!("advise_mr {advice} {flags} {count}"))
    }
    fn alloc_dm(&self, length: usize, log_align: u32) -> Result<Counted<Mutex<Vec<u8>>>> {
        self.state().may(format!("alloc_dm {length} {log_align}"))?;
        Ok(self.made(Mutex::new(vec![0; length])))
    }
    fn free_dm(&self, _: &O<Mutex<Vec<u8>>>) -> Result<()> {
        self.state().may("free_dm".into())
    }
    fn write_dm(&self, dm: &O<Mutex<Vec<u8>>>, offset: u64, data: &[u8]) -> Result<()> {
        let begin = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
        let mut bytes = dm.value.lock().unwrap();
        let room = bytes.get_mut(begin..begin + data.len());
        room.ok_or(Errno(libc::EFAULT))?.copy_from_slice(data);
        Ok(())
    }
    fn read_dm(&self, dm: &O<Mutex<Vec<u8>>>, offset: u64, data: &mut [u8]) -> Result<()> {
        let begin = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
        let bytes = dm.value.lock().unwrap();
        let found = bytes.get(begin..begin + data.len());
        data.copy_from_slice(found.ok_or(Errno(libc::EFAULT))?);
        Ok(())
    }
    fn reg_dm_mr(
        &self,
        _: &O<u32>,
        _: &O<Mutex<Vec<u8>>>,
        offset: u64,
        length: usize,
        access: u32,
    ) -> Result<(Counted<u32>, Keys)> {
        self.state()
            .may(format!("reg_dm_mr {offset} {length} {access}"))?;
        Ok(self.key())
    }
    fn alloc_mw(&self, _: &O<u32>, mw_type: u32) -> Result<(Counted<u32>, u32)> {
        self.state().may(format!("alloc_mw {mw_type}"))?;
        let rkey = self.state().number();
        Ok((self.made(rkey), rkey))
    }
    fn dealloc_mw(&self, _: &O<u32>) -> Result<()> {
        self.state().may("dealloc_mw".into())
    }
    fn bind_mw(
        &self,
        _: &Counted<Queue>,
        mw: &O<u32>,
        id: u64,
        flags: u32,
        info: &BindInfo<'_, Self>,
    ) -> Result<u32> {
        let bound = info.mr.is_some();
        self.state()
            .may(format!("bind_mw {id} {flags} {bound} {}", info.length))?;
        Ok(mw.value + 1)
    }
    fn create_cq(&self, init: &CqInit<'_>) -> Result<(Counted<Token>, u32)> {
        let CqInit {
            entries, vector, ..
        } = init;
        let channel = init.channel.is_some();
        self.state().may(format!(
            "create_cq {entries} {channel} {vector} {}",
            init.ignore_overrun
        ))?;
        Ok((self.made(init.token), entries.next_power_of_two()))
    }
    fn resize_cq(&self, _: &Counted<Token>, entries: u32) -> Result<u32> {
        self.state().may(format!("resize_cq {entries}"))?;
        Ok(entries + 1)
    }
    fn moderate_cq(&self, _: &Counted<Token>, count: u16, period: u16) -> Result<()> {
        self.state().may(format!("moderate_cq {count} {period}"))
    }
    fn destroy_cq(&self, _: &Counted<Token>) -> Result<ReportedEvents> {
        self.state().may("destroy_cq".into())?;
        Ok(*self.state().reported.lock().unwrap())
    }
    fn poll_cq(&self, _: &Counted<Token>, room: &mut [ibv_wc]) -> Result<usize> {
        self.state().may(format!("poll_cq {}", room.len()))?;
        let mut ready = self.state().ready.lock().unwrap();
        let count = room.len().min(ready.len());
        for (entry, polled) in room.iter_mut().zip(ready.drain(..count)) {
            *entry = polled.wc;
        }
        Ok(count)
    }
    fn poll_ex(&self, cq: &Counted<Token>) -> Option<Polled> {
        let coming = || self.state().coming.lock().unwrap().pop_front();
        self.poll_next(cq).or_else(coming)
    }
    fn poll_next(&self, _: &Counted<Token>) -> Option<Polled> {
        self.state().ready.lock().unwrap().pop_front()
    }
    fn req_notify_cq(&self, _: &Counted<Token>, solicited_only: bool) -> Result<()> {
        self.state().may(format!("req_notify_cq {solicited_only}"))
    }
    fn create_srq(&self, init: &mut SrqInit<'_, Self>) -> Result<(Counted<Queue>, u32)> {
        let xrc = init.xrc.is_some();
        self.state()
            .may(format!("create_srq {} {xrc}", init.attr.max_wr))?;
        init.attr.max_wr += 1;
        Ok((self.made(Queue::default()), self.state().number()))
    }
    fn modify_srq(&self, _: &Counted<Queue>, attr: &ibv_srq_attr, mask: u32) -> Result<()> {
        self.state()
            .may(format!("modify_srq {} {mask}", attr.srq_limit))
    }
    fn query_srq(&self, _: &Counted<Queue>) -> Result<ibv_srq_attr> {
        self.state().may("query_srq".into())?;
        Ok(ibv_srq_attr {
            max_wr: 5,
            max_sge: 6,
            srq_limit: 7,
        })
    }
    fn destroy_srq(&self, _: &Counted<Queue>) -> Result<u32> {
        self.state().may("destroy_srq".into())?;
        Ok(self.state().reported.lock().unwrap().asynchronous)
    }
    fn post_srq_recv<'a>(
        &self,
        srq: &Counted<Queue>,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        self.state().may("post_srq_recv".into())?;
        srq.value.receive(requests)
    }
    fn create_qp(&self, init: &mut QpInit<'_, Self>) -> Result<(Counted<Queue>, u32)> {
        self.state().may(format!(
            "create_qp {} pd={} cqs={}{} srq={} xrcd={} all={} flags={} ops={}",
            init.qp_type,
            init.pd.is_some(),
            u8::from(init.send_cq.is_some()),
            u8::from(init.recv_cq.is_some()),
            init.srq.is_some(),
            init.xrcd.is_some(),
            init.sq_sig_all,
            init.create_flags,
            init.send_ops,
        ))?;
        if let Some(rss) = &init.rss {
            let (key, queues) = (rss.key.len(), rss.table.value);
            self.state().may(format!(
                "rss {queues} {} {key} {}",
                rss.function, rss.fields
            ))?;
        }
        init.cap.max_send_wr = SEND_WRS;
        init.cap.max_inline_data = 16;
        Ok((self.made(Queue::default()), self.state().number()))
    }
    fn open_qp(&self, _: &O<i32>, number: u32, _: Token) -> Result<Counted<Queue>> {
        self.state().may(format!("open_qp {number}"))?;
        Ok(self.made(Queue::default()))
    }
    fn modify_qp(&self, _: &Counted<Queue>, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        self.state()
            .may(format!("modify_qp {mask} {}", attr.rate_limit))?;
        Ok(attr.qp_state)
    }
    fn query_qp(&self, _: &Counted<Queue>, attr: &mut ibv_qp_attr) -> Result<()> {
        self.state().may("query_qp".into())?;
        attr.qp_state = IBV_QPS_SQE;
        attr.cap.max_send_wr = 33;
        attr.rate_limit = 44;
        Ok(())
    }
    fn destroy_qp(&self, _: &Counted<Queue>) -> Result<u32> {
        self.state().may("destroy_qp".into())?;
        Ok(self.state().reported.lock().unwrap().asynchronous)
    }
    fn post_send<'a>(
        &self,
        qp: &Counted<Queue>,
        requests: &mut impl Iterator<Item = SendRequest<'a, Self>>,
    ) -> Result<()> {
        self.state().may("post_send".into())?;
        let mut sent = qp.value.sent.lock().unwrap();
        for request in requests {
            push(&mut sent, &request)?;
        }
        Ok(())
    }
    fn post_send_all<'a>(
        &self,
        qp: &Counted<Queue>,
        requests: &mut impl ExactSizeIterator<Item = SendRequest<'a, Self>>,
    ) -> Result<()> {
        self.state()
            .may(format!("post_send_all {}", requests.len()))?;
        let mut sent = qp.value.sent.lock().unwrap();
        let before = sent.len();
        for request in requests {
            if let Err(e) = push(&mut sent, &request) {
                sent.truncate(before);
                return Err(e);
            }
        }
        Ok(())
    }
    fn post_recv<'a>(
        &self,
        qp: &Counted<Queue>,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        self.state().may("post_recv".into())?;
        qp.value.receive(requests)
    }
    fn attach_mcast(&self, _: &Counted<Queue>, gid: &ibv_gid, lid: u16) -> Result<()> {
        let first = gid.bytes()[0];
        self.state().may(format!("attach_mcast {first} {lid}"))
    }
    fn detach_mcast(&self, _: &Counted<Queue>, gid: &ibv_gid, lid: u16) -> Result<()> {
        let first = gid.bytes()[0];
        self.state().may(format!("detach_mcast {first} {lid}"))
    }
    fn set_ece(&self, _: &Counted<Queue>, ece: &ibv_ece) -> Result<()> {
        if ece.comp_mask != 0 {
            return Err(Errno::INVAL);
        }
        self.state().may(format!("set_ece {}", ece.options))
    }
    fn query_ece(&self, _: &Counted<Queue>) -> Result<ibv_ece> {
        self.state().may("query_ece".into())?;
        Ok(ibv_ece {
            vendor_id: 1,
            options: 2,
            comp_mask: 0,
        })
    }
    fn create_ah(&self, _: &O<u32>, attr: &ibv_ah_attr) -> Result<Counted<u16>> {
        self.state().may(format!("create_ah {}", attr.dlid))?;
        Ok(self.made(attr.dlid))
    }
    fn destroy_ah(&self, _: &O<u16>) -> Result<()> {
        self.state().may("destroy_ah".into())
    }
    fn open_xrcd(&self, file: Option<BorrowedFd<'_>>, flags: i32) -> Result<Counted<i32>> {
        let file = file.map_or(-1, |file| file.as_raw_fd());
        self.state()
            .may(format!("open_xrcd {} {flags}", file >= 0))?;
        Ok(self.made(file))
    }
    fn close_xrcd(&self, _: &O<i32>) -> Result<()> {
        self.state().may("close_xrcd".into())
    }
    fn create_wq(&self, init: &mut WqInit<'_, Self>) -> Result<(Counted<Queue>, u32)> {
        let (wr, sge) = (init.max_wr, init.max_sge);
        self.state()
            .may(format!("create_wq {wr} {sge} {}", init.flags))?;
        init.max_wr += 1;
        Ok((self.made(Queue::default()), self.state().number()))
    }
    fn modify_wq(&self, _: &O<Queue>, change: &WqChange) -> Result<ibv_wq_state> {
        self.state().may(format!(
            "modify_wq {:?} {:?} {:?}",
            change.state, change.current, change.flags
        ))?;
        Ok(change.state.unwrap_or(IBV_WQS_RESET))
    }
    fn destroy_wq(&self, _: &O<Queue>) -> Result<u32> {
        self.state().may("destroy_wq".into())?;
        Ok(0)
    }
    fn post_wq_recv<'a>(
        &self,
        wq: &O<Queue>,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        self.state().may("post_wq_recv".into())?;
        wq.value.receive(requests)
    }
    fn create_wq_table(&self, queues: &[&O<Queue>]) -> Result<(Counted<usize>, u32)> {
        self.state()
            .may(format!("create_wq_table {}", queues.len()))?;
        Ok((self.made(queues.len()), self.state().number()))
    }
    fn destroy_wq_table(&self, _: &O<usize>) -> Result<()> {
        self.state().may("destroy_wq_table".into())
    }
    fn create_flow(&self, _: &Counted<Queue>, init: &FlowInit<'_, Self>) -> Result<Counted<()>> {
        let parts = init.parts.iter().map(|part| match part {
            FlowPart::Filter { kind, value, mask } => {
                format!(" {kind:#x}:{}/{:?}", value.len(), mask.first())
            }
            FlowPart::Tag(tag) => format!(" tag {tag}"),
            FlowPart::Drop => " drop".to_owned(),
            FlowPart::Count(_) => " count".to_owned(),
        });
        let parts: String = parts.collect();
        self.state().may(format!(
            "create_flow {} {} {} {}{parts}",
            init.attr_type, init.priority, init.port, init.flags
        ))?;
        Ok(self.made(()))
    }
    fn destroy_flow(&self, _: &O<()>) -> Result<()> {
        self.state().may("destroy_flow".into())
    }
    fn create_counters(&self) -> Result<Counted<()>> {
        self.state().may("create_counters".into())?;
        Ok(self.made(()))
    }
    fn destroy_counters(&self, _: &O<()>) -> Result<()> {
        self.state().may("destroy_counters".into())
    }
    fn attach_counter(&self, _: &O<()>, what: u32, index: u32) -> Result<()> {
        self.state().may(format!("attach_counter {what} {index}"))
    }
    fn read_counters(&self, _: &O<()>, values: &mut [u64]) -> Result<()> {
        self.state()
            .may(format!("read_counters {}", values.len()))?;
        values.fill(7);
        Ok(())
    }
}
