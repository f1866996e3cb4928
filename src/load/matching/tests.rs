use super::*;
use crate::export::fake::{Fake, for_driver, for_modalias, for_pci};
use proptest::prelude::*;

const DEV_PATH: &str = "/sys/class/infiniband_verbs/uverbs0";

fn found(driver_id: u32) -> Found {
    Found {
        sysfs_name: "uverbs0".to_owned(),
        cdev: 0,
        name: "dev0".to_owned(),
        path: "/sys/class/infiniband/dev0".to_owned(),
        guid: None,
        driver_id,
        node_type: 1,
        index: Some(1),
        ports: 1,
        abi: 1,
        created: (0, 0),
    }
}

const CONNECTX: &str = "pci:v000015B3d00001017sv000015B3sd00000020bc02sc00i00";

/// Which of the drivers made the device.
fn winner(drivers: &[Driver], found: &Found, modalias: &str) -> Option<usize> {
    let made = find(drivers, found, DEV_PATH, &|| modalias.to_owned()).unwrap()?;
    let chosen = made.device().driver().unwrap();
    drivers.iter().position(|driver| *driver == chosen)
}

fn with(entries: Vec<kit::abi::verbs_match_ent>) -> Driver {
    Fake {
        entries,
        ..Fake::default()
    }
    .driver()
}

#[test]
fn each_way_of_matching() {
    for entry in [
        for_driver(9),
        for_pci(0x15b3, 0x1017),
        for_modalias(c"pci:v000015B3*"),
        for_modalias(c"rdma_device:*Ndev*"),
    ] {
        let drivers = [with(vec![for_driver(8), entry])];
        assert_eq!(winner(&drivers, &found(9), CONNECTX), Some(0));
    }
    for entry in [
        for_driver(8),
        for_pci(0x15b3, 0x1018),
        for_pci(0x15b4, 0x1017),
        for_modalias(c"pci:v000015B4*"),
        for_modalias(c"rdma_device:*Nrxe*"),
    ] {
        let drivers = [with(vec![entry])];
        assert_eq!(winner(&drivers, &found(9), CONNECTX), None);
    }
}

#[test]
fn the_kernel_driver_goes_before_the_order_of_registration() {
    let drivers = [
        with(vec![for_pci(0x15b3, 0x1017)]),
        with(vec![for_driver(9)]),
    ];
    assert_eq!(winner(&drivers, &found(9), CONNECTX), Some(1));
    assert_eq!(winner(&drivers, &found(0), CONNECTX), Some(0));
}

#[test]
fn an_unknown_kernel_driver_matches_no_entry() {
    assert_eq!(
        winner(&[with(vec![for_driver(0)])], &found(0), CONNECTX),
        None
    );
}

#[test]
fn a_device_without_modalias() {
    let drivers = [with(vec![for_modalias(c"*")]), with(vec![for_driver(9)])];
    // The pattern takes the name that the library makes up.
    assert_eq!(winner(&drivers[..1], &found(0), ""), Some(0));
    assert_eq!(
        winner(&[with(vec![for_pci(0x15b3, 0x1017)])], &found(0), ""),
        None
    );
}

#[test]
fn the_match_function_has_the_last_word() {
    let fake = |matches, entries| {
        Fake {
            entries,
            matches: Some(matches),
            ..Fake::default()
        }
        .driver()
    };
    assert_eq!(
        winner(&[fake(false, vec![for_driver(9)])], &found(9), CONNECTX),
        None
    );
    assert_eq!(
        winner(&[fake(true, vec![for_driver(8)])], &found(9), CONNECTX),
        Some(0)
    );
    assert_eq!(winner(&[fake(true, vec![])], &found(9), CONNECTX), Some(0));
}

#[test]
fn a_provider_without_any_way_to_match() {
    assert_eq!(winner(&[with(vec![])], &found(9), CONNECTX), None);
}

#[test]
fn versions_out_of_range_and_failures_go_to_the_next() {
    let old = Fake {
        entries: vec![for_driver(9)],
        abi: (2, 5),
        ..Fake::default()
    };
    let broken = Fake {
        entries: vec![for_driver(9)],
        works: false,
        ..Fake::default()
    };
    let drivers = [old.driver(), broken.driver(), with(vec![for_driver(9)])];
    assert_eq!(winner(&drivers, &found(9), CONNECTX), Some(2));
    assert_eq!(winner(&drivers[..2], &found(9), CONNECTX), None);
}

/// Others are passed over with a warning that names both.
#[test]
fn the_librarys_own_providers_take_the_versions_they_speak() {
    let drivers = crate::load::built_in::first(None);
    let taken = |driver_id, abi| {
        let found = Found {
            abi,
            ..found(driver_id)
        };
        let chosen = winner(&drivers, &found, "");
        chosen.map(|chosen| drivers[chosen].name().to_str().unwrap())
    };
    use kit::abi::kernel::{RDMA_DRIVER_RXE, RDMA_DRIVER_SIW};
    for (driver, name, spoken) in [
        (RDMA_DRIVER_RXE, "rxe", 1..=2),
        (RDMA_DRIVER_SIW, "siw", 1..=1),
    ] {
        for abi in 0..4 {
            let wanted = spoken.contains(&abi).then_some(name);
            assert_eq!(taken(driver, abi), wanted, "{name} {abi}");
        }
    }
}

#[test]
fn a_name_that_does_not_fit() {
    let long = Found {
        name: "x".repeat(64),
        ..found(9)
    };
    let refused = find(&[with(vec![for_driver(9)])], &long, DEV_PATH, &String::new);
    assert_eq!(refused.err().map(|e| e.raw()), Some(libc::ENAMETOOLONG));
}

proptest! {
    #[test]
    fn a_pci_id_matches_its_modalias_alone(
        asked: (u16, u16),
        shown: (u16, u16),
        same in any::<bool>(),
    ) {
        let shown = if same { asked } else { shown };
        let alias = format!("pci:v{:08X}d{:08X}sv00000000sd00000000bc02", shown.0, shown.1);
        let pattern = format!("pci:v{:08X}d{:08X}sv*", asked.0, asked.1);
        let pattern = CString::new(pattern).unwrap();
        let alias = Alias::new(alias);
        let matched = alias.fits(Match::Pci(asked.0, asked.1));
        prop_assert_eq!(matched, asked == shown);
        prop_assert_eq!(matched, glob::matches(&pattern, &alias.text));
    }

    #[test]
    fn damaged_aliases(
        at in 0usize..40,
        byte in "[ -~\u{e9}]",
        vendor: u16,
        device: u16,
    ) {
        let mut alias = format!("pci:v{vendor:08X}d{device:08X}sv00000000sd00000000bc02");
        alias.replace_range(at..=at, &byte);
        let pattern = CString::new(format!("pci:v{vendor:08X}d{device:08X}sv*")).unwrap();
        let alias = Alias::new(alias);
        let matched = alias.fits(Match::Pci(vendor, device));
        prop_assert_eq!(matched, glob::matches(&pattern, &alias.text));
    }
}
