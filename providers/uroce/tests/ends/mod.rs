//! One end of a connection: an open device, its objects, and slightly more than 64 KiB of
//! registered memory.
#![allow(dead_code, reason = "each test uses some of these")]
#![allow(clippy::cast_possible_truncation, reason = "of patterns")]

use bytemuck::Zeroable;
use kit::abi::*;
use kit::provider::{
    CqInit, Data, Edges, Flush, Provider, QpInit, ReceiveRequest, SendRequest, Token,
};
use kit::sys::application::ApplicationMemory;
use kit::sys::scratch::Scratch;
use kit::sys::shared::Shared;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::cell::UnsafeCell;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;
use uroce::context::Context;
use uroce::device::{Port, ports};

/// Bytes of memory of an end.
const MEMORY: usize = 1 << 17;
/// Device memory and its region.
pub struct DeviceRegion {
    dm: Arc<<Context as Provider>::Dm>,
    pub mr: Arc<<Context as Provider>::Mr>,
}

const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_FLUSH_GLOBAL;
/// The capacity of the completion queue.
const ENTRIES: u32 = 1024;
const QKEY: u32 = 0x1234;

/// The port of the loopback interface.
pub fn loopback() -> Arc<Port> {
    port_of("lo")
}

/// The port of an interface.
pub fn port_of(name: &str) -> Arc<Port> {
    let ports = ports().expect("ports");
    let interfaces = ports.look().expect("interfaces");
    let found = interfaces.iter().find(|i| i.name == name).expect(name);
    ports.of(found.index).expect("a port")
}

/// An end.
pub struct End {
    qp: <Context as Provider>::Qp,
    number: u32,
    kind: ibv_qp_type,
    device: Rc<Device>,
}

/// An open device and the objects that its queue pairs share.
pub struct Device {
    context: Context,
    pd: Arc<<Context as Provider>::Pd>,
    cq: <Context as Provider>::Cq,
    channel: Option<OwnedFd>,
    _async: OwnedFd,
    mr: Arc<<Context as Provider>::Mr>,
    keys: kit::provider::Keys,
    memory: Box<UnsafeCell<[u64; MEMORY / 8]>>,
}

impl std::ops::Deref for End {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl End {
    /// An end with a queue pair in RESET.
    pub fn new(kind: ibv_qp_type) -> Self {
        Self::on(Rc::new(Device::new(loopback(), false)), kind)
    }

    /// An end that waits for completions by a channel.
    pub fn waiting(kind: ibv_qp_type) -> Self {
        Self::on(Rc::new(Device::new(loopback(), true)), kind)
    }

    /// An end on an interface.
    pub fn of(interface: &str, kind: ibv_qp_type) -> Self {
        Self::on(Rc::new(Device::new(port_of(interface), false)), kind)
    }

    /// Another one of the same device, queue and memory.
    pub fn another(&self) -> Self {
        Self::on(Rc::clone(&self.device), self.kind)
    }

    fn on(device: Rc<Device>, kind: ibv_qp_type) -> Self {
        let Device {
            context, pd, cq, ..
        } = &*device;
        let mut cap = ibv_qp_cap::zeroed();
        cap.max_send_wr = 64;
        cap.max_recv_wr = 64;
        cap.max_send_sge = 2;
        cap.max_recv_sge = 2;
        cap.max_inline_data = 64;
        let mut init = QpInit {
            token: Token(2),
            qp_type: kind,
            pd: Some(pd),
            send_cq: Some(cq),
            recv_cq: Some(cq),
            srq: None,
            xrcd: None,
            cap: &mut cap,
            sq_sig_all: true,
            create_flags: 0,
            send_ops: 0,
            rss: None,
            max_tso_header: 0,
            source_qpn: 0,
        };
        let (qp, number) = context.create_qp(&mut init).expect("queue pair");
        Self {
            qp,
            number,
            kind,
            device,
        }
    }

    /// ibv_close_device(3) with all objects left.
    pub fn close(&self) {
        self.context.close();
    }

    /// The queue pair.
    pub fn qp(&self) -> &<Context as Provider>::Qp {
        &self.qp
    }

    /// The open device.
    pub fn context(&self) -> &Context {
        &self.device.context
    }

    /// Its protection domain.
    pub fn domain(&self) -> &Arc<<Context as Provider>::Pd> {
        &self.device.pd
    }

    /// Its completion queue.
    pub fn completions(&self) -> &<Context as Provider>::Cq {
        &self.device.cq
    }

    /// The number of the queue pair.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The key of all its memory.
    pub fn rkey(&self) -> u32 {
        self.keys.rkey
    }

    fn base(&self) -> *mut u8 {
        self.memory.get().cast()
    }

    /// Where a place of its memory is.
    pub fn address(&self, offset: u32) -> u64 {
        u64::try_from(self.base().expose_provenance()).expect("64 bits") + u64::from(offset)
    }

    /// Writes a pattern of the seed into all memory.
    pub fn fill(&self, seed: u8) {
        for at in 0..MEMORY {
            let byte = if seed == 0xee {
                seed
            } else {
                (at % 251) as u8 ^ seed
            };
            // SAFETY: inside the memory.
            unsafe { self.base().add(at).write_volatile(byte) };
        }
    }

    /// Writes bytes.
    pub fn put(&self, offset: u32, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: inside the memory.
            unsafe { self.base().add(offset as usize + at).write_volatile(*byte) };
        }
    }

    /// Reads bytes.
    pub fn bytes(&self, offset: u32, length: u32) -> Vec<u8> {
        (0..length as usize)
            // SAFETY: inside the memory.
            .map(|at| unsafe { self.base().add(offset as usize + at).read_volatile() })
            .collect()
    }

    /// A piece of its memory.
    pub fn sge(&self, offset: u32, length: u32) -> ibv_sge {
        ibv_sge {
            addr: self.address(offset),
            length,
            lkey: self.keys.lkey,
        }
    }

    /// Posts a receive request.
    pub fn post_recv(&self, id: u64, offset: u32, length: u32) {
        self.receive(id, &[self.sge(offset, length)]);
    }

    /// Posts a receive request of these pieces.
    pub fn receive(&self, id: u64, sges: &[ibv_sge]) {
        let mut requests = std::iter::once(ReceiveRequest { id, sges });
        let posted = self.context.post_recv(&self.qp, &mut requests);
        posted.expect("posted");
    }

    fn request<'a>(
        &self,
        id: u64,
        opcode: ibv_wr_opcode,
        sges: &'a [ibv_sge],
    ) -> SendRequest<'a, Context> {
        SendRequest {
            data: Data::Sges(sges),
            imm: [1, 2, 3, 4],
            ..SendRequest::new(id, opcode, 0)
        }
    }

    fn post(&self, request: SendRequest<'_, Context>) {
        let mut requests = Some(request).into_iter();
        let posted = self.qp.post_send(&mut requests);
        posted.expect("posted");
    }

    /// Posts a request between `offset` here and `remote` there (memory of an end like this one).
    pub fn post_send(
        &self,
        id: u64,
        opcode: ibv_wr_opcode,
        offset: u32,
        length: u32,
        remote: u32,
        rkey: u32,
    ) {
        let sges = [self.sge(offset, length)];
        let mut request = self.request(id, opcode, &sges);
        request.remote_address = REMOTE.with(|base| base.get()) + u64::from(remote);
        request.rkey = rkey;
        self.post(request);
    }

    /// Sends part of the memory by the key of another region.
    pub fn send_by(&self, id: u64, lkey: u32, offset: u32, length: u32) {
        let mut piece = self.sge(offset, length);
        piece.lkey = lkey;
        self.send_from(id, &[piece]);
    }

    /// Sends these pieces.
    pub fn send_from(&self, id: u64, sges: &[ibv_sge]) {
        self.post(self.request(id, IBV_WR_SEND, sges));
    }

    /// Posts an atomic operation.
    #[expect(clippy::too_many_arguments, reason = "the members of the request")]
    pub fn atomic(
        &self,
        id: u64,
        opcode: ibv_wr_opcode,
        offset: u32,
        remote: u32,
        rkey: u32,
        compare_add: u64,
        swap: u64,
    ) {
        let sges = [self.sge(offset, 8)];
        self.atomic_into(id, opcode, &sges, (remote, rkey), [compare_add, swap]);
    }

    /// An atomic operation whose result goes to pieces of its memory.
    pub fn atomic_into(
        &self,
        id: u64,
        opcode: ibv_wr_opcode,
        sges: &[ibv_sge],
        (remote, rkey): (u32, u32),
        [compare_add, swap]: [u64; 2],
    ) {
        let mut request = self.request(id, opcode, sges);
        request.remote_address = REMOTE.with(|base| base.get()) + u64::from(remote);
        request.rkey = rkey;
        request.compare_add = compare_add;
        request.swap = swap;
        self.post(request);
    }

    /// Sends a datagram.
    pub fn datagram(&self, id: u64, length: u32, to: &Self) {
        self.datagram_to(id, length, to.number);
    }

    /// Sends a datagram to the queue pair of that number.
    pub fn datagram_to(&self, id: u64, length: u32, number: u32) {
        let ah = self.context.create_ah(&self.pd, &av()).expect("handle");
        let ah = Arc::new(ah);
        let sges = [self.sge(0, length)];
        let mut request = self.request(id, IBV_WR_SEND, &sges);
        request.ah = Some(&ah);
        request.remote_qpn = number;
        request.remote_qkey = QKEY;
        self.post(request);
    }

    /// Writes eight bytes until this process writes the peer's memory by itself. Then each write is
    /// complete when its call returns. Before both processes have the link, the peer carries out
    /// the write, and only a few in a row can complete as fast.
    pub fn write_until_linked(&self, remote: u32, rkey: u32) {
        const IN_A_ROW: u32 = 100;
        let mut in_a_row = 0;
        while in_a_row < IN_A_ROW {
            self.post_send(0, IBV_WR_RDMA_WRITE, 0, 8, remote, rkey);
            let (found, next) = match self.poll()[..] {
                [found] => (found, in_a_row + 1),
                _ => (self.completion(), 0),
            };
            assert_eq!(found.status, IBV_WC_SUCCESS);
            in_a_row = next;
        }
    }

    /// The completions.
    pub fn poll(&self) -> Vec<ibv_wc> {
        let mut room = [ibv_wc::zeroed(); 16];
        let found = self.context.poll_cq(&self.cq, &mut room).expect("polled");
        room[..found].to_vec()
    }

    /// The completions; waits until there is one, by the channel if there is one.
    pub fn wait(&self) -> Vec<ibv_wc> {
        loop {
            let found = self.poll();
            if !found.is_empty() {
                return found;
            }
            let Some(channel) = &self.channel else {
                std::thread::yield_now();
                continue;
            };
            self.arm();
            let found = self.poll();
            if !found.is_empty() {
                return found;
            }
            take_event(channel);
        }
    }

    /// ibv_req_notify_cq(3).
    pub fn arm(&self) {
        let armed = self.context.req_notify_cq(&self.cq, false);
        armed.expect("armed");
    }

    /// Waits for an event of the channel, and does not poll.
    pub fn event(&self) {
        take_event(self.channel.as_ref().expect("a channel"));
    }

    /// Waits for one completion.
    pub fn completion(&self) -> ibv_wc {
        loop {
            let mut room = [ibv_wc::zeroed(); 1];
            if self.context.poll_cq(&self.cq, &mut room).expect("polled") == 1 {
                return room[0];
            }
            std::thread::yield_now();
        }
    }

    /// Registers part of the memory once more; returns the region and its R_Key.
    pub fn register(&self, offset: u32, length: u32) -> (Arc<<Context as Provider>::Mr>, u32) {
        let iova = self.address(offset);
        let address = usize::try_from(iova).expect("an address");
        // SAFETY: part of the memory of all.
        let range = unsafe { ApplicationMemory::new(address, length as usize) }.expect("in range");
        let made = self.context.reg_mr(&self.pd, range, iova, ACCESS);
        let (mr, keys) = made.expect("region");
        (Arc::new(mr), keys.rkey)
    }

    /// Registers memory that other processes may map; returns the region and its R_Key.
    pub fn register_shared(&self, memory: &Shared) -> (Arc<<Context as Provider>::Mr>, u32) {
        let address = memory.words().as_ptr().expose_provenance();
        // SAFETY: the caller keeps it mapped; it is used as atomic words only.
        let range = unsafe { ApplicationMemory::new(address, memory.length()) };
        let range = range.expect("in range");
        let iova = u64::try_from(address).expect("64 bits");
        let made = self.context.reg_mr(&self.pd, range, iova, ACCESS);
        let (mr, keys) = made.expect("region");
        (Arc::new(mr), keys.rkey)
    }

    /// Device memory, registered; its addresses begin at 0.
    pub fn register_device(&self, length: usize) -> (DeviceRegion, u32) {
        let dm = Arc::new(self.context.alloc_dm(length, 0).expect("device memory"));
        let access = ACCESS | IBV_ACCESS_ZERO_BASED;
        let made = self.context.reg_dm_mr(&self.pd, &dm, 0, length, access);
        let (mr, keys) = made.expect("region");
        (
            DeviceRegion {
                dm,
                mr: Arc::new(mr),
            },
            keys.rkey,
        )
    }

    /// A word of device memory.
    pub fn device_word(&self, device: &DeviceRegion, index: u64) -> u64 {
        let mut word = [0; 8];
        let read = self.context.read_dm(&device.dm, index * 8, &mut word);
        read.expect("inside");
        u64::from_ne_bytes(word)
    }

    /// Registers a file that is mapped to share it, for as long as the process lives; returns the
    /// region, its R_Key and where the file begins.
    pub fn register_file(
        &self,
        file: &OwnedFd,
        length: usize,
    ) -> (Arc<<Context as Provider>::Mr>, u32, u64) {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place that the kernel chooses; nothing refers to it.
        let at = unsafe { mmap(null_mut(), length, protection, MapFlags::SHARED, file, 0) };
        let address = at.expect("mapped").expose_provenance();
        // SAFETY: mapped for good. The part that the file loses is not used here.
        let range = unsafe { ApplicationMemory::new(address, length) }.expect("in range");
        let iova = u64::try_from(address).expect("64 bits");
        let made = self.context.reg_mr(&self.pd, range, iova, ACCESS);
        let (mr, keys) = made.expect("region");
        (Arc::new(mr), keys.rkey, iova)
    }

    /// Registers pages that the caller may unmap; returns the region and its keys.
    pub fn register_pages(&self, pages: &Scratch) -> (Arc<<Context as Provider>::Mr>, u32) {
        let memory = pages.memory();
        let iova = u64::try_from(memory.address()).expect("64 bits");
        let made = self.context.reg_mr(&self.pd, memory, iova, ACCESS);
        let (mr, keys) = made.expect("region");
        (Arc::new(mr), keys.rkey)
    }

    /// Posts a request between `offset` here and an address of the peer.
    pub fn post_to(
        &self,
        opcode: ibv_wr_opcode,
        (offset, length): (u32, u32),
        address: u64,
        rkey: u32,
    ) {
        let sges = [self.sge(offset, length)];
        let mut request = self.request(9, opcode, &sges);
        request.remote_address = address;
        request.rkey = rkey;
        self.post(request);
    }

    /// Posts a request of any kind, between a piece of memory and an address of the peer.
    pub fn request_of(
        &self,
        id: u64,
        opcode: ibv_wr_opcode,
        piece: ibv_sge,
        address: u64,
        rkey: u32,
    ) {
        let sges = [piece];
        let mut request = self.request(id, opcode, &sges);
        request.remote_address = address;
        request.rkey = rkey;
        request.compare_add = 1;
        if opcode == IBV_WR_ATOMIC_WRITE {
            request.atomic_write = Some([7; 8]);
        }
        if opcode == IBV_WR_SEND_WITH_INV {
            request.invalidate_rkey = rkey;
        }
        if opcode == IBV_WR_FLUSH {
            request.data = Data::Sges(&[]);
            request.flush = Some(Flush {
                length: piece.length as usize,
                placement: IBV_FLUSH_GLOBAL as u8,
                selectivity: IBV_FLUSH_RANGE as u8,
            });
        }
        self.post(request);
    }

    /// ibv_dereg_mr(3).
    pub fn deregister(&self, mr: &Arc<<Context as Provider>::Mr>) {
        self.context.dereg_mr(mr).expect("deregistered");
    }

    /// ibv_dereg_mr(3), which may fail.
    pub fn try_to_deregister(&self, mr: &Arc<<Context as Provider>::Mr>) -> kit::errno::Result<()> {
        self.context.dereg_mr(mr)
    }

    /// `qp_state`.
    pub fn state(&self) -> ibv_qp_state {
        let mut attr = ibv_qp_attr::zeroed();
        self.context.query_qp(&self.qp, &mut attr).expect("queried");
        attr.qp_state
    }

    /// ibv_modify_qp(3).
    pub fn modify(&self, attr: &ibv_qp_attr, mask: u32) {
        let done = self.context.modify_qp(&self.qp, attr, mask);
        done.expect("modified");
    }
}

fn take_event(channel: &OwnedFd) {
    let mut record = [0; 16];
    let read = rustix::io::read(channel, &mut record[..]).expect("a record");
    assert_eq!(read, 8);
}

impl Device {
    fn new(port: Arc<Port>, waits: bool) -> Self {
        let (context, _async) = Context::open(&port).expect("opens");
        let channel = waits.then(|| context.create_comp_channel().expect("channel"));
        let pd = Arc::new(context.alloc_pd().expect("domain"));
        let memory = Box::new(UnsafeCell::new([0u64; MEMORY / 8]));
        let address = memory.get().expose_provenance();
        // SAFETY: the memory lives as long as the region, and is used through pointers only.
        let range = unsafe { ApplicationMemory::new(address, MEMORY) }.expect("in range");
        let iova = u64::try_from(address).expect("64 bits");
        let (mr, keys) = context.reg_mr(&pd, range, iova, ACCESS).expect("region");
        let init = CqInit {
            token: Token(1),
            entries: ENTRIES,
            channel: channel.as_ref().map(OwnedFd::as_fd),
            vector: 0,
            ignore_overrun: false,
            readers: None,
        };
        let (cq, _) = context.create_cq(&init).expect("queue");
        Self {
            context,
            pd,
            cq,
            channel,
            _async,
            mr: Arc::new(mr),
            keys,
            memory,
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.context.destroy_qp(&self.qp).expect("destroyed");
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.context.destroy_cq(&self.cq).expect("destroyed");
        if let Some(channel) = &self.channel {
            self.context.destroy_comp_channel(channel.as_fd());
        }
        self.context.dereg_mr(&self.mr).expect("destroyed");
    }
}

thread_local! {
    /// Where the memory of the connected peer begins.
    static REMOTE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Says where the memory of the connected peer begins, to [`End::post_send`] of this thread.
pub fn peer_is_at(address: u64) {
    REMOTE.with(|base| base.set(address));
}

fn av() -> ibv_ah_attr {
    let mut av = ibv_ah_attr::zeroed();
    av.is_global = 1;
    av.port_num = 1;
    av.grh.dgid = ibv_gid {
        raw: std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets(),
    };
    av.grh.hop_limit = 64;
    av
}

/// Brings an end to RTS, connected to the number. The peer may be silent for four seconds, as it
/// may be on a busy machine: its threads wait for a processor beside the virtual machine of other
/// tests.
pub fn connect(end: &End, peer: u32) {
    connect_for(end, peer, [17, 7]);
}

/// Brings an end to RTS, with that timeout and number of retries.
pub fn connect_for(end: &End, peer: u32, [timeout, retries]: [u8; 2]) {
    connect_with(end, peer, [timeout, retries, 7]);
}

/// As [`connect_for`], with a number of retries where the peer has no receive request.
pub fn connect_with(end: &End, peer: u32, [timeout, retries, rnr_retry]: [u8; 3]) {
    let mut attr = ibv_qp_attr::zeroed();
    let mut to = |state: ibv_qp_state, mask: u32| {
        attr.qp_state = state;
        attr.port_num = 1;
        attr.qkey = QKEY;
        attr.qp_access_flags = ACCESS;
        attr.ah_attr = av();
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = peer;
        attr.max_rd_atomic = 4;
        attr.max_dest_rd_atomic = 4;
        attr.min_rnr_timer = 1;
        attr.timeout = timeout;
        attr.retry_cnt = retries;
        attr.rnr_retry = rnr_retry;
        end.modify(&attr, IBV_QP_STATE | mask);
    };
    let init = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    let path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    let reads = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    let retries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    let (qkey, to_rtr, to_rts) = match end.kind {
        IBV_QPT_UD => (IBV_QP_QKEY, 0, 0),
        IBV_QPT_UC => (IBV_QP_ACCESS_FLAGS, path, 0),
        _ => (IBV_QP_ACCESS_FLAGS, path | reads, retries),
    };
    to(IBV_QPS_INIT, init | qkey);
    to(IBV_QPS_RTR, to_rtr);
    to(IBV_QPS_RTS, IBV_QP_SQ_PSN | to_rts);
}

/// Two connected ends.
pub fn pair(kind: ibv_qp_type) -> [End; 2] {
    let ends = [End::new(kind), End::new(kind)];
    connect(&ends[0], ends[1].number);
    connect(&ends[1], ends[0].number);
    REMOTE.with(|base| base.set(ends[1].address(0)));
    ends
}
