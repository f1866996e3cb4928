//! Open devices.
#![forbid(unsafe_code)]

use std::{
    fmt,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    sync::Arc,
};

use kit::abi::{
    IBV_GID_TYPE_ROCE_V2, IBV_LINK_LAYER_ETHERNET, ibv_device_attr, ibv_device_attr_ex,
    ibv_event_type, ibv_gid_entry, ibv_port_attr,
};

use crate::{
    completion::{CompletionChannel, CompletionQueue, CompletionQueueBuilder},
    device_memory::DeviceMemory,
    domain::ProtectionDomain,
    error::{Error, Result},
    sys::{calls, extended},
    xrc::XrcDomain,
};

/// An open device. Copies are the same one; it is closed with the last copy and the last object
/// that was made with it.
#[derive(Clone)]
pub struct Context(Arc<calls::Device>);

impl Context {
    pub(crate) fn new(device: calls::Device) -> Self {
        Self(Arc::new(device))
    }

    pub(crate) fn object(&self) -> &calls::Device {
        &self.0
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        // The devices of ids have several objects, none of which closes them.
        self.0.as_ptr() == other.0.as_ptr()
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    /// Of ibv_alloc_pd(3).
    pub fn protection_domain(&self) -> Result<ProtectionDomain> {
        ProtectionDomain::new(self)
    }

    /// Makes an XRC domain.
    ///
    /// # Errors
    /// Of ibv_open_xrcd(3): EOPNOTSUPP if the device has no XRC.
    pub fn xrc_domain(&self) -> Result<XrcDomain> {
        XrcDomain::new(self, None)
    }

    /// Opens the XRC domain of a file, which processes share.
    ///
    /// # Errors
    /// Of ibv_open_xrcd(3): EOPNOTSUPP if the device has no XRC.
    pub fn xrc_domain_of(&self, file: BorrowedFd<'_>) -> Result<XrcDomain> {
        XrcDomain::new(self, Some(file))
    }

    /// Makes a completion queue for at least that many completions: those of all requests that its
    /// queue pairs may have in flight ([`QueuePairBuilder`](crate::QueuePairBuilder)).
    ///
    /// # Errors
    /// Of ibv_create_cq(3).
    pub fn completion_queue(&self, entries: u32) -> Result<CompletionQueue> {
        CompletionQueue::new(self, entries, None)
    }

    /// Begins an extended completion queue, whose completions report more, for example times.
    ///
    /// ```
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// let cq = context.completion_queue_builder(64).wall_clock().build()?;
    /// # let (a, b) = (pd.reliable(&cq).build()?, pd.reliable(&cq).build()?);
    /// # let (at_a, at_b) = (a.endpoint(), b.endpoint());
    /// # let (qp, b) = (a.connect(&at_b)?, b.connect(&at_a)?);
    /// # b.post_receive(verbs::ReceiveRequest::new(pd.buffer(8)?))?;
    /// qp.post(verbs::SendRequest::send(pd.buffer(8)?))?;
    /// for completion in cq.wait()? {
    ///     assert!(completion.success()?.wall_clock().is_some());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn completion_queue_builder(&self, entries: u32) -> CompletionQueueBuilder {
        CompletionQueueBuilder::new(self, entries)
    }

    /// Makes a completion channel, for completion queues that report events.
    ///
    /// # Errors
    /// Of ibv_create_comp_channel(3).
    pub fn completion_channel(&self) -> Result<CompletionChannel> {
        CompletionChannel::new(self)
    }

    /// Allocates memory of the device, at an address that is a multiple of two to this power.
    ///
    /// # Errors
    /// Of ibv_alloc_dm(3): EOPNOTSUPP if the device has no memory for programs, EINVAL or
    /// ENOMEM if it has not that much.
    pub fn device_memory(&self, length: usize, log_align: u32) -> Result<DeviceMemory> {
        DeviceMemory::new(self, length, log_align)
    }

    /// What the device can do.
    ///
    /// # Errors
    /// Of ibv_query_device(3).
    pub fn attributes(&self) -> Result<ibv_device_attr> {
        calls::query_device(&self.0)
    }

    /// The same, with attributes that were added later: clocks, on-demand paging, and others.
    ///
    /// # Errors
    /// Of ibv_query_device_ex(3): EOPNOTSUPP if the device has no such verb.
    pub fn extended_attributes(&self) -> Result<ibv_device_attr_ex> {
        extended::query_device(&self.0)
    }

    /// The device's clock, in the unit of [`Completion::timestamp`](crate::Completion::timestamp).
    ///
    /// ```
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// let (before, after) = (context.clock()?, context.clock()?);
    /// assert!(before <= after);
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_query_rt_values_ex(3): EOPNOTSUPP if its clock cannot be read.
    pub fn clock(&self) -> Result<u64> {
        extended::clock(&self.0)
    }

    /// All GIDs of all ports, with their types and network interfaces.
    ///
    /// # Errors
    /// Of ibv_query_gid_table(3), ibv_query_port(3).
    pub fn gids(&self) -> Result<Vec<ibv_gid_entry>> {
        extended::query_gids(&self.0)
    }

    /// The state of a port; the first is 1.
    ///
    /// # Errors
    /// Of ibv_query_port(3).
    pub fn port(&self, port: u8) -> Result<ibv_port_attr> {
        calls::query_port(&self.0, port)
    }

    /// A GID of a port.
    ///
    /// # Errors
    /// Of ibv_query_gid_ex(3): ENODATA for an empty place.
    pub fn gid(&self, port: u8, index: u8) -> Result<[u8; 16]> {
        Ok(calls::query_gid(&self.0, port, u32::from(index))?.0)
    }

    /// A partition key of a port. That of a queue pair is chosen by its index
    /// ([`QueuePairBuilder::pkey_index`](crate::QueuePairBuilder::pkey_index)).
    ///
    /// ```
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// let key = context.pkey(1, 0)?;
    /// assert_eq!(context.pkey_index(1, key)?, 0);
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_query_pkey(3): EINVAL past the end of the table.
    pub fn pkey(&self, port: u8, index: u16) -> Result<u16> {
        calls::query_pkey(&self.0, port, index)
    }

    /// The first index of a partition key.
    ///
    /// # Errors
    /// Of ibv_get_pkey_index(3): the errno of ibv_query_pkey(3) for the first index past the table
    /// if the port does not have the key.
    pub fn pkey_index(&self, port: u8, pkey: u16) -> Result<u16> {
        calls::pkey_index(&self.0, port, pkey)
    }

    /// The index of the GID that connections of a port use if they name none: the first of RoCE v2
    /// on Ethernet, else the first.
    ///
    /// # Errors
    /// Of ibv_query_port(3); ENODATA if an Ethernet port has no GID of RoCE v2, as those of
    /// soft-iWARP.
    pub fn gid_index(&self, port: u8) -> Result<u8> {
        let attr = self.port(port)?;
        if u32::from(attr.link_layer) != IBV_LINK_LAYER_ETHERNET {
            return Ok(0);
        }
        let places = 0..u8::try_from(attr.gid_tbl_len).unwrap_or(u8::MAX);
        let mut usable = places.filter(|index| {
            let entry = calls::query_gid(&self.0, port, u32::from(*index));
            entry.is_ok_and(|(_, kind)| kind == IBV_GID_TYPE_ROCE_V2)
        });
        let none = Error::new("ibv_query_gid_ex", libc::ENODATA);
        usable.next().ok_or(none)
    }

    /// Waits for an asynchronous event and acknowledges it. The descriptor ([`AsRawFd`]) is
    /// readable when there is one.
    ///
    /// # Errors
    /// Of ibv_get_async_event(3).
    pub fn async_event(&self) -> Result<AsyncEvent> {
        let (kind, port) = calls::async_event(&self.0)?;
        Ok(AsyncEvent { kind, port })
    }
}

impl AsRawFd for Context {
    /// The descriptor of asynchronous events.
    fn as_raw_fd(&self) -> RawFd {
        calls::async_fd(&self.0)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Context");
        shown.field("async_fd", &self.as_raw_fd());
        shown.finish_non_exhaustive()
    }
}

/// An asynchronous event of an open device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    kind: ibv_event_type,
    port: i32,
}

impl AsyncEvent {
    /// Its number: `enum ibv_event_type`, [`abi`](crate::abi)`::IBV_EVENT_*`.
    #[must_use]
    pub fn kind(&self) -> ibv_event_type {
        self.kind
    }

    /// The port, if it is an event of a port.
    #[must_use]
    pub fn port(&self) -> Option<u8> {
        use kit::abi::*;
        let of_port = matches!(
            self.kind,
            IBV_EVENT_PORT_ACTIVE
                | IBV_EVENT_PORT_ERR
                | IBV_EVENT_LID_CHANGE
                | IBV_EVENT_PKEY_CHANGE
                | IBV_EVENT_SM_CHANGE
                | IBV_EVENT_CLIENT_REREGISTER
                | IBV_EVENT_GID_CHANGE
                | IBV_EVENT_DEVICE_SPEED_CHANGE
        );
        u8::try_from(self.port).ok().filter(|_| of_port)
    }
}

impl fmt::Display for AsyncEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&calls::event_text(self.kind))
    }
}
