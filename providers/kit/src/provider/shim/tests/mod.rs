//! Every verb of a small provider, called through the pointers of the table as C does.

mod cqs;
mod devices;
mod domains;
mod fake;
mod import;
mod leftovers;
mod memory;
mod pairs;
mod requests;
mod steering;
mod wr;

use super::{Device, DeviceSpec, Opened};
use crate::abi::handle::{Cq, Ctx, Driver, HeldDevice};
use crate::abi::*;
use crate::errno::Errno;
use crate::sys::errno;
use crate::table::Table;
use core::ffi::c_int;
use core::mem::zeroed;
use core::ptr::{NonNull, null_mut};
use fake::{Counted, Fake, State};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// An open device. When it is dropped it is closed, and nothing may be left.
struct Bench {
    device: Option<HeldDevice>,
    context: *mut ibv_context,
    state: Arc<State>,
}

fn spec(name: &str) -> DeviceSpec {
    DeviceSpec {
        name: name.to_owned(),
        node_type: IBV_NODE_CA,
        ibdev_path: "/files/of/fake".to_owned(),
        guid: 7,
        identity: 3,
    }
}

/// A device whose contexts share `state`.
fn device(state: &Arc<State>) -> HeldDevice {
    let state = Arc::clone(state);
    let open = move || {
        let (async_fd, _): (OwnedFd, OwnedFd) = rustix::pipe::pipe()?;
        let provider = Fake(Counted::new(&state, ()));
        Ok(Opened { provider, async_fd })
    };
    Device::new(spec("fake_0"), open).unwrap()
}

/// Opens the device as the library does.
fn open(held: &HeldDevice) -> Option<NonNull<verbs_context>> {
    let driver: Driver = held.device().driver().unwrap();
    // SAFETY: the driver is the device's own, and wants no private data.
    unsafe { driver.alloc_context(held.device(), None, null_mut()) }
}

impl Bench {
    fn new() -> Self {
        let state = Arc::new(State::default());
        let device = device(&state);
        Self::of(device, state)
    }

    fn of(device: HeldDevice, state: Arc<State>) -> Self {
        let context = open(&device).expect("opens");
        // SAFETY: a member of the new context.
        let context = unsafe { &raw mut (*context.as_ptr()).context };
        Self {
            device: Some(device),
            context,
            state,
        }
    }

    fn ctx(&self) -> Ctx<'_> {
        // SAFETY: the context is open as long as the bench.
        unsafe { Ctx::from_raw(self.context) }.unwrap()
    }

    fn table(&self) -> &Table {
        self.ctx().table()
    }

    /// Only the provider remains.
    fn is_empty(&self) -> bool {
        self.state.live() == 1
    }

    fn pd(&self) -> *mut ibv_pd {
        // SAFETY: the context is open.
        made(unsafe { (self.table().alloc_pd())(self.context) })
    }

    fn dealloc_pd(&self, pd: *mut ibv_pd) -> c_int {
        // SAFETY: the domain is live.
        unsafe { (self.table().dealloc_pd())(pd) }
    }

    /// As the library's exported function does it.
    fn cq(&self) -> *mut ibv_cq {
        // SAFETY: the context is open, and the queue new.
        unsafe {
            let cq = made((self.table().create_cq())(self.context, 10, null_mut(), 0));
            Cq::init(cq, self.ctx(), None, null_mut());
            cq
        }
    }

    fn cq_ex(&self, wc_flags: u64) -> *mut ibv_cq_ex {
        let mut attr = cq_attr(wc_flags);
        // SAFETY: as above.
        unsafe {
            let cq = made((self.table().create_cq_ex())(self.context, &raw mut attr));
            Cq::init(cq.cast(), self.ctx(), None, null_mut());
            cq
        }
    }

    fn destroy_cq(&self, cq: *mut ibv_cq) -> c_int {
        // SAFETY: the queue is live.
        unsafe { (self.table().destroy_cq())(cq) }
    }

    fn qp(&self, pd: *mut ibv_pd, cq: *mut ibv_cq, qp_type: ibv_qp_type) -> *mut ibv_qp {
        let mut attr = qp_attr(cq, qp_type);
        // SAFETY: domain and queue are live.
        made(unsafe { (self.table().create_qp())(pd, &raw mut attr) })
    }

    fn qp_ex(&self, attr: &mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
        // SAFETY: the objects of the attributes are live.
        unsafe { (self.table().create_qp_ex())(self.context, attr) }
    }

    fn destroy_qp(&self, qp: *mut ibv_qp) -> c_int {
        // SAFETY: the queue pair is live.
        unsafe { (self.table().destroy_qp())(qp) }
    }

    fn ah(&self, pd: *mut ibv_pd, dlid: u16) -> *mut ibv_ah {
        // SAFETY: the attributes are numbers; the domain is live.
        unsafe {
            let mut attr: ibv_ah_attr = zeroed();
            attr.dlid = dlid;
            made((self.table().create_ah())(pd, &raw mut attr))
        }
    }

    fn destroy_ah(&self, ah: *mut ibv_ah) -> c_int {
        // SAFETY: the handle is live.
        unsafe { (self.table().destroy_ah())(ah) }
    }

    fn mr(&self, pd: *mut ibv_pd, bytes: &mut [u8]) -> *mut ibv_mr {
        let (addr, length) = (bytes.as_mut_ptr(), bytes.len());
        let access = IBV_ACCESS_LOCAL_WRITE.cast_signed();
        // SAFETY: the domain is live.
        made(unsafe {
            (self.table().reg_mr())(pd, addr.cast(), length, addr.addr() as u64, access)
        })
    }

    fn dereg_mr(&self, mr: *mut ibv_mr) -> c_int {
        // SAFETY: the region is live.
        unsafe { (self.table().dereg_mr())(mr.cast()) }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: the context is open, and not used any more.
        unsafe { (self.table().free_context())(self.context) };
        drop(self.device.take());
        if !std::thread::panicking() {
            assert_eq!(self.state.live(), 0, "something was left");
        }
    }
}

/// An object that must be there.
fn made<T>(object: *mut T) -> *mut T {
    assert!(!object.is_null(), "{:?}", errno::get());
    object
}

/// A call that must fail, and how it did.
fn refused<T>(call: impl FnOnce() -> *mut T) -> Errno {
    errno::set(Errno(0));
    assert!(call().is_null());
    errno::get()
}

fn cq_attr(wc_flags: u64) -> ibv_cq_init_attr_ex {
    ibv_cq_init_attr_ex {
        cqe: 10,
        cq_context: null_mut(),
        channel: null_mut(),
        comp_vector: 0,
        wc_flags,
        comp_mask: 0,
        flags: 0,
        parent_domain: null_mut(),
    }
}

fn qp_attr(cq: *mut ibv_cq, qp_type: ibv_qp_type) -> ibv_qp_init_attr {
    ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: cq,
        recv_cq: cq,
        srq: null_mut(),
        cap: ibv_qp_cap {
            max_send_wr: 1,
            max_recv_wr: 2,
            max_send_sge: 3,
            max_recv_sge: 4,
            max_inline_data: 5,
        },
        qp_type,
        sq_sig_all: 1,
    }
}

fn qp_attr_ex(
    cq: *mut ibv_cq,
    qp_type: ibv_qp_type,
    pd: *mut ibv_pd,
    send_ops: u32,
) -> ibv_qp_init_attr_ex {
    let plain = qp_attr(cq, qp_type);
    // SAFETY: the attributes are numbers and pointers.
    let none: ibv_qp_init_attr_ex = unsafe { zeroed() };
    ibv_qp_init_attr_ex {
        qp_context: plain.qp_context,
        send_cq: plain.send_cq,
        recv_cq: plain.recv_cq,
        cap: plain.cap,
        qp_type,
        sq_sig_all: plain.sq_sig_all,
        comp_mask: IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        pd,
        send_ops_flags: send_ops.into(),
        ..none
    }
}

const INVAL: c_int = libc::EINVAL;
const BUSY: c_int = libc::EBUSY;
