//! Contexts of one command descriptor, and their shared objects.

use super::*;
use crate::provider::command_device;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};

/// Another context around a duplicate of the bench's descriptor.
fn again(bench: &Bench) -> Option<Bench> {
    let command = bench.ctx().cmd_fd().expect("a descriptor");
    let copy = command.try_clone_to_owned().expect("a copy").into_raw_fd();
    let held = bench.device.clone().expect("a device");
    let driver: Driver = held.device().driver().unwrap();
    assert!(driver.imports());
    // SAFETY: the driver is the device's own; the descriptor is ours to give.
    let context = unsafe { driver.import_context(held.device(), copy) }?;
    // SAFETY: a member of the new context.
    let context = unsafe { &raw mut (*context.as_ptr()).context };
    Some(Bench {
        device: Some(held),
        context,
        state: Arc::clone(&bench.state),
    })
}

/// Closes a context that shares its state with another, so that something may be left of it.
fn close(bench: Bench) {
    // SAFETY: the context is open, and not used any more.
    unsafe { (bench.table().free_context())(bench.context) };
    std::mem::forget(bench);
}

#[test]
fn objects_are_found_by_their_handles() {
    let bench = Bench::new();
    let other = again(&bench).expect("imported");
    let pd = bench.pd();
    let mut bytes = [0u8; 64];
    let mr = bench.mr(pd, &mut bytes);
    let (import_pd, import_mr) = (other.table().import_pd(), other.table().import_mr());
    let (unimport_pd, unimport_mr) = (other.table().unimport_pd(), other.table().unimport_mr());
    // SAFETY: all objects are live.
    unsafe {
        let (pd_handle, mr_handle) = ((*pd).handle, (*mr).handle);
        assert_ne!(pd_handle, mr_handle);
        let none = || import_pd(other.context, mr_handle);
        assert_eq!(refused(none), Errno::NOENT, "no domain");
        let domain = made(import_pd(other.context, pd_handle));
        assert_eq!((*domain).handle, pd_handle);
        assert_eq!((*domain).context, other.context);
        let region = made(import_mr(domain, mr_handle));
        assert_eq!((*region).addr, null_mut());
        assert_eq!(((*region).lkey, (*region).rkey), ((*mr).lkey, (*mr).rkey));
        assert_eq!(((*region).length, (*region).pd), (64, domain));
        assert_eq!(refused(|| import_mr(pd, pd_handle)), Errno::NOENT);
        assert_eq!(bench.dereg_mr(mr), BUSY, "it is imported");
        let rereg = other.table().rereg_mr();
        let access = IBV_REREG_MR_CHANGE_ACCESS.cast_signed();
        let answer = rereg(region.cast(), access, null_mut(), null_mut(), 0, 1);
        assert_eq!(answer, libc::EOPNOTSUPP);
        bench.state.asked();
        unimport_mr(region);
        assert_eq!(bench.dereg_mr(mr), 0);
        assert_eq!(refused(|| import_mr(domain, mr_handle)), Errno::NOENT);
        assert_eq!(bench.dealloc_pd(pd), BUSY);
        // It remains as long as the objects made with it.
        let cq = other.cq();
        let qp = other.qp(domain, cq, IBV_QPT_RC);
        unimport_pd(domain);
        assert_eq!(bench.dealloc_pd(pd), 0);
        assert_eq!(
            refused(|| import_pd(other.context, pd_handle)),
            Errno::NOENT
        );
        assert_eq!(other.destroy_qp(qp), 0);
        assert_eq!(other.destroy_cq(cq), 0);
        // One that was not imported is left alone.
        let own = other.pd();
        unimport_pd(own);
        assert_eq!(other.dealloc_pd(own), 0);
    }
    close(other);
}

#[test]
fn memory_is_shared_until_both_have_given_it_up() {
    let bench = Bench::new();
    let other = again(&bench).expect("imported");
    let mut attr = ibv_alloc_dm_attr {
        length: 16,
        log_align_req: 0,
        comp_mask: 0,
    };
    // SAFETY: all objects are live; buffers are as long as stated.
    unsafe {
        let dm = made((bench.table().alloc_dm())(bench.context, &raw mut attr));
        let import = other.table().import_dm();
        let same = made(import(other.context, (*dm).handle));
        let mut bytes = [5u8; 4];
        let at = bytes.as_mut_ptr().cast();
        assert_eq!(((*dm).memcpy_to_dm.unwrap())(dm, 3, at, 4), 0);
        bytes.fill(0);
        let at = bytes.as_mut_ptr().cast();
        assert_eq!(((*same).memcpy_from_dm.unwrap())(at, same, 3, 4), 0);
        assert_eq!(bytes, [5; 4]);
        assert_eq!((bench.table().free_dm())(dm), BUSY);
        bench.state.asked();
        (other.table().unimport_dm())(same);
        let twice = made(import(other.context, (*dm).handle));
        assert_eq!((other.table().free_dm())(twice), 0, "gives it up too");
        assert!(bench.state.asked().is_empty(), "the provider was not asked");
        assert_eq!((bench.table().free_dm())(dm), 0);
        assert_eq!(refused(|| import(other.context, 99)), Errno::NOENT);
    }
    close(other);
}

#[test]
fn a_descriptor_is_known_until_its_last_context_is_closed() {
    let bench = Bench::new();
    let command = bench.ctx().cmd_fd().expect("a descriptor");
    let copy = command.try_clone_to_owned().expect("a copy");
    let known = |fd: BorrowedFd<'_>| command_device(fd).map(|device| device.is_some());
    assert_eq!(known(copy.as_fd()), Ok(true));
    let other = std::fs::File::open("/dev/null").expect("there");
    assert_eq!(known(other.as_fd()), Ok(false));
    // As it would come from another process.
    let foreign = rustix::fs::memfd_create("verbs", rustix::fs::MemfdFlags::CLOEXEC);
    let foreign = foreign.expect("memory");
    assert_eq!(known(foreign.as_fd()), Err(Errno::OPNOTSUPP));
    let second = again(&bench).expect("imported");
    close(second);
    assert_eq!(known(copy.as_fd()), Ok(true));
    drop(bench);
    assert_eq!(known(copy.as_fd()), Err(Errno::OPNOTSUPP));
}

#[test]
fn a_context_that_cannot_be_imported_leaves_the_descriptor() {
    let bench = Bench::new();
    let held = bench.device.clone().expect("a device");
    let driver: Driver = held.device().driver().unwrap();
    let other = std::fs::File::open("/dev/null").expect("there");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&other.as_fd());
    errno::set(Errno(0));
    // SAFETY: the driver is the device's own.
    unsafe {
        assert!(driver.import_context(held.device(), fd).is_none());
        assert_eq!(errno::get(), Errno::INVAL);
        assert!(driver.import_context(held.device(), -1).is_none());
    }
    assert!(other.metadata().is_ok(), "still open");
}
