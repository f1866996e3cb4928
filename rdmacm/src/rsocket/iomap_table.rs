#![forbid(unsafe_code)]
//! The memory of a connection that the peer may write by offset.

use crate::verbs::Mr;
use kit::errno::{Errno, Result};
use rsocket_protocol::{IomapEntry, Sge};

/// A mapping, with its index in the peer's table if the peer may write to it.
struct Mapping {
    index: Option<u16>,
    address: usize,
    length: usize,
    entry: IomapEntry,
    /// Whether the peer has the entry.
    written: bool,
    /// Dropped with the mapping: from then on the peer's writes fail.
    _mr: Mr,
}

/// The mappings of a connection.
#[derive(Default)]
pub struct Iomaps(Vec<Mapping>);

impl Iomaps {
    /// A free index of the peer's table.
    ///
    /// # Errors
    /// ENOMEM if the table is full.
    pub fn free_place(&self, size: u16) -> Result<u16> {
        let is_free = |index: &u16| self.0.iter().all(|mapping| mapping.index != Some(*index));
        (0..size).find(is_free).ok_or(Errno::NOMEM)
    }

    /// Adds a mapping; its entry is sent to the peer later.
    ///
    /// # Errors
    /// EINVAL for 4 GiB or more.
    pub fn add(
        &mut self,
        index: Option<u16>,
        (address, length): (usize, usize),
        offset: u64,
        mr: Mr,
    ) -> Result<()> {
        let entry = IomapEntry {
            offset,
            memory: Sge {
                address: address as u64,
                key: mr.remote_key(),
                length: u32::try_from(length).map_err(|_| Errno::INVAL)?,
            },
        };
        self.0.push(Mapping {
            index,
            address,
            length,
            entry,
            written: index.is_none(),
            _mr: mr,
        });
        Ok(())
    }

    /// Removes the mapping of this memory.
    ///
    /// # Errors
    /// EINVAL if there is no such mapping.
    pub fn remove(&mut self, address: usize, length: usize) -> Result<()> {
        let is_it = |mapping: &Mapping| (mapping.address, mapping.length) == (address, length);
        let at = self.0.iter().position(is_it).ok_or(Errno::INVAL)?;
        self.0.remove(at);
        Ok(())
    }

    /// An entry that the peer does not have yet.
    pub fn pending(&self) -> Option<(u16, IomapEntry)> {
        let mapping = self.0.iter().find(|mapping| !mapping.written)?;
        Some((mapping.index?, mapping.entry))
    }

    pub fn written(&mut self, index: u16) {
        for mapping in self
            .0
            .iter_mut()
            .filter(|mapping| mapping.index == Some(index))
        {
            mapping.written = true;
        }
    }
}
