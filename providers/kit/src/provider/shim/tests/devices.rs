//! The device itself: its names, opening and closing, its queries.

use super::*;
use crate::abi::handle::DeviceRef;
use std::ffi::CStr;
use std::os::fd::AsRawFd;

#[test]
fn a_device_shows_its_names_and_keeps_its_parameters() {
    let state = Arc::new(State::default());
    let held = device(&state);
    let shown = held.device();
    assert_eq!(shown.name(), c"fake_0");
    assert_eq!(shown.index(), -1);
    assert!(shown.sysfs().is_none());
    assert_eq!(Device::spec(shown), Some(&spec("fake_0")));
    // SAFETY: the device is held.
    let c = unsafe { &*shown.as_ptr() };
    assert_eq!(c.node_type, IBV_NODE_CA);
    assert_eq!(c.transport_type, IBV_TRANSPORT_IB);
    // SAFETY: the names end inside their arrays.
    let dev_name = unsafe { CStr::from_ptr(c.dev_name.as_ptr()) };
    assert_eq!(dev_name, c"fake_0");
    // SAFETY: as above.
    let path = unsafe { CStr::from_ptr(c.ibdev_path.as_ptr()) };
    assert_eq!((c.dev_path[0], path), (0, c"/files/of/fake"));
}

#[test]
fn a_device_of_another_kind_has_no_spec() {
    // SAFETY: all zeros is a device.
    let mut other: verbs_device = unsafe { zeroed() };
    // SAFETY: the device stays for the test.
    let shown = unsafe { DeviceRef::from_raw((&raw mut other).cast()) }.unwrap();
    assert!(Device::spec(shown).is_none());
}

#[test]
fn names_that_c_cannot_keep_are_refused() {
    let make = |name: &str| {
        let open = || -> crate::errno::Result<Opened<Fake>> { Err(Errno::NODEV) };
        Device::new(spec(name), open).map(drop)
    };
    assert_eq!(make(&"x".repeat(63)), Ok(()));
    assert_eq!(make(&"x".repeat(64)), Err(Errno(libc::ENAMETOOLONG)));
    assert_eq!(make("a\0b"), Err(Errno::INVAL));
}

#[test]
fn a_device_that_does_not_open_has_a_reason() {
    let open = || -> crate::errno::Result<Opened<Fake>> { Err(Errno(libc::EADDRINUSE)) };
    let held = Device::new(spec("busy"), open).unwrap();
    errno::set(Errno(0));
    assert!(super::open(&held).is_none());
    assert_eq!(errno::get(), Errno(libc::EADDRINUSE));
    // A command descriptor has no place here: it is closed.
    let (read, write): (OwnedFd, OwnedFd) = rustix::pipe::pipe().unwrap();
    let driver = held.device().driver().unwrap();
    // SAFETY: the driver is the device's own.
    let made = unsafe { driver.alloc_context(held.device(), Some(write), null_mut()) };
    assert!(made.is_none());
    assert_eq!(errno::get(), Errno::INVAL);
    let mut byte = [0];
    assert_eq!(rustix::io::read(&read, &mut byte), Ok(0), "closed");
}

#[test]
fn a_context_is_complete_and_holds_its_device() {
    let mut bench = Bench::new();
    // SAFETY: the context is open.
    let c = unsafe { &*bench.context };
    assert!(c.cmd_fd >= 0);
    assert_eq!(c.num_comp_vectors, 2);
    assert!(bench.ctx().async_fd().unwrap().as_raw_fd() >= 0);
    let edges = bench.ctx().private().edges().expect("has edges");
    assert_eq!(edges.pkey(1, 0), Ok(be16::new(0xffff)));
    // The public members show the provider's verbs.
    // SAFETY: the context is open and the domain not used any more.
    unsafe {
        let pd = bench.pd();
        let mw = made((c.ops.alloc_mw.unwrap())(pd, IBV_MW_TYPE_1));
        assert_eq!((c.ops.dealloc_mw.unwrap())(mw), 0);
        assert_eq!(bench.dealloc_pd(pd), 0);
    }
    // Without the list's reference, the context's own keeps it.
    drop(bench.device.take());
    assert_eq!(bench.ctx().async_fd_raw(), c.async_fd);
}

#[test]
fn closing_calls_the_provider_and_drops_it() {
    let state = Arc::new(State::default());
    let device = device(&state);
    let bench = Bench::of(device, Arc::clone(&state));
    assert_eq!(state.live(), 1);
    drop(bench);
    assert_eq!(state.asked(), ["close"]);
    assert_eq!(state.live(), 0);
}

#[test]
fn the_device_is_asked_about_in_every_size() {
    let bench = Bench::new();
    let query = bench.table().query_device_ex();
    let mut room = [0xffu8; size_of::<ibv_device_attr_ex>() + 16];
    let plain = size_of::<ibv_device_attr>();
    let sizes = [
        plain,
        plain + 24,
        size_of::<ibv_device_attr_ex>(),
        room.len(),
    ];
    for size in sizes {
        room.fill(0xff);
        // SAFETY: there is room for that many bytes.
        let code = unsafe {
            query(
                bench.context,
                core::ptr::null(),
                room.as_mut_ptr().cast(),
                size,
            )
        };
        assert_eq!(code, 0);
        assert!(
            room[size..].iter().all(|byte| *byte == 0xff),
            "beyond {size}"
        );
        let known = size.min(size_of::<ibv_device_attr_ex>());
        // SAFETY: the attributes are numbers, and their buffer is large enough. Padding need not be
        // written, so an array of bytes could not receive it.
        let attr: ibv_device_attr_ex = unsafe {
            let mut attr: ibv_device_attr_ex = zeroed();
            let bytes = (&raw mut attr).cast::<u8>();
            core::ptr::copy_nonoverlapping(room.as_ptr(), bytes, known);
            attr
        };
        assert_eq!(attr.orig_attr.max_qp, 17);
        assert_eq!(attr.phys_port_cnt_ex, u32::from(size >= 400));
        assert!(room[known..size].iter().all(|byte| *byte == 0));
    }
    // SAFETY: as above.
    unsafe {
        let attr = room.as_mut_ptr().cast();
        let input = ibv_query_device_ex_input { comp_mask: 1 };
        let none = core::ptr::null();
        assert_eq!(query(bench.context, &raw const input, attr, plain), INVAL);
        assert_eq!(query(bench.context, none, attr, plain - 1), INVAL);
        assert_eq!(query(bench.context, none, null_mut(), plain), INVAL);
        assert_eq!(query(null_mut(), none, attr, plain), INVAL);
        bench.state.refuse(Errno::IO);
        assert_eq!(query(bench.context, none, attr, plain), libc::EIO);
    }
}

#[test]
fn ports_and_clock_are_asked_about() {
    let bench = Bench::new();
    // SAFETY: the context is open; attributes and values are numbers.
    unsafe {
        let mut attr: ibv_port_attr = zeroed();
        attr.lid = 9;
        let query = bench.table().query_port();
        assert_eq!(query(bench.context, 1, &raw mut attr), 0);
        assert_eq!((attr.gid_tbl_len, attr.lid), (8, 0));
        assert_eq!(query(bench.context, 2, &raw mut attr), INVAL);
        assert_eq!(query(bench.context, 1, null_mut()), INVAL);

        let mut values: ibv_values_ex = zeroed();
        let query = bench.table().query_rt_values();
        assert_eq!(query(bench.context, &raw mut values), 0);
        assert_eq!((values.comp_mask, values.raw_clock.tv_sec), (0, 0));
        values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
        assert_eq!(query(bench.context, &raw mut values), 0);
        assert_eq!(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
        assert_eq!((values.raw_clock.tv_sec, values.raw_clock.tv_nsec), (3, 4));
        bench.state.refuse(Errno::OPNOTSUPP);
        assert_eq!(query(bench.context, &raw mut values), libc::EOPNOTSUPP);
        assert_eq!(values.comp_mask, 0);
        values.comp_mask = 2;
        assert_eq!(query(bench.context, &raw mut values), INVAL);
        assert_eq!(query(bench.context, null_mut()), INVAL);
    }
}

#[test]
fn verbs_that_no_provider_has_answer_the_default() {
    let bench = Bench::new();
    // SAFETY: the defaults look at nothing.
    unsafe {
        let action = || (bench.table().create_flow_action_esp())(null_mut(), null_mut());
        assert_eq!(refused(action), Errno::OPNOTSUPP);
        let code = (bench.table().modify_qp_rate_limit())(null_mut(), null_mut());
        assert_eq!(code, libc::EOPNOTSUPP);
    }
}
