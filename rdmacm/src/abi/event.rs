//! `struct rdma_cm_event`, as the program receives it.

use super::{rdma_cm_event, rdma_cm_event_param, rdma_cm_id, rdma_conn_param, rdma_ud_param};
use core::ffi::{CStr, c_void};
use core::ptr::{NonNull, null, null_mut};
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
        let block = memory::room::<Block>(1)?;
        let length = private_data.len().min(PRIVATE_DATA - 1);
        // SAFETY: the block is new and of that size. All of it is written, the gaps between the
        // members too.
        unsafe {
            let members = &raw mut (*block).event;
            members.write_bytes(0, 1);
            let data = (&raw mut (*block).private_data).cast::<u8>();
            data.copy_from_nonoverlapping(private_data.as_ptr(), length);
            data.add(length).write_bytes(0, PRIVATE_DATA - length);
            let data: *const c_void = if length == 0 { null() } else { data.cast() };
            *members = rdma_cm_event {
                id,
                listen_id,
                event,
                status,
                param: c_param(param, data, u8::try_from(length).unwrap_or(u8::MAX)),
            };
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

fn c_param(param: Param, private_data: *const c_void, private_data_len: u8) -> rdma_cm_event_param {
    let ud = |private_data, private_data_len, ah_attr, qp_num, qkey| {
        // The union's other bytes are zero, as in a new block.
        rdma_cm_event_param {
            ud: rdma_ud_param {
                private_data,
                private_data_len,
                ah_attr,
                qp_num,
                qkey,
            },
        }
    };
    match param {
        Param::Conn(conn) => {
            let mut all = ud(null_mut(), 0, bytemuck::Zeroable::zeroed(), 0, 0);
            all.conn = rdma_conn_param {
                private_data,
                private_data_len,
                responder_resources: conn.responder_resources,
                initiator_depth: conn.initiator_depth,
                flow_control: conn.flow_control,
                retry_count: conn.retry_count,
                rnr_retry_count: conn.rnr_retry_count,
                srq: conn.srq,
                qp_num: conn.qp_num,
            };
            all
        }
        Param::Ud {
            ah_attr,
            qp_num,
            qkey,
        } => ud(private_data, private_data_len, ah_attr, qp_num, qkey),
        Param::Join {
            context,
            ah_attr,
            qp_num,
            qkey,
        } => ud(context, 0, ah_attr, qp_num, qkey),
        Param::Arg(arg) => {
            let mut all = ud(null_mut(), 0, bytemuck::Zeroable::zeroed(), 0, 0);
            all.arg = arg;
            all
        }
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
