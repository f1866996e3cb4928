#![forbid(unsafe_code)]
//! Memory regions and memory windows.

use super::destroy::{Method, destroy};
use super::{Driver, Fallback, Ioctl, Kernel, Path, add_driver, run, try_ioctl, write};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::{
    ib_uverbs_alloc_mw, ib_uverbs_dealloc_mw, ib_uverbs_dereg_mr, ib_uverbs_reg_mr,
    ib_uverbs_reg_mr_resp, ib_uverbs_rereg_mr,
};
use crate::abi::{IBV_ACCESS_ON_DEMAND, IBV_REREG_MR_CHANGE_PD};
use crate::errno::{Errno, Result};
use crate::table::{SLOTS, later_slot, slot};

/// A registered region, as the kernel names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Handle of the object.
    pub handle: u32,
    /// Key for local use.
    pub lkey: u32,
    /// Key for remote use.
    pub rkey: u32,
}

impl From<ib_uverbs_reg_mr_resp> for Region {
    fn from(answer: ib_uverbs_reg_mr_resp) -> Self {
        Self {
            handle: answer.mr_handle,
            lkey: answer.lkey,
            rkey: answer.rkey,
        }
    }
}

/// The range and the rights of a region; the arguments of ibv_reg_mr_iova(3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cover {
    /// First byte.
    pub start: u64,
    /// Bytes. `u64::MAX` with on-demand paging is the whole address space.
    pub length: u64,
    /// Address by which the device knows the first byte.
    pub iova: u64,
    /// `IBV_ACCESS_*`.
    pub access: u32,
}

/// Registers memory in the protection domain `pd`.
///
/// # Errors
/// EINVAL for a whole address space that does not start at 0; else the kernel's own errno.
pub fn reg_mr<K: Kernel + ?Sized>(
    kernel: &K,
    pd: u32,
    cover: &Cover,
    driver: &mut Driver<'_>,
) -> Result<Region> {
    let whole = cover.access & IBV_ACCESS_ON_DEMAND != 0 && cover.length == u64::MAX;
    if whole && cover.start != 0 {
        return Err(Errno::INVAL);
    }
    let command = ib_uverbs_reg_mr {
        response: 0,
        start: cover.start,
        length: cover.length,
        hca_va: cover.iova,
        pd_handle: pd,
        access_flags: cover.access,
    };
    write(kernel, &command, driver).map(Region::from)
}

/// Changes the parts of the region `mr` that `flags` (`IBV_REREG_MR_CHANGE_*`) names; returns the
/// new keys.
///
/// # Errors
/// The kernel's own errno.
pub fn rereg_mr<K: Kernel + ?Sized>(
    kernel: &K,
    mr: u32,
    flags: u32,
    pd: Option<u32>,
    cover: &Cover,
    driver: &mut Driver<'_>,
) -> Result<Region> {
    let pd_handle = if flags & IBV_REREG_MR_CHANGE_PD == 0 {
        0
    } else {
        pd.ok_or(Errno::INVAL)?
    };
    let command = ib_uverbs_rereg_mr {
        response: 0,
        mr_handle: mr,
        flags,
        start: cover.start,
        length: cover.length,
        hca_va: cover.iova,
        pd_handle,
        access_flags: cover.access,
    };
    let answer = write(kernel, &command, driver)?;
    Ok(Region {
        handle: mr,
        lkey: answer.lkey,
        rkey: answer.rkey,
    })
}

/// Registers the memory behind a dma-buf descriptor; `cover.start` is the offset in it.
///
/// # Errors
/// EBADF for a negative descriptor, EPROTONOSUPPORT or EOPNOTSUPP where kernel or driver
/// cannot; else the kernel's own errno.
pub fn reg_dmabuf_mr<K: Kernel + ?Sized>(
    kernel: &K,
    pd: u32,
    cover: &Cover,
    fd: i32,
    driver: &mut Driver<'_>,
) -> Result<Region> {
    let mut made = Region::default();
    let mut call = Ioctl::new(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
    call.object_out(UVERBS_ATTR_REG_DMABUF_MR_HANDLE);
    call.value_out(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mut made.lkey);
    call.value_out(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mut made.rkey);
    call.object_in(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, pd);
    call.u64_in(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, cover.start);
    call.u64_in(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, cover.length);
    call.u64_in(UVERBS_ATTR_REG_DMABUF_MR_IOVA, cover.iova);
    // The kernel takes the descriptor as a number here and answers EBADF itself.
    call.u32_in(UVERBS_ATTR_REG_DMABUF_MR_FD, fd.cast_unsigned());
    call.u32_in(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, cover.access);
    add_driver(&mut call, driver);
    run(kernel, &mut call)?;
    let handle = call.object(UVERBS_ATTR_REG_DMABUF_MR_HANDLE)?;
    Ok(Region { handle, ..made })
}

/// Registers memory of the process or, with `fd`, the memory behind a dma-buf descriptor, where
/// `cover.start` is the offset in it. `dmah` is a handle of hints, by number.
///
/// # Errors
/// EINVAL for a whole address space that does not start at 0; EOPNOTSUPP where a kernel without
/// the method would need `fd` or `dmah`; else the kernel's own errno.
pub fn reg_mr_ex<K: Kernel + ?Sized>(
    kernel: &K,
    pd: u32,
    cover: &Cover,
    fd: Option<i32>,
    dmah: Option<u32>,
) -> Result<Region> {
    let whole = cover.access & IBV_ACCESS_ON_DEMAND != 0 && cover.length == u64::MAX;
    if fd.is_none() && whole && cover.start != 0 {
        return Err(Errno::INVAL);
    }
    let mut made = Region::default();
    let mut call = Ioctl::new(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR);
    match fd {
        None => call.u64_in(UVERBS_ATTR_REG_MR_ADDR, cover.start),
        Some(fd) => {
            call.u64_in(UVERBS_ATTR_REG_MR_FD_OFFSET, cover.start);
            call.fd_in(UVERBS_ATTR_REG_MR_FD, fd)
        }
    };
    call.u64_in(UVERBS_ATTR_REG_MR_IOVA, cover.iova);
    call.object_out(UVERBS_ATTR_REG_MR_HANDLE);
    call.value_out(UVERBS_ATTR_REG_MR_RESP_LKEY, &mut made.lkey);
    call.value_out(UVERBS_ATTR_REG_MR_RESP_RKEY, &mut made.rkey);
    call.object_in(UVERBS_ATTR_REG_MR_PD_HANDLE, pd);
    call.u64_in(UVERBS_ATTR_REG_MR_LENGTH, cover.length);
    call.u32_in(UVERBS_ATTR_REG_MR_ACCESS_FLAGS, cover.access);
    if let Some(dmah) = dmah {
        call.object_in(UVERBS_ATTR_REG_MR_DMA_HANDLE, dmah);
    }
    let fallback = match fd.is_none() && dmah.is_none() {
        true => Fallback::Write,
        false => Fallback::None,
    };
    // It has no slot in the table; those of later verbs are counted on from there.
    let slot = SLOTS + later_slot::reg_mr_ex;
    if try_ioctl(kernel, slot, &mut call, fallback)? == Path::Ioctl {
        let handle = call.object(UVERBS_ATTR_REG_MR_HANDLE)?;
        return Ok(Region { handle, ..made });
    }
    reg_mr(kernel, pd, cover, &mut Driver::none())
}

/// Keys and length in bytes of the region `mr`, which another process may have registered.
///
/// # Errors
/// The kernel's own errno; ENOENT for a handle that is no region.
pub fn query_mr<K: Kernel + ?Sized>(kernel: &K, mr: u32) -> Result<(Region, u64)> {
    let (mut lkey, mut rkey, mut length) = (0u32, 0u32, 0u64);
    let mut call = Ioctl::new(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
    call.object_in(UVERBS_ATTR_QUERY_MR_HANDLE, mr);
    call.value_out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, &mut lkey);
    call.value_out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, &mut rkey);
    call.value_out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &mut length);
    run(kernel, &mut call)?;
    let region = Region {
        handle: mr,
        lkey,
        rkey,
    };
    Ok((region, length))
}

/// Gives the kernel advice on ranges of registered memory: ibv_advise_mr(3). `ranges` is the
/// list as C has it, 16 bytes each.
///
/// # Errors
/// EINVAL for more than 65535 bytes of ranges; else the kernel's own errno.
pub fn advise_mr<K: Kernel + ?Sized>(
    kernel: &K,
    pd: u32,
    advice: u32,
    flags: u32,
    ranges: &[u8],
) -> Result<()> {
    let mut call = Ioctl::new(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR);
    call.object_in(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd);
    call.u64_in(UVERBS_ATTR_ADVISE_MR_ADVICE, advice.into());
    call.u32_in(UVERBS_ATTR_ADVISE_MR_FLAGS, flags);
    call.bytes_in(UVERBS_ATTR_ADVISE_MR_SGE_LIST, ranges);
    run(kernel, &mut call)
}

/// Ends a registration.
///
/// # Errors
/// The kernel's own errno, EBUSY while windows are bound to it.
pub fn dereg_mr<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    const METHOD: Method = Method {
        slot: slot::dereg_mr,
        object: UVERBS_OBJECT_MR,
        method: UVERBS_METHOD_MR_DESTROY,
        attr: UVERBS_ATTR_DESTROY_MR_HANDLE,
    };
    destroy(
        kernel,
        &METHOD,
        handle,
        &ib_uverbs_dereg_mr { mr_handle: handle },
    )
}

/// Makes a memory window of `mw_type` (`IBV_MW_TYPE_*`); returns handle and key.
///
/// # Errors
/// EINVAL for an unknown type; otherwise the kernel's errno.
pub fn alloc_mw<K: Kernel + ?Sized>(
    kernel: &K,
    pd: u32,
    mw_type: u32,
    driver: &mut Driver<'_>,
) -> Result<(u32, u32)> {
    let command = ib_uverbs_alloc_mw {
        response: 0,
        pd_handle: pd,
        mw_type: u8::try_from(mw_type).map_err(|_| Errno::INVAL)?,
        reserved: [0; 3],
    };
    write(kernel, &command, driver).map(|answer| (answer.mw_handle, answer.rkey))
}

/// Ends a memory window.
///
/// # Errors
/// The kernel's own errno.
pub fn dealloc_mw<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    const METHOD: Method = Method {
        slot: slot::dealloc_mw,
        object: UVERBS_OBJECT_MW,
        method: UVERBS_METHOD_MW_DESTROY,
        attr: UVERBS_ATTR_DESTROY_MW_HANDLE,
    };
    destroy(
        kernel,
        &METHOD,
        handle,
        &ib_uverbs_dealloc_mw { mw_handle: handle },
    )
}
