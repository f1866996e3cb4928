#![forbid(unsafe_code)]
//! Driver data: bytes that a provider exchanges with its driver besides the command proper
//! (`UVERBS_ATTR_UHW_IN` and `_OUT` of `rdma/ib_user_ioctl_cmds.h`).

use crate::errno::{Errno, Result};
use crate::sys::{command::WriteCommand, link::Link};
use core::mem::size_of;

/// The data that a provider passes with a command.
///
/// Either two buffers as the write interface has them, each with room in front for the
/// kernel's header and structure and the driver's data behind; or a chain of attributes.
pub struct Driver<'a> {
    pub(super) cmd: Side<'a>,
    pub(super) resp: Side<'a>,
    link: Option<Link<'a>>,
}

/// One buffer: room in front, driver data from `front` on.
pub(super) struct Side<'a> {
    buf: &'a mut [u8],
    front: usize,
}

impl<'a> Side<'a> {
    fn none() -> Self {
        Self {
            buf: &mut [],
            front: 0,
        }
    }

    fn new(buf: &'a mut [u8], front: usize) -> Result<Self> {
        if buf.is_empty() {
            return Ok(Self::none());
        }
        if buf.len() < front {
            return Err(Errno::INVAL);
        }
        Ok(Self { buf, front })
    }

    fn data(&self) -> &[u8] {
        self.buf.get(self.front..).unwrap_or_default()
    }

    fn data_mut(&mut self) -> &mut [u8] {
        self.buf.get_mut(self.front..).unwrap_or_default()
    }

    /// `front` bytes followed by the driver data: in the provider's buffer if that has the room,
    /// otherwise in `own`, which then has to be given [back](Side::take_back).
    pub(super) fn with_front<'s>(
        &'s mut self,
        front: usize,
        own: &'s mut Own,
    ) -> Result<&'s mut [u8]> {
        if front <= self.front {
            let from = self.front - front;
            return self.buf.get_mut(from..).ok_or(Errno::INVAL);
        }
        let len = front.checked_add(self.data().len()).ok_or(Errno::NOMEM)?;
        let buf = own.take(len)?;
        let behind = buf.get_mut(front..).ok_or(Errno::INVAL)?;
        behind.copy_from_slice(self.data());
        Ok(buf)
    }

    /// Shows a structure to the provider, where its buffer has the room: the last bytes in front
    /// of its data.
    pub(super) fn show(&mut self, structure: &[u8]) {
        let Some(from) = self.front.checked_sub(structure.len()) else {
            return;
        };
        if let Some(place) = self.buf.get_mut(from..self.front) {
            place.copy_from_slice(structure);
        }
    }

    /// Copies driver data out of `own`, if it stood there.
    pub(super) fn take_back(&mut self, front: usize, own: &Own) {
        if front <= self.front {
            return;
        }
        let data = self.data_mut();
        if let Some(answered) = own.get().get(front..front + data.len()) {
            data.copy_from_slice(answered);
        }
    }
}

/// Memory of the library, for commands whose provider passes no buffer or too small a one.
pub(super) struct Own {
    small: Option<[u64; Own::SMALL / 8]>,
    large: Vec<u8>,
}

impl Own {
    /// Header and structure of every command and response of fixed length fit in this.
    const SMALL: usize = 320;

    pub(super) fn new() -> Self {
        Self {
            small: None,
            large: Vec::new(),
        }
    }

    fn take(&mut self, len: usize) -> Result<&mut [u8]> {
        if len <= Self::SMALL {
            let small = self.small.insert([0; Self::SMALL / 8]);
            let small: &mut [u8] = bytemuck::cast_slice_mut(small);
            return small.get_mut(..len).ok_or(Errno::INVAL);
        }
        self.large
            .try_reserve_exact(len)
            .map_err(|_| Errno::NOMEM)?;
        self.large.resize(len, 0);
        Ok(&mut self.large)
    }

    pub(super) fn get(&self) -> &[u8] {
        match &self.small {
            Some(small) => bytemuck::cast_slice(small),
            None => &self.large,
        }
    }
}

impl<'a> Driver<'a> {
    /// No driver data.
    pub fn none() -> Self {
        Self {
            cmd: Side::none(),
            resp: Side::none(),
            link: None,
        }
    }

    /// The buffers of command `C` as a provider passes them; an empty slice means no buffer.
    ///
    /// # Errors
    /// EINVAL when a buffer is too short for the structures of `C`.
    pub fn buffers<C: WriteCommand>(cmd: &'a mut [u8], resp: &'a mut [u8]) -> Result<Self> {
        Ok(Self {
            cmd: Side::new(cmd, C::FRONT)?,
            resp: Side::new(resp, size_of::<C::Resp>())?,
            link: None,
        })
    }

    /// Only driver data, for a command whose structure the provider does not lay out.
    pub fn data(cmd: &'a mut [u8]) -> Self {
        Self {
            cmd: Side { buf: cmd, front: 0 },
            ..Self::none()
        }
    }

    /// Room for the kernel's driver data, for a command whose response the provider does not lay
    /// out.
    pub fn response(resp: &'a mut [u8]) -> Self {
        Self {
            resp: Side {
                buf: resp,
                front: 0,
            },
            ..Self::none()
        }
    }

    /// Driver data and room for the answer, as of [`Self::data`] and [`Self::response`].
    pub fn both(cmd: &'a mut [u8], resp: &'a mut [u8]) -> Self {
        Self {
            cmd: Side { buf: cmd, front: 0 },
            ..Self::response(resp)
        }
    }

    /// Attributes of the provider's own.
    pub fn linked(link: Option<Link<'a>>) -> Self {
        Self {
            link,
            ..Self::none()
        }
    }

    /// The same with attributes of the provider's own besides.
    pub fn and_linked(self, link: Option<Link<'a>>) -> Self {
        Self { link, ..self }
    }

    /// Data for the kernel's driver, room for its answer, and linked attributes.
    pub(super) fn pieces(&mut self) -> (&[u8], &mut [u8], Option<Link<'a>>) {
        (self.cmd.data(), self.resp.data_mut(), self.link)
    }
}
