//! Devices in user space, made up, beside those of a made-up kernel.

use super::*;
use kit::abi::handle::{Found, SysfsDev};

fn device(name: &str, interface: u32) -> Device {
    Device {
        name: name.to_owned(),
        interface,
        guid: 1,
    }
}

fn listing(devices: &[Device]) -> Listing {
    Listing {
        devices: devices.to_vec(),
        complaints: Vec::new(),
    }
}

/// A device of that name which counts in [`living`].
fn make(device: &Device) -> Result<HeldDevice> {
    let found = Found {
        sysfs_name: device.name.clone(),
        cdev: 0,
        name: device.name.clone(),
        path: String::new(),
        guid: None,
        driver_id: 0,
        node_type: kit::abi::IBV_NODE_CA,
        index: None,
        ports: 1,
        abi: 1,
        created: (0, 0),
    };
    let counted = Fake {
        counted: true,
        ..Fake::default()
    };
    let made = counted.driver().alloc_device(SysfsDev::new(&found)?, "");
    made.map_err(|_| Errno::NOMEM)
}

fn list(devices: &Devices, tree: &Tree, listing: &Listing) -> Vec<HeldDevice> {
    let from = Surroundings {
        places: tree.places(),
        user: &|| listing.clone(),
        make: &make,
        ..nothing()
    };
    devices.refresh(&from).unwrap()
}

fn names(held: &[HeldDevice]) -> Vec<String> {
    let name = |held: &HeldDevice| held.device().name().to_string_lossy().into_owned();
    held.iter().map(name).collect()
}

#[test]
fn they_keep_their_pointers() {
    let _alone = ALONE.lock();
    let (devices, tree) = (Devices::new(), Tree::new());
    let (lo, eth0) = (device("uroce_lo", 1), device("uroce_eth0", 2));
    let both = listing(&[lo.clone(), eth0.clone()]);
    let first = list(&devices, &tree, &both);
    assert_eq!(names(&first), ["uroce_lo", "uroce_eth0"]);
    let second = list(&devices, &tree, &both);
    assert_eq!(pointers(&second), pointers(&first));
    drop(second);
    // One is removed; a reference keeps it.
    let third = list(&devices, &tree, &listing(std::slice::from_ref(&lo)));
    assert_eq!(pointers(&third), pointers(&first)[..1]);
    assert_eq!(living(), 2);
    // Under the same name, another.
    let again = device("uroce_eth0", 3);
    let fourth = list(&devices, &tree, &listing(&[again, lo]));
    assert_eq!(names(&fourth), ["uroce_eth0", "uroce_lo"]);
    assert_eq!(fourth[1].device().as_ptr(), first[0].device().as_ptr());
    assert_ne!(fourth[0].device().as_ptr(), first[1].device().as_ptr());
    assert_eq!(living(), 3);
    drop((first, third, fourth));
    assert_eq!(living(), 2);
    assert!(list(&devices, &tree, &Listing::default()).is_empty());
    assert_eq!(living(), 0);
}

#[test]
fn they_come_behind_those_of_the_kernel() {
    let _alone = ALONE.lock();
    let (devices, tree) = (Devices::new(), two_devices());
    let from = Surroundings {
        places: tree.places(),
        drivers: &|| vec![takes_all()],
        user: &|| listing(&[device("uroce_lo", 1)]),
        make: &make,
        ..nothing()
    };
    let held = devices.refresh(&from).unwrap();
    assert_eq!(held.len(), 3);
    assert_eq!(held[2].device().name(), c"uroce_lo");
}

#[test]
fn they_need_no_kernel() {
    let _alone = ALONE.lock();
    let devices = Devices::new();
    let list = |listing: &Listing| {
        let from = Surroundings {
            user: &|| listing.clone(),
            make: &make,
            ..nothing()
        };
        devices.refresh(&from).map(|held| names(&held))
    };
    assert_eq!(list(&Listing::default()), Err(Errno::NOSYS));
    let lo = listing(&[device("uroce_lo", 1)]);
    assert_eq!(list(&lo), Ok(vec!["uroce_lo".to_owned()]));
    assert_eq!(list(&Listing::default()), Err(Errno::NOSYS));
}

#[test]
fn missing_interfaces_are_logged_once() {
    let (devices, tree) = (Devices::new(), Tree::new());
    let logged = RefCell::new(Vec::new());
    let list = |complaints: &[&str]| {
        let from = Surroundings {
            places: tree.places(),
            user: &|| Listing {
                devices: vec![device("uroce_lo", 1)],
                complaints: complaints.iter().map(|c| (*c).to_owned()).collect(),
            },
            complain: &|line| logged.borrow_mut().push(line.to_owned()),
            ..nothing()
        };
        assert_eq!(devices.refresh(&from).unwrap().len(), 0);
        logged.take()
    };
    let not_made = format!("no device uroce_lo: errno {}", libc::ENOSYS);
    assert_eq!(list(&["no eth7"]), ["no eth7".to_owned(), not_made]);
    assert!(list(&["no eth7"]).is_empty());
    assert_eq!(list(&["no eth7", "no eth8"]), ["no eth8"]);
    assert!(list(&[]).is_empty());
    assert_eq!(list(&["no eth7"]), ["no eth7"], "again");
}

#[test]
fn threads_see_the_same() {
    let _alone = ALONE.lock();
    let (devices, tree) = (Devices::new(), Tree::new());
    let both = listing(&[device("uroce_lo", 1), device("uroce_eth0", 2)]);
    let start = Barrier::new(4);
    let seen: Vec<_> = thread::scope(|scope| {
        let ask = || {
            start.wait();
            let lists = (0..50).map(|_| pointers(&list(&devices, &tree, &both)));
            lists.last().unwrap()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(living(), 2);
}
