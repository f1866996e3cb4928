//! `struct rdma_cm_event`, as the program receives it.

use super::spare::Spare;
use super::{rdma_cm_event, rdma_cm_event_param, rdma_cm_id, rdma_conn_param, rdma_ud_param};
use core::ffi::{CStr, c_void};
use core::ptr::{NonNull, null};
use kit::abi::ibv_ah_attr;
use kit::cm::{Record, UdParam};
use kit::errno::{Errno, Result};
use kit::sys::memory;

/// `param.conn` without private data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conn {
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}

impl Conn {
    /// The valid part of a program's parameters, for a connection manager. The other members are
    /// zero.
    #[inline(always)]
    pub fn write_to(&self, param: &mut kit::cm::Param) {
        param.qp_num = self.qp_num;
        param.srq = self.srq;
        param.responder_resources = self.responder_resources;
        param.initiator_depth = self.initiator_depth;
        param.flow_control = self.flow_control;
        param.retry_count = self.retry_count;
        param.rnr_retry_count = self.rnr_retry_count;
        param.valid = 1;
    }
}

/// Both structures have these members under the same names.
macro_rules! conn_from {
    ($($params:ty),*) => {$(
        impl From<&$params> for Conn {
            fn from(params: &$params) -> Self {
                Self {
                    responder_resources: params.responder_resources,
                    initiator_depth: params.initiator_depth,
                    flow_control: params.flow_control,
                    retry_count: params.retry_count,
                    rnr_retry_count: params.rnr_retry_count,
                    srq: params.srq,
                    qp_num: params.qp_num,
                }
            }
        }
    )*};
}
conn_from!(rdma_conn_param, kit::cm::Param);

/// The contents of `param`; all else is in the record of the event.
#[derive(Clone, Copy)]
pub enum Param {
    Conn,
    Ud {
        ah_attr: ibv_ah_attr,
    },
    /// A multicast group: the context of the join takes the place of the private data.
    Join {
        context: *mut c_void,
        ah_attr: ibv_ah_attr,
    },
    /// RDMA_CM_EVENT_USER.
    Arg(u64),
}

/// An event, and the record that it is made of: the private data stays there.
#[repr(C)]
struct Block {
    event: rdma_cm_event,
    record: Record,
}

/// `wait.c` has the same.
const _: () = assert!(core::mem::offset_of!(Block, record) == 80);

/// Owns the block to which the program has a pointer.
pub struct EventBlock(NonNull<Block>);

// SAFETY: memory of the process, given to one program thread at a time.
unsafe impl Send for EventBlock {}

/// Most programs acknowledge each event before they take the next, so one block serves all of them.
static SPARE: Spare<Block> = Spare::new();

impl EventBlock {
    /// A block for a record that is to be written. Bytes that are not written are zero, or those of
    /// an earlier event.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline]
    pub fn new() -> Result<Self> {
        SPARE
            .take()
            .map_or_else(Self::allocate, |block| Ok(Self(block)))
    }

    #[cold]
    fn allocate() -> Result<Self> {
        let block = memory::zeroed(size_of::<Block>())?;
        NonNull::new(block.cast()).map(Self).ok_or(Errno::NOMEM)
    }

    /// Frees the block that is kept without an owner.
    pub fn release() {
        if let Some(spare) = SPARE.take() {
            // SAFETY: a block of this library, which has no other owner.
            unsafe { memory::free(spare.as_ptr().cast()) }
        }
    }

    pub fn into_raw(self) -> *mut c_void {
        let block = self.0.as_ptr().cast();
        core::mem::forget(self);
        block
    }

    /// # Safety
    /// The pointer came from [`Self::into_raw`], and is given back once; or it is NULL.
    pub unsafe fn from_raw(block: *mut c_void) -> Option<Self> {
        NonNull::new(block.cast()).map(Self)
    }

    /// Has the record look as if it was not written, until the kernel does.
    #[inline]
    pub fn expect_record(&mut self) {
        self.record_mut().forget();
    }

    pub fn record(&self) -> &Record {
        // SAFETY: the block lives as long as this. The program has no pointer to the record, other
        // than to its private data, which is for reading.
        unsafe { &(*self.0.as_ptr()).record }
    }

    pub fn record_mut(&mut self) -> &mut Record {
        // SAFETY: as above.
        unsafe { &mut (*self.0.as_ptr()).record }
    }

    /// Makes the event of the record, for the program.
    #[inline]
    pub fn fill(
        &mut self,
        id: *mut rdma_cm_id,
        listen_id: *mut rdma_cm_id,
        (event, status): (u32, i32),
        param: &Param,
    ) {
        // SAFETY: the block lives as long as this. All of the event is written, the gaps between
        // the members too: first all, and then each member alone, because a structure that is
        // written as a whole brings its own gaps along.
        unsafe {
            let members = &raw mut (*self.0.as_ptr()).event;
            members.write_bytes(0, 1);
            (*members).id = id;
            (*members).listen_id = listen_id;
            (*members).event = event;
            (*members).status = status;
            write_param(&raw mut (*members).param, param, self.record());
        }
    }

    pub fn as_ptr(&self) -> *mut rdma_cm_event {
        self.0.as_ptr().cast()
    }

    /// Type and status, as the program received them.
    pub fn outcome(&self) -> (u32, i32) {
        // SAFETY: the block lives as long as this.
        unsafe {
            let event = &raw const (*self.0.as_ptr()).event;
            ((*event).event, (*event).status)
        }
    }

    /// Parameters of a connection, and private data. In other events the bytes are not parameters,
    /// but they are valid numbers.
    pub fn conn(&self) -> (Conn, Vec<u8>) {
        let param = self.record().conn();
        (Conn::from(param), param.data().to_vec())
    }

    /// The id that the event belongs to.
    pub fn id(&self) -> *mut rdma_cm_id {
        // SAFETY: as above.
        unsafe { (*self.0.as_ptr()).event.id }
    }
}

impl Drop for EventBlock {
    #[inline]
    fn drop(&mut self) {
        if !SPARE.keep(self.0) {
            // SAFETY: the block is this library's, and is freed once.
            unsafe { memory::free(self.0.as_ptr().cast()) }
        }
    }
}

/// Writes members of a structure, and none of the gaps between them.
macro_rules! write_members {
    ($to:expr, $from:expr, $($member:ident),*) => {
        $((&raw mut (*$to).$member).write($from.$member);)*
    };
}

/// A pointer to private data and its length, for the program.
fn given(data: &[u8]) -> (*const c_void, u8) {
    match u8::try_from(data.len()) {
        Ok(length) if length > 0 => (data.as_ptr().cast(), length),
        _ => (null(), 0),
    }
}

/// # Safety
/// `to` may be written, and is zero.
#[inline(always)]
unsafe fn write_param(to: *mut rdma_cm_event_param, param: &Param, record: &Record) {
    // SAFETY: vouched for by the caller; the members lie within.
    unsafe {
        match param {
            Param::Conn => {
                let (to, from) = (to.cast::<rdma_conn_param>(), record.conn());
                ((*to).private_data, (*to).private_data_len) = given(from.data());
                write_members!(
                    to,
                    from,
                    responder_resources,
                    initiator_depth,
                    flow_control,
                    retry_count,
                    rnr_retry_count,
                    srq,
                    qp_num
                );
            }
            Param::Ud { ah_attr } => {
                write_ud(to.cast(), given(record.ud().data()), ah_attr, record.ud());
            }
            Param::Join { context, ah_attr } => {
                write_ud(to.cast(), (*context, 0), ah_attr, record.ud());
            }
            Param::Arg(arg) => to.cast::<u64>().write(*arg),
        }
    }
}

/// # Safety
/// As for [`write_param`].
#[cold]
unsafe fn write_ud(
    to: *mut rdma_ud_param,
    (private_data, private_data_len): (*const c_void, u8),
    attr: &ibv_ah_attr,
    from: &UdParam,
) {
    // SAFETY: vouched for by the caller.
    unsafe {
        (*to).private_data = private_data;
        (*to).private_data_len = private_data_len;
        write_members!(to, from, qp_num, qkey);
        let ah = &raw mut (*to).ah_attr;
        write_members!(
            ah,
            attr,
            dlid,
            sl,
            src_path_bits,
            static_rate,
            is_global,
            port_num
        );
        let grh = &raw mut (*ah).grh;
        write_members!(
            grh,
            attr.grh,
            dgid,
            flow_label,
            sgid_index,
            hop_limit,
            traffic_class
        );
    }
}

/// Names of events by number.
const NAMES: [&CStr; 18] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
    c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
    c"RDMA_CM_EVENT_ADDRINFO_ERROR",
];

/// The name of a type of event, if it has one.
pub fn event_name(event: u32) -> Option<&'static CStr> {
    let at = usize::try_from(event).ok()?;
    NAMES.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use core::mem::{MaybeUninit, offset_of};
    use core::ptr::null_mut;

    /// An address handle's attributes, all of whose bytes are set, the gaps too.
    fn with_full_gaps() -> ibv_ah_attr {
        let mut attr = MaybeUninit::<ibv_ah_attr>::uninit();
        // SAFETY: the members are numbers.
        unsafe {
            attr.as_mut_ptr().write_bytes(0xff, 1);
            attr.assume_init()
        }
    }

    /// An event of a record with this private data.
    fn an_event(param: &Param, data: &[u8]) -> EventBlock {
        let mut event = EventBlock::new().unwrap();
        let mut conn = kit::cm::Param::zeroed();
        conn.qp_num = 7;
        conn.append(data);
        *event.record_mut() = Record::zeroed();
        event.record_mut().set_conn(&conn);
        event.fill(null_mut(), null_mut(), (4, -3), param);
        event
    }

    #[test]
    fn the_gaps_between_the_members_are_zero() {
        let new = |param| {
            let mut event = an_event(&Param::Arg(u64::MAX), b"abc");
            let mut ud = UdParam::zeroed();
            (ud.qp_num, ud.qkey) = (u32::MAX, u32::MAX);
            event.record_mut().set_ud(&ud);
            event.fill(null_mut(), null_mut(), (4, -3), &param);
            event
        };
        let ud = Param::Ud {
            ah_attr: with_full_gaps(),
        };
        let join = Param::Join {
            context: null_mut(),
            ah_attr: with_full_gaps(),
        };
        for event in [new(ud), new(join)] {
            // SAFETY: the block is a whole event, every byte of which was written.
            let bytes = unsafe {
                let bytes = event.as_ptr().cast::<u8>();
                core::slice::from_raw_parts(bytes, size_of::<rdma_cm_event>())
            };
            let ud = offset_of!(rdma_cm_event, param);
            let ah = ud + offset_of!(rdma_ud_param, ah_attr);
            assert_eq!(bytes[ud + 9..ah], [0; 7]);
            let grh_end = ah + offset_of!(ibv_ah_attr, dlid);
            assert_eq!((bytes[grh_end - 2], bytes[grh_end - 1]), (0xff, 0));
            let end = ah + size_of::<ibv_ah_attr>();
            assert_eq!((bytes[end - 2], bytes[end - 1]), (0xff, 0));
            assert_eq!(bytes[end..], [0xff; 8]);
        }
    }

    #[test]
    fn private_data_lies_in_the_block() {
        let event = an_event(&Param::Conn, b"abc");
        assert_eq!(event.outcome(), (4, -3));
        assert_eq!(event.conn().1, b"abc");
        // SAFETY: the block is a whole event; its private data is three bytes.
        unsafe {
            let conn = (*event.as_ptr()).param.conn;
            assert_eq!((conn.private_data_len, conn.qp_num), (3, 7));
            let data = core::slice::from_raw_parts(conn.private_data.cast::<u8>(), 3);
            assert_eq!(data, b"abc");
            let without = an_event(&Param::Conn, b"");
            assert!((*without.as_ptr()).param.conn.private_data.is_null());
        }
    }

    /// Threads that make and drop blocks never have the same one at a time.
    #[test]
    fn a_block_has_one_owner() {
        const TURNS: u64 = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        let number = 4 * turn + thread;
                        let mut event = EventBlock::new().unwrap();
                        event.record_mut().uid = number;
                        std::hint::spin_loop();
                        assert_eq!(event.record().uid, number);
                    }
                });
            }
        });
    }

    #[test]
    fn a_record_that_is_expected_is_not_read() {
        let mut event = an_event(&Param::Conn, b"");
        event.record_mut().ece.vendor_id = 5;
        event.expect_record();
        let record = event.record();
        assert_eq!((record.id, record.event), (u32::MAX, u32::MAX));
        assert_eq!(record.ece.vendor_id, 0);
    }
}
