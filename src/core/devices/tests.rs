use super::*;
use kit::sync::Mutex;

mod user_space;

use crate::core::testing::{Shown, Tree};
use crate::export::fake::{Fake, for_modalias, living};
use std::cell::{Cell, RefCell};
use std::sync::Barrier;
use std::thread;

/// Devices that are counted are made by one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn takes_all() -> Driver {
    Fake {
        entries: vec![for_modalias(c"pci:*")],
        counted: true,
        ..Fake::default()
    }
    .driver()
}

/// Surroundings without anything.
fn nothing() -> Surroundings<'static> {
    Surroundings {
        places: Places {
            sysfs: String::new(),
            cdevs: String::new(),
            netlink: false,
        },
        drivers: &Vec::new,
        last: &Vec::new,
        load: &|_| (),
        user: &Listing::default,
        make: &|_| Err(Errno::NOSYS),
        complain: &|_| (),
    }
}

fn two_devices() -> Tree {
    let tree = Tree::new();
    tree.add(&Shown::default());
    tree.add(&second());
    tree
}

fn second() -> Shown<'static> {
    Shown {
        uverbs: "uverbs1",
        name: "dev1",
        guid: "0:0:0:2\n",
        dev: "231:193\n",
        node_type: "4: RNIC\n",
        ..Shown::default()
    }
}

fn refresh(devices: &Devices, tree: &Tree, drivers: &[Driver]) -> Vec<HeldDevice> {
    let from = Surroundings {
        places: tree.places(),
        drivers: &|| drivers.to_vec(),
        load: &|_| (),
        ..nothing()
    };
    let mut held = devices.refresh(&from).unwrap();
    held.sort_by_key(|held| held.device().name().to_owned());
    held
}

fn pointers(held: &[HeldDevice]) -> Vec<usize> {
    held.iter()
        .map(|held| held.device().as_ptr().addr())
        .collect()
}

#[test]
fn a_provider_of_the_last_resort_waits_for_the_others() {
    let _alone = ALONE.lock();
    let (tree, devices) = (Tree::new(), Devices::new());
    tree.add(&Shown::default());
    let loads = Cell::new(0);
    let from = Surroundings {
        places: tree.places(),
        last: &|| vec![takes_all()],
        load: &|_| loads.set(loads.get() + 1),
        ..nothing()
    };
    assert_eq!(devices.refresh(&from).unwrap().len(), 1);
    assert_eq!(loads.get(), 1, "the others were loaded first");
}

#[test]
fn a_device_keeps_its_pointer() {
    let _alone = ALONE.lock();
    let (devices, tree, drivers) = (Devices::new(), two_devices(), [takes_all()]);
    let first = refresh(&devices, &tree, &drivers);
    assert_eq!(first.len(), 2);
    let before = pointers(&first);
    let second = refresh(&devices, &tree, &drivers);
    assert_eq!(pointers(&second), before);
    drop((first, second));
    // The list itself holds every device that is there.
    assert_eq!(pointers(&refresh(&devices, &tree, &drivers)), before);
    assert_eq!(living(), 2);
    drop(devices);
    assert_eq!(living(), 0);
}

#[test]
fn a_device_has_name_index_and_guid() {
    let _alone = ALONE.lock();
    let (devices, tree, drivers) = (Devices::new(), two_devices(), [takes_all()]);
    let held = refresh(&devices, &tree, &drivers);
    let device = held[1].device();
    assert_eq!(device.name(), c"dev1");
    assert_eq!((device.index(), guid(device)), (-1, Ok(2)));
    tree.write("sys/class/infiniband/dev1/node_guid", "0:0:0:3\n");
    assert_eq!(guid(device), Ok(2), "a GUID is read once");
    tree.write("sys/class/infiniband/dev0/node_guid", "nonsense\n");
    assert_eq!(guid(held[0].device()), Err(Errno::INVAL));
    tree.remove("sys/class/infiniband/dev0/node_guid");
    assert_eq!(guid(held[0].device()), Err(Errno::NOENT));
}

#[test]
fn a_removed_device_lives_as_long_as_it_is_held() {
    let _alone = ALONE.lock();
    let (devices, tree, drivers) = (Devices::new(), two_devices(), [takes_all()]);
    let held = refresh(&devices, &tree, &drivers);
    let open = held[1].clone();
    tree.remove("sys/class/infiniband_verbs/uverbs1");
    tree.remove("sys/class/infiniband/dev1");
    assert_eq!(refresh(&devices, &tree, &drivers).len(), 1);
    assert_eq!(living(), 2);
    drop(held);
    assert_eq!(open.device().name(), c"dev1");
    assert_eq!(living(), 2);
    drop(open);
    assert_eq!(living(), 1);
}

#[test]
fn a_device_that_comes_back_is_another() {
    let _alone = ALONE.lock();
    let (devices, tree, drivers) = (Devices::new(), two_devices(), [takes_all()]);
    let first = refresh(&devices, &tree, &drivers);
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let folder = std::fs::File::open(tree.at("sys/class/infiniband/dev1")).unwrap();
    folder.set_modified(later).unwrap();
    let second = refresh(&devices, &tree, &drivers);
    assert_eq!(pointers(&first)[0], pointers(&second)[0]);
    assert_ne!(pointers(&first)[1], pointers(&second)[1]);
    assert_eq!(living(), 3);
    drop(first);
    assert_eq!(living(), 2);
}

#[test]
fn providers_are_loaded_once_and_only_when_needed() {
    let _alone = ALONE.lock();
    let (devices, tree) = (Devices::new(), Tree::new());
    let (loads, registered) = (Cell::new(0), RefCell::new(Vec::new()));
    let list = || {
        let from = Surroundings {
            places: tree.places(),
            drivers: &|| registered.borrow().clone(),
            load: &|_| {
                loads.set(loads.get() + 1);
                registered.borrow_mut().push(takes_all());
            },
            ..nothing()
        };
        devices.refresh(&from).unwrap().len()
    };
    assert_eq!((list(), loads.get()), (0, 0), "no device needs no provider");
    tree.add(&Shown::default());
    assert_eq!((list(), loads.get()), (1, 1));
    let unknown = Shown {
        modalias: "acpi:NONE\n",
        ..second()
    };
    tree.add(&unknown);
    assert_eq!(
        (list(), loads.get()),
        (1, 1),
        "loading again finds nothing new"
    );
}

#[test]
fn those_of_other_kernel_drivers_are_loaded_when_the_rest_does_not_do() {
    let devices = Devices::new();
    assert!(devices.has_all_to_choose_from());
    assert_eq!(devices.extent(&[14, 1]), Extent::For(&[14, 1]));
    assert_eq!(devices.extent(&[14, 0]), Extent::All, "it may be anyone's");
    devices.begun.store(true, Ordering::Relaxed);
    assert!(!devices.has_all_to_choose_from());
    assert_eq!(devices.extent(&[14]), Extent::All);
    devices.loaded.store(true, Ordering::Relaxed);
    assert!(devices.has_all_to_choose_from());
}

#[test]
fn a_constructor_may_ask_for_the_list() {
    let _alone = ALONE.lock();
    let (devices, tree) = (Devices::new(), two_devices());
    let registered = RefCell::new(Vec::new());
    let inner_saw = Cell::new(usize::MAX);
    let from = Surroundings {
        places: tree.places(),
        drivers: &|| registered.borrow().clone(),
        load: &|_| {
            registered.borrow_mut().push(takes_all());
            inner_saw.set(refresh(&devices, &tree, &registered.borrow()).len());
        },
        ..nothing()
    };
    let outer = devices.refresh(&from).unwrap();
    assert_eq!((outer.len(), inner_saw.get()), (2, 2));
    assert_eq!(living(), 2, "no device is made twice");
}

#[test]
fn threads_see_the_same_devices() {
    let _alone = ALONE.lock();
    let (devices, tree, driver) = (Devices::new(), two_devices(), takes_all());
    let start = Barrier::new(4);
    let seen: Vec<_> = thread::scope(|scope| {
        let ask = || {
            start.wait();
            let mut last = Vec::new();
            for _ in 0..50 {
                last = pointers(&refresh(&devices, &tree, &[driver]));
            }
            last
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!((seen[0].len(), living()), (2, 2));
}

#[test]
fn a_kernel_of_another_version_is_refused() {
    let (devices, tree) = (Devices::new(), two_devices());
    tree.write("sys/class/infiniband_verbs/abi_version", "7\n");
    let from = Surroundings {
        places: tree.places(),
        ..nothing()
    };
    assert_eq!(devices.refresh(&from).err(), Some(Errno::NOSYS));
}

#[test]
fn descriptors_of_no_device() {
    use std::os::fd::AsRawFd;
    assert_eq!(from_cmd_fd(-1).err(), Some(Errno::INVAL));
    let folder = std::fs::File::open("/").unwrap();
    assert_eq!(from_cmd_fd(folder.as_raw_fd()).err(), Some(Errno::INVAL));
    let null = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(from_cmd_fd(null.as_raw_fd()).err(), Some(Errno::NODEV));
}
