#![forbid(unsafe_code)]
//! Parameters of ibv_reg_mr_ex(3), in checked form.

use kit::{
    abi::*,
    errno::{Errno, Result},
};
use std::ffi::c_int;

/// A buffer of ibv_alloc_buf(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Address of its first byte.
    pub addr: usize,
    /// Bytes.
    pub size: usize,
    /// Whether it was allocated in the domain that it is to be registered in.
    pub same_domain: bool,
    /// The DMA buffer that it is, if it is one.
    pub dmabuf: Option<c_int>,
}

/// The members of `ibv_mr_init_attr`; those that the mask leaves out were not read.
#[derive(Clone, Copy, Debug, Default)]
pub struct RegionParams {
    /// `comp_mask`.
    pub mask: u64,
    /// Bytes.
    pub length: usize,
    /// `iova`.
    pub iova: u64,
    /// `addr`.
    pub addr: usize,
    /// `fd`.
    pub fd: c_int,
    /// `fd_offset`, in bytes.
    pub fd_offset: u64,
    /// `buf`.
    pub buffer: Option<Buffer>,
}

/// The memory to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Memory of the process, known by `iova` under the keys.
    Memory {
        /// `iova`.
        iova: u64,
    },
    /// A part of a DMA buffer.
    DmaBuffer {
        /// Its descriptor.
        fd: c_int,
        /// Where the part begins, in bytes.
        offset: u64,
        /// `iova`.
        iova: u64,
    },
}

impl RegionParams {
    fn gives(&self, member: u64) -> bool {
        self.mask & member != 0
    }

    /// Checks the parameters, and returns the memory to be registered.
    ///
    /// # Errors
    /// EOPNOTSUPP for unknown members, and for handles of hints (`dmah`) unless `hints` is set,
    /// that is, the provider knows them; EINVAL for members that contradict each other, and for a
    /// range outside of its buffer.
    pub fn plan(&self, hints: bool) -> Result<Plan> {
        const KNOWN: u64 = IBV_REG_MR_MASK_IOVA
            | IBV_REG_MR_MASK_ADDR
            | IBV_REG_MR_MASK_FD
            | IBV_REG_MR_MASK_FD_OFFSET
            | IBV_REG_MR_MASK_BUF;
        let known = match hints {
            true => KNOWN | IBV_REG_MR_MASK_DMAH,
            false => KNOWN,
        };
        if self.mask & !known != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        match self.gives(IBV_REG_MR_MASK_BUF) {
            true => self.part_of(self.buffer.ok_or(Errno::INVAL)?),
            false if self.gives(IBV_REG_MR_MASK_FD) => self.dma_buffer(),
            false => self.memory(),
        }
    }

    fn memory(&self) -> Result<Plan> {
        if !self.gives(IBV_REG_MR_MASK_ADDR) || self.gives(IBV_REG_MR_MASK_FD_OFFSET) {
            return Err(Errno::INVAL);
        }
        let iova = match self.gives(IBV_REG_MR_MASK_IOVA) {
            true => self.iova,
            false => self.addr as u64,
        };
        Ok(Plan::Memory { iova })
    }

    fn dma_buffer(&self) -> Result<Plan> {
        let needed = IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA;
        if self.gives(IBV_REG_MR_MASK_ADDR) || self.mask & needed != needed {
            return Err(Errno::INVAL);
        }
        Ok(Plan::DmaBuffer {
            fd: self.fd,
            offset: self.fd_offset,
            iova: self.iova,
        })
    }

    fn part_of(&self, buffer: Buffer) -> Result<Plan> {
        let descriptor = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET;
        if !buffer.same_domain || !self.gives(IBV_REG_MR_MASK_ADDR) || self.mask & descriptor != 0 {
            return Err(Errno::INVAL);
        }
        let offset = self.addr.checked_sub(buffer.addr).ok_or(Errno::INVAL)?;
        let room = buffer.size.checked_sub(offset).ok_or(Errno::INVAL)?;
        if self.length > room {
            return Err(Errno::INVAL);
        }
        match buffer.dmabuf {
            None => self.memory(),
            Some(_) if self.gives(IBV_REG_MR_MASK_IOVA) => Err(Errno::INVAL),
            Some(fd) => Ok(Plan::DmaBuffer {
                fd,
                offset: offset as u64,
                iova: self.addr as u64,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: Buffer = Buffer {
        addr: 0x1000,
        size: 0x100,
        same_domain: true,
        dmabuf: None,
    };

    fn params(mask: u64) -> RegionParams {
        RegionParams {
            mask,
            length: 0x80,
            iova: 7,
            addr: 0x1080,
            fd: 3,
            fd_offset: 0x40,
            buffer: Some(BUFFER),
        }
    }

    const ADDR: u64 = IBV_REG_MR_MASK_ADDR;
    const IOVA: u64 = IBV_REG_MR_MASK_IOVA;
    const FD: u64 = IBV_REG_MR_MASK_FD;
    const OFFSET: u64 = IBV_REG_MR_MASK_FD_OFFSET;
    const BUF: u64 = IBV_REG_MR_MASK_BUF;

    #[test]
    fn each_combination_is_one_thing_or_refused() {
        let memory = |iova| Ok(Plan::Memory { iova });
        let dma = |offset, iova| {
            Ok(Plan::DmaBuffer {
                fd: 3,
                offset,
                iova,
            })
        };
        assert_eq!(params(ADDR).plan(false), memory(0x1080));
        assert_eq!(params(ADDR | IOVA).plan(false), memory(7));
        assert_eq!(params(FD | OFFSET | IOVA).plan(false), dma(0x40, 7));
        assert_eq!(params(BUF | ADDR).plan(false), memory(0x1080));
        assert_eq!(params(BUF | ADDR | IOVA).plan(false), memory(7));
        for bad in [
            0,
            IOVA,
            FD,
            FD | OFFSET,
            FD | IOVA,
            FD | ADDR | OFFSET | IOVA,
            ADDR | OFFSET,
            BUF,
            BUF | ADDR | FD,
            BUF | ADDR | OFFSET,
        ] {
            assert_eq!(params(bad).plan(false), Err(Errno::INVAL), "{bad:#x}");
        }
        for unknown in [IBV_REG_MR_MASK_DMAH, 0x40, 1 << 63] {
            assert_eq!(params(ADDR | unknown).plan(false), Err(Errno::OPNOTSUPP));
        }
    }

    #[test]
    fn a_range_has_to_lie_in_its_buffer() {
        let place = |addr: usize, length: usize| {
            let params = RegionParams {
                addr,
                length,
                ..params(BUF | ADDR)
            };
            params.plan(false).is_ok()
        };
        assert!(place(0x1000, 0x100));
        assert!(place(0x10ff, 1));
        assert!(place(0x1100, 0));
        assert!(!place(0xfff, 1));
        assert!(!place(0x1001, 0x100));
        assert!(!place(0x1101, 0));
        assert!(!place(0x1080, usize::MAX));
    }

    #[test]
    fn buffers_of_other_domains_and_dma_buffers() {
        let with = |buffer, mask| {
            RegionParams {
                buffer,
                ..params(mask)
            }
            .plan(false)
        };
        let stranger = Buffer {
            same_domain: false,
            ..BUFFER
        };
        assert_eq!(with(Some(stranger), BUF | ADDR), Err(Errno::INVAL));
        assert_eq!(with(None, BUF | ADDR), Err(Errno::INVAL));
        let dma = Buffer {
            dmabuf: Some(9),
            ..BUFFER
        };
        let plan = Plan::DmaBuffer {
            fd: 9,
            offset: 0x80,
            iova: 0x1080,
        };
        assert_eq!(with(Some(dma), BUF | ADDR), Ok(plan));
        assert_eq!(with(Some(dma), BUF | ADDR | IOVA), Err(Errno::INVAL));
    }
}
