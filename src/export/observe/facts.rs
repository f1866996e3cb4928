//! Queries of the device and the system, to explain a failure.

use crate::core::address::{EMPTY, gid};
use crate::core::explain::address::{Port, Vector, is_ipv4};
use crate::core::explain::memory::{Abilities, Locked};
use crate::core::explain::qp::Limits;
use crate::export::address::Device;
use kit::abi::{handle::*, *};
use kit::sys::identity::{Limit, limit};
use kit::table::Table;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::{fs, ptr};

/// Places of a GID table that are looked at for one that would fit.
const PLACES: u32 = 64;
/// The right to lock more memory than the limit (capabilities(7)).
const CAP_IPC_LOCK: u64 = 1 << 14;

/// The provider's verbs of a covered context.
fn table(ctx: Ctx<'_>) -> &Table {
    ctx.private().beneath().unwrap_or(ctx.table())
}

/// The device's name.
pub fn device(ctx: Ctx<'_>) -> String {
    // SAFETY: an open context holds its device.
    let device = unsafe { DeviceRef::from_raw((*ctx.as_ptr()).device) };
    device.map_or_else(
        |_| "a device".to_owned(),
        |d| d.name().to_string_lossy().into_owned(),
    )
}

/// The owner of the device's driver.
pub fn provider(ctx: Ctx<'_>) -> String {
    if ctx.private().edges().is_some() {
        return "provider uroce".to_owned();
    }
    // SAFETY: as above.
    let device = unsafe { DeviceRef::from_raw((*ctx.as_ptr()).device) };
    let driver = device.and_then(DeviceRef::driver);
    driver.map_or_else(
        |_| "provider".to_owned(),
        |driver| format!("provider {}", driver.name().to_string_lossy()),
    )
}

/// Whether commands of this context are written to the kernel: it has no ioctl(2) for them, or is
/// not to be asked for it.
pub fn writes(ctx: Ctx<'_>) -> bool {
    let private = ctx.private();
    private.edges().is_none() && !private.ioctl_write.load(Ordering::Relaxed)
}

fn attributes(ctx: Ctx<'_>) -> Option<ibv_device_attr_ex> {
    let mut attr = MaybeUninit::<ibv_device_attr_ex>::zeroed();
    let size = size_of::<ibv_device_attr_ex>();
    // SAFETY: the context is open and there is room for the whole answer; all zeros is a value.
    unsafe {
        let query = table(ctx).query_device_ex();
        if query(ctx.as_ptr(), ptr::null(), attr.as_mut_ptr(), size) != 0 {
            return None;
        }
        Some(attr.assume_init())
    }
}

/// Limits of the device; zeros where it does not report them.
pub fn limits(ctx: Ctx<'_>) -> Limits {
    // SAFETY: the context is open.
    let vectors = unsafe { (*ctx.as_ptr()).num_comp_vectors }.into();
    let Some(reported) = attributes(ctx) else {
        return Limits {
            vectors,
            ..Limits::default()
        };
    };
    let a = &reported.orig_attr;
    Limits {
        rd_atom: a.max_qp_rd_atom.into(),
        init_rd_atom: a.max_qp_init_rd_atom.into(),
        pkeys: a.max_pkeys,
        wr: a.max_qp_wr.into(),
        sge: a.max_sge.into(),
        qps: a.max_qp.into(),
        cqe: a.max_cqe.into(),
        cqs: a.max_cq.into(),
        srqs: a.max_srq.into(),
        srq_wr: a.max_srq_wr.into(),
        srq_sge: a.max_srq_sge.into(),
        vectors,
        abilities: abilities_of(&reported),
    }
}

/// The optional features of the device.
pub fn abilities(ctx: Ctx<'_>) -> Abilities {
    attributes(ctx).map_or_else(Abilities::default, |reported| abilities_of(&reported))
}

fn abilities_of(reported: &ibv_device_attr_ex) -> Abilities {
    Abilities {
        odp: reported.odp_caps.general_caps != 0,
        // 0 where the kernel is too old to report it: every device has some.
        capabilities: Some(reported.device_cap_flags_ex).filter(|flags| *flags != 0),
    }
}

/// The port that a vector names, and the entry of its GID table.
pub fn port(ctx: Ctx<'_>, number: u8, vector: Option<&Vector>) -> Port {
    let mut known = Port {
        ports: attributes(ctx).map_or(0, |reported| reported.orig_attr.phys_port_cnt),
        active: true,
        ..Port::default()
    };
    let mut attr = MaybeUninit::<ibv_port_attr>::zeroed();
    // SAFETY: the context is open and there is room for the answer; all zeros is a value.
    let attr = unsafe {
        if (table(ctx).query_port())(ctx.as_ptr(), number, attr.as_mut_ptr()) != 0 {
            return known;
        }
        attr.assume_init()
    };
    known.ethernet = u32::from(attr.link_layer) == IBV_LINK_LAYER_ETHERNET;
    known.active = attr.state == IBV_PORT_ACTIVE;
    known.mtu = attr.active_mtu;
    known.gids = u32::try_from(attr.gid_tbl_len).unwrap_or(0);
    let Some(vector) = vector.filter(|vector| vector.global) else {
        return known;
    };
    let at = |index| {
        let found = gid::query(&Device(ctx), number, index).ok().flatten();
        found.filter(|gid| *gid != EMPTY)
    };
    known.sgid = at(vector.sgid_index.into());
    let wanted = is_ipv4(&vector.dgid);
    known.fitting = (0..known.gids.min(PLACES))
        .find(|index| at(*index).is_some_and(|gid| is_ipv4(&gid) == wanted));
    known
}

/// State and sizes of a queue pair as the device reports them.
pub fn queue_pair(qp: Qp<'_>) -> Option<(ibv_qp_state, ibv_qp_cap)> {
    let mut attr = MaybeUninit::<ibv_qp_attr>::zeroed();
    let mut init = MaybeUninit::<ibv_qp_init_attr>::zeroed();
    let mask = (IBV_QP_STATE | IBV_QP_CAP).cast_signed();
    // SAFETY: the queue pair is live and there is room for the answers; all zeros is a value.
    unsafe {
        let query = table(qp.ctx()).query_qp();
        let answer = query(qp.as_ptr(), attr.as_mut_ptr(), mask, init.as_mut_ptr());
        (answer == 0).then(|| (attr.assume_init().qp_state, init.assume_init().cap))
    }
}

/// Sizes of a shared receive queue as the device reports them.
pub fn shared_queue(srq: Srq<'_>) -> Option<(u32, u32)> {
    let mut attr = MaybeUninit::<ibv_srq_attr>::zeroed();
    // SAFETY: as above.
    unsafe {
        let query = table(srq.ctx()).query_srq();
        let answer = query(srq.as_ptr(), attr.as_mut_ptr());
        (answer == 0)
            .then(|| attr.assume_init())
            .map(|a| (a.max_wr, a.max_sge))
    }
}

/// The limit of locked memory.
pub fn locked() -> Locked {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let member = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = |name: &str| {
        let number = member(name).and_then(|rest| rest.trim().split(' ').next()?.parse().ok());
        number.unwrap_or(0u64)
    };
    let capabilities = member("CapEff:").and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    Locked {
        limit: limit(Limit::LockedMemory),
        used: (kilobytes("VmLck:") + kilobytes("VmPin:")).saturating_mul(1024),
        exempt: capabilities.is_some_and(|set| set & CAP_IPC_LOCK != 0),
    }
}

/// The mappings of the process, in the form of proc(5).
pub fn maps() -> String {
    fs::read_to_string("/proc/self/maps").unwrap_or_default()
}
