use super::*;
use crate::core::testing::{Shown, Tree};
use proptest::prelude::*;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

fn scanned(tree: &Tree) -> Vec<Found> {
    let mut devices = scan(&tree.places()).unwrap().devices;
    devices.sort_by(|a, b| a.sysfs_name.cmp(&b.sysfs_name));
    devices
}

#[test]
fn an_infiniband_device() {
    let tree = Tree::new();
    tree.add(&Shown {
        ports: 2,
        ..Shown::default()
    });
    let found = &scanned(&tree)[0];
    assert_eq!(
        (found.name.as_str(), found.sysfs_name.as_str()),
        ("dev0", "uverbs0")
    );
    assert_eq!(found.cdev, makedev(231, 192));
    assert_eq!(found.node_type, IBV_NODE_CA);
    assert_eq!((found.abi, found.index, found.driver_id), (1, None, 0));
    assert_eq!(
        found.path,
        tree.at("sys/class/infiniband/dev0").to_str().unwrap()
    );
    assert_ne!(found.created, (0, 0));
    assert_eq!(found.guid, None);
}

#[test]
fn roce_and_iwarp_side_by_side() {
    let tree = Tree::new();
    tree.add(&Shown::default());
    tree.add(&Shown {
        uverbs: "uverbs1",
        name: "iw0",
        node_type: "4: RNIC\n",
        dev: "231:193",
        ..Shown::default()
    });
    let found = scanned(&tree);
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].node_type, IBV_NODE_RNIC);
    assert_eq!(found[1].cdev, makedev(231, 193));
}

#[test]
fn node_types() {
    for (text, expected) in [
        ("2: SWITCH", IBV_NODE_SWITCH),
        ("3: ROUTER", IBV_NODE_ROUTER),
        ("5: usNIC", IBV_NODE_USNIC),
        ("6: usNIC UDP", IBV_NODE_USNIC_UDP),
        ("7: unspecified", IBV_NODE_UNSPECIFIED),
        ("8", IBV_NODE_UNKNOWN),
        ("", IBV_NODE_UNKNOWN),
        ("CA", IBV_NODE_UNKNOWN),
    ] {
        let tree = Tree::new();
        tree.add(&Shown {
            node_type: text,
            ..Shown::default()
        });
        assert_eq!(scanned(&tree)[0].node_type, expected, "{text}");
    }
}

#[test]
fn devices_that_are_half_gone() {
    for missing in [
        "sys/class/infiniband_verbs/uverbs0/ibdev",
        "sys/class/infiniband_verbs/uverbs0/dev",
        "sys/class/infiniband/dev0",
        "dev/uverbs0",
    ] {
        let tree = Tree::new();
        tree.add(&Shown::default());
        tree.add(&Shown {
            uverbs: "uverbs1",
            name: "dev1",
            ..Shown::default()
        });
        tree.remove(missing);
        let found = scanned(&tree);
        assert_eq!(found.len(), 1, "without {missing}");
        assert_eq!(found[0].name, "dev1");
    }
}

#[test]
fn missing_details_do_not_matter() {
    let tree = Tree::new();
    tree.add(&Shown::default());
    tree.remove("sys/class/infiniband_verbs/uverbs0/abi_version");
    tree.remove("sys/class/infiniband/dev0/node_type");
    let found = &scanned(&tree)[0];
    assert_eq!((found.abi, found.node_type), (0, IBV_NODE_UNKNOWN));
}

#[test]
fn names_that_do_not_fit() {
    let tree = Tree::new();
    let long = "x".repeat(64);
    tree.add(&Shown {
        name: &long,
        ..Shown::default()
    });
    tree.add(&Shown {
        uverbs: &long,
        name: "dev1",
        ..Shown::default()
    });
    assert_eq!(scanned(&tree), []);
}

#[test]
fn a_name_does_not_lead_out_of_the_tree() {
    let tree = Tree::new();
    tree.add(&Shown::default());
    tree.write(
        "sys/class/infiniband_verbs/uverbs0/ibdev",
        "../infiniband/dev0\n",
    );
    assert_eq!(scanned(&tree), []);
}

#[test]
fn no_rdma_and_no_permission() {
    let tree = Tree::new();
    tree.remove("sys/class/infiniband_verbs");
    assert_eq!(scan(&tree.places()).err(), Some(Errno::NOSYS));
    assert_eq!(class_error(Errno(libc::EACCES)), Errno::PERM);
    assert_eq!(class_error(Errno(libc::ENOMEM)), Errno::NOMEM);
    assert_eq!(class_error(Errno(libc::ENOTDIR)), Errno::NOSYS);
}

#[test]
fn unreadable_files() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: root reads every file");
        return;
    }
    let tree = Tree::new();
    tree.add(&Shown::default());
    let ibdev = tree.at("sys/class/infiniband_verbs/uverbs0/ibdev");
    std::fs::set_permissions(ibdev, Permissions::from_mode(0o000)).unwrap();
    assert_eq!(scanned(&tree), []);
    let class = tree.at("sys/class/infiniband_verbs");
    std::fs::set_permissions(&class, Permissions::from_mode(0o000)).unwrap();
    let refused = scan(&tree.places()).err();
    std::fs::set_permissions(&class, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(refused, Some(Errno::PERM));
}

#[test]
fn versions_of_the_interface() {
    for (text, expected) in [
        ("6\n", Ok(())),
        ("3\n", Ok(())),
        ("2\n", Err(Errno::NOSYS)),
        ("7\n", Err(Errno::NOSYS)),
        ("six\n", Err(Errno::NOSYS)),
        ("", Err(Errno::NOSYS)),
    ] {
        let tree = Tree::new();
        tree.write("sys/class/infiniband_verbs/abi_version", text);
        assert_eq!(check_interface(&tree.places()), expected, "{text}");
    }
}

#[test]
fn the_character_device_below_a_device() {
    let tree = Tree::new();
    tree.add(&Shown::default());
    let below = "sys/class/infiniband/dev0/device/infiniband_verbs/uverbs7";
    tree.write(format!("{below}/dev"), "231:199\n");
    let part = Found {
        path: tree
            .at("sys/class/infiniband/dev0")
            .to_str()
            .unwrap()
            .to_owned(),
        ..scanned(&tree)[0].clone()
    };
    let found = read_uverbs(Some(part)).unwrap();
    assert_eq!(
        (found.sysfs_name.as_str(), found.cdev),
        ("uverbs7", makedev(231, 199))
    );
}

#[test]
fn an_answer_of_the_kernel() {
    let tree = Tree::new();
    let info = DeviceInfo {
        index: 3,
        name: "rxe0".to_owned(),
        ports: 1,
        guid: 7,
        node_type: 1,
    };
    let cdev = CharDevice {
        name: "uverbs0".to_owned(),
        abi: 2,
        major: 231,
        minor: 192,
        driver_id: 14,
    };
    let found = described(&tree.places(), &info, cdev).unwrap();
    assert_eq!((found.index, found.driver_id, found.abi), (Some(3), 14, 2));
    assert_eq!((found.cdev, found.guid), (makedev(231, 192), Some(7)));
    assert!(found.path.ends_with("sys/class/infiniband/rxe0"));
}

proptest! {
    // Each case makes a tree of files.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_in_any_file(
        ibdev in any::<Vec<u8>>(),
        dev in "[0-9:. -]{0,24}",
        node_type in any::<Vec<u8>>(),
        abi in any::<Vec<u8>>(),
    ) {
        let tree = Tree::new();
        tree.add(&Shown::default());
        let uverbs = "sys/class/infiniband_verbs/uverbs0";
        std::fs::write(tree.at(format!("{uverbs}/ibdev")), ibdev).unwrap();
        std::fs::write(tree.at(format!("{uverbs}/dev")), &dev).unwrap();
        std::fs::write(tree.at(format!("{uverbs}/abi_version")), abi).unwrap();
        std::fs::write(tree.at("sys/class/infiniband/dev0/node_type"), node_type).unwrap();
        for found in scanned(&tree) {
            prop_assert!(dev.contains(':'));
            prop_assert!(!found.name.is_empty());
        }
    }
}
