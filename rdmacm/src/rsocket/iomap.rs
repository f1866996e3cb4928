#![forbid(unsafe_code)]
//! Memory that the peer may write by offset: riomap, riowrite.

use super::connection::Connection;
use super::socket::Attempt;
use super::stream::{Phase, StreamState};
use crate::abi::Buffers;
use kit::errno::{Errno, Result};

impl StreamState {
    /// Maps memory of the program, for writes of the peer by the offset; without permission to
    /// write, the memory is only registered.
    ///
    /// # Errors
    /// EINVAL for a socket without a connection; ENOMEM if the peer's table is full; those of
    /// ibv_reg_mr(3).
    pub fn map(&mut self, memory: (usize, usize), is_written: bool, offset: i64) -> Result<i64> {
        let Phase::Connected(connection) = &mut self.phase else {
            return Err(Errno::INVAL);
        };
        let (address, length) = memory;
        let size = connection.stream.peer_iomap();
        let place = if is_written {
            Some(connection.iomaps.free_place(size)?)
        } else {
            None
        };
        let offset = if is_written && offset == -1 {
            i64::try_from(address).map_err(|_| Errno::INVAL)?
        } else {
            offset
        };
        let mr = connection.endpoint.register(address, length, is_written)?;
        connection
            .iomaps
            .add(place, memory, offset.cast_unsigned(), mr)?;
        Ok(offset)
    }

    /// Ends a mapping.
    ///
    /// # Errors
    /// EINVAL for memory that is not mapped.
    pub fn unmap(&mut self, address: usize, length: usize) -> Result<()> {
        let Phase::Connected(connection) = &mut self.phase else {
            return Err(Errno::INVAL);
        };
        connection.iomaps.remove(address, length)
    }
}

impl Connection {
    /// Writes to the peer's memory by offset, after the `done` bytes of earlier attempts.
    pub fn write_mapped(
        &mut self,
        from: &Buffers,
        offset: u64,
        done: &mut usize,
    ) -> Attempt<usize> {
        while *done < from.total() {
            let at = offset.wrapping_add(*done as u64);
            let left = from.total() - *done;
            let entries = (0..self.endpoint.iomap_size()).map(|n| self.endpoint.iomap_entry(n));
            let found = entries.filter_map(|entry| entry.within(at, left)).next();
            let Some((memory, _)) = found else {
                return match *done {
                    0 => Attempt::Done(Err(Errno::INVAL)),
                    done => Attempt::Done(Ok(done)),
                };
            };
            let write = match self.stream.write_mapped(memory) {
                Some(write) => Some(write),
                None if self.process() => self.stream.write_mapped(memory),
                None => None,
            };
            let Some(write) = write else {
                if self.stream.is_writable() {
                    return Attempt::Wait;
                }
                return Attempt::Done(Err(Errno(libc::ECONNRESET)));
            };
            self.post(&write, Some((from, *done)));
            *done += usize::try_from(write.target.length).unwrap_or(0);
        }
        Attempt::Done(Ok(*done))
    }
}
