#![forbid(unsafe_code)]
//! Which of rdma-core's providers can be passed over, because no device is of their kernel driver.

use super::config::Wanted;
use std::os::unix::ffi::OsStrExt;

/// The providers of rdma-core, each with the kernel driver that it is for: `enum rdma_driver_id`
/// of `rdma/ib_user_ioctl_verbs.h`, which RDMA netlink tells of every device.
const KERNEL_DRIVERS: [(&str, u32); 20] = [
    ("mlx5", 1),
    ("mlx4", 2),
    ("cxgb3", 3),
    ("cxgb4", 4),
    ("mthca", 5),
    ("bnxt_re", 6),
    ("ocrdma", 7),
    ("nes", 8),
    ("i40iw", 9),
    ("irdma", 9),
    ("vmw_pvrdma", 10),
    ("qedr", 11),
    ("hns", 12),
    ("rxe", 14),
    ("hfi1verbs", 15),
    ("ipathverbs", 16),
    ("efa", 17),
    ("siw", 18),
    ("erdma", 19),
    ("mana", 20),
];

/// Whether a configured provider is one of rdma-core's, and for other kernel drivers than those
/// of `devices`. Where one of these is not known (0), no provider is foreign.
pub fn is_foreign(wanted: &Wanted, devices: &[u32]) -> bool {
    if devices.contains(&0) {
        return false;
    }
    let name = wanted.name.as_bytes();
    let known = KERNEL_DRIVERS
        .iter()
        .find(|(own, _)| own.as_bytes() == name);
    known.is_some_and(|(_, driver)| !devices.contains(driver))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(name: &str, devices: &[u32]) -> bool {
        let wanted = Wanted {
            name: name.into(),
            release: Some(44),
        };
        is_foreign(&wanted, devices)
    }

    #[test]
    fn a_provider_of_another_kernel_driver_is_foreign() {
        assert!(foreign("mlx5", &[14]));
        assert!(foreign("rxe", &[1, 2]));
        assert!(!foreign("mlx5", &[1]));
        assert!(!foreign("rxe", &[1, 14]));
        assert!(!foreign("irdma", &[9]));
        assert!(!foreign("i40iw", &[9]));
    }

    #[test]
    fn what_may_be_for_any_device_is_not() {
        for name in ["", "vendor", "mlx", "mlx55", "/opt/lib/libmlx5", "libmlx5"] {
            assert!(!foreign(name, &[14]), "{name}");
        }
    }

    #[test]
    fn a_device_of_an_unknown_kernel_driver_may_be_anyones() {
        assert!(!foreign("mlx5", &[0]));
        assert!(!foreign("mlx5", &[14, 0]));
        // One that is newer than the table is still not of the drivers in it.
        assert!(foreign("mlx5", &[77]));
    }
}
