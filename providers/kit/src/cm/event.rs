//! Parameters of connections, and events.

use crate::abi::kernel::ib_uverbs_ah_attr;
use bytemuck::{Pod, Zeroable};

/// Enhanced connection establishment: a vendor and its options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)] // members of `struct rdma_ucm_ece`
pub struct Ece {
    pub vendor_id: u32,
    pub attr_mod: u32,
}

/// Parameters of a connection with private data (`struct rdma_ucm_conn_param`).
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Param {
    pub qp_num: u32,
    pub qkey: u32,
    pub private_data: [u8; 256],
    pub private_data_len: u8,
    pub srq: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub valid: u8,
}
const _: () = assert!(size_of::<Param>() == 272);

impl Param {
    /// Adds private data. Data beyond 255 bytes is dropped.
    pub fn append(&mut self, data: &[u8]) {
        let used = usize::from(self.private_data_len);
        let length = data.len().min(usize::from(u8::MAX) - used);
        self.private_data[used..used + length].copy_from_slice(&data[..length]);
        self.private_data_len = u8::try_from(used + length).unwrap_or(u8::MAX);
    }

    /// Its private data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.private_data[..usize::from(self.private_data_len)]
    }
}

/// An event as it is handed out (`struct rdma_ucm_event_resp`).
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Record {
    pub uid: u64,
    pub id: u32,
    pub event: u32,
    pub status: i32,
    param: [u8; 308],
    pub ece: Ece,
}
const _: () = assert!(size_of::<Record>() == 336);
/// Where `param` is, all kinds of it are aligned.
const _: () = assert!(core::mem::offset_of!(Record, param).is_multiple_of(align_of::<Param>()));
const _: () = assert!(core::mem::offset_of!(Record, param).is_multiple_of(align_of::<UdParam>()));

/// `struct rdma_ucm_ud_param`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct UdParam {
    pub qp_num: u32,
    pub qkey: u32,
    pub ah_attr: ib_uverbs_ah_attr,
    pub private_data: [u8; 256],
    pub private_data_len: u8,
    pub reserved: [u8; 7],
}
const _: () = assert!(size_of::<UdParam>() == 304);

impl UdParam {
    /// Its private data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.private_data[..usize::from(self.private_data_len)]
    }
}

impl Record {
    /// An event without parameters.
    #[must_use]
    pub fn new(uid: u64, id: u32, event: u32, status: i32) -> Self {
        Self {
            uid,
            id,
            event,
            status,
            ..Self::zeroed()
        }
    }

    /// Has it look as none that is handed out, for a reader whose read may be cancelled. The
    /// members that older kernels do not write are zero.
    #[inline]
    pub fn forget(&mut self) {
        (self.id, self.event) = (u32::MAX, u32::MAX);
        self.ece = Ece::default();
    }

    /// Whether it was handed out since.
    #[must_use]
    pub fn is_there(&self) -> bool {
        (self.id, self.event) != (u32::MAX, u32::MAX)
    }

    fn view<T: Pod>(&self) -> &T {
        bytemuck::from_bytes(&self.param[..size_of::<T>()])
    }

    fn write<T: Pod>(&mut self, param: &T) {
        let bytes = bytemuck::bytes_of(param);
        self.param[..bytes.len()].copy_from_slice(bytes);
    }

    /// Parameters of a connection.
    #[must_use]
    pub fn conn(&self) -> &Param {
        self.view()
    }

    /// The same, to be handed out.
    pub fn set_conn(&mut self, param: &Param) {
        self.write(param);
    }

    /// Parameters of datagrams.
    #[must_use]
    pub fn ud(&self) -> &UdParam {
        self.view()
    }

    /// The same, to be handed out.
    pub fn set_ud(&mut self, param: &UdParam) {
        self.write(param);
    }

    /// The argument of an event that a program writes itself.
    #[must_use]
    pub fn arg(&self) -> u64 {
        bytemuck::pod_read_unaligned(&self.param[..size_of::<u64>()])
    }

    /// The same, to be handed out.
    pub fn set_arg(&mut self, arg: u64) {
        self.write(&arg);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_is_cut_where_its_length_ends() {
        let mut param = Param::zeroed();
        param.append(&[1; 200]);
        param.append(&[2; 200]);
        assert_eq!((param.private_data_len, param.private_data[199]), (255, 1));
        assert_eq!((param.private_data[200], param.private_data[255]), (2, 0));
    }

    #[test]
    fn parameters_are_read_where_the_kernel_puts_them() {
        let mut bytes = [0; 336];
        bytes[20] = 9;
        bytes[20 + 264] = 2;
        bytes[20 + 8] = 5;
        bytes[20 + 266] = 3;
        let mut record: Record = bytemuck::pod_read_unaligned(&bytes);
        let param = *record.conn();
        assert_eq!((param.qp_num, param.responder_resources), (9, 3));
        assert_eq!(param.data(), [5, 0]);
        assert_eq!(record.ud().qp_num, 9);
        assert_eq!(record.arg(), 9);
        record.set_conn(&param);
        assert_eq!(bytemuck::bytes_of(&record), bytes);
        record.set_arg(7);
        assert_eq!((record.arg(), record.ud().qp_num), (7, 7));
    }
}
