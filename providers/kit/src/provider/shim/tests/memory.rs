//! Memory regions, windows and device memory.

use super::*;
use core::ffi::c_void;

#[test]
fn a_region_shows_its_keys_and_range() {
    let bench = Bench::new();
    let pd = bench.pd();
    let mut bytes = [0u8; 64];
    let mr = bench.mr(pd, &mut bytes);
    // SAFETY: the region is live.
    let c = unsafe { *mr.cast::<verbs_mr>() };
    assert_eq!(c.ibv_mr.context, bench.context);
    assert_eq!((c.ibv_mr.pd, c.ibv_mr.length), (pd, 64));
    assert_eq!(c.ibv_mr.addr, bytes.as_mut_ptr().cast());
    assert_eq!(c.ibv_mr.rkey, c.ibv_mr.lkey + 1000);
    assert_eq!((c.mr_type, c.access), (IBV_MR_TYPE_MR, 1));
    assert_eq!(bench.dealloc_pd(pd), BUSY);
    bench.state.refuse(Errno::BUSY);
    assert_eq!(bench.dereg_mr(mr), BUSY, "a window is bound");
    assert_eq!(bench.dereg_mr(mr), 0);
    assert_eq!(bench.dereg_mr(null_mut()), INVAL);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn ranges_that_are_none_are_refused() {
    let bench = Bench::new();
    let pd = bench.pd();
    let reg = bench.table().reg_mr();
    let last: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);
    // SAFETY: the domain is live; the ranges are not used.
    unsafe {
        assert_eq!(refused(|| reg(pd, last, 2, 0, 0)), Errno::INVAL);
        assert_eq!(refused(|| reg(null_mut(), last, 1, 0, 0)), Errno::INVAL);
        let page = core::ptr::without_provenance_mut(4096);
        bench.state.refuse(Errno(libc::EFAULT));
        assert_eq!(refused(|| reg(pd, page, 1, 5, 1)), Errno(libc::EFAULT));
        // Implicit on-demand paging.
        let access = IBV_ACCESS_ON_DEMAND.cast_signed();
        bench.state.asked();
        let all = made(reg(pd, null_mut(), usize::MAX, 0, access));
        assert_eq!(bench.state.asked(), [format!("reg_mr {} 0 64", usize::MAX)]);
        assert_eq!(bench.dereg_mr(all), 0);
    }
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn reregistration_changes_the_parts_that_the_flags_name() {
    let bench = Bench::new();
    let (pd, next) = (bench.pd(), bench.pd());
    let mut bytes = [0u8; 64];
    let mr = bench.mr(pd, &mut bytes);
    let rereg = bench.table().rereg_mr();
    let vmr = mr.cast::<verbs_mr>();
    bench.state.asked();
    // SAFETY: region and domains are live.
    unsafe {
        let lkey = (*mr).lkey;
        bench.state.refuse(Errno(libc::EFAULT));
        let t = IBV_REREG_MR_CHANGE_TRANSLATION.cast_signed();
        let addr = bytes.as_mut_ptr().cast::<c_void>();
        assert_eq!(rereg(vmr, t, null_mut(), addr, 32, 0), libc::EFAULT);
        assert_eq!(((*mr).length, (*mr).lkey), (64, lkey), "as it was");
        assert_eq!(rereg(vmr, t, null_mut(), addr, 32, 0), 0);
        assert_eq!(((*mr).length, (*mr).lkey), (32, lkey + 1));
        assert_eq!(rereg(vmr, 2, next, null_mut(), 0, 0), 0);
        assert_eq!((*mr).pd, next);
        assert_eq!(rereg(vmr, 4, null_mut(), null_mut(), 0, 3), 0);
        assert_eq!((*vmr).access, 3);
        assert_eq!(rereg(vmr, 8, null_mut(), null_mut(), 0, 0), INVAL);
        assert_eq!(rereg(vmr, 2, null_mut(), null_mut(), 0, 0), INVAL);
    }
    assert_eq!(
        bench.state.asked(),
        [
            "rereg_mr Some(32) false None",
            "rereg_mr Some(32) false None",
            "rereg_mr None true None",
            "rereg_mr None false Some(3)",
        ]
    );
    assert_eq!(bench.dealloc_pd(pd), 0, "left behind");
    assert_eq!(bench.dealloc_pd(next), BUSY);
    assert_eq!(bench.dereg_mr(mr), 0);
    assert_eq!(bench.dealloc_pd(next), 0);
}

#[test]
fn null_regions_and_advice() {
    let bench = Bench::new();
    let pd = bench.pd();
    let advise = bench.table().advise_mr();
    let mut list = [ibv_sge {
        addr: 0,
        length: 1,
        lkey: 2,
    }; 3];
    let at = list.as_mut_ptr();
    // SAFETY: the domain is live, and the list as long as stated.
    unsafe {
        let mr = made((bench.table().alloc_null_mr())(pd));
        assert_eq!((*mr.cast::<verbs_mr>()).mr_type, IBV_MR_TYPE_NULL_MR);
        assert_eq!((*mr).pd, pd);
        assert_eq!(bench.dereg_mr(mr), 0);
        bench.state.asked();
        assert_eq!(advise(pd, 1, 1, at, 3), 0);
        assert_eq!(bench.state.asked(), ["advise_mr 1 1 3"]);
        assert_eq!(advise(pd, 1, 1, at, 0), INVAL);
        assert_eq!(advise(pd, 1, 1, null_mut(), 3), INVAL);
        assert_eq!(advise(null_mut(), 1, 1, at, 3), INVAL);
    }
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn windows_are_bound_by_their_own_verb() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    let qp = bench.qp(pd, cq, IBV_QPT_RC);
    let mut bytes = [0u8; 64];
    let mr = bench.mr(pd, &mut bytes);
    let (alloc, dealloc) = (bench.table().alloc_mw(), bench.table().dealloc_mw());
    let bind = bench.table().bind_mw();
    // SAFETY: all objects are live.
    unsafe {
        assert_eq!(refused(|| alloc(pd, 3)), Errno::INVAL);
        let mw = made(alloc(pd, IBV_MW_TYPE_1));
        let born = (*mw).rkey;
        assert_eq!(((*mw).pd, (*mw).type_), (pd, IBV_MW_TYPE_1));
        let mut request = ibv_mw_bind {
            wr_id: 7,
            send_flags: 2,
            bind_info: ibv_mw_bind_info {
                mr,
                addr: 0,
                length: 64,
                mw_access_flags: 2,
            },
        };
        bench.state.refuse(Errno::NOMEM);
        assert_eq!(bind(qp, mw, &raw mut request), libc::ENOMEM);
        assert_eq!((*mw).rkey, born);
        bench.state.asked();
        assert_eq!(bind(qp, mw, &raw mut request), 0);
        assert_eq!((*mw).rkey, born + 1);
        request.bind_info.mr = null_mut();
        request.bind_info.length = 0;
        assert_eq!(bind(qp, mw, &raw mut request), 0);
        assert_eq!(
            bench.state.asked(),
            ["bind_mw 7 2 true 64", "bind_mw 7 2 false 0"]
        );
        assert_eq!(bind(qp, mw, null_mut()), INVAL);
        assert_eq!(bind(qp, null_mut(), &raw mut request), INVAL);
        let other = Bench::new();
        let far = other.pd();
        let far_mr = other.mr(far, &mut bytes);
        request.bind_info.mr = far_mr;
        assert_eq!(bind(qp, mw, &raw mut request), INVAL);
        assert_eq!(other.dereg_mr(far_mr), 0);
        request.bind_info.mr = mr;
        assert_eq!(bind(null_mut(), mw, &raw mut request), INVAL);
        let far_cq = other.cq();
        let far_qp = other.qp(far, far_cq, IBV_QPT_RC);
        assert_eq!(bind(far_qp, mw, &raw mut request), INVAL);
        assert_eq!(other.destroy_qp(far_qp), 0);
        assert_eq!(other.destroy_cq(far_cq), 0);
        assert_eq!(other.dealloc_pd(far), 0);
        assert_eq!(bench.dealloc_pd(pd), BUSY);
        assert_eq!(dealloc(mw), 0);
        assert_eq!(dealloc(null_mut()), INVAL);
    }
    assert_eq!(bench.dereg_mr(mr), 0);
    assert_eq!(bench.destroy_qp(qp), 0);
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn device_memory_is_copied_and_registered() {
    let bench = Bench::new();
    let pd = bench.pd();
    let mut attr = ibv_alloc_dm_attr {
        length: 16,
        log_align_req: 3,
        comp_mask: 0,
    };
    let (alloc, free) = (bench.table().alloc_dm(), bench.table().free_dm());
    let reg = bench.table().reg_dm_mr();
    // SAFETY: memory and domain are live; buffers are as long as stated.
    unsafe {
        let dm = made(alloc(bench.context, &raw mut attr));
        let (to, from) = ((*dm).memcpy_to_dm.unwrap(), (*dm).memcpy_from_dm.unwrap());
        let mut bytes = [1u8, 2, 3, 4];
        let at = bytes.as_mut_ptr().cast::<c_void>();
        assert_eq!(to(dm, 12, at, 4), 0);
        assert_eq!(to(dm, 13, at, 4), libc::EFAULT);
        assert_eq!(to(dm, 0, core::ptr::null(), 4), INVAL);
        assert_eq!(to(dm, 0, core::ptr::null(), 0), 0);
        assert_eq!(to(dm, 0, at, usize::MAX), libc::EFAULT);
        assert_eq!(from(at, dm, 11, 4), 0);
        assert_eq!(bytes, [0, 1, 2, 3]);
        assert_eq!(from(null_mut(), dm, 0, 1), INVAL);
        bench.state.asked();
        let mr = made(reg(pd, dm, 4, 8, 0x21));
        assert_eq!(bench.state.asked(), ["reg_dm_mr 4 8 33"]);
        assert_eq!(((*mr).addr, (*mr).length), (null_mut(), 8));
        assert_eq!(free(dm), BUSY);
        assert_eq!(bench.dereg_mr(mr), 0);
        assert_eq!(refused(|| reg(pd, null_mut(), 4, 8, 0)), Errno::INVAL);
        assert_eq!(free(dm), 0);
        attr.comp_mask = 1;
        let again = || alloc(bench.context, &raw mut attr);
        assert_eq!(refused(again), Errno::OPNOTSUPP);
        assert_eq!(refused(|| alloc(bench.context, null_mut())), Errno::INVAL);
    }
    assert_eq!(bench.dealloc_pd(pd), 0);
}
