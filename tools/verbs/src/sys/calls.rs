//! The verbs that make objects and ask them, as safe functions.

use std::{
    collections::HashMap,
    ffi::{CStr, c_int},
    os::fd::RawFd,
    ptr,
    sync::{Arc, MutexGuard, Weak},
};

use bytemuck::Zeroable;
use kit::abi::*;

use super::{
    extended,
    flight::WorkQueue,
    object::{Object, last, made, status},
    post::{self, Extras, Room},
    raw,
};
use crate::{
    completion::{Completion, CompletionChannel, CompletionQueue},
    context::Context,
    domain::ProtectionDomain,
    error::Result,
    srq::SharedReceiveQueue,
    tag_matching::TagQueue,
};

/// ibv_fork_init(3).
pub(crate) fn fork_init() -> Result<()> {
    // SAFETY: takes nothing.
    status("ibv_fork_init", unsafe { raw::ibv_fork_init() })
}

/// ibv_is_fork_initialized(3).
pub(crate) fn fork_status() -> ibv_fork_status {
    // SAFETY: takes nothing.
    unsafe { raw::ibv_is_fork_initialized() }
}

/// The list of devices, freed with its last copy.
pub(crate) struct List {
    at: *mut *mut ibv_device,
    count: usize,
}

// SAFETY: the list and its devices do not change, and verbs take them from any thread.
unsafe impl Send for List {}
// SAFETY: the same.
unsafe impl Sync for List {}

impl List {
    pub(crate) fn new() -> Result<Self> {
        let mut count: c_int = 0;
        // SAFETY: `count` may be written.
        let at = made("ibv_get_device_list", unsafe {
            raw::ibv_get_device_list(&raw mut count)
        })?;
        Ok(Self {
            at: at.as_ptr(),
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn get(&self, index: usize) -> Option<*mut ibv_device> {
        // SAFETY: the list has `count` pointers.
        (index < self.count).then(|| unsafe { *self.at.add(index) })
    }

    pub(crate) fn name(&self, index: usize) -> String {
        let name = self.get(index).map(|at| {
            // SAFETY: devices live as long as a list that has them; the name is a string.
            unsafe { CStr::from_ptr(raw::ibv_get_device_name(at)) }.to_string_lossy()
        });
        name.unwrap_or_default().into_owned()
    }

    pub(crate) fn guid(&self, index: usize) -> u64 {
        // SAFETY: devices live as long as a list that has them.
        let guid = |at| unsafe { raw::ibv_get_device_guid(at) }.get();
        self.get(index).map_or(0, guid)
    }

    /// ibv_get_device_index(3); none of a device that the kernel has not numbered.
    pub(crate) fn number(&self, index: usize) -> Option<u32> {
        // SAFETY: devices live as long as a list that has them.
        let number = |at| unsafe { raw::ibv_get_device_index(at) };
        self.get(index)
            .and_then(|at| u32::try_from(number(at)).ok())
    }

    pub(crate) fn open(&self, index: usize) -> Result<Device> {
        const VERB: &str = "ibv_open_device";
        let at = self.get(index).unwrap_or(ptr::null_mut());
        // SAFETY: the device lives while the list does, and the context keeps it afterwards.
        unsafe {
            let context = made(VERB, raw::ibv_open_device(at))?;
            Ok(Object::new(context, raw::ibv_close_device, ()))
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: freed once. Contexts keep their device.
        unsafe { raw::ibv_free_device_list(self.at) };
    }
}

/// An open device.
pub(crate) type Device = Object<ibv_context, ()>;

/// An event of an open device: its number, and the port, if it is one of a port.
pub(crate) fn async_event(device: &Device) -> Result<(ibv_event_type, i32)> {
    let mut event = ibv_async_event {
        element: ibv_async_event_element {
            cq: ptr::null_mut(),
        },
        event_type: 0,
    };
    // SAFETY: the event may be written, and is acknowledged once, before anything else. For events
    // of objects the number is a part of an address, which is not used.
    unsafe {
        let code = raw::ibv_get_async_event(device.as_ptr(), &raw mut event);
        status("ibv_get_async_event", code)?;
        let port = event.element.port_num;
        raw::ibv_ack_async_event(&raw mut event);
        Ok((event.event_type, port))
    }
}

/// The descriptor of a device's events.
pub(crate) fn async_fd(device: &Device) -> RawFd {
    // SAFETY: the device is open.
    unsafe { (*device.as_ptr()).async_fd }
}

/// ibv_query_device(3).
pub(crate) fn query_device(device: &Device) -> Result<ibv_device_attr> {
    let mut attr = ibv_device_attr_ex::zeroed().orig_attr;
    // SAFETY: the structure may be written.
    let code = unsafe { raw::ibv_query_device(device.as_ptr(), &raw mut attr) };
    status("ibv_query_device", code)?;
    Ok(attr)
}

/// ibv_query_port(3).
pub(crate) fn query_port(device: &Device, port: u8) -> Result<ibv_port_attr> {
    let mut attr = ibv_port_attr::zeroed();
    let at = &raw mut attr;
    // SAFETY: the exported function writes the front of the structure.
    let code = unsafe { raw::ibv_query_port(device.as_ptr(), port, at.cast()) };
    status("ibv_query_port", code)?;
    Ok(attr)
}

/// ibv_query_gid_ex(3): the GID, and its type.
pub(crate) fn query_gid(device: &Device, port: u8, index: u32) -> Result<([u8; 16], u32)> {
    let mut entry = ibv_gid_entry {
        gid: ibv_gid { raw: [0; 16] },
        gid_index: 0,
        port_num: 0,
        gid_type: 0,
        ndev_ifindex: 0,
    };
    let size = size_of_val(&entry);
    let at = &raw mut entry;
    // SAFETY: the size bounds the output.
    let code =
        unsafe { raw::_ibv_query_gid_ex(device.as_ptr(), u32::from(port), index, at, 0, size) };
    status("ibv_query_gid_ex", code)?;
    Ok((entry.gid.bytes(), entry.gid_type))
}

/// ibv_query_pkey(3).
pub(crate) fn query_pkey(device: &Device, port: u8, index: u16) -> Result<u16> {
    let mut pkey = be16::new(0);
    // SAFETY: the device is open; the key may be written.
    let code =
        unsafe { raw::ibv_query_pkey(device.as_ptr(), port, c_int::from(index), &raw mut pkey) };
    status("ibv_query_pkey", code).map(|()| pkey.get())
}

/// ibv_get_pkey_index(3).
pub(crate) fn pkey_index(device: &Device, port: u8, pkey: u16) -> Result<u16> {
    const VERB: &str = "ibv_get_pkey_index";
    // SAFETY: the device is open.
    let index = unsafe { raw::ibv_get_pkey_index(device.as_ptr(), port, be16::new(pkey)) };
    u16::try_from(index).map_err(|_| last(VERB))
}

/// A protection domain.
pub(crate) type Pd = Object<ibv_pd, Context>;

pub(crate) fn alloc_pd(context: &Context) -> Result<Pd> {
    // SAFETY: the device is open, and is kept.
    unsafe {
        let at = raw::ibv_alloc_pd(context.object().as_ptr());
        let at = made("ibv_alloc_pd", at)?;
        Ok(Object::new(at, raw::ibv_dealloc_pd, context.clone()))
    }
}

/// A completion channel.
pub(crate) type Channel = Object<ibv_comp_channel, Context>;

pub(crate) fn create_channel(context: &Context) -> Result<Channel> {
    // SAFETY: the device is open, and is kept.
    unsafe {
        let at = raw::ibv_create_comp_channel(context.object().as_ptr());
        let at = made("ibv_create_comp_channel", at)?;
        Ok(Object::new(
            at,
            raw::ibv_destroy_comp_channel,
            context.clone(),
        ))
    }
}

/// The descriptor of a channel.
pub(crate) fn channel_fd(channel: &Channel) -> RawFd {
    // SAFETY: the channel lives.
    unsafe { (*channel.as_ptr()).fd }
}

/// Waits for an event and acknowledges it: the number of the completion queue.
pub(crate) fn channel_event(channel: &Channel) -> Result<usize> {
    let (mut cq, mut number) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the channel lives, both pointers may be written. The queue lives, because destroying
    // it waits until this event is acknowledged, which happens once, here.
    unsafe {
        let code = raw::ibv_get_cq_event(channel.as_ptr(), &raw mut cq, &raw mut number);
        status("ibv_get_cq_event", code)?;
        raw::ibv_ack_cq_events(cq, 1);
    }
    Ok(number.addr())
}

/// A completion queue.
pub(crate) type Cq = Object<ibv_cq, (Context, Option<CompletionChannel>)>;

/// The lock of a completion queue, with the work queues whose requests complete there.
pub(crate) type Work<'a> = MutexGuard<'a, HashMap<u32, Weak<WorkQueue>>>;

/// How many completions a queue holds.
pub(crate) fn cq_capacity(cq: &Cq, _: &Work<'_>) -> u32 {
    // SAFETY: the queue lives, and is resized under the lock alone.
    let entries = unsafe { (*cq.as_ptr()).cqe };
    u32::try_from(entries).unwrap_or(0)
}

/// ibv_resize_cq(3).
pub(crate) fn resize_cq(cq: &Cq, entries: u32, _: &Work<'_>) -> Result<()> {
    let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
    // SAFETY: the queue lives; the lock is held, which all readers of its size hold.
    status("ibv_resize_cq", unsafe {
        raw::ibv_resize_cq(cq.as_ptr(), entries)
    })
}

/// A completion queue whose events have the number.
pub(crate) fn create_cq(
    context: &Context,
    entries: u32,
    channel: Option<&CompletionChannel>,
    number: usize,
) -> Result<Cq> {
    let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
    let events = channel.map_or(ptr::null_mut(), |channel| channel.object().as_ptr());
    let number = ptr::without_provenance_mut(number);
    let device = context.object().as_ptr();
    // SAFETY: the device is open, the channel lives; both are kept. The number is only returned.
    unsafe {
        let at = raw::ibv_create_cq(device, entries, number, events, 0);
        let at = made("ibv_create_cq", at)?;
        let kept = (context.clone(), channel.cloned());
        Ok(Object::new(at, raw::ibv_destroy_cq, kept))
    }
}

/// Takes completions off a queue, which has these extras if it is an extended one. The lock of its
/// work queues is held.
pub(crate) fn poll(
    cq: &Cq,
    extras: Option<Extras>,
    _: &Work<'_>,
    room: &mut Room,
) -> Result<usize> {
    match extras {
        None => post::poll(cq, room),
        // SAFETY: a queue has extras if `extended::create_cq` made it. The lock is held.
        Some(extras) => unsafe { extended::poll(cq, extras, room) },
    }
}

/// A shared receive queue, with the requests that are in flight there.
pub(crate) type Srq = Object<ibv_srq, (ProtectionDomain, Arc<WorkQueue>)>;

pub(crate) fn create_srq(pd: &ProtectionDomain, requests: u32, segments: u32) -> Result<Srq> {
    const VERB: &str = "ibv_create_srq";
    let queue = Arc::new(WorkQueue::of_shared_receives(VERB, requests)?);
    let mut attr = ibv_srq_init_attr {
        srq_context: ptr::null_mut(),
        attr: ibv_srq_attr {
            max_wr: requests,
            max_sge: segments,
            srq_limit: 0,
        },
    };
    // SAFETY: the domain lives, and is kept.
    unsafe {
        let at = raw::ibv_create_srq(pd.object().as_ptr(), &raw mut attr);
        let at = made(VERB, at)?;
        Ok(Object::new(at, raw::ibv_destroy_srq, (pd.clone(), queue)))
    }
}

/// Asks for the event IBV_EVENT_SRQ_LIMIT_REACHED.
pub(crate) fn arm_srq<P>(srq: &Object<ibv_srq, P>, limit: u32) -> Result<()> {
    let mut attr = ibv_srq_attr {
        max_wr: 0,
        max_sge: 0,
        srq_limit: limit,
    };
    let mask = IBV_SRQ_LIMIT.cast_signed();
    // SAFETY: the queue lives.
    let code = unsafe { raw::ibv_modify_srq(srq.as_ptr(), &raw mut attr, mask) };
    status("ibv_modify_srq", code)
}

/// ibv_query_srq(3).
pub(crate) fn query_srq<P>(srq: &Object<ibv_srq, P>) -> Result<ibv_srq_attr> {
    let mut attr = ibv_srq_attr::zeroed();
    // SAFETY: the queue lives; the attributes may be written.
    let code = unsafe { raw::ibv_query_srq(srq.as_ptr(), &raw mut attr) };
    status("ibv_query_srq", code).map(|()| attr)
}

/// An address handle.
pub(crate) type Ah = Object<ibv_ah, ProtectionDomain>;

pub(crate) fn create_ah(pd: &ProtectionDomain, mut attr: ibv_ah_attr) -> Result<Ah> {
    // SAFETY: the domain lives, and is kept.
    unsafe {
        let at = raw::ibv_create_ah(pd.object().as_ptr(), &raw mut attr);
        let at = made("ibv_create_ah", at)?;
        Ok(Object::new(at, raw::ibv_destroy_ah, pd.clone()))
    }
}

/// A received datagram, as the verbs see it that find its sender.
fn received(datagram: &Completion) -> Result<(ibv_wc, ibv_grh)> {
    let path = datagram.path();
    let mut wc = ibv_wc::zeroed();
    (wc.qp_num, wc.src_qp) = (datagram.queue_pair, datagram.source);
    (wc.slid, wc.sl, wc.dlid_path_bits) = (path.lid, path.service_level, path.path_bits);
    let header = match datagram.has_grh {
        true => {
            wc.wc_flags = IBV_WC_GRH;
            datagram.header()?
        }
        false => [0; 40],
    };
    // SAFETY: the structure is plain, and has as many bytes.
    let grh = unsafe { (&raw const header).cast::<ibv_grh>().read_unaligned() };
    Ok((wc, grh))
}

/// ibv_create_ah_from_wc(3).
pub(crate) fn create_ah_from_wc(
    pd: &ProtectionDomain,
    datagram: &Completion,
    port: u8,
) -> Result<Ah> {
    let (mut wc, mut grh) = received(datagram)?;
    let (domain, wc, grh) = (pd.object().as_ptr(), &raw mut wc, &raw mut grh);
    // SAFETY: the domain lives, and is kept; completion and header live during the call.
    unsafe {
        let at = raw::ibv_create_ah_from_wc(domain, wc, grh, port);
        let at = made("ibv_create_ah_from_wc", at)?;
        Ok(Object::new(at, raw::ibv_destroy_ah, pd.clone()))
    }
}

/// ibv_init_ah_from_wc(3).
pub(crate) fn init_ah_from_wc(
    device: &Device,
    datagram: &Completion,
    port: u8,
) -> Result<ibv_ah_attr> {
    let (mut wc, mut grh) = received(datagram)?;
    let mut attr = ibv_ah_attr::zeroed();
    let (wc, grh, at) = (&raw mut wc, &raw mut grh, &raw mut attr);
    // SAFETY: the device is open; completion and header live, the attributes may be written.
    let code = unsafe { raw::ibv_init_ah_from_wc(device.as_ptr(), port, wc, grh, at) };
    status("ibv_init_ah_from_wc", code).map(|()| attr)
}

/// A queue from which several queue pairs take receive requests.
#[derive(Clone, Debug)]
pub(crate) enum Shared {
    Plain(SharedReceiveQueue),
    Tags(TagQueue),
}

impl Shared {
    pub(crate) fn as_ptr(&self) -> *mut ibv_srq {
        match self {
            Self::Plain(srq) => srq.object().as_ptr(),
            Self::Tags(queue) => queue.object().as_ptr(),
        }
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        match self {
            Self::Plain(srq) => srq.domain(),
            Self::Tags(queue) => queue.domain(),
        }
    }

    pub(crate) fn queue(&self) -> &Arc<WorkQueue> {
        match self {
            Self::Plain(srq) => srq.queue(),
            Self::Tags(queue) => queue.queue(),
        }
    }
}

/// What a queue pair was made with, and its requests in flight.
pub(crate) struct Objects {
    pub pd: ProtectionDomain,
    pub send_cq: CompletionQueue,
    pub recv_cq: CompletionQueue,
    pub srq: Option<Shared>,
    pub sends: Arc<WorkQueue>,
    pub receives: Arc<WorkQueue>,
    /// The operations that it has for batches: `enum ibv_qp_create_send_ops_flags`.
    pub operations: u32,
}

/// A queue pair.
pub(crate) type Qp = Object<ibv_qp, Objects>;

/// A queue pair of a type with these capacities: it, and how many inline bytes it takes.
pub(crate) fn create_qp(parts: Objects, kind: ibv_qp_type, cap: ibv_qp_cap) -> Result<(Qp, u32)> {
    let srq = parts.srq.as_ref();
    let mut attr = ibv_qp_init_attr {
        qp_context: ptr::null_mut(),
        send_cq: parts.send_cq.object().as_ptr(),
        recv_cq: parts.recv_cq.object().as_ptr(),
        srq: srq.map_or(ptr::null_mut(), Shared::as_ptr),
        cap,
        qp_type: kind,
        sq_sig_all: 0,
    };
    // SAFETY: all objects live, and are kept.
    unsafe {
        let at = raw::ibv_create_qp(parts.pd.object().as_ptr(), &raw mut attr);
        let at = made("ibv_create_qp", at)?;
        let qp = Object::new(at, raw::ibv_destroy_qp, parts);
        Ok((qp, attr.cap.max_inline_data))
    }
}

/// The number of a queue pair.
pub(crate) fn qp_number<P>(qp: &Object<ibv_qp, P>) -> u32 {
    // SAFETY: the queue pair lives.
    unsafe { (*qp.as_ptr()).qp_num }
}

pub(crate) fn modify_qp<P>(
    qp: &Object<ibv_qp, P>,
    mut attr: ibv_qp_attr,
    mask: ibv_qp_attr_mask,
) -> Result<()> {
    // SAFETY: the queue pair lives.
    let code = unsafe { raw::ibv_modify_qp(qp.as_ptr(), &raw mut attr, mask.cast_signed()) };
    status("ibv_modify_qp", code)
}

/// What ibv_query_qp(3) answers.
pub(crate) struct Queried {
    pub attr: ibv_qp_attr,
    /// What the queue pair was made with.
    pub cap: ibv_qp_cap,
}

/// ibv_query_qp(3), of all attributes. A device answers those that it has.
pub(crate) fn query_qp(qp: &Qp) -> Result<Queried> {
    // All bits of `enum ibv_qp_attr_mask` up to IBV_QP_DEST_QPN, and the limit of the rate.
    let mask = ((IBV_QP_DEST_QPN << 1) - 1) | IBV_QP_RATE_LIMIT;
    let mut attr = ibv_qp_attr::zeroed();
    let mut init = ibv_qp_init_attr {
        qp_context: ptr::null_mut(),
        send_cq: ptr::null_mut(),
        recv_cq: ptr::null_mut(),
        srq: ptr::null_mut(),
        cap: ibv_qp_cap::zeroed(),
        qp_type: 0,
        sq_sig_all: 0,
    };
    let (at, mask) = (qp.as_ptr(), mask.cast_signed());
    // SAFETY: the queue pair lives; both structures may be written.
    let code = unsafe { raw::ibv_query_qp(at, &raw mut attr, mask, &raw mut init) };
    status("ibv_query_qp", code)?;
    let cap = init.cap;
    Ok(Queried { attr, cap })
}

/// ibv_query_ece(3).
pub(crate) fn query_ece(qp: &Qp) -> Result<ibv_ece> {
    let mut ece = ibv_ece {
        vendor_id: 0,
        options: 0,
        comp_mask: 0,
    };
    // SAFETY: the queue pair lives; the options may be written.
    let code = unsafe { raw::ibv_query_ece(qp.as_ptr(), &raw mut ece) };
    status("ibv_query_ece", code).map(|()| ece)
}

/// ibv_set_ece(3).
pub(crate) fn set_ece(qp: &Qp, mut ece: ibv_ece) -> Result<()> {
    // SAFETY: the queue pair lives; the options are whole.
    status("ibv_set_ece", unsafe {
        raw::ibv_set_ece(qp.as_ptr(), &raw mut ece)
    })
}

/// Joins a multicast group, or leaves it.
pub(crate) fn multicast(qp: &Qp, (group, lid): ([u8; 16], u16), join: bool) -> Result<()> {
    let group = ibv_gid { raw: group };
    let at = &raw const group;
    // SAFETY: the queue pair and the group live during the call.
    unsafe {
        match join {
            true => status(
                "ibv_attach_mcast",
                raw::ibv_attach_mcast(qp.as_ptr(), at, lid),
            ),
            false => status(
                "ibv_detach_mcast",
                raw::ibv_detach_mcast(qp.as_ptr(), at, lid),
            ),
        }
    }
}

/// The library's words for a status.
pub(crate) fn status_text(status: ibv_wc_status) -> String {
    // SAFETY: the library returns a static string for any number.
    let text = unsafe { CStr::from_ptr(raw::ibv_wc_status_str(status)) };
    text.to_string_lossy().into_owned()
}

/// The library's words for an event.
pub(crate) fn event_text(event: ibv_event_type) -> String {
    // SAFETY: the library returns a static string for any number.
    let text = unsafe { CStr::from_ptr(raw::ibv_event_type_str(event)) };
    text.to_string_lossy().into_owned()
}

/// Makes `channel_event` return EAGAIN instead of waiting.
#[cfg(any(feature = "tokio", feature = "connection"))]
pub(crate) fn set_nonblocking(channel: &Channel) -> Result<()> {
    let fd = channel_fd(channel);
    // SAFETY: changes the flags of the channel's own descriptor.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags < 0 || libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
            return Err(last("fcntl"));
        }
    }
    Ok(())
}

/// Objects that have a separate descriptor, which stays open as long as they, and always answer
/// with the same.
#[cfg(feature = "tokio")]
pub(crate) trait Watchable: std::os::fd::AsRawFd {}

#[cfg(feature = "tokio")]
impl Watchable for CompletionChannel {}

/// An object whose descriptor tokio watches.
#[cfg(feature = "tokio")]
pub(crate) fn watched<T: Watchable>(object: T) -> std::io::Result<tokio::io::unix::AsyncFd<T>> {
    // SAFETY: by the trait.
    let watched = unsafe {
        tokio::io::unix::AsyncFd::register_with_interest(object, tokio::io::Interest::READABLE)
    };
    Ok(watched?)
}
