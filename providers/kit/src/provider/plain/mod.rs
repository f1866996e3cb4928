#![forbid(unsafe_code)]
//! Objects of drivers that need only the kernel's common commands: these functions send such a
//! command for a shim's request, and convert the common parts of the response.

mod qp;

pub use qp::PlainQp;

use super::{Commands, CqInit, Keys, Numbered, Polled, Provider, ReportedEvents, SrqInit};
use crate::abi::kernel::{ib_uverbs_ex_query_device_resp, ib_uverbs_modify_srq};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::sys::application::ApplicationMemory;
use crate::uverbs::{Driver, cq, device, mr, pd, srq};
use bytemuck::{Zeroable, bytes_of_mut};
use core::ffi::c_char;
use std::os::fd::AsRawFd;

/// Queries the device's features. The version of its firmware is shown as three numbers of 16 bits.
///
/// # Errors
/// The kernel's own errno.
pub fn query_device(kernel: &Commands, attr: &mut ibv_device_attr_ex) -> Result<()> {
    let mut reported = ib_uverbs_ex_query_device_resp::zeroed();
    let wanted = size_of_val(attr);
    device::query_device(kernel, wanted, attr, 0, bytes_of_mut(&mut reported))?;
    let text = firmware(reported.base.fw_ver);
    for (place, byte) in attr.orig_attr.fw_ver.iter_mut().zip(text.bytes()) {
        *place = c_char::from_ne_bytes([byte]);
    }
    Ok(())
}

fn firmware(version: u64) -> String {
    let part = |shift: u32| version >> shift & 0xffff;
    format!("{}.{}.{}", part(32), part(16), part(0))
}

/// A protection domain of which the provider keeps the kernel's number alone.
pub struct PlainPd {
    /// Its number in the kernel.
    pub handle: u32,
}

impl PlainPd {
    /// Makes it in the kernel.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn alloc(kernel: &Commands) -> Result<Self> {
        let handle = pd::alloc_pd(kernel, &mut Driver::none())?;
        Ok(Self { handle })
    }

    /// Ends it in the kernel.
    ///
    /// # Errors
    /// The kernel's own errno, EBUSY while objects use it.
    pub fn dealloc(&self, kernel: &Commands) -> Result<()> {
        pd::dealloc_pd(kernel, self.handle)
    }
}

/// The range and the rights of a region.
///
/// # Errors
/// EINVAL for memory that 64 bits do not address.
pub fn cover(memory: &ApplicationMemory, iova: u64, access: u32) -> Result<mr::Cover> {
    let number = |n: usize| u64::try_from(n).map_err(|_| Errno::INVAL);
    Ok(mr::Cover {
        start: number(memory.address())?,
        length: number(memory.length())?,
        iova,
        access,
    })
}

impl From<&mr::Region> for Keys {
    fn from(region: &mr::Region) -> Self {
        Self {
            lkey: region.lkey,
            rkey: region.rkey,
        }
    }
}

impl From<ibv_wc> for Polled {
    /// A completion of a device without time stamps.
    #[inline]
    fn from(wc: ibv_wc) -> Self {
        Self {
            wc,
            timestamp: 0,
            wallclock: 0,
        }
    }
}

/// Ends a completion queue in the kernel. A device that is gone has reported no events.
///
/// # Errors
/// The kernel's own errno.
pub fn destroy_cq(kernel: &Commands, handle: u32) -> Result<ReportedEvents> {
    let (completion, asynchronous) = cq::destroy_cq(kernel, handle)?.unwrap_or_default();
    Ok(ReportedEvents {
        completion,
        asynchronous,
    })
}

impl CqInit<'_> {
    /// The command that makes the queue; `flags` are `IB_UVERBS_CQ_FLAGS_*`.
    ///
    /// # Errors
    /// EOPNOTSUPP for time stamps, which a plain device does not have.
    pub fn plain(&self, kernel: &Commands, flags: u32) -> Result<cq::NewCq> {
        const STAMPS: u64 = (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
            | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) as u64;
        if self.readers.unwrap_or(0) & STAMPS != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(cq::NewCq {
            user_handle: self.token.0,
            cqe: self.entries,
            channel: self.channel.map(|fd| fd.as_raw_fd()),
            comp_vector: self.vector,
            flags,
            stamps_anyway: false,
            async_fd: kernel.async_fd(),
        })
    }
}

impl<P: Provider> SrqInit<'_, P> {
    /// Makes the queue in the kernel, and hands its sizes back to the application.
    ///
    /// # Errors
    /// EOPNOTSUPP for XRC; the kernel's own errno.
    pub fn make_plain(
        &mut self,
        provider: &P,
        kernel: &Commands,
        driver: &mut Driver<'_>,
    ) -> Result<srq::CreatedSrq> {
        if self.xrc.is_some() {
            return Err(Errno::OPNOTSUPP);
        }
        let new = srq::NewSrq {
            user_handle: self.token.0,
            pd: number(provider, Numbered::Pd(&**self.pd))?,
            max_wr: self.attr.max_wr,
            max_sge: self.attr.max_sge,
            srq_limit: self.attr.srq_limit,
            kind: srq::SrqKind::Basic,
            async_fd: kernel.async_fd(),
        };
        let made = srq::create_srq(kernel, &new, driver)?;
        self.attr.max_wr = made.max_wr;
        self.attr.max_sge = made.max_sge;
        Ok(made)
    }
}

/// # Errors
/// EINVAL for an object that the kernel has not.
fn number<P: Provider>(provider: &P, object: Numbered<'_, P>) -> Result<u32> {
    provider.number(object).ok_or(Errno::INVAL)
}

/// Changes a shared receive queue's size or limit.
///
/// # Errors
/// The kernel's own errno.
pub fn modify_srq(
    kernel: &Commands,
    handle: u32,
    attr: &ibv_srq_attr,
    mask: u32,
    driver: &mut Driver<'_>,
) -> Result<()> {
    let command = ib_uverbs_modify_srq {
        srq_handle: handle,
        attr_mask: mask,
        max_wr: attr.max_wr,
        srq_limit: attr.srq_limit,
    };
    srq::modify_srq(kernel, &command, driver)
}

/// Asks for a shared receive queue's size and limit.
///
/// # Errors
/// The kernel's own errno.
pub fn query_srq(kernel: &Commands, handle: u32) -> Result<ibv_srq_attr> {
    let reported = srq::query_srq(kernel, handle, &mut Driver::none())?;
    Ok(ibv_srq_attr {
        max_wr: reported.max_wr,
        max_sge: reported.max_sge,
        srq_limit: reported.srq_limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_firmware_is_three_numbers() {
        assert_eq!(firmware(0x0012_0000_ffff), "18.0.65535");
        assert_eq!(firmware(0), "0.0.0");
    }
}
