#![forbid(unsafe_code)]
//! P_Key tables: ibv_query_pkey(3), ibv_get_pkey_index(3). They come from sysfs, or from the
//! provider of a device in user space.

use super::Device;
use kit::abi::be16;
use kit::errno::{Errno, Result};
use std::ffi::c_int;

/// The P_Key at a place in a port's table.
///
/// # Errors
/// ENOENT when there is no such port or place, EINVAL for a device in user space; EINVAL when the
/// text is no P_Key.
pub fn query<D: Device + ?Sized>(device: &D, port: u8, index: c_int) -> Result<be16> {
    if let Some(edges) = device.private().edges() {
        return edges.pkey(port, index.try_into().map_err(|_| Errno::INVAL)?);
    }
    let text = device.read(&format!("ports/{port}/pkeys/{index}"))?;
    parse(&text).map(be16::new).ok_or(Errno::INVAL)
}

/// Hexadecimal digits, with or without `0x`.
fn parse(text: &str) -> Option<u16> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u16::from_str_radix(digits, 16).ok()
}

/// The first place in a port's table that holds `pkey`.
///
/// # Errors
/// At the end of the table the error of querying the next index.
pub fn find<D: Device + ?Sized>(device: &D, port: u8, pkey: be16) -> Result<c_int> {
    for index in 0..c_int::MAX {
        if query(device, port, index)? == pkey {
            return Ok(index);
        }
    }
    Err(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::made_up::MadeUp;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts() {
        assert_eq!(parse("0xffff"), Some(0xffff));
        assert_eq!(parse("7fff"), Some(0x7fff));
        for bad in ["", "0x", "0x10000", "pkey"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_table() {
        let device = MadeUp::new();
        device.file("ports/1/pkeys/0", "0xffff");
        device.file("ports/1/pkeys/1", "0x8001");
        device.file("ports/1/pkeys/2", "");
        assert_eq!(query(&device, 1, 0).unwrap().get(), 0xffff);
        assert_eq!(find(&device, 1, be16::new(0x8001)), Ok(1));
        assert_eq!(find(&device, 1, be16::new(0x1234)), Err(Errno::INVAL));
        for (port, index) in [(1, 3), (1, -1), (2, 0)] {
            assert_eq!(query(&device, port, index), Err(Errno::NOENT));
        }
    }

    proptest! {
        #[test]
        fn a_pkey_is_read_as_the_kernel_writes_it(pkey in any::<u16>()) {
            prop_assert_eq!(parse(&format!("0x{pkey:04x}")), Some(pkey));
        }
    }
}
