//! Queue pairs: ibv_create_qp(3), ibv_create_qp_ex(3), ibv_open_qp(3), ibv_modify_qp(3),
//! ibv_query_qp(3).

mod attr;

pub use attr::{fill_modify_command, modify_command, read_attr};

use super::destroy::Method;
use super::events::destroy_reporting;
use super::{Driver, Fallback, Ioctl, Kernel, Path};
use super::{add_driver, try_ioctl, unless_imported, write};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::table::slot;
use core::ffi::c_int;

/// The owner of a queue pair's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// A protection domain: numbers of the domain, of both completion queues if the queue pair has
    /// them, and of the table that spreads received packets.
    Domain {
        /// The protection domain.
        pd: u32,
        /// The completion queue of sends.
        send_cq: Option<u32>,
        /// The completion queue of receives.
        recv_cq: Option<u32>,
        /// The indirection table.
        ind_table: Option<u32>,
    },
    /// An XRC domain, by number: the receiving end of XRC.
    Xrc(u32),
}

/// A queue pair to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewQp {
    /// The queue pair's number in the kernel's events.
    pub user_handle: u64,
    /// `IBV_QPT_*`.
    pub qp_type: ibv_qp_type,
    /// Its domain and queues.
    pub queues: Queues,
    /// Number of the shared receive queue.
    pub srq: Option<u32>,
    /// The requested sizes of its queues.
    pub cap: ib_uverbs_qp_cap,
    /// Whether every send completes with an entry.
    pub signal_all: bool,
    /// `IBV_QP_CREATE_*`, if the caller gave any.
    pub flags: Option<u32>,
    /// The number that packets carry as their source, with `IBV_QP_CREATE_SOURCE_QPN`.
    pub source_qpn: u32,
    /// The context's descriptor for asynchronous events, negative for none.
    pub async_fd: c_int,
}

/// A queue pair as the kernel made it.
#[derive(Clone, Copy, Debug)]
pub struct CreatedQp {
    /// Its number in the kernel.
    pub handle: u32,
    /// Its number on the wire.
    pub qp_num: u32,
    /// The granted sizes of its queues.
    pub cap: ib_uverbs_qp_cap,
}

const FLAGS: u32 = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB
    | IBV_QP_CREATE_SCATTER_FCS
    | IBV_QP_CREATE_CVLAN_STRIPPING
    | IBV_QP_CREATE_SOURCE_QPN
    | IBV_QP_CREATE_PCI_WRITE_END_PADDING;

impl NewQp {
    fn check(&self) -> Result<()> {
        if self.flags.unwrap_or(0) & !FLAGS != 0 {
            return Err(Errno::INVAL);
        }
        match (self.qp_type, self.queues) {
            (IBV_QPT_XRC_RECV, Queues::Xrc(_)) => Ok(()),
            (
                IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_UD | IBV_QPT_RAW_PACKET | IBV_QPT_XRC_SEND
                | IBV_QPT_DRIVER,
                Queues::Domain {
                    recv_cq, ind_table, ..
                },
            ) => self.check_table(recv_cq, ind_table),
            _ => Err(Errno::INVAL),
        }
    }

    /// Received packets go only to the queues of the table.
    fn check_table(&self, recv_cq: Option<u32>, ind_table: Option<u32>) -> Result<()> {
        let own = recv_cq.is_some()
            || self.srq.is_some()
            || self.cap.max_recv_wr != 0
            || self.cap.max_recv_sge != 0;
        if ind_table.is_some() && own {
            return Err(Errno::INVAL);
        }
        Ok(())
    }

    /// The requested sizes of the queues: the sending end of XRC has no receive queue.
    fn cap(&self) -> ib_uverbs_qp_cap {
        if self.qp_type != IBV_QPT_XRC_SEND {
            return self.cap;
        }
        ib_uverbs_qp_cap {
            max_recv_wr: 0,
            max_recv_sge: 0,
            ..self.cap
        }
    }

    fn ind_table(&self) -> Option<u32> {
        match self.queues {
            Queues::Domain { ind_table, .. } => ind_table,
            Queues::Xrc(_) => None,
        }
    }

    fn fallback(&self) -> Fallback {
        if self.flags.is_some() || self.ind_table().is_some() {
            return Fallback::WriteEx;
        }
        Fallback::Write
    }

    /// Flags of the method, which has a separate attribute for the source.
    fn method_flags(&self) -> u32 {
        let signal = if self.signal_all {
            IB_UVERBS_QP_CREATE_SQ_SIG_ALL
        } else {
            0
        };
        signal | self.flags.unwrap_or(0) & !IBV_QP_CREATE_SOURCE_QPN
    }

    fn source_qpn(&self) -> Option<u32> {
        let given = self.flags.unwrap_or(0) & IBV_QP_CREATE_SOURCE_QPN != 0;
        given.then_some(self.source_qpn)
    }

    // Inlined: the caller's knowledge of the request removes most of it.
    #[inline(always)]
    fn add_to(&self, call: &mut Ioctl<'_>) {
        match self.queues {
            Queues::Xrc(xrcd) => {
                call.object_in(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, xrcd);
            }
            Queues::Domain {
                pd,
                send_cq,
                recv_cq,
                ind_table,
            } => {
                call.object_in(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd);
                add_object(call, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, send_cq);
                add_object(call, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, recv_cq);
                add_object(call, UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, ind_table);
            }
        }
        add_object(call, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, self.srq);
        call.u64_in(UVERBS_ATTR_CREATE_QP_TYPE, self.qp_type.into());
        call.u64_in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, self.user_handle);
        call.fd_in(UVERBS_ATTR_CREATE_QP_EVENT_FD, self.async_fd);
        let flags = self.method_flags();
        if flags != 0 {
            call.u32_in(UVERBS_ATTR_CREATE_QP_FLAGS, flags);
        }
        if let Some(number) = self.source_qpn() {
            call.u32_in(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, number);
        }
    }

    fn create(&self) -> Result<ib_uverbs_create_qp> {
        let (pd, send_cq, recv_cq) = match self.queues {
            Queues::Xrc(xrcd) => (xrcd, None, None),
            Queues::Domain {
                pd,
                send_cq,
                recv_cq,
                ..
            } => (pd, send_cq, recv_cq),
        };
        let cap = self.cap();
        Ok(ib_uverbs_create_qp {
            response: 0,
            user_handle: self.user_handle,
            pd_handle: pd,
            send_cq_handle: send_cq.unwrap_or(0),
            recv_cq_handle: recv_cq.unwrap_or(0),
            srq_handle: self.srq.unwrap_or(0),
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
            sq_sig_all: self.signal_all.into(),
            qp_type: self.qp_type.try_into().map_err(|_| Errno::INVAL)?,
            is_srq: self.srq.is_some().into(),
            reserved: 0,
        })
    }

    fn create_ex(&self) -> Result<ib_uverbs_ex_create_qp> {
        let plain = self.create()?;
        Ok(ib_uverbs_ex_create_qp {
            user_handle: plain.user_handle,
            pd_handle: plain.pd_handle,
            send_cq_handle: plain.send_cq_handle,
            recv_cq_handle: plain.recv_cq_handle,
            srq_handle: plain.srq_handle,
            max_send_wr: plain.max_send_wr,
            max_recv_wr: plain.max_recv_wr,
            max_send_sge: plain.max_send_sge,
            max_recv_sge: plain.max_recv_sge,
            max_inline_data: plain.max_inline_data,
            sq_sig_all: plain.sq_sig_all,
            qp_type: plain.qp_type,
            is_srq: plain.is_srq,
            reserved: 0,
            comp_mask: self
                .ind_table()
                .map_or(0, |_| IB_UVERBS_CREATE_QP_MASK_IND_TABLE),
            create_flags: self.flags.unwrap_or(0),
            rwq_ind_tbl_handle: self.ind_table().unwrap_or(0),
            source_qpn: self.source_qpn().unwrap_or(0),
        })
    }
}

fn add_object(call: &mut Ioctl<'_>, id: u16, number: Option<u32>) {
    if let Some(number) = number {
        call.object_in(id, number);
    }
}

impl From<ib_uverbs_create_qp_resp> for CreatedQp {
    fn from(answer: ib_uverbs_create_qp_resp) -> Self {
        Self {
            handle: answer.qp_handle,
            qp_num: answer.qpn,
            cap: ib_uverbs_qp_cap {
                max_send_wr: answer.max_send_wr,
                max_recv_wr: answer.max_recv_wr,
                max_send_sge: answer.max_send_sge,
                max_recv_sge: answer.max_recv_sge,
                max_inline_data: answer.max_inline_data,
            },
        }
    }
}

/// Makes a queue pair.
///
/// # Errors
/// EINVAL for a type that is unknown or does not match the domain, for unknown flags, and for an
/// indirection table beside a receive queue; EOPNOTSUPP for an imported context on a kernel without
/// the method; otherwise the kernel's errno.
pub fn create_qp<K: Kernel + ?Sized>(
    kernel: &K,
    new: &NewQp,
    driver: &mut Driver<'_>,
) -> Result<CreatedQp> {
    new.check()?;
    let asked = new.cap();
    let (mut cap, mut qp_num) = (ib_uverbs_qp_cap::default(), 0);
    let mut call = Ioctl::new(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
    call.object_out(UVERBS_ATTR_CREATE_QP_HANDLE);
    new.add_to(&mut call);
    call.value_in(UVERBS_ATTR_CREATE_QP_CAP, &asked);
    call.value_out(UVERBS_ATTR_CREATE_QP_RESP_CAP, &mut cap);
    call.value_out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &mut qp_num);
    add_driver(&mut call, driver);
    let fallback = unless_imported(kernel, new.fallback());
    match try_ioctl(kernel, slot::create_qp, &mut call, fallback)? {
        Path::Ioctl => Ok(CreatedQp {
            handle: call.object(UVERBS_ATTR_CREATE_QP_HANDLE)?,
            qp_num,
            cap,
        }),
        path => write_instead(kernel, new, driver, path),
    }
}

// Separate from the method: the stack of a second command would slow the first one down.
#[cold]
#[inline(never)]
fn write_instead<K: Kernel + ?Sized>(
    kernel: &K,
    new: &NewQp,
    driver: &mut Driver<'_>,
    path: Path,
) -> Result<CreatedQp> {
    if path == Path::WriteEx {
        return write(kernel, &new.create_ex()?, driver).map(|answer| answer.base.into());
    }
    write(kernel, &new.create()?, driver).map(CreatedQp::from)
}

/// Opens the XRC queue pair number `qpn` of the XRC domain `xrcd`; returns its handle.
/// `user_handle` is its number in the kernel's events.
///
/// # Errors
/// EINVAL for a type that the kernel's structure has no room for; else the kernel's own errno.
pub fn open_qp<K: Kernel + ?Sized>(
    kernel: &K,
    (xrcd, qpn): (u32, u32),
    qp_type: ibv_qp_type,
    user_handle: u64,
    driver: &mut Driver<'_>,
) -> Result<u32> {
    let command = ib_uverbs_open_qp {
        user_handle,
        pd_handle: xrcd,
        qpn,
        qp_type: qp_type.try_into().map_err(|_| Errno::INVAL)?,
        ..Default::default()
    };
    write(kernel, &command, driver).map(|answer| answer.qp_handle)
}

/// Ends a queue pair. Returns how many events were reported of it; nothing if its device is
/// gone.
///
/// # Errors
/// The kernel's own errno, EBUSY while it is attached to multicast groups.
pub fn destroy_qp<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<Option<u32>> {
    const METHOD: Method = Method {
        slot: slot::destroy_qp,
        object: UVERBS_OBJECT_QP,
        method: UVERBS_METHOD_QP_DESTROY,
        attr: UVERBS_ATTR_DESTROY_QP_HANDLE,
    };
    let command = ib_uverbs_destroy_qp {
        qp_handle: handle,
        ..Default::default()
    };
    let events = UVERBS_ATTR_DESTROY_QP_RESP;
    destroy_reporting(kernel, &METHOD, events, handle, &command, |answer| {
        answer.events_reported
    })
}

/// The bits of a mask that plain commands support; the rate limit and later bits need the extended
/// ones.
const PLAIN: u32 = IBV_QP_RATE_LIMIT - 1;

/// Makes the changes of `command` ([`modify_command`]).
///
/// # Errors
/// EOPNOTSUPP for a mask that needs [`modify_qp_ex`]; else the kernel's own errno.
pub fn modify_qp<K: Kernel + ?Sized>(
    kernel: &K,
    command: &ib_uverbs_modify_qp,
    driver: &mut Driver<'_>,
) -> Result<()> {
    if command.attr_mask & !PLAIN != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    write(kernel, command, driver)
}

/// As [`modify_qp`], with the rate limit as well.
///
/// # Errors
/// The kernel's own errno.
pub fn modify_qp_ex<K: Kernel + ?Sized>(
    kernel: &K,
    base: ib_uverbs_modify_qp,
    rate_limit: u32,
    driver: &mut Driver<'_>,
) -> Result<()> {
    let limited = base.attr_mask & IBV_QP_RATE_LIMIT != 0;
    let command = ib_uverbs_ex_modify_qp {
        base,
        rate_limit: if limited { rate_limit } else { 0 },
        reserved: 0,
    };
    write(kernel, &command, driver).map(|_| ())
}

/// Asks for the attributes that `attr_mask` names, and maybe more.
///
/// # Errors
/// EOPNOTSUPP for a mask with bits that the command does not know; else the kernel's own errno.
pub fn query_qp<K: Kernel + ?Sized>(
    kernel: &K,
    handle: u32,
    attr_mask: u32,
    driver: &mut Driver<'_>,
) -> Result<ib_uverbs_query_qp_resp> {
    if attr_mask & !PLAIN != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let command = ib_uverbs_query_qp {
        response: 0,
        qp_handle: handle,
        attr_mask,
    };
    write(kernel, &command, driver)
}
