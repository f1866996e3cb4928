#![forbid(unsafe_code)]
//! Which of rdma-core's providers can be passed over, because no device is of their kernel driver.

use super::config::Wanted;
use kit::abi::kernel::*;
use std::os::unix::ffi::OsStrExt;

/// The providers of rdma-core, each with the kernel driver that it is for. RDMA netlink reports the
/// driver of every device.
const KERNEL_DRIVERS: [(&str, rdma_driver_id); 20] = [
    ("mlx5", RDMA_DRIVER_MLX5),
    ("mlx4", RDMA_DRIVER_MLX4),
    ("cxgb3", RDMA_DRIVER_CXGB3),
    ("cxgb4", RDMA_DRIVER_CXGB4),
    ("mthca", RDMA_DRIVER_MTHCA),
    ("bnxt_re", RDMA_DRIVER_BNXT_RE),
    ("ocrdma", RDMA_DRIVER_OCRDMA),
    ("nes", RDMA_DRIVER_NES),
    ("i40iw", RDMA_DRIVER_I40IW),
    ("irdma", RDMA_DRIVER_IRDMA),
    ("vmw_pvrdma", RDMA_DRIVER_VMW_PVRDMA),
    ("qedr", RDMA_DRIVER_QEDR),
    ("hns", RDMA_DRIVER_HNS),
    ("rxe", RDMA_DRIVER_RXE),
    ("hfi1verbs", RDMA_DRIVER_HFI1),
    ("ipathverbs", RDMA_DRIVER_QIB),
    ("efa", RDMA_DRIVER_EFA),
    ("siw", RDMA_DRIVER_SIW),
    ("erdma", RDMA_DRIVER_ERDMA),
    ("mana", RDMA_DRIVER_MANA),
];

/// Whether a configured provider is one of rdma-core's, and for other kernel drivers than those
/// of `devices`, all of which are known.
pub fn is_foreign(wanted: &Wanted, devices: &[u32]) -> bool {
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
    fn names_that_may_fit_any_device_are_not_foreign() {
        for name in ["", "vendor", "mlx", "mlx55", "/opt/lib/libmlx5", "libmlx5"] {
            assert!(!foreign(name, &[14]), "{name}");
        }
    }

    #[test]
    fn a_kernel_driver_newer_than_the_table_is_not_one_of_it() {
        assert!(foreign("mlx5", &[77]));
    }
}
