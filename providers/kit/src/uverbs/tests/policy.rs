//! Which way a command takes.

use crate::abi::kernel::ib_uverbs_dealloc_pd;
use crate::abi::kernel::ioctl::*;
use crate::errno::{Errno, Result};
use crate::table::slot;
use crate::uverbs::fake::{Call, Fake};
use crate::uverbs::path::settle;
use crate::uverbs::{Driver, Fallback, Ioctl, Kernel, Path, try_ioctl, write};
use core::sync::atomic::Ordering;

const NOTTY: Errno = Errno(libc::ENOTTY);

fn refusing(e: Errno) -> Fake<'static> {
    Fake::new(move |_| Err(e), |_| Ok(()))
}

fn ask(kernel: &Fake<'_>, slot: usize, fallback: Fallback) -> Result<Path> {
    try_ioctl(kernel, slot, &mut Ioctl::new(3, 0), fallback)
}

fn times(kernel: &Fake<'_>) -> usize {
    kernel.asked.borrow().len()
}

#[test]
fn a_kernel_that_knows_the_method_is_asked_each_time() {
    let kernel = Fake::new(|_| Ok(()), |_| Ok(()));
    for _ in 0..3 {
        assert_eq!(
            ask(&kernel, slot::create_cq, Fallback::Write),
            Ok(Path::Ioctl)
        );
    }
    assert_eq!(times(&kernel), 3);
}

#[test]
fn an_unknown_method_is_tried_once() {
    let kernel = refusing(Errno::PROTONOSUPPORT);
    let cq = slot::create_cq;
    assert_eq!(ask(&kernel, cq, Fallback::Write), Ok(Path::Write));
    assert_eq!(ask(&kernel, cq, Fallback::WriteEx), Ok(Path::WriteEx));
    assert_eq!(ask(&kernel, cq, Fallback::None), Err(Errno::OPNOTSUPP));
    assert_eq!(times(&kernel), 1);
    assert_eq!(
        ask(&kernel, slot::create_qp, Fallback::Write),
        Ok(Path::Write)
    );
    assert_eq!(times(&kernel), 2);
}

#[test]
fn a_kernel_without_ioctls_is_tried_once_for_all() {
    let kernel = refusing(NOTTY);
    assert_eq!(
        ask(&kernel, slot::create_cq, Fallback::None),
        Err(Errno::OPNOTSUPP)
    );
    assert_eq!(
        ask(&kernel, slot::query_port, Fallback::Write),
        Ok(Path::Write)
    );
    assert_eq!(times(&kernel), 1);
}

#[test]
fn any_other_errno_is_the_answer() {
    for e in [
        libc::EINVAL,
        libc::EOPNOTSUPP,
        libc::ENOSYS,
        libc::EIO,
        libc::ENOSPC,
    ] {
        let kernel = refusing(Errno(e));
        for _ in 0..2 {
            assert_eq!(
                ask(&kernel, slot::create_cq, Fallback::Write),
                Err(Errno(e))
            );
        }
        assert_eq!(times(&kernel), 2);
    }
}

fn carries(kernel: &Fake<'_>) -> bool {
    kernel.private().ioctl_write.load(Ordering::Relaxed)
}

#[test]
fn write_commands_are_carried_unless_the_kernel_cannot() {
    for (e, want) in [
        (Errno(libc::ENOSPC), true),
        (Errno::INVAL, true),
        (Errno::PROTONOSUPPORT, false),
        (NOTTY, false),
    ] {
        let kernel = refusing(e);
        settle(&kernel, false);
        assert_eq!(carries(&kernel), want, "{e:?}");
        let asked = kernel.asked.borrow();
        let [Call::Ioctl(object, method, attrs)] = asked.as_slice() else {
            panic!("{asked:?}");
        };
        assert_eq!(
            (*object, *method),
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE)
        );
        assert_eq!(attrs.len(), 1);
        assert_eq!(attrs[0].1, Some(1u64.to_ne_bytes().to_vec()));
    }
}

#[test]
fn forced_to_write_no_ioctl_is_issued() {
    let kernel = refusing(Errno::IO);
    settle(&kernel, true);
    assert!(!carries(&kernel));
    assert_eq!(
        ask(&kernel, slot::create_cq, Fallback::Write),
        Ok(Path::Write)
    );
    assert_eq!(
        ask(&kernel, slot::create_wq, Fallback::None),
        Err(Errno::OPNOTSUPP)
    );
    let command = ib_uverbs_dealloc_pd { pd_handle: 1 };
    assert_eq!(write(&kernel, &command, &mut Driver::none()), Ok(()));
    let asked = kernel.asked.borrow();
    assert!(matches!(asked.as_slice(), [Call::Write(..)]), "{asked:?}");
}
