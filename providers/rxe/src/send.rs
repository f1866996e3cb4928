//! Send requests.

use crate::context::Context;
use crate::mapped;
use crate::receive::{length, put_sges};
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use kit::abi::kernel::*;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{Bind, Commands, Data, Inline, Pieces, SendRequest, SendView};
use kit::queue::{Entry, ProducerRing};

/// Where the elements of a request, or its data, stand.
const DATA: usize = size_of::<rxe_send_wqe>();
/// Bytes of a request with one element.
const ENTRY: usize = DATA + size_of::<ibv_sge>();
/// Offset of the opcode's operands: the kernel's structures without a name.
const WR: usize = offset_of!(rxe_send_wr, wr);

/// The operations, a bit each, that an address, a key and the data describe completely on a
/// connection.
const PLAIN: u32 = 1 << IBV_WR_RDMA_WRITE
    | 1 << IBV_WR_RDMA_WRITE_WITH_IMM
    | 1 << IBV_WR_SEND
    | 1 << IBV_WR_SEND_WITH_IMM
    | 1 << IBV_WR_RDMA_READ
    | 1 << IBV_WR_SEND_WITH_INV;

/// A ring of send requests.
pub struct Sends {
    ring: ProducerRing<ENTRY>,
    qp_type: ibv_qp_type,
    most: Most,
    /// [`PLAIN`], if the queue pair has those operations.
    plain: u32,
    /// Number of the next request.
    ssn: u32,
}

/// Limits of a request.
#[derive(Clone, Copy)]
struct Most {
    /// Elements.
    sges: usize,
    /// Bytes to copy.
    inline: u32,
}

impl Sends {
    /// Maps the queue that a command answered.
    ///
    /// # Errors
    /// Those of [`mapped::map`].
    pub fn map(
        kernel: &Commands,
        at: &mminfo,
        qp_type: ibv_qp_type,
        cap: &ib_uverbs_qp_cap,
    ) -> Result<Self> {
        Self::new(ProducerRing::new(mapped::map(kernel, at)?)?, qp_type, cap)
    }

    fn new(
        ring: ProducerRing<ENTRY>,
        qp_type: ibv_qp_type,
        cap: &ib_uverbs_qp_cap,
    ) -> Result<Self> {
        let size = |value: u32| usize::try_from(value).map_err(|_| Errno::IO);
        Ok(Self {
            ring,
            qp_type,
            most: Most {
                sges: size(cap.max_send_sge)?,
                inline: cap.max_inline_data,
            },
            plain: if qp_type == IBV_QPT_UD { 0 } else { PLAIN },
            ssn: 0,
        })
    }

    /// Posts requests in order.
    ///
    /// # Errors
    /// EINVAL for an invalid request, ENOMEM when the queue is full, EIO for an index of the
    /// kernel's that leads out of the ring. Requests before it are posted.
    #[inline]
    pub fn post<'a>(
        &mut self,
        requests: &mut impl Iterator<Item = impl SendView<'a, Context>>,
    ) -> Result<()> {
        let answer = self.add_all(requests);
        self.ring.publish();
        answer
    }

    #[inline]
    fn add_all<'a>(
        &mut self,
        requests: &mut impl Iterator<Item = impl SendView<'a, Context>>,
    ) -> Result<()> {
        for request in requests {
            self.add(request)?;
        }
        Ok(())
    }

    /// Posts all requests, or none.
    ///
    /// # Errors
    /// As [`Self::post`].
    pub fn post_all<'a>(
        &mut self,
        requests: &mut impl Iterator<Item = impl SendView<'a, Context>>,
    ) -> Result<()> {
        let (at, ssn) = (self.ring.at(), self.ssn);
        for request in requests {
            if let Err(e) = self.add(request) {
                self.ring.back_to(at);
                self.ssn = ssn;
                return Err(e);
            }
        }
        self.ring.publish();
        Ok(())
    }

    #[inline(always)] // the chain's place is then kept in registers
    fn add<'a>(&mut self, request: impl SendView<'a, Context>) -> Result<()> {
        let plain = self.plain.checked_shr(request.opcode()).unwrap_or(0);
        if plain & 1 == 0 {
            return self.add_other(request);
        }
        let Ok(mut entry) = self.ring.free() else {
            // Errors of the request itself come first.
            return self.add_other(request);
        };
        let data = request.data()?;
        let length = put_data(&mut entry, &data, self.most)?;
        let (address, rkey) = request.remote();
        let what = [request.opcode(), request.flags(), request.extra()];
        put_head(&mut entry, request.id(), what);
        put_remote(&mut entry, address, rkey);
        put_rest(&mut entry, address, self.ssn, (length, elements(&data)?));
        self.ring.step();
        self.ssn = self.ssn.wrapping_add(1);
        Ok(())
    }

    /// The same for operations that need more than an address and a key.
    #[inline(never)]
    fn add_other<'a>(&mut self, request: impl SendView<'a, Context>) -> Result<()> {
        let request = request.request()?;
        let word = match request.opcode {
            IBV_WR_ATOMIC_WRITE => Some(word(&request).ok_or(Errno::INVAL)?),
            _ => None,
        };
        let length = match (word, request.opcode) {
            (Some(_), _) => 8,
            (None, IBV_WR_FLUSH) => flushed(&request)?,
            _ => self.measure(&request.data)?,
        };
        self.check(&request, length)?;
        let mut entry = self.ring.free()?;
        let elements = match word {
            Some(word) => {
                entry.put::<DATA, [u8; 8]>(word);
                0
            }
            None if request.opcode == IBV_WR_FLUSH => 0,
            None => {
                put_data(&mut entry, &request.data, self.most)?;
                elements(&request.data)?
            }
        };
        let what = [request.opcode, request.flags, request.extra()];
        put_head(&mut entry, request.id, what);
        put_operation(&mut entry, self.qp_type, &request)?;
        put_rest(
            &mut entry,
            request.remote_address,
            self.ssn,
            (length, elements),
        );
        self.ring.step();
        self.ssn = self.ssn.wrapping_add(1);
        Ok(())
    }

    /// Bytes of the data.
    ///
    /// # Errors
    /// EINVAL for more than the queue takes.
    fn measure(&self, data: &Data<'_>) -> Result<u32> {
        match data {
            Data::Sges(sges) if sges.len() <= self.most.sges => Ok(length(sges)),
            Data::Inline(inline) => u32::try_from(inline.length())
                .ok()
                .filter(|length| *length <= self.most.inline)
                .ok_or(Errno::INVAL),
            Data::Sges(_) => Err(Errno::INVAL),
        }
    }

    /// Checks that the kernel omits.
    #[inline]
    fn check(&self, request: &SendRequest<'_, Context>, length: u32) -> Result<()> {
        let good = match request.opcode {
            IBV_WR_RDMA_WRITE
            | IBV_WR_RDMA_WRITE_WITH_IMM
            | IBV_WR_SEND
            | IBV_WR_SEND_WITH_IMM
            | IBV_WR_RDMA_READ
            | IBV_WR_LOCAL_INV
            | IBV_WR_SEND_WITH_INV => true,
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                length >= 8 && request.remote_address.is_multiple_of(8)
            }
            IBV_WR_BIND_MW => matches!(self.qp_type, IBV_QPT_RC | IBV_QPT_UC),
            IBV_WR_ATOMIC_WRITE => request.remote_address.is_multiple_of(8),
            IBV_WR_FLUSH => self.qp_type == IBV_QPT_RC,
            // The kernel looks opcodes up in a table without a check.
            _ => false,
        };
        if good { Ok(()) } else { Err(Errno::INVAL) }
    }
}

/// The 8 bytes of an atomic write.
fn word(request: &SendRequest<'_, Context>) -> Option<[u8; 8]> {
    request.atomic_write.or_else(|| match request.data {
        Data::Inline(inline) if inline.length() == 8 => inline.to_vec().try_into().ok(),
        _ => None,
    })
}

/// Bytes of the memory that is flushed.
///
/// # Errors
/// EINVAL without the parameters of a flush, and for values that exceed the kernel's fields.
fn flushed(request: &SendRequest<'_, Context>) -> Result<u32> {
    let flush = request.flush.ok_or(Errno::INVAL)?;
    u32::try_from(flush.length).map_err(|_| Errno::INVAL)
}

/// `what` is the opcode, the flags, and the immediate data in network byte order or the key to
/// invalidate.
#[inline]
fn put_head(entry: &mut Entry<'_, ENTRY>, id: u64, what: [u32; 3]) {
    entry.put::<{ offset_of!(rxe_send_wqe, wr) }, u64>(id);
    entry.put::<{ offset_of!(rxe_send_wr, opcode) }, [u32; 3]>(what);
}

#[inline]
fn put_remote(entry: &mut Entry<'_, ENTRY>, address: u64, rkey: u32) {
    entry.put::<WR, u64>(address);
    entry.put::<{ WR + 8 }, [u32; 2]>([rkey, 0]);
}

/// Writes the part after the request, up to the data.
#[inline]
fn put_rest(entry: &mut Entry<'_, ENTRY>, address: u64, ssn: u32, (length, elements): (u32, u32)) {
    entry.put::<{ offset_of!(rxe_send_wqe, status) }, [u32; 2]>([0; 2]);
    entry.put::<{ offset_of!(rxe_send_wqe, iova) }, u64>(address);
    entry.put::<{ offset_of!(rxe_send_wqe, ssn) }, [u32; 2]>([ssn, 0]);
    entry.put::<{ offset_of!(rxe_send_wqe, dma) }, [u32; 6]>([length, length, 0, elements, 0, 0]);
}

/// Writes the operands of the opcode.
#[inline]
fn put_operation(
    entry: &mut Entry<'_, ENTRY>,
    qp_type: ibv_qp_type,
    request: &SendRequest<'_, Context>,
) -> Result<()> {
    match request.opcode {
        _ if qp_type == IBV_QPT_UD => {
            let ah = request.ah.ok_or(Errno::INVAL)?;
            entry.put::<WR, [u32; 4]>([request.remote_qpn, request.remote_qkey, 0, ah.number]);
        }
        IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
            entry.put::<WR, [u64; 3]>([request.remote_address, request.compare_add, request.swap]);
            entry.put::<{ WR + 24 }, [u32; 2]>([request.rkey, 0]);
        }
        IBV_WR_BIND_MW => put_bind(entry, request.bind.as_ref().ok_or(Errno::INVAL)?),
        IBV_WR_FLUSH => {
            let flush = request.flush.ok_or(Errno::INVAL)?;
            entry.put::<WR, u64>(request.remote_address);
            entry.put::<{ WR + 8 }, [u32; 2]>([flushed(request)?, request.rkey]);
            entry.put::<{ WR + 16 }, [u8; 2]>([flush.placement, flush.selectivity]);
            entry.put::<{ WR + 18 }, [u8; 6]>([0; 6]);
        }
        _ => put_remote(entry, request.remote_address, request.rkey),
    }
    Ok(())
}

fn put_bind(entry: &mut Entry<'_, ENTRY>, bind: &Bind<'_, Context>) {
    let lkey = bind.info.mr.map_or(0, |mr| mr.lkey.load(Ordering::Relaxed));
    entry.put::<WR, [u64; 2]>([bind.info.address, bind.info.length]);
    entry.put::<{ WR + 16 }, [u32; 4]>([lkey, bind.info.key, bind.rkey, bind.info.access]);
}

/// Of how many elements the data is; data that is copied has none.
#[inline]
fn elements(data: &Data<'_>) -> Result<u32> {
    match data {
        Data::Sges(sges) => u32::try_from(sges.len()).map_err(|_| Errno::INVAL),
        Data::Inline(_) => Ok(0),
    }
}

/// Writes the data; returns its bytes.
///
/// # Errors
/// EINVAL for more than the queue takes.
#[inline]
fn put_data(entry: &mut Entry<'_, ENTRY>, data: &Data<'_>, most: Most) -> Result<u32> {
    match data {
        Data::Sges(sges) if sges.len() > most.sges => Err(Errno::INVAL),
        Data::Sges(sges) => put_sges::<ENTRY, DATA>(entry, sges),
        Data::Inline(Inline::Bytes(bytes)) => put_bytes(entry, DATA, bytes, most.inline),
        Data::Inline(Inline::Pieces(pieces)) => match pieces.only() {
            Some(bytes) => put_bytes(entry, DATA, bytes, most.inline),
            None => put_pieces(entry, pieces, most.inline),
        },
    }
}

/// Copies at most `most` bytes to `at`; returns how many there were.
///
/// # Errors
/// EINVAL for more.
#[inline]
fn put_bytes(entry: &mut Entry<'_, ENTRY>, at: usize, bytes: &[u8], most: u32) -> Result<u32> {
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::INVAL)?;
    if length > most {
        return Err(Errno::INVAL);
    }
    entry.put_bytes(at, bytes)?;
    Ok(length)
}

#[inline(never)] // most requests have one piece
fn put_pieces(entry: &mut Entry<'_, ENTRY>, pieces: &Pieces<'_>, most: u32) -> Result<u32> {
    let (mut at, mut length) = (DATA, 0);
    for piece in pieces.iter() {
        length += put_bytes(entry, at, piece, most - length)?;
        at += piece.len();
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Ah;
    use core::iter::once;
    use kit::provider::Flush;
    use kit::queue::{ConsumerRing, Region};
    use std::sync::Arc;

    const CAP: ib_uverbs_qp_cap = ib_uverbs_qp_cap {
        max_send_wr: 3,
        max_recv_wr: 0,
        max_send_sge: 3,
        max_recv_sge: 0,
        max_inline_data: 48,
    };

    /// A queue of three requests, and the kernel's end of it.
    fn queue(qp_type: ibv_qp_type) -> (Sends, ConsumerRing<256>, Region) {
        let region = mapped::plain(2, 8);
        let ring = ProducerRing::new(mapped::ring(region.share()).expect("fits"));
        let sends = Sends::new(ring.expect("empty"), qp_type, &CAP).expect("small");
        let kernel = ConsumerRing::new(mapped::ring(region.share()).expect("fits"));
        (sends, kernel.expect("empty"), region)
    }

    fn taken(kernel: &mut ConsumerRing<256>) -> ([u32; 64], rxe_send_wqe) {
        let entry = kernel.head().expect("inside").expect("a request");
        let found = (entry.get::<0, [u32; 64]>(), entry.get::<0, rxe_send_wqe>());
        kernel.step();
        kernel.release();
        found
    }

    fn sge(addr: u64, length: u32) -> ibv_sge {
        ibv_sge {
            addr,
            length,
            lkey: 7,
        }
    }

    fn write<'a>(data: Data<'a>, flags: u32) -> SendRequest<'a, Context> {
        let mut request = SendRequest::new(11, IBV_WR_RDMA_WRITE, flags);
        request.data = data;
        request.remote_address = 0x1_0000_0008;
        request.rkey = 9;
        request
    }

    #[test]
    fn a_write_has_its_elements() {
        let (mut sends, mut kernel, _) = queue(IBV_QPT_RC);
        for (count, flags) in [(0, 2), (1, 0), (3, 2)] {
            let sges = [sge(16, 100), sge(32, 200), sge(48, 300)];
            let sges = &sges[..count];
            let request = write(Data::Sges(sges), flags);
            sends.post(&mut once(request)).expect("room");
            let (words, wqe) = taken(&mut kernel);
            assert_eq!((wqe.wr.wr_id, wqe.wr.opcode), (11, IBV_WR_RDMA_WRITE));
            assert_eq!(wqe.wr.send_flags, flags);
            assert_eq!(wqe.wr.wr[0], 0x1_0000_0008);
            assert_eq!(words[WR / 4 + 2], 9);
            assert_eq!(wqe.iova, 0x1_0000_0008);
            let length: u32 = sges.iter().map(|sge| sge.length).sum();
            assert_eq!((wqe.dma.length, wqe.dma.resid), (length, length));
            assert_eq!(wqe.dma.num_sge as usize, count);
            for (i, sge) in sges.iter().enumerate() {
                let at = DATA / 4 + 4 * i;
                assert_eq!(u64::from(words[at]), sge.addr);
                assert_eq!(words[at + 2..at + 4], [sge.length, 7]);
            }
        }
    }

    #[test]
    fn data_is_copied_up_to_the_limit_of_the_queue() {
        let (mut sends, mut kernel, _) = queue(IBV_QPT_RC);
        let bytes: Vec<u8> = (0..48).collect();
        let inline = |bytes| write(Data::Inline(Inline::Bytes(bytes)), IBV_SEND_INLINE);
        sends.post(&mut once(inline(&bytes))).expect("fits");
        let (words, wqe) = taken(&mut kernel);
        assert_eq!((wqe.dma.length, wqe.dma.num_sge), (48, 0));
        assert_eq!(bytemuck::cast_slice::<u32, u8>(&words)[DATA..], bytes);
        let more = [0; 49];
        assert_eq!(sends.post(&mut once(inline(&more))), Err(Errno::INVAL));
        assert!(kernel.head().expect("inside").is_none());
    }

    #[test]
    fn a_flush_names_its_memory_and_how_far_it_goes() {
        let (mut sends, mut kernel, _) = queue(IBV_QPT_RC);
        let flush = |length| {
            let mut request = SendRequest::new(3, IBV_WR_FLUSH, 0);
            request.remote_address = 0x1_0000_0001;
            request.rkey = 9;
            request.flush = Some(Flush {
                length,
                placement: 1,
                selectivity: 2,
            });
            request
        };
        sends.post(&mut once(flush(70_000))).expect("room");
        let (words, wqe) = taken(&mut kernel);
        assert_eq!((wqe.wr.opcode, wqe.wr.wr[0]), (IBV_WR_FLUSH, 0x1_0000_0001));
        assert_eq!(words[WR / 4 + 2..WR / 4 + 5], [70_000, 9, 0x0201]);
        assert_eq!((wqe.iova, wqe.dma.length), (0x1_0000_0001, 70_000));
        assert_eq!((wqe.dma.resid, wqe.dma.num_sge), (70_000, 0));
        let over = usize::try_from(u64::from(u32::MAX) + 1).expect("64 bits");
        assert_eq!(sends.post(&mut once(flush(over))), Err(Errno::INVAL));
        let (mut sends, mut kernel, _) = queue(IBV_QPT_UC);
        assert_eq!(sends.post(&mut once(flush(1))), Err(Errno::INVAL));
        assert!(kernel.head().expect("inside").is_none());
    }

    #[test]
    fn a_datagram_names_its_address() {
        let (mut sends, mut kernel, _) = queue(IBV_QPT_UD);
        let ah = Arc::new(Ah {
            handle: 1,
            number: 5,
        });
        let mut request = SendRequest::new(1, IBV_WR_SEND_WITH_IMM, 0);
        request.imm = 3u32.to_ne_bytes();
        request.remote_qpn = 17;
        request.remote_qkey = 0x1111;
        let nowhere = SendRequest::new(1, IBV_WR_SEND, 0);
        assert_eq!(sends.post(&mut once(nowhere)), Err(Errno::INVAL));
        request.ah = Some(&ah);
        sends.post(&mut once(request)).expect("room");
        let (words, wqe) = taken(&mut kernel);
        assert_eq!(wqe.wr.ex, 3);
        assert_eq!(words[WR / 4..WR / 4 + 4], [17, 0x1111, 0, 5]);
    }

    #[test]
    fn requests_that_the_kernel_mishandles_are_refused() {
        let (mut sends, mut kernel, _) = queue(IBV_QPT_RC);
        let eight = [sge(0, 8)];
        let four = [sge(0, 4); 4];
        let atomic = |address, sges| {
            let mut request = write(Data::Sges(sges), 0);
            request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
            request.remote_address = address;
            request
        };
        let mut refused = vec![
            atomic(4, &eight[..]),
            atomic(8, &four[..1]),
            write(Data::Sges(&four), 0),
            SendRequest::new(0, IBV_WR_BIND_MW, 0),
            SendRequest::new(0, IBV_WR_ATOMIC_WRITE, 0),
            SendRequest::new(0, IBV_WR_FLUSH, 0),
        ];
        for opcode in [IBV_WR_TSO, 11, 12, 13, 0x20, 0xf0, u32::MAX] {
            refused.push(SendRequest::new(0, opcode, 0));
        }
        for request in refused {
            assert_eq!(sends.post(&mut once(request)), Err(Errno::INVAL));
        }
        assert!(kernel.head().expect("inside").is_none());
        sends.post(&mut once(atomic(8, &eight[..]))).expect("good");
        assert_eq!(taken(&mut kernel).1.ssn, 0, "no number was used up");
    }

    #[test]
    fn a_full_queue_takes_the_requests_that_fit_or_none() {
        let (mut sends, mut kernel, region) = queue(IBV_QPT_RC);
        let requests = |n: u64| (0..n).map(|id| SendRequest::new(id, IBV_WR_SEND, 0));
        assert_eq!(sends.post_all(&mut requests(4)), Err(Errno::NOMEM));
        assert!(kernel.head().expect("inside").is_none());
        assert_eq!(sends.post(&mut requests(4)), Err(Errno::NOMEM));
        for id in 0..3 {
            let wqe = taken(&mut kernel).1;
            assert_eq!((wqe.wr.wr_id, u64::from(wqe.ssn)), (id, id));
        }
        assert_eq!(sends.post_all(&mut requests(3)), Ok(()));
        let consumer = offset_of!(rxe_queue_buf, consumer_index);
        region.set_number(consumer, 4).expect("inside");
        assert_eq!(sends.post(&mut requests(1)), Err(Errno::IO));
    }
}
