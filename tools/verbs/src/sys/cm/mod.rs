//! The connection manager, as safe functions. An event is copied and acknowledged before it is
//! returned: so rdma_destroy_id(3), which waits for acknowledgements, waits for no code of a
//! program.

use std::{
    ffi::{c_int, c_void},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr,
    sync::Mutex,
};

use bytemuck::Zeroable;
use kit::{
    abi::{ibv_context, ibv_ece, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_state},
    cm::{event_type, port_space::RDMA_PS_UDP},
};

use super::{
    calls,
    object::{Object, last, made, status},
};
use crate::{
    connection::EventChannel,
    error::{Error, Result},
};

mod datagram;
pub(crate) mod lookup;
#[allow(non_camel_case_types)] // the names of the header
mod raw;

pub(crate) use datagram::Ud;
use datagram::copied;

/// A channel of events.
pub(crate) type Channel = Object<raw::rdma_event_channel, ()>;

/// An id, and the channel that has its events.
pub(crate) type Cm = Object<raw::rdma_cm_id, Mutex<EventChannel>>;

/// Parameters of a connection, and private data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Param {
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retries: u8,
    pub rnr_retries: u8,
    pub queue_pair: u32,
    pub has_srq: bool,
    pub private_data: Vec<u8>,
}

/// The copy of an event.
pub(crate) struct Taken {
    /// `enum rdma_cm_event_type`.
    pub kind: u32,
    pub status: i32,
    /// The number of the id; of a request, that of the listening id.
    pub number: usize,
    /// The new id of a request.
    pub request: Option<Cm>,
    pub param: Param,
    /// Of events of datagrams and of multicast groups.
    pub ud: Option<Ud>,
}

/// Results of librdmacm: 0, or -1 with the errno.
fn done(function: &'static str, code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        1.. => Err(last(function)),
        _ => status(function, code),
    }
}

/// Makes a channel, whose `get_event` does not wait.
pub(crate) fn create_channel() -> Result<Channel> {
    const FUNCTION: &str = "rdma_create_event_channel";
    unsafe extern "C" fn destroy(channel: *mut raw::rdma_event_channel) -> c_int {
        // SAFETY: by `Object::new`.
        unsafe { raw::rdma_destroy_event_channel(channel) };
        0
    }
    // SAFETY: the channel is new, and destroyed once. The flags are those of its descriptor.
    unsafe {
        let at = made(FUNCTION, raw::rdma_create_event_channel())?;
        let channel = Object::new(at, destroy, ());
        let fd = channel_fd(&channel);
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags < 0 || libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
            return Err(last("fcntl"));
        }
        Ok(channel)
    }
}

/// The descriptor of a channel.
pub(crate) fn channel_fd(channel: &Channel) -> RawFd {
    // SAFETY: the channel lives.
    unsafe { (*channel.as_ptr()).fd }
}

/// Takes the next event, if there is one. `channel` and `owner` are the same channel; `number` is
/// called for the number of a new id.
pub(crate) fn get_event(
    channel: &Channel,
    owner: &EventChannel,
    number: impl FnOnce() -> usize,
) -> Result<Option<Taken>> {
    const FUNCTION: &str = "rdma_get_cm_event";
    let mut event = ptr::null_mut();
    // SAFETY: the channel lives, and the pointer may be written. Until the acknowledgement, which
    // happens once, here, the event and its ids live: rdma_destroy_id(3) waits for it. A request
    // has a new id, which is this process's to destroy.
    unsafe {
        let code = raw::rdma_get_cm_event(channel.as_ptr(), &raw mut event);
        match done(FUNCTION, code) {
            Err(error) if error.errno() == libc::EAGAIN => return Ok(None),
            other => other?,
        }
        let kind = (*event).event;
        let is_request = kind == event_type::CONNECT_REQUEST;
        let of = if is_request {
            (*event).listen_id
        } else {
            (*event).id
        };
        let request = is_request.then(|| ptr::NonNull::new((*event).id)).flatten();
        let request = request.map(|at| {
            (*at.as_ptr()).context = ptr::without_provenance_mut(number());
            Object::new(at, raw::rdma_destroy_id, Mutex::new(owner.clone()))
        });
        let ud = datagram::has_ud_param(kind, of).then(|| datagram::ud(&(*event).param.ud));
        let taken = Taken {
            kind,
            status: (*event).status,
            number: if of.is_null() {
                0
            } else {
                (*of).context.addr()
            },
            request,
            param: match ud.is_none() && has_param(kind) {
                true => param(&(*event).param.conn),
                false => Param::default(),
            },
            ud,
        };
        raw::rdma_ack_cm_event(event);
        Ok(Some(taken))
    }
}

/// Whether events of a kind have parameters of a connection.
fn has_param(kind: u32) -> bool {
    use event_type::*;
    matches!(
        kind,
        CONNECT_REQUEST | CONNECT_RESPONSE | REJECTED | ESTABLISHED
    )
}

/// # Safety
/// The private data is NULL or as long as is said.
unsafe fn param(conn: &raw::rdma_conn_param) -> Param {
    // SAFETY: by the caller.
    let private_data = unsafe { copied(conn.private_data, conn.private_data_len.into()) };
    Param {
        responder_resources: conn.responder_resources,
        initiator_depth: conn.initiator_depth,
        flow_control: conn.flow_control,
        retries: conn.retry_count,
        rnr_retries: conn.rnr_retry_count,
        queue_pair: conn.qp_num,
        has_srq: conn.srq != 0,
        private_data,
    }
}

/// Calls a function with parameters in the form of C.
fn with_param(
    function: &'static str,
    given: &Param,
    call: impl FnOnce(*mut raw::rdma_conn_param) -> c_int,
) -> Result<()> {
    let length = private_length(function, &given.private_data)?;
    let mut param = raw::rdma_conn_param {
        private_data: given.private_data.as_ptr().cast(),
        private_data_len: length,
        responder_resources: given.responder_resources,
        initiator_depth: given.initiator_depth,
        flow_control: given.flow_control,
        retry_count: given.retries,
        rnr_retry_count: given.rnr_retries,
        srq: given.has_srq.into(),
        qp_num: given.queue_pair,
    };
    done(function, call(&raw mut param))
}

fn private_length(function: &'static str, data: &[u8]) -> Result<u8> {
    let invalid = Error::new(function, libc::EINVAL);
    let length = u8::try_from(data.len());
    length.map_err(|_| invalid.because("more private data than a message has room for"))
}

/// Makes an id of a port space, whose events have the number.
pub(crate) fn create_id(channel: &EventChannel, number: usize, space: u32) -> Result<Cm> {
    const FUNCTION: &str = "rdma_create_id";
    let mut id = ptr::null_mut();
    let number = ptr::without_provenance_mut(number);
    // SAFETY: the channel lives, and is kept; the id is new.
    unsafe {
        let of = channel.object().as_ptr();
        let code = raw::rdma_create_id(of, &raw mut id, number, space);
        done(FUNCTION, code)?;
        let id = made(FUNCTION, id)?;
        Ok(Object::new(
            id,
            raw::rdma_destroy_id,
            Mutex::new(channel.clone()),
        ))
    }
}

/// Moves an id to another channel, which the caller keeps in its place.
pub(crate) fn migrate(id: &Cm, channel: &EventChannel) -> Result<()> {
    // SAFETY: both live; the id's channel is kept until it was replaced.
    let code = unsafe { raw::rdma_migrate_id(id.as_ptr(), channel.object().as_ptr()) };
    done("rdma_migrate_id", code)
}

/// Sets an option whose value is of this type.
pub(crate) fn set_option<T: bytemuck::NoUninit>(
    id: &Cm,
    level: i32,
    name: i32,
    mut value: T,
) -> Result<()> {
    let at: *mut c_void = (&raw mut value).cast();
    // SAFETY: the id lives; the value has the length.
    let code = unsafe { raw::rdma_set_option(id.as_ptr(), level, name, at, size_of::<T>()) };
    done("rdma_set_option", code)
}

pub(crate) fn bind(id: &Cm, address: SocketAddr) -> Result<()> {
    let mut address = Storage::of(address);
    // SAFETY: the id lives; the address is whole.
    let code = unsafe { raw::rdma_bind_addr(id.as_ptr(), address.at()) };
    done("rdma_bind_addr", code)
}

pub(crate) fn resolve_addr(id: &Cm, to: SocketAddr, milliseconds: i32) -> Result<()> {
    let mut to = Storage::of(to);
    let id = id.as_ptr();
    // SAFETY: the id lives; the address is whole.
    let code = unsafe { raw::rdma_resolve_addr(id, ptr::null_mut(), to.at(), milliseconds) };
    done("rdma_resolve_addr", code)
}

pub(crate) fn resolve_route(id: &Cm, milliseconds: i32) -> Result<()> {
    // SAFETY: the id lives.
    let code = unsafe { raw::rdma_resolve_route(id.as_ptr(), milliseconds) };
    done("rdma_resolve_route", code)
}

pub(crate) fn listen(id: &Cm, backlog: i32) -> Result<()> {
    // SAFETY: the id lives.
    done("rdma_listen", unsafe {
        raw::rdma_listen(id.as_ptr(), backlog)
    })
}

pub(crate) fn connect(id: &Cm, param: &Param) -> Result<()> {
    // SAFETY: the id lives; the parameters live during the call.
    with_param("rdma_connect", param, |param| unsafe {
        raw::rdma_connect(id.as_ptr(), param)
    })
}

pub(crate) fn accept(id: &Cm, param: &Param) -> Result<()> {
    // SAFETY: the id lives; the parameters live during the call.
    with_param("rdma_accept", param, |param| unsafe {
        raw::rdma_accept(id.as_ptr(), param)
    })
}

pub(crate) fn establish(id: &Cm) -> Result<()> {
    // SAFETY: the id lives.
    done("rdma_establish", unsafe {
        raw::rdma_establish(id.as_ptr())
    })
}

pub(crate) fn reject(id: &Cm, data: &[u8]) -> Result<()> {
    const FUNCTION: &str = "rdma_reject";
    let length = private_length(FUNCTION, data)?;
    // SAFETY: the id lives; the data has the length.
    let code = unsafe { raw::rdma_reject(id.as_ptr(), data.as_ptr().cast(), length) };
    done(FUNCTION, code)
}

pub(crate) fn disconnect(id: &Cm) -> Result<()> {
    // SAFETY: the id lives.
    done("rdma_disconnect", unsafe {
        raw::rdma_disconnect(id.as_ptr())
    })
}

pub(crate) fn reject_ece(id: &Cm, data: &[u8]) -> Result<()> {
    const FUNCTION: &str = "rdma_reject_ece";
    let length = private_length(FUNCTION, data)?;
    // SAFETY: the id lives; the data has the length.
    let code = unsafe { raw::rdma_reject_ece(id.as_ptr(), data.as_ptr().cast(), length) };
    done(FUNCTION, code)
}

pub(crate) fn remote_ece(id: &Cm) -> Result<ibv_ece> {
    let mut ece = ibv_ece {
        vendor_id: 0,
        options: 0,
        comp_mask: 0,
    };
    // SAFETY: the id lives; the options may be written.
    let code = unsafe { raw::rdma_get_remote_ece(id.as_ptr(), &raw mut ece) };
    done("rdma_get_remote_ece", code).map(|()| ece)
}

pub(crate) fn set_local_ece(id: &Cm, mut ece: ibv_ece) -> Result<()> {
    // SAFETY: the id lives; the options are whole.
    done("rdma_set_local_ece", unsafe {
        raw::rdma_set_local_ece(id.as_ptr(), &raw mut ece)
    })
}

/// The attributes of a transition to a state, and their mask.
pub(crate) fn qp_attr(id: &Cm, to: ibv_qp_state) -> Result<(ibv_qp_attr, ibv_qp_attr_mask)> {
    let mut attr = ibv_qp_attr::zeroed();
    attr.qp_state = to;
    let mut mask = 0;
    // SAFETY: the id lives; both may be written.
    let code = unsafe { raw::rdma_init_qp_attr(id.as_ptr(), &raw mut attr, &raw mut mask) };
    done("rdma_init_qp_attr", code)?;
    Ok((attr, mask.cast_unsigned()))
}

/// The device that an id belongs to, if it is known. Librdmacm leaves it open for as long as the
/// process has that library (rdma_get_devices(3)).
pub(crate) fn device(id: &Cm) -> Option<calls::Device> {
    unsafe extern "C" fn stays_open(_: *mut ibv_context) -> c_int {
        0
    }
    // SAFETY: the id lives. Its device stays open; this object does not close it.
    unsafe {
        let at = ptr::NonNull::new((&raw const (*id.as_ptr()).verbs).read_volatile())?;
        Some(Object::new(at, stays_open, ()))
    }
}

/// Whether an id is one of the port space UDP.
pub(crate) fn is_datagram(id: &Cm) -> bool {
    // SAFETY: the id lives.
    unsafe { (&raw const (*id.as_ptr()).ps).read_volatile() == RDMA_PS_UDP }
}

/// Joins a group; its events have the number.
pub(crate) fn join_multicast(
    id: &Cm,
    group: SocketAddr,
    send_only: bool,
    number: usize,
) -> Result<()> {
    /// Both members of the attributes are there: `enum rdma_cm_join_mc_attr_mask`.
    const ADDRESS_AND_FLAGS: u32 = 3;
    let mut group = Storage::of(group);
    let mut attr = raw::rdma_cm_join_mc_attr_ex {
        comp_mask: ADDRESS_AND_FLAGS,
        join_flags: send_only.into(),
        addr: group.at(),
    };
    let number = ptr::without_provenance_mut(number);
    // SAFETY: the id lives; attributes and address are whole. The number is only returned.
    let code = unsafe { raw::rdma_join_multicast_ex(id.as_ptr(), &raw mut attr, number) };
    done("rdma_join_multicast", code)
}

pub(crate) fn leave_multicast(id: &Cm, group: SocketAddr) -> Result<()> {
    let mut group = Storage::of(group);
    // SAFETY: the id lives; the address is whole.
    let code = unsafe { raw::rdma_leave_multicast(id.as_ptr(), group.at()) };
    done("rdma_leave_multicast", code)
}

/// The number in the events of an id.
pub(crate) fn number(id: &Cm) -> usize {
    // SAFETY: the id lives.
    unsafe { (&raw const (*id.as_ptr()).context).read_volatile() }.addr()
}

/// The port of the device.
pub(crate) fn port(id: &Cm) -> u8 {
    // SAFETY: the id lives.
    unsafe { (&raw const (*id.as_ptr()).port_num).read_volatile() }
}

/// The address of this end, and that of the other one.
pub(crate) fn addresses(id: &Cm) -> [Option<SocketAddr>; 2] {
    // SAFETY: the id lives; the members are plain bytes, as long as `Storage`.
    unsafe {
        let addr = &raw const (*id.as_ptr()).route.addr;
        let source = (&raw const (*addr).src_storage).cast::<Storage>();
        let destination = (&raw const (*addr).dst_storage).cast::<Storage>();
        [source, destination].map(|at| at.read_volatile().address())
    }
}

/// `struct sockaddr_storage`, as bytes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Storage([u8; 128]);

const _: () = assert!(size_of::<Storage>() == size_of::<libc::sockaddr_storage>());

impl Storage {
    fn of(address: SocketAddr) -> Self {
        let mut bytes = Vec::with_capacity(128);
        let family = match address {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        // A family is a small number.
        let family = u16::try_from(family).unwrap_or(0);
        bytes.extend(family.to_ne_bytes());
        bytes.extend(address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => bytes.extend(v4.ip().octets()),
            SocketAddr::V6(v6) => {
                // The standard library has both numbers as they are in memory.
                bytes.extend(v6.flowinfo().to_ne_bytes());
                bytes.extend(v6.ip().octets());
                bytes.extend(v6.scope_id().to_ne_bytes());
            }
        }
        Self::of_bytes(&bytes)
    }

    /// The bytes of an address, with zeros behind them.
    fn of_bytes(bytes: &[u8]) -> Self {
        let mut storage = Self([0; 128]);
        let all = storage.0.iter_mut().zip(bytes);
        all.for_each(|(to, from)| *to = *from);
        storage
    }

    fn at(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.0).cast()
    }

    fn take<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }

    fn address(&self) -> Option<SocketAddr> {
        let family = u16::from_ne_bytes(self.take(0)?);
        let port = u16::from_be_bytes(self.take(2)?);
        match i32::from(family) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(self.take::<4>(4)?);
                Some(SocketAddrV4::new(ip, port).into())
            }
            libc::AF_INET6 => {
                let flow = u32::from_ne_bytes(self.take(4)?);
                let ip = Ipv6Addr::from(self.take::<16>(8)?);
                let scope = u32::from_ne_bytes(self.take(24)?);
                Some(SocketAddrV6::new(ip, port, flow, scope).into())
            }
            _ => None,
        }
    }
}

/// A descriptor that becomes readable, once and for good.
#[derive(Debug)]
pub(crate) struct Signal(OwnedFd);

impl Signal {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: takes numbers; the descriptor is new.
        unsafe {
            let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            match fd {
                0.. => Ok(Self(OwnedFd::from_raw_fd(fd))),
                _ => Err(last("eventfd")),
            }
        }
    }

    pub(crate) fn raise(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the bytes live during the call. It fails only where the counter is full, and
        // the descriptor then is readable.
        unsafe { libc::write(self.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

impl AsRawFd for Signal {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(feature = "tokio")]
impl calls::Watchable for Signal {}
#[cfg(feature = "tokio")]
impl calls::Watchable for std::sync::Arc<Signal> {}
#[cfg(feature = "tokio")]
impl calls::Watchable for EventChannel {}

/// Waits until one of the descriptors is readable. Without a time it waits for ever. Whether one is
/// readable.
#[expect(
    clippy::disallowed_methods,
    reason = "several descriptors at once, which the function of `kit` does not take"
)]
pub(crate) fn wait_readable<const N: usize>(
    fds: [RawFd; N],
    milliseconds: Option<i32>,
) -> Result<bool> {
    let mut fds = fds.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let count = libc::nfds_t::try_from(N).unwrap_or(0);
    // SAFETY: the array has that many members.
    let found = unsafe { libc::poll(fds.as_mut_ptr(), count, milliseconds.unwrap_or(-1)) };
    match found {
        0.. => Ok(found > 0),
        _ => Err(last("poll")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_form_of_c() {
        for text in ["127.0.0.1:7471", "[fe80::1%3]:80", "[::]:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Storage::of(address).address(), Some(address));
        }
        assert_eq!(Storage([0; 128]).address(), None);
    }
}
