//! Queue pairs, shared receive queues and XRC domains.

use std::{ffi::c_int, fs::File, io, mem, os::fd::AsRawFd, ptr, ptr::NonNull, rc::Rc};

use bytemuck::Zeroable;
use kit::abi::*;

use crate::sys::extended::init_attr;
use crate::tools::{
    completion::Cq,
    context::{Context, extended, sole},
    handle::{Handle, made, status},
    memory::{Ah, Memory, Pd},
    raw,
};

fn error(errno: c_int) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// An XRC domain.
#[derive(Clone)]
pub struct Xrcd(Rc<(Handle<ibv_xrcd>, Context)>);

impl Xrcd {
    /// The domain that belongs to a file, or a new one.
    ///
    /// # Errors
    /// The errno of ibv_open_xrcd(3).
    pub fn new(context: &Context, file: Option<&File>) -> io::Result<Self> {
        let open = extended!(context, open_xrcd)?;
        let close = extended!(context, close_xrcd)?;
        let mut attr = ibv_xrcd_init_attr {
            comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
            fd: file.map_or(-1, AsRawFd::as_raw_fd),
            oflags: libc::O_CREAT,
        };
        // SAFETY: the context is open, and is kept open.
        let xrcd = unsafe {
            let at = made(open(context.as_ptr(), &raw mut attr))?;
            Handle::new(at, close)
        };
        Ok(Self(Rc::new((xrcd, context.clone()))))
    }

    /// Closes it.
    ///
    /// # Errors
    /// EBUSY if something made with it is left, else the errno of ibv_close_xrcd(3).
    pub fn close(self) -> io::Result<()> {
        sole(self.0)?.0.destroy()
    }
}

/// A shared receive queue.
#[derive(Clone)]
pub struct Srq(Rc<SrqInner>);

struct SrqInner {
    srq: Handle<ibv_srq>,
    pd: Pd,
    _xrc: Option<(Xrcd, Cq)>,
}

impl Srq {
    /// # Errors
    /// The errno of ibv_create_srq(3).
    pub fn new(pd: &Pd, requests: u32) -> io::Result<Self> {
        let mut attr = ibv_srq_init_attr {
            srq_context: ptr::null_mut(),
            attr: size(requests),
        };
        // SAFETY: the domain lives.
        let at = made(unsafe { raw::ibv_create_srq(pd.as_ptr(), &raw mut attr) })?;
        Ok(Self::own(at, pd, None))
    }

    /// One of an XRC domain, whose completions come to `cq`.
    ///
    /// # Errors
    /// The errno of ibv_create_srq_ex(3).
    pub fn of_domain(pd: &Pd, requests: u32, xrcd: &Xrcd, cq: &Cq) -> io::Result<Self> {
        let create = extended!(pd.context(), create_srq_ex)?;
        let mut attr = ibv_srq_init_attr_ex {
            srq_context: ptr::null_mut(),
            attr: size(requests),
            comp_mask: IBV_SRQ_INIT_ATTR_TYPE
                | IBV_SRQ_INIT_ATTR_XRCD
                | IBV_SRQ_INIT_ATTR_CQ
                | IBV_SRQ_INIT_ATTR_PD,
            srq_type: IBV_SRQT_XRC,
            pd: pd.as_ptr(),
            xrcd: xrcd.0.0.as_ptr(),
            cq: cq.as_ptr(),
            tm_cap: ibv_tm_cap {
                max_num_tags: 0,
                max_ops: 0,
            },
        };
        // SAFETY: the named objects live, and are kept.
        let at = made(unsafe { create(pd.context().as_ptr(), &raw mut attr) })?;
        Ok(Self::own(at, pd, Some((xrcd.clone(), cq.clone()))))
    }

    fn own(at: NonNull<ibv_srq>, pd: &Pd, xrc: Option<(Xrcd, Cq)>) -> Self {
        Self(Rc::new(SrqInner {
            // SAFETY: called with a new queue; the objects that it uses are stored beside it.
            srq: unsafe { Handle::new(at, raw::ibv_destroy_srq) },
            pd: pd.clone(),
            _xrc: xrc,
        }))
    }

    /// Destroys it.
    ///
    /// # Errors
    /// EBUSY if a queue pair is left that uses it, else the errno of ibv_destroy_srq(3).
    pub fn close(self) -> io::Result<()> {
        sole(self.0)?.srq.destroy()
    }

    /// Its number, by which senders name it.
    ///
    /// # Errors
    /// The errno of ibv_get_srq_num(3).
    pub fn number(&self) -> io::Result<u32> {
        let verb = extended!(self.0.pd.context(), get_srq_num)?;
        let mut number = 0;
        // SAFETY: the queue lives, the number may be written.
        status(unsafe { verb(self.0.srq.as_ptr(), &raw mut number) })?;
        Ok(number)
    }

    /// Asks for one IBV_EVENT_SRQ_LIMIT_REACHED when fewer requests than this are left.
    ///
    /// # Errors
    /// The errno of ibv_modify_srq(3).
    pub fn arm_limit(&self, limit: u32) -> io::Result<()> {
        let mut attr = ibv_srq_attr {
            srq_limit: limit,
            ..size(0)
        };
        let mask = IBV_SRQ_LIMIT.cast_signed();
        // SAFETY: the queue lives.
        status(unsafe { raw::ibv_modify_srq(self.0.srq.as_ptr(), &raw mut attr, mask) })
    }

    /// Posts a receive for the front of the memory.
    ///
    /// # Errors
    /// The errno of ibv_post_srq_recv(3); EINVAL if the memory is shorter.
    pub fn receive(&self, id: u64, memory: &Memory, length: usize) -> io::Result<()> {
        let srq = self.0.srq.as_ptr();
        let context = self.0.pd.context().as_ptr();
        receive(id, memory, length, |request, bad| {
            // SAFETY: the queue and its context live, and an open context has this verb.
            unsafe {
                let verb = (*context).ops.post_srq_recv;
                verb.map_or(libc::EOPNOTSUPP, |verb| verb(srq, request, bad))
            }
        })
    }
}

fn size(requests: u32) -> ibv_srq_attr {
    ibv_srq_attr {
        max_wr: requests,
        max_sge: 1,
        srq_limit: 0,
    }
}

/// A receive request, given to a verb.
fn receive(
    id: u64,
    memory: &Memory,
    length: usize,
    post: impl FnOnce(*mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
) -> io::Result<()> {
    let mut part = memory.part(0, length)?;
    let mut request = ibv_recv_wr {
        wr_id: id,
        next: ptr::null_mut(),
        sg_list: &raw mut part,
        num_sge: 1,
    };
    let mut bad = ptr::null_mut();
    status(post(&raw mut request, &raw mut bad))
}

/// The objects of a queue pair.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// `enum ibv_qp_type`.
    pub kind: ibv_qp_type,
    /// How many sends may wait.
    pub sends: u32,
    /// How many receives may wait.
    pub receives: u32,
    /// Receives come from here instead.
    pub srq: Option<&'a Srq>,
    /// Sends are made by the calls of ibv_wr_post(3).
    pub by_calls: bool,
}

/// A queue pair.
pub struct Qp {
    qp: Handle<ibv_qp>,
    by_calls: bool,
    context: Context,
    _kept: (Option<Pd>, Option<Cq>, Option<Srq>, Option<Xrcd>),
}

impl Qp {
    /// A queue pair whose completions all go to `cq`.
    ///
    /// # Errors
    /// The errno of ibv_create_qp(3), or of ibv_create_qp_ex(3).
    pub fn new(pd: &Pd, cq: &Cq, wanted: Wanted<'_>) -> io::Result<Self> {
        let mut attr = init_attr(wanted.kind);
        attr.send_cq = cq.as_ptr();
        attr.recv_cq = cq.as_ptr();
        attr.srq = wanted.srq.map_or(ptr::null_mut(), |srq| srq.0.srq.as_ptr());
        attr.cap.max_send_wr = wanted.sends;
        attr.cap.max_send_sge = 1;
        if wanted.srq.is_none() {
            attr.cap.max_recv_wr = wanted.receives;
            attr.cap.max_recv_sge = 1;
        }
        let at = if wanted.by_calls {
            attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attr.pd = pd.as_ptr();
            attr.send_ops_flags = u64::from(IBV_QP_EX_WITH_SEND);
            create_extended(pd.context(), &mut attr)?
        } else {
            // SAFETY: the named objects live. The extended structure begins with the plain one.
            made(unsafe { raw::ibv_create_qp(pd.as_ptr(), (&raw mut attr).cast()) })?
        };
        let kept = (
            Some(pd.clone()),
            Some(cq.clone()),
            wanted.srq.cloned(),
            None,
        );
        Ok(Self::own(at, wanted.by_calls, pd.context(), kept))
    }

    /// The sending half of an XRC connection.
    ///
    /// # Errors
    /// The errno of ibv_create_qp_ex(3).
    pub fn xrc_sender(pd: &Pd, cq: &Cq, sends: u32) -> io::Result<Self> {
        let mut attr = init_attr(IBV_QPT_XRC_SEND);
        attr.send_cq = cq.as_ptr();
        attr.cap.max_send_wr = sends;
        attr.cap.max_send_sge = 1;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD;
        attr.pd = pd.as_ptr();
        // SAFETY: the named objects live. With only a domain, verbs.h makes the plain call.
        let at = made(unsafe { raw::ibv_create_qp(pd.as_ptr(), (&raw mut attr).cast()) })?;
        let kept = (Some(pd.clone()), Some(cq.clone()), None, None);
        Ok(Self::own(at, false, pd.context(), kept))
    }

    /// The receiving half of an XRC connection.
    ///
    /// # Errors
    /// The errno of ibv_create_qp_ex(3).
    pub fn xrc_target(context: &Context, xrcd: &Xrcd) -> io::Result<Self> {
        let mut attr = init_attr(IBV_QPT_XRC_RECV);
        attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        attr.xrcd = xrcd.0.0.as_ptr();
        let at = create_extended(context, &mut attr)?;
        let kept = (None, None, None, Some(xrcd.clone()));
        Ok(Self::own(at, false, context, kept))
    }

    fn own(
        at: NonNull<ibv_qp>,
        by_calls: bool,
        context: &Context,
        kept: (Option<Pd>, Option<Cq>, Option<Srq>, Option<Xrcd>),
    ) -> Self {
        Self {
            // SAFETY: called with a new queue pair; the objects that it uses are stored beside it.
            qp: unsafe { Handle::new(at, raw::ibv_destroy_qp) },
            by_calls,
            context: context.clone(),
            _kept: kept,
        }
    }

    /// Destroys it.
    ///
    /// # Errors
    /// The errno of ibv_destroy_qp(3).
    pub fn close(self) -> io::Result<()> {
        self.qp.destroy()
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair lives.
        unsafe { (*self.qp.as_ptr()).qp_num }
    }

    /// Maximum of inline bytes of a send; 0 if the device does not report it.
    #[must_use]
    pub fn max_inline(&self) -> u32 {
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
        let mask = IBV_QP_CAP.cast_signed();
        let (attr, init_at) = (&raw mut attr, &raw mut init);
        // SAFETY: the queue pair lives, both structures may be written.
        let asked = unsafe { raw::ibv_query_qp(self.qp.as_ptr(), attr, mask, init_at) };
        if asked == 0 {
            init.cap.max_inline_data
        } else {
            0
        }
    }

    /// ibv_modify_qp(3).
    ///
    /// # Errors
    /// Its errno.
    pub fn modify(&self, attr: &Change) -> io::Result<()> {
        let mut change = attr.attr;
        let mask = attr.mask.cast_signed();
        // SAFETY: the queue pair lives.
        status(unsafe { raw::ibv_modify_qp(self.qp.as_ptr(), &raw mut change, mask) })
    }

    /// Receives the messages of a multicast group. Only for datagrams.
    ///
    /// # Errors
    /// The errno of ibv_attach_mcast(3).
    pub fn attach(&self, group: [u8; 16]) -> io::Result<()> {
        let group = ibv_gid { raw: group };
        // SAFETY: the queue pair and the group live during the call.
        status(unsafe { raw::ibv_attach_mcast(self.qp.as_ptr(), &raw const group, 0) })
    }

    /// Leaves a multicast group.
    ///
    /// # Errors
    /// The errno of ibv_detach_mcast(3).
    pub fn detach(&self, group: [u8; 16]) -> io::Result<()> {
        let group = ibv_gid { raw: group };
        // SAFETY: the queue pair and the group live during the call.
        status(unsafe { raw::ibv_detach_mcast(self.qp.as_ptr(), &raw const group, 0) })
    }

    /// Posts a receive for the front of the memory.
    ///
    /// # Errors
    /// The errno of ibv_post_recv(3); EINVAL if the memory is shorter.
    pub fn receive(&self, id: u64, memory: &Memory, length: usize) -> io::Result<()> {
        let (qp, context) = (self.qp.as_ptr(), self.context.as_ptr());
        receive(id, memory, length, |request, bad| {
            // SAFETY: the queue pair and its context live, and an open context has this verb.
            unsafe {
                let verb = (*context).ops.post_recv;
                verb.map_or(libc::EOPNOTSUPP, |verb| verb(qp, request, bad))
            }
        })
    }

    /// Posts a send.
    ///
    /// # Errors
    /// The errno of ibv_post_send(3) or ibv_wr_complete(3); EINVAL if the memory is shorter.
    pub fn send(&self, send: &Send<'_>) -> io::Result<()> {
        let mut part = send.memory.part(send.offset, send.length)?;
        if self.by_calls {
            return self.send_by_calls(send, part);
        }
        let ah = |to: &Datagram<'_>| to.ah.handle.as_ptr();
        let ud = send.to.as_ref().map(|to| ibv_send_wr_wr_ud {
            ah: ah(to),
            remote_qpn: to.queue_pair,
            remote_qkey: to.qkey,
        });
        let mut request = ibv_send_wr {
            wr_id: send.id,
            next: ptr::null_mut(),
            sg_list: &raw mut part,
            num_sge: 1,
            opcode: IBV_WR_SEND,
            send_flags: send.flags,
            imm: ibv_send_wr_imm {
                imm_data: be32::new(send.immediate),
            },
            wr: match (ud, send.remote) {
                (Some(ud), _) => ibv_send_wr_wr { ud },
                (None, remote) => ibv_send_wr_wr {
                    rdma: ibv_send_wr_wr_rdma {
                        remote_addr: remote.map_or(0, |remote| remote.address),
                        rkey: remote.map_or(0, |remote| remote.rkey),
                    },
                },
            },
            qp_type: ibv_send_wr_qp_type {
                xrc: ibv_send_wr_qp_type_xrc {
                    remote_srqn: send.srq,
                },
            },
            op: ibv_send_wr_op {
                tso: ibv_send_wr_op_tso {
                    hdr: ptr::null_mut(),
                    hdr_sz: 0,
                    mss: 0,
                },
            },
        };
        if let Some(remote) = send.remote {
            request.opcode = remote.opcode;
        }
        let mut bad = ptr::null_mut();
        let context = self.context.as_ptr();
        // SAFETY: the queue pair, its context and the objects of the request live; an open context
        // has this verb.
        unsafe {
            let verb = (*context).ops.post_send;
            let verb = verb.ok_or_else(|| error(libc::EOPNOTSUPP))?;
            status(verb(self.qp.as_ptr(), &raw mut request, &raw mut bad))
        }
    }

    fn send_by_calls(&self, send: &Send<'_>, part: ibv_sge) -> io::Result<()> {
        // SAFETY: the queue pair was made for this, with the operation that is called.
        unsafe {
            let at = raw::ibv_qp_to_qp_ex(self.qp.as_ptr());
            if at.is_null() {
                return Err(error(libc::EOPNOTSUPP));
            }
            let (Some(start), Some(operation), Some(data), Some(complete)) = (
                (*at).wr_start,
                (*at).wr_send,
                (*at).wr_set_sge,
                (*at).wr_complete,
            ) else {
                return Err(error(libc::EOPNOTSUPP));
            };
            start(at);
            (*at).wr_id = send.id;
            (*at).wr_flags = send.flags;
            operation(at);
            data(at, part.lkey, part.addr, part.length);
            status(complete(at))
        }
    }
}

fn create_extended(
    context: &Context,
    attr: &mut ibv_qp_init_attr_ex,
) -> io::Result<NonNull<ibv_qp>> {
    let create = extended!(context, create_qp_ex)?;
    // SAFETY: the context is open; callers name objects that live.
    made(unsafe { create(context.as_ptr(), attr) })
}

/// A change of a queue pair: members, and which of them count.
#[derive(Clone, Copy)]
pub struct Change {
    /// The members.
    pub attr: ibv_qp_attr,
    /// `enum ibv_qp_attr_mask`.
    pub mask: ibv_qp_attr_mask,
}

impl Change {
    /// To a state.
    #[must_use]
    pub fn to(state: ibv_qp_state, mask: ibv_qp_attr_mask) -> Self {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = state;
        Self {
            attr,
            mask: mask | IBV_QP_STATE,
        }
    }

    /// The way to the peer.
    #[must_use]
    pub fn by(mut self, route: crate::tools::memory::Route) -> Self {
        self.attr.ah_attr = route.attr();
        self.mask |= IBV_QP_AV;
        self
    }
}

/// Where a datagram goes.
pub struct Datagram<'a> {
    /// The way.
    pub ah: &'a Ah,
    /// The queue pair there.
    pub queue_pair: u32,
    /// Its key.
    pub qkey: u32,
}

/// Memory of the peer, and the operation on it.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// `IBV_WR_RDMA_WRITE`, `IBV_WR_RDMA_WRITE_WITH_IMM` or `IBV_WR_RDMA_READ`.
    pub opcode: ibv_wr_opcode,
    /// Its address.
    pub address: u64,
    /// Its key.
    pub rkey: u32,
}

/// A send, of one piece of memory.
pub struct Send<'a> {
    /// The number that the completion will have.
    pub id: u64,
    /// Where the bytes are.
    pub memory: &'a Memory,
    /// The first of them.
    pub offset: usize,
    /// How many.
    pub length: usize,
    /// `enum ibv_send_flags`.
    pub flags: u32,
    /// Where to, from a queue pair for datagrams.
    pub to: Option<Datagram<'a>>,
    /// The peer's memory, for a write or a read.
    pub remote: Option<Remote>,
    /// Immediate data, for the operations that have it.
    pub immediate: u32,
    /// The shared receive queue there, from the sending half of an XRC connection.
    pub srq: u32,
}

const _: () = assert!(
    mem::offset_of!(ibv_qp_init_attr_ex, sq_sig_all)
        == mem::offset_of!(ibv_qp_init_attr, sq_sig_all),
    "the extended attributes begin as the plain ones"
);
