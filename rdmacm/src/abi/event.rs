//! `struct rdma_cm_event`, as the program receives it.

use super::{rdma_cm_event, rdma_cm_event_param, rdma_cm_id, rdma_conn_param, rdma_ud_param};
use core::ffi::{CStr, c_void};
use core::hint::black_box;
use core::ptr::{NonNull, null};
use kit::abi::ibv_ah_attr;
use kit::errno::{Errno, Result};
use kit::sys::memory;

/// Maximum length of private data.
pub const PRIVATE_DATA: usize = 256;

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

/// The contents of `param`.
#[derive(Clone, Copy)]
pub enum Param {
    Conn(Conn),
    Ud {
        ah_attr: ibv_ah_attr,
        qp_num: u32,
        qkey: u32,
    },
    /// A multicast group: the context of the join takes the place of the private data.
    Join {
        context: *mut c_void,
        ah_attr: ibv_ah_attr,
        qp_num: u32,
        qkey: u32,
    },
    /// RDMA_CM_EVENT_USER.
    Arg(u64),
}

#[repr(C)]
struct Block {
    event: rdma_cm_event,
    private_data: [u8; PRIVATE_DATA],
}

/// Owns the block to which the program has a pointer.
pub struct EventBlock(NonNull<Block>);

// SAFETY: memory of the process, given to one program thread at a time.
unsafe impl Send for EventBlock {}

impl EventBlock {
    /// An event with its private data, which is cut at 256 bytes.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(
        id: *mut rdma_cm_id,
        listen_id: *mut rdma_cm_id,
        (event, status): (u32, i32),
        param: Param,
        private_data: &[u8],
    ) -> Result<Self> {
        // Hidden from the compiler: it would make one calloc(3) of this and the zeros below, and
        // calloc takes no memory that the thread has just freed.
        let block = black_box(memory::room::<Block>(1)?);
        let length = private_data.len().min(PRIVATE_DATA - 1);
        // SAFETY: the block is new and of that size. All of it is written, the gaps between the
        // members too: first all, and then each member alone, because a structure that is written
        // as a whole brings its own gaps along.
        unsafe {
            let members = &raw mut (*block).event;
            members.write_bytes(0, 1);
            let data = &raw mut (*block).private_data;
            data.write_bytes(0, 1);
            let data: *const c_void = if length == 0 {
                null()
            } else {
                let data = data.cast::<u8>();
                data.copy_from_nonoverlapping(private_data.as_ptr(), length);
                data.cast()
            };
            (*members).id = id;
            (*members).listen_id = listen_id;
            (*members).event = event;
            (*members).status = status;
            let length = u8::try_from(length).unwrap_or(u8::MAX);
            write_param(&raw mut (*members).param, param, (data, length));
        }
        NonNull::new(block).map(Self).ok_or(Errno::NOMEM)
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

    /// Parameters of a connection, and private data.
    pub fn conn(&self) -> (Conn, Vec<u8>) {
        // SAFETY: as above. In other events the bytes are not parameters, but they are valid
        // numbers.
        let conn = unsafe { (*self.0.as_ptr()).event.param.conn };
        let length = usize::from(conn.private_data_len).min(PRIVATE_DATA);
        // SAFETY: as above; the private data lies in the block.
        let data = unsafe { &(*self.0.as_ptr()).private_data };
        let parameters = Conn {
            responder_resources: conn.responder_resources,
            initiator_depth: conn.initiator_depth,
            flow_control: conn.flow_control,
            retry_count: conn.retry_count,
            rnr_retry_count: conn.rnr_retry_count,
            srq: conn.srq,
            qp_num: conn.qp_num,
        };
        (parameters, data[..length].to_vec())
    }

    /// The id that the event belongs to.
    pub fn id(&self) -> *mut rdma_cm_id {
        // SAFETY: as above.
        unsafe { (*self.0.as_ptr()).event.id }
    }
}

impl Drop for EventBlock {
    fn drop(&mut self) {
        // SAFETY: the block is this library's, and is freed once.
        unsafe { memory::free(self.0.as_ptr().cast()) }
    }
}

/// Writes members of a structure, and none of the gaps between them.
macro_rules! write_members {
    ($to:expr, $from:expr, $($member:ident),*) => {
        $((&raw mut (*$to).$member).write($from.$member);)*
    };
}

/// # Safety
/// `to` may be written, and is zero.
unsafe fn write_param(
    to: *mut rdma_cm_event_param,
    param: Param,
    (private_data, private_data_len): (*const c_void, u8),
) {
    // SAFETY: vouched for by the caller; the members lie within.
    unsafe {
        match param {
            Param::Conn(conn) => {
                let to = to.cast::<rdma_conn_param>();
                (*to).private_data = private_data;
                (*to).private_data_len = private_data_len;
                write_members!(
                    to,
                    conn,
                    responder_resources,
                    initiator_depth,
                    flow_control,
                    retry_count,
                    rnr_retry_count,
                    srq,
                    qp_num
                );
            }
            Param::Ud {
                ah_attr,
                qp_num,
                qkey,
            } => {
                let data = (private_data, private_data_len);
                write_ud(to.cast(), data, &ah_attr, (qp_num, qkey));
            }
            Param::Join {
                context,
                ah_attr,
                qp_num,
                qkey,
            } => {
                let data = (context.cast_const(), 0);
                write_ud(to.cast(), data, &ah_attr, (qp_num, qkey));
            }
            Param::Arg(arg) => to.cast::<u64>().write(arg),
        }
    }
}

/// # Safety
/// As for [`write_param`].
unsafe fn write_ud(
    to: *mut rdma_ud_param,
    (private_data, private_data_len): (*const c_void, u8),
    attr: &ibv_ah_attr,
    (qp_num, qkey): (u32, u32),
) {
    // SAFETY: vouched for by the caller.
    unsafe {
        (*to).private_data = private_data;
        (*to).private_data_len = private_data_len;
        (*to).qp_num = qp_num;
        (*to).qkey = qkey;
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

    #[test]
    fn the_gaps_between_the_members_are_zero() {
        let new = |param| EventBlock::new(null_mut(), null_mut(), (4, -3), param, b"abc").unwrap();
        let ud = Param::Ud {
            ah_attr: with_full_gaps(),
            qp_num: u32::MAX,
            qkey: u32::MAX,
        };
        let join = Param::Join {
            context: null_mut(),
            ah_attr: with_full_gaps(),
            qp_num: u32::MAX,
            qkey: u32::MAX,
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
        let new = |data: &[u8]| {
            let conn = Param::Conn(Conn {
                qp_num: 7,
                ..Conn::default()
            });
            EventBlock::new(null_mut(), null_mut(), (4, -3), conn, data).unwrap()
        };
        let event = new(b"abc");
        assert_eq!(event.outcome(), (4, -3));
        // SAFETY: the block is a whole event; its private data is three bytes.
        unsafe {
            let conn = (*event.as_ptr()).param.conn;
            assert_eq!((conn.private_data_len, conn.qp_num), (3, 7));
            let data = core::slice::from_raw_parts(conn.private_data.cast::<u8>(), 3);
            assert_eq!(data, b"abc");
            assert!((*new(b"").as_ptr()).param.conn.private_data.is_null());
        }
    }
}
