#![forbid(unsafe_code)]
//! A command written to the device's command descriptor: a header, the command,
//! driver data (`rdma/ib_user_verbs.h`).

use super::command::{EX_HEADER, WriteCommand};
use super::driver_write;
use crate::abi::kernel::{ib_uverbs_cmd_hdr, ib_uverbs_ex_cmd_hdr};
use crate::errno::{Errno, Result};
use core::mem::size_of;
use std::os::fd::BorrowedFd;

/// A command laid out as the kernel reads it, and the memory for its response.
pub struct Request<'a> {
    /// Header, the command's structure, driver data.
    buf: &'a mut [u8],
    /// Where the structure starts.
    header: usize,
    /// Where driver data starts.
    front: usize,
    /// The response's structure, driver data.
    resp: &'a mut [u8],
    /// Where driver data starts in it.
    resp_front: usize,
    number: u32,
}

/// The pieces of a request, as a method call carries them.
pub struct CommandBuffers<'p> {
    /// The command's structure.
    pub core_in: &'p [u8],
    /// Driver data.
    pub driver_in: &'p [u8],
    /// The response's structure.
    pub core_out: &'p mut [u8],
    /// Driver data of the response.
    pub driver_out: &'p mut [u8],
}

impl<'a> Request<'a> {
    /// `buf` has room for the header, `core` bytes of the command `C` (its structure and any array
    /// after it) and driver data; `resp` takes `resp_core` bytes of response, then driver data.
    ///
    /// # Errors
    /// EINVAL when a length does not fit the header or the kernel's unit (4 bytes, 8 in an
    /// extended command), or is less than the structures of `C`.
    // Inlined with its callees, so that the compiler evaluates most of a command whose lengths are
    // known.
    #[inline(always)]
    pub fn new<C: WriteCommand>(
        buf: &'a mut [u8],
        core: usize,
        resp: &'a mut [u8],
        resp_core: usize,
    ) -> Result<Self> {
        let front = C::HEADER.checked_add(core).ok_or(Errno::INVAL)?;
        let whole = front <= buf.len() && resp_core <= resp.len();
        if !whole || core < size_of::<C>() || resp_core < size_of::<C::Resp>() {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            buf,
            header: C::HEADER,
            front,
            resp,
            resp_front: resp_core,
            number: C::CODE,
        })
    }

    /// Command number, with the [`EXTENDED`](super::command::EXTENDED) bit where it is one.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its pieces.
    pub fn parts(&mut self) -> CommandBuffers<'_> {
        let (head, driver_in) = self.buf.split_at(self.front);
        let (core_out, driver_out) = self.resp.split_at_mut(self.resp_front);
        CommandBuffers {
            core_in: &head[self.header..],
            driver_in,
            core_out,
            driver_out,
        }
    }

    #[inline(always)]
    fn extended(&self) -> bool {
        self.header == EX_HEADER
    }

    /// Fills the header and shows the kernel where the response goes.
    #[inline(always)]
    fn address(&mut self) -> Result<()> {
        let at = if self.resp.is_empty() {
            0
        } else {
            self.resp.as_mut_ptr().expose_provenance() as u64
        };
        if self.extended() {
            return self.address_extended(at);
        }
        let hdr = ib_uverbs_cmd_hdr {
            command: self.number,
            in_words: units(self.buf.len(), 4)?,
            out_words: units(self.resp.len(), 4)?,
        };
        put(self.buf, 0, bytemuck::bytes_of(&hdr))?;
        if self.resp_front == 0 {
            return Ok(());
        }
        put(self.buf, self.header, &at.to_ne_bytes())
    }

    fn address_extended(&mut self, at: u64) -> Result<()> {
        let hdr = ib_uverbs_cmd_hdr {
            command: self.number,
            in_words: units(self.front - self.header, 8)?,
            out_words: units(self.resp_front, 8)?,
        };
        let ex = ib_uverbs_ex_cmd_hdr {
            response: at,
            provider_in_words: units(self.buf.len() - self.front, 8)?,
            provider_out_words: units(self.resp.len() - self.resp_front, 8)?,
            cmd_hdr_reserved: 0,
        };
        put(self.buf, 0, bytemuck::bytes_of(&hdr))?;
        put(self.buf, size_of_val(&hdr), bytemuck::bytes_of(&ex))?;
        // The kernel may answer less than there is room for.
        self.resp.fill(0);
        Ok(())
    }

    /// Writes the command. Interrupted by a signal, it is written again: the kernel undoes the work
    /// of a failed command.
    ///
    /// # Errors
    /// EINVAL for a length that exceeds the header's field, EIO when the kernel took only a part,
    /// otherwise the kernel's errno.
    #[inline(always)]
    pub fn send(&mut self, fd: BorrowedFd<'_>) -> Result<()> {
        self.address()?;
        let taken = driver_write::write_uninterrupted(fd, self.buf)?;
        if taken != self.buf.len() {
            return Err(Errno::IO);
        }
        Ok(())
    }
}

#[inline(always)]
fn put(buf: &mut [u8], at: usize, bytes: &[u8]) -> Result<()> {
    let place = buf.get_mut(at..).and_then(|b| b.get_mut(..bytes.len()));
    place.ok_or(Errno::INVAL)?.copy_from_slice(bytes);
    Ok(())
}

/// `len` in units of `unit` bytes.
#[inline(always)]
fn units(len: usize, unit: usize) -> Result<u16> {
    if !len.is_multiple_of(unit) {
        return Err(Errno::INVAL);
    }
    u16::try_from(len / unit).map_err(|_| Errno::INVAL)
}
