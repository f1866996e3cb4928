//! Destruction: method, write command, a device that is gone.

use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;
use crate::errno::{Errno, Result};
use crate::uverbs::fake::{Call, Fake, with_disassociate};
use crate::uverbs::{ah, counters, destroyed, dm, gone, mr, pd};
use core::sync::atomic::Ordering;

use crate::uverbs::Kernel as _;

type Destroy = fn(&Fake<'static>, u32) -> Result<()>;

/// Each destroy command, its object and method, its write command.
const ALL: [(Destroy, u16, u16, Option<u32>); 7] = [
    (
        pd::dealloc_pd,
        UVERBS_OBJECT_PD,
        UVERBS_METHOD_PD_DESTROY,
        Some(IB_USER_VERBS_CMD_DEALLOC_PD),
    ),
    (
        pd::close_xrcd,
        UVERBS_OBJECT_XRCD,
        UVERBS_METHOD_XRCD_DESTROY,
        Some(IB_USER_VERBS_CMD_CLOSE_XRCD),
    ),
    (
        mr::dereg_mr,
        UVERBS_OBJECT_MR,
        UVERBS_METHOD_MR_DESTROY,
        Some(IB_USER_VERBS_CMD_DEREG_MR),
    ),
    (
        mr::dealloc_mw,
        UVERBS_OBJECT_MW,
        UVERBS_METHOD_MW_DESTROY,
        Some(IB_USER_VERBS_CMD_DEALLOC_MW),
    ),
    (
        ah::destroy_ah,
        UVERBS_OBJECT_AH,
        UVERBS_METHOD_AH_DESTROY,
        Some(IB_USER_VERBS_CMD_DESTROY_AH),
    ),
    (dm::free_dm, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, None),
    (
        counters::destroy_counters,
        UVERBS_OBJECT_COUNTERS,
        UVERBS_METHOD_COUNTERS_DESTROY,
        None,
    ),
];

#[test]
fn each_names_its_object_to_its_method() {
    for (destroy, object, method, _) in ALL {
        let kernel = Fake::new(|_| Ok(()), |_| panic!("written"));
        destroy(&kernel, 77).unwrap();
        let asked = kernel.asked.borrow();
        let [Call::Ioctl(o, m, attrs)] = asked.as_slice() else {
            panic!("{asked:?}");
        };
        assert_eq!((*o, *m), (object, method));
        assert_eq!((attrs.len(), attrs[0].0.id, attrs[0].0.data), (1, 0, 77));
    }
}

#[test]
fn each_is_written_where_the_kernel_has_no_method() {
    for (destroy, _, _, number) in ALL {
        let kernel = Fake::new(|_| Err(Errno::PROTONOSUPPORT), |_| Ok(()));
        kernel.private().ioctl_write.store(false, Ordering::Relaxed);
        let answer = destroy(&kernel, 77);
        let Some(number) = number else {
            assert_eq!(answer, Err(Errno::PROTONOSUPPORT));
            continue;
        };
        assert_eq!(answer, Ok(()));
        let want = Call::Write(number, 77u32.to_ne_bytes().to_vec(), vec![], 0, 0);
        assert_eq!(kernel.asked.borrow()[1], want);
    }
}

#[test]
fn a_device_that_is_gone_counts_as_success_when_allowed() {
    let mcast = |k: &Fake<'static>, qp: u32| ah::detach_mcast(k, qp, [0; 16], 1);
    let gone_kernel = || Fake::new(|_| Err(Errno::IO), |_| Err(Errno::IO));
    for destroy in ALL.map(|a| a.0).into_iter().chain([mcast as Destroy]) {
        let answer = with_disassociate(false, || destroy(&gone_kernel(), 1));
        assert_eq!(answer, Err(Errno::IO));
        let answer = with_disassociate(true, || destroy(&gone_kernel(), 1));
        assert_eq!(answer, Ok(()));
    }
    with_disassociate(true, || {
        assert_eq!(destroyed(Err(Errno::BUSY)), Err(Errno::BUSY));
        assert!(gone(Errno::IO));
    });
    with_disassociate(false, || assert!(!gone(Errno::IO)));
}
