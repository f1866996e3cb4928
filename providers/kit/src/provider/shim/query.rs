//! Queries of the device: ibv_query_device_ex(3), ibv_query_port(3), ibv_query_rt_values_ex(3).

use super::answer::code;
use super::context::Context;
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::Provider;
use bytemuck::Zeroable;
use core::ffi::c_int;
use core::ptr::copy_nonoverlapping;

/// `size` is that of the caller's structure, which may be older or newer than this one.
pub(super) unsafe extern "C" fn query_device_ex<P: Provider>(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    // SAFETY: the library passes an open context, an input or NULL, and room for `size` bytes.
    code(unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            if input.as_ref().is_some_and(|input| input.comp_mask != 0) {
                return Err(Errno::INVAL);
            }
            if attr.is_null() || size < size_of::<ibv_device_attr>() {
                return Err(Errno::INVAL);
            }
            let whole = device(context.provider()?.as_ref())?;
            let known = size.min(size_of::<ibv_device_attr_ex>());
            attr.cast::<u8>().write_bytes(0, size);
            copy_nonoverlapping((&raw const whole).cast::<u8>(), attr.cast(), known);
            Ok(())
        })
    })
}

fn device<P: Provider>(provider: &P) -> Result<ibv_device_attr_ex> {
    let mut attr = ibv_device_attr_ex::zeroed();
    provider.query_device(&mut attr)?;
    if attr.phys_port_cnt_ex == 0 {
        attr.phys_port_cnt_ex = attr.orig_attr.phys_port_cnt.into();
    }
    Ok(attr)
}

/// The library passes a whole structure, whatever size the application's has.
pub(super) unsafe extern "C" fn query_port<P: Provider>(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: the library passes an open context and room for the attributes, which are plain
    // numbers.
    code(unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            if attr.is_null() {
                return Err(Errno::INVAL);
            }
            attr.write_bytes(0, 1);
            context.provider()?.query_port(port, &mut *attr)
        })
    })
}

pub(super) unsafe extern "C" fn query_port_speed<P: Provider>(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    // SAFETY: the library passes an open context and room for the speed.
    code(unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            *speed.as_mut().ok_or(Errno::INVAL)? = context.provider()?.query_port_speed(port)?;
            Ok(())
        })
    })
}

/// `comp_mask` is first the set of requested values, and then of returned ones.
pub(super) unsafe extern "C" fn query_rt_values<P: Provider>(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    // SAFETY: the caller passes an open context and room for the values, or NULL.
    code(unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            let values = values.as_mut().ok_or(Errno::INVAL)?;
            if values.comp_mask & !IBV_VALUES_MASK_RAW_CLOCK != 0 {
                return Err(Errno::INVAL);
            }
            if core::mem::take(&mut values.comp_mask) == 0 {
                return Ok(());
            }
            values.raw_clock = context.provider()?.raw_clock()?;
            values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
            Ok(())
        })
    })
}
