#![forbid(unsafe_code)]
//! A `struct rdma_cm_id` and the state that belongs to it.

use crate::abi::{
    Address, Conn, Given, Hints, IdBlock, MAX_DEPTH, gid_of, port_space, rdma_event_channel,
};
use crate::backend::{Addresses, Backend, DevicePort, Ece, Paths};
#[cfg(test)]
use crate::command::{CommandId, fake::Fake};
use crate::device::{Capabilities, Device, Lease};
use crate::kernel::KernelId;
use crate::source::Source;
use crate::uroce::UroceId;
use crate::verbs::Qp;
use core::ffi::c_void;
use kit::abi::kernel::ib_uverbs_qp_attr;
use kit::abi::{IBV_QPT_RC, IBV_QPT_UD, ibv_pd, ibv_qp_init_attr, ibv_qp_type};
use kit::errno::{Errno, Result};
use kit::sync::{Condvar, Mutex};
use kit::sys::lock::Lock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// Counts acknowledged events, and lets a thread wait for a count.
///
/// A thread that counts an event looks for waiting threads afterwards; a thread that is going to
/// wait registers, and then looks at the count. Both are sequentially consistent, so one of the two
/// sees the other.
#[derive(Default)]
pub struct Acknowledged {
    events: AtomicU32,
    /// Threads that wait: a notification without one would be a system call for nothing.
    waiting: AtomicU32,
    wait: Mutex<()>,
    changed: Condvar,
}

impl Acknowledged {
    pub fn add(&self) {
        self.events.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.notify();
        }
    }

    #[cold]
    #[inline(never)]
    fn notify(&self) {
        // A thread between its look at the count and its sleep has the lock.
        let _held = self.wait.lock();
        self.changed.notify_all();
    }

    /// How many are still to be acknowledged. The program may have acknowledged later events, too.
    pub fn missing(&self, handed_out: u32) -> u32 {
        let count = self.events.load(Ordering::SeqCst);
        let difference = handed_out.wrapping_sub(count).cast_signed();
        difference.max(0).cast_unsigned()
    }

    /// Waits until the count is reached: without bound, as long as the program keeps an event.
    pub fn wait_for(&self, handed_out: u32) {
        if self.missing(handed_out) > 0 {
            self.sleep_until(handed_out);
        }
    }

    #[cold]
    #[inline(never)]
    fn sleep_until(&self, handed_out: u32) {
        let mut held = self.wait.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.missing(handed_out) > 0 {
            held = self.changed.wait(held);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// State for later calls.
#[derive(Default)]
pub struct State {
    /// Set by the first call that binds the id to a device.
    pub lease: Option<Lease>,
    /// Resources from the peer's request, or from the program, for the transitions to RTR and RTS.
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub local_ece: Ece,
    pub remote_ece: Ece,
    /// Whether the library made the completion queues and channels.
    pub made_send_cq: bool,
    pub made_recv_cq: bool,
    rare: Option<Box<Rare>>,
}

/// State that few ids have.
#[derive(Default)]
pub struct Rare {
    /// Precedes the private data of the next connect.
    pub connect: Vec<u8>,
    /// Of a passive endpoint: the attributes of its requests' queue pairs.
    pub template: Option<Template>,
    pub joins: Vec<Arc<Join>>,
    /// The result of rdma_resolve_addrinfo(3), until it is taken.
    pub found: Option<Hints>,
}

impl State {
    /// The rare state, if the id has it.
    pub fn rare(&mut self) -> Option<&mut Rare> {
        self.rare.as_deref_mut()
    }

    /// The same, made if the id does not have it.
    pub fn make_rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The groups that the id has joined.
    pub fn joins(&self) -> &[Arc<Join>] {
        self.rare.as_ref().map_or(&[], |rare| &rare.joins)
    }
}

/// Attributes for queue pairs of requests.
#[derive(Clone, Copy)]
pub struct Template {
    pub pd: Given<*mut ibv_pd>,
    pub attr: Given<ibv_qp_init_attr>,
}

/// A multicast group that an id has joined.
pub struct Join {
    pub id: Arc<Id>,
    pub group: Address,
    /// The context of the program.
    pub context: Given<*mut c_void>,
    pub is_send_only: bool,
    /// The number of the join at the backend.
    pub number: OnceLock<u32>,
    /// GID and LID that the queue pair was attached to.
    pub attached: Mutex<Option<([u8; 16], u16)>>,
    pub acknowledged: Acknowledged,
}

/// The connection manager of an id, which lies in the id: there may be many of them.
pub enum Manager {
    Kernel(KernelId),
    Uroce(UroceId),
    #[cfg(test)]
    Fake(CommandId<Fake>),
}

impl Manager {
    fn of_request(&self, number: u32) -> Self {
        match self {
            Self::Kernel(id) => Self::Kernel(id.of_request(number)),
            Self::Uroce(id) => Self::Uroce(id.of_request(number)),
            #[cfg(test)]
            Self::Fake(id) => Self::Fake(id.of_request(number)),
        }
    }
}

/// Each operation of [`Backend`] is that of the id within: no table of functions lies between.
macro_rules! operations {
    ($($name:ident($($argument:ident: $t:ty),*) $(-> $answer:ty)?;)*) => {
        impl Manager {
            $(
                #[inline(always)]
                pub fn $name(&self $(, $argument: $t)*) $(-> $answer)? {
                    match self {
                        Self::Kernel(id) => id.$name($($argument),*),
                        Self::Uroce(id) => id.$name($($argument),*),
                        #[cfg(test)]
                        Self::Fake(id) => id.$name($($argument),*),
                    }
                }
            )*
        }
    };
}

operations! {
    destroy() -> Result<u32>;
    bind(address: &Address) -> Result<()>;
    resolve_addr(source: Option<&Address>, destination: &Address, milliseconds: i32) -> Result<()>;
    resolve_route(milliseconds: i32) -> Result<()>;
    binding(found: &mut Addresses) -> Result<()>;
    gids(found: &mut Addresses) -> Result<()>;
    paths(found: &mut Paths) -> Result<()>;
    listen(backlog: i32) -> Result<()>;
    connect(conn: &Conn, data: [&[u8]; 2], ece: Ece) -> Result<()>;
    accept(uid: u64, given: Option<(&Conn, &[u8])>, ece: Ece) -> Result<()>;
    reject(reason: u8, data: &[u8]) -> Result<()>;
    disconnect() -> Result<()>;
    notify(event: u32) -> Result<()>;
    qp_attr(state: u32, attr: &mut ib_uverbs_qp_attr) -> Result<()>;
    set_option(level: i32, name: i32, value: &[u8]) -> Result<()>;
    join(uid: u64, group: &Address, flags: u16) -> Result<u32>;
    leave(join: u32) -> Result<u32>;
    migrate(to: &Source) -> Result<u32>;
    write_event(event: u32, status: i32, arg: u64) -> Result<()>;
    orphan();
    number() -> u32;
}

/// An id.
pub struct Id {
    pub block: IdBlock,
    manager: Option<Manager>,
    pub acknowledged: Acknowledged,
    pub state: Lock<State>,
    /// No channel of the program: calls wait for their event.
    sync: AtomicBool,
    /// The transition of the queue pair failed when the peer answered: later events of the backend
    /// are swallowed.
    connect_error: AtomicBool,
    /// Whether the id has joined a group.
    joined: AtomicBool,
    /// [`Capabilities::packed`] of the device; 0 without one.
    capabilities: AtomicU32,
    /// The type of the last event that the program was given; [`NO_EVENT`] before.
    last_event: AtomicU32,
}

const NO_EVENT: u32 = u32::MAX;

impl Id {
    /// An id without a backend, of a channel of the program or the library.
    pub fn new(
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        port_space: u32,
        qp_type: ibv_qp_type,
    ) -> Self {
        let block = IdBlock::new();
        block.set_channel(channel);
        block.set_context(context);
        block.set_ps(port_space);
        block.set_qp_type(qp_type);
        Self {
            block,
            manager: None,
            acknowledged: Acknowledged::default(),
            state: Lock::new(State {
                responder_resources: MAX_DEPTH,
                initiator_depth: MAX_DEPTH,
                ..State::default()
            }),
            sync: AtomicBool::new(false),
            connect_error: AtomicBool::new(false),
            joined: AtomicBool::new(false),
            capabilities: AtomicU32::new(0),
            last_event: AtomicU32::new(NO_EVENT),
        }
    }

    /// The address by which the program and events name the id, which does not move any more.
    pub fn address(&self) -> usize {
        self.block.as_ptr().addr()
    }

    pub fn uid(&self) -> u64 {
        self.address() as u64
    }

    /// Gives the id, to which there is no other reference yet, its backend.
    pub fn set_backend(self: &mut Arc<Self>, manager: Manager) {
        if let Some(id) = Arc::get_mut(self) {
            id.manager = Some(manager);
        }
    }

    /// The connection manager of a request that came to this listener.
    ///
    /// # Errors
    /// EINVAL while the id is made.
    pub fn of_request(&self, number: u32) -> Result<Manager> {
        let manager = self.manager.as_ref().ok_or(Errno::INVAL)?;
        Ok(manager.of_request(number))
    }

    /// # Errors
    /// EINVAL while the id is made.
    #[inline]
    pub fn backend(&self) -> Result<&Manager> {
        self.manager.as_ref().ok_or(Errno::INVAL)
    }

    pub fn is_sync(&self) -> bool {
        self.sync.load(Ordering::Relaxed)
    }

    pub fn set_sync(&self, sync: bool) {
        self.sync.store(sync, Ordering::Relaxed);
    }

    pub fn has_connect_error(&self) -> bool {
        self.connect_error.load(Ordering::Relaxed)
    }

    pub fn set_connect_error(&self) {
        self.connect_error.store(true, Ordering::Relaxed);
    }

    pub fn has_joined(&self) -> bool {
        self.joined.load(Ordering::Relaxed)
    }

    pub fn set_joined(&self) {
        self.joined.store(true, Ordering::Relaxed);
    }

    pub fn last_event(&self) -> Option<u32> {
        let event = self.last_event.load(Ordering::Relaxed);
        (event != NO_EVENT).then_some(event)
    }

    pub fn set_last_event(&self, event: u32) {
        self.last_event.store(event, Ordering::Relaxed);
    }

    pub fn qp(&self) -> Option<Qp> {
        Qp::of(self.block.qp())
    }

    pub fn is_datagram(&self) -> bool {
        self.block.qp_type() == IBV_QPT_UD
    }

    /// The device to which the id is bound.
    pub fn device(&self) -> Option<&'static Device> {
        let state = self.state.lock();
        state.lease.as_ref().map(|lease| lease.device)
    }

    /// The capabilities of that device.
    pub fn capabilities(&self) -> Option<Capabilities> {
        Capabilities::unpacked(self.capabilities.load(Ordering::Acquire))
    }

    /// Takes the id's binding over from the backend.
    ///
    /// # Errors
    /// The backend's; those of opening the device.
    pub fn refresh(&self) -> Result<()> {
        let backend = self.backend()?;
        let mut found = Addresses::unanswered();
        backend.binding(&mut found)?;
        self.block.take_source(&found.src_addr, found.src_size);
        self.block.take_destination(&found.dst_addr, found.dst_size);
        let Some(place) = DevicePort::of(&found) else {
            return Ok(());
        };
        if self.block.verbs().is_null() {
            let lease = Lease::new(&place)?;
            self.block.set_verbs(lease.device.verbs.as_ptr());
            if self.block.pd().is_null() {
                self.block.set_pd(lease.pd.as_ptr());
            }
            let packed = lease.device.capabilities.packed();
            let before = self.state.lock().lease.replace(lease);
            if before.is_some() {
                drop(before);
            }
            self.capabilities.store(packed, Ordering::Release);
        }
        self.block.set_port_num(place.port);
        self.block.set_pkey(place.pkey);
        backend.gids(&mut found)?;
        self.block.set_gids(
            gid_of(&found.src_addr, found.src_size),
            gid_of(&found.dst_addr, found.dst_size),
        );
        Ok(())
    }
}

/// The queue pair type of a port space.
pub fn qp_type_of(space: u32) -> ibv_qp_type {
    match space {
        port_space::RDMA_PS_UDP | port_space::RDMA_PS_IPOIB => IBV_QPT_UD,
        _ => IBV_QPT_RC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_the_last_acknowledgement() {
        let acknowledged = Acknowledged::default();
        acknowledged.add();
        acknowledged.wait_for(1);
        std::thread::scope(|scope| {
            scope.spawn(|| acknowledged.wait_for(2));
            acknowledged.add();
        });
        assert_eq!(acknowledged.events.load(Ordering::SeqCst), 2);
        acknowledged.wait_for(1);
        assert_eq!((acknowledged.missing(1), acknowledged.missing(5)), (0, 3));
    }

    #[test]
    fn datagram_port_spaces_have_datagram_queue_pairs() {
        assert_eq!(qp_type_of(port_space::RDMA_PS_UDP), IBV_QPT_UD);
        assert_eq!(qp_type_of(port_space::RDMA_PS_IPOIB), IBV_QPT_UD);
        assert_eq!(qp_type_of(port_space::RDMA_PS_TCP), IBV_QPT_RC);
        assert_eq!(qp_type_of(0x013f), IBV_QPT_RC);
    }
}
