//! An open device, and its queries.

use std::{io, mem, os::fd::RawFd, ptr, ptr::NonNull, rc::Rc};

use bytemuck::Zeroable;
use kit::abi::{
    ibv_async_event, ibv_async_event_element, ibv_context, ibv_device_attr_ex, ibv_event_type,
    ibv_gid, ibv_gid_entry, ibv_gid_type, ibv_port_attr, verbs_context,
};

use crate::tools::{
    handle::{Handle, status},
    raw,
    text::text,
};

/// An open device. Copies are the same one; it is closed with the last copy and the last object
/// made with it.
#[derive(Clone)]
pub struct Context(pub(crate) Rc<Handle<ibv_context>>);

/// A verb of the extended context, as the inline functions of verbs.h find it: the context states
/// that it has one, and its size.
macro_rules! extended {
    ($context:expr, $verb:ident) => {{
        use ::std::mem;
        use $crate::abi::verbs_context;
        let behind = mem::size_of::<verbs_context>() - mem::offset_of!(verbs_context, $verb);
        match $context.extended() {
            // SAFETY: the context is an extended one, and has this member if it is so large.
            Some(at) => unsafe {
                if (*at).sz >= behind {
                    (*at).$verb
                } else {
                    None
                }
            },
            None => None,
        }
        .ok_or_else(|| std::io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }};
}
pub(crate) use extended;

impl Context {
    pub(crate) fn new(at: NonNull<ibv_context>) -> Self {
        // SAFETY: called with the result of ibv_open_device.
        Self(Rc::new(unsafe { Handle::new(at, raw::ibv_close_device) }))
    }

    pub(crate) fn as_ptr(&self) -> *mut ibv_context {
        self.0.as_ptr()
    }

    /// The extended context around this one, which old libraries do not make.
    pub(crate) fn extended(&self) -> Option<*mut verbs_context> {
        let at = self.as_ptr();
        // SAFETY: the context is open. The mark shows that it lies inside an extended one.
        unsafe {
            let marked = (*at).abi_compat.addr() == usize::MAX;
            let around = at.byte_sub(mem::offset_of!(verbs_context, context));
            marked.then(|| around.cast())
        }
    }

    /// Closes the device.
    ///
    /// # Errors
    /// EBUSY if an object or a copy is left, else the errno of ibv_close_device(3).
    pub fn close(self) -> io::Result<()> {
        sole(self.0)?.destroy()
    }

    /// The descriptor of asynchronous events.
    #[must_use]
    pub fn async_fd(&self) -> RawFd {
        // SAFETY: the context is open.
        unsafe { (*self.as_ptr()).async_fd }
    }

    /// How many completion vectors there are.
    #[must_use]
    pub fn completion_vectors(&self) -> i32 {
        // SAFETY: the context is open.
        unsafe { (*self.as_ptr()).num_comp_vectors }
    }

    /// ibv_query_device_ex(3).
    ///
    /// # Errors
    /// Its errno.
    pub fn query_device(&self) -> io::Result<ibv_device_attr_ex> {
        let mut attr = ibv_device_attr_ex::zeroed();
        let verb = extended!(self, query_device_ex);
        let first = match verb {
            // SAFETY: there is no input; the size bounds the output.
            Ok(query) => unsafe {
                let size = mem::size_of_val(&attr);
                status(query(self.as_ptr(), ptr::null(), &raw mut attr, size))
            },
            Err(none) => Err(none),
        };
        match first {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                // SAFETY: the structure may be written.
                status(unsafe { raw::ibv_query_device(self.as_ptr(), &raw mut attr.orig_attr) })?;
            }
            other => other?,
        }
        Ok(attr)
    }

    /// ibv_query_port(3).
    ///
    /// # Errors
    /// Its errno.
    pub fn query_port(&self, port: u8) -> io::Result<ibv_port_attr> {
        let mut attr = ibv_port_attr::zeroed();
        let at = &raw mut attr;
        status(match extended!(self, query_port) {
            // SAFETY: the size bounds the output.
            Ok(query) => unsafe { query(self.as_ptr(), port, at, mem::size_of_val(&attr)) },
            // SAFETY: the exported function writes less than the structure has.
            Err(_) => unsafe { raw::ibv_query_port(self.as_ptr(), port, at.cast()) },
        })?;
        Ok(attr)
    }

    /// ibv_query_gid(3).
    ///
    /// # Errors
    /// Its errno.
    pub fn query_gid(&self, port: u8, index: i32) -> io::Result<ibv_gid> {
        let mut gid = ibv_gid::zeroed();
        // SAFETY: the GID may be written.
        status(unsafe { raw::ibv_query_gid(self.as_ptr(), port, index, &raw mut gid) })?;
        Ok(gid)
    }

    /// ibv_query_gid_ex(3).
    ///
    /// # Errors
    /// Its errno; ENODATA for a place without a GID.
    pub fn query_gid_entry(&self, port: u32, index: u32) -> io::Result<GidEntry> {
        let mut entry = NO_ENTRY;
        let size = mem::size_of_val(&entry);
        let at = &raw mut entry;
        // SAFETY: the size bounds the output.
        status(unsafe { raw::_ibv_query_gid_ex(self.as_ptr(), port, index, at, 0, size) })?;
        Ok(GidEntry::from(&entry))
    }

    /// ibv_query_gid_table(3): all places with a GID, of all ports; at most `max`.
    ///
    /// # Errors
    /// Its errno; EINVAL if there are more.
    pub fn query_gid_table(&self, max: usize) -> io::Result<Vec<GidEntry>> {
        let mut entries = vec![NO_ENTRY; max];
        let size = mem::size_of::<ibv_gid_entry>();
        let at = entries.as_mut_ptr();
        // SAFETY: the table has `max` entries of this size.
        let found = unsafe { raw::_ibv_query_gid_table(self.as_ptr(), at, max, 0, size) };
        // A count, or an errno below zero.
        let found = usize::try_from(found).map_err(|_| {
            let errno = i32::try_from(found.unsigned_abs()).unwrap_or(libc::EOVERFLOW);
            io::Error::from_raw_os_error(errno)
        })?;
        Ok(entries.iter().take(found).map(GidEntry::from).collect())
    }

    /// Waits for an asynchronous event and acknowledges it: its type, and the port, which the
    /// events of ports have.
    ///
    /// # Errors
    /// The errno of ibv_get_async_event(3).
    pub fn async_event(&self) -> io::Result<(ibv_event_type, i32)> {
        let mut event = ibv_async_event {
            element: ibv_async_event_element {
                cq: ptr::null_mut(),
            },
            event_type: 0,
        };
        // SAFETY: the event may be written, and is acknowledged once.
        unsafe {
            status(raw::ibv_get_async_event(self.as_ptr(), &raw mut event))?;
            let port = event.element.port_num;
            raw::ibv_ack_async_event(&raw mut event);
            Ok((event.event_type, port))
        }
    }
}

/// A place of the GID table with a GID.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GidEntry {
    /// From 1.
    pub port: u32,
    /// The place in the port's table, from 0.
    pub index: u32,
    /// In network order.
    pub gid: [u8; 16],
    /// `enum ibv_gid_type`.
    pub gid_type: ibv_gid_type,
    /// The index of the network interface, 0 for none.
    pub interface: u32,
}

const NO_ENTRY: ibv_gid_entry = ibv_gid_entry {
    gid: ibv_gid { raw: [0; 16] },
    gid_index: 0,
    port_num: 0,
    gid_type: 0,
    ndev_ifindex: 0,
};

impl From<&ibv_gid_entry> for GidEntry {
    fn from(entry: &ibv_gid_entry) -> Self {
        Self {
            port: entry.port_num,
            index: entry.gid_index,
            gid: entry.gid.bytes(),
            gid_type: entry.gid_type,
            interface: entry.ndev_ifindex,
        }
    }
}

/// The one owner.
pub(crate) fn sole<T>(shared: Rc<T>) -> io::Result<T> {
    Rc::try_unwrap(shared).map_err(|_| io::Error::from_raw_os_error(libc::EBUSY))
}

/// The text of a member of characters.
#[must_use]
pub fn firmware(attr: &ibv_device_attr_ex) -> String {
    text(&attr.orig_attr.fw_ver)
}
