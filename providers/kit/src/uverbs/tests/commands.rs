//! The request of each command to the kernel, and how its answer is used.

use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;
use crate::abi::{IBV_ACCESS_ON_DEMAND, IBV_ACCESS_ZERO_BASED, IBV_REREG_MR_CHANGE_PD};
use crate::errno::Errno;
use crate::uverbs::fake::{Call, Fake};
use crate::uverbs::mr::{Cover, Region};
use crate::uverbs::{Driver, Ioctl, Kernel as _, ah, context, counters, dm, gid, mr, pd};
use bytemuck::Pod;
use proptest::prelude::*;
use std::os::fd::{AsRawFd, IntoRawFd};

/// A kernel that takes written commands only, and answers `answer`.
pub(super) fn written(answer: &impl Pod) -> Fake<'static> {
    let answer = bytemuck::bytes_of(answer).to_vec();
    let kernel = Fake::new(
        |_| Err(Errno(libc::ENOTTY)),
        move |request| {
            let out = request.parts().core_out;
            out.copy_from_slice(&answer[..out.len()]);
            Ok(())
        },
    );
    kernel.private().set_all_ioctls_unsupported();
    kernel
}

/// Number and structure of the one command written.
pub(super) fn reported<T: Pod>(kernel: &Fake<'_>) -> (u32, T) {
    let asked = kernel.asked.borrow();
    let [Call::Write(number, core, ..)] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    (*number, bytemuck::pod_read_unaligned(core))
}

/// A kernel that executes methods by `answer`.
pub(super) fn method<'f>(mut answer: impl FnMut(&mut Ioctl<'_>) + 'f) -> Fake<'f> {
    Fake::new(
        move |call| {
            answer(call);
            Ok(())
        },
        |_| panic!("written"),
    )
}

pub(super) fn number(call: &Ioctl<'_>, id: u16) -> u64 {
    let mut bytes = call.input(id).unwrap();
    bytes.resize(8, 0);
    u64::from_ne_bytes(bytes.try_into().unwrap())
}

pub(super) fn handle(call: &Ioctl<'_>, id: u16) -> u64 {
    call.attrs().iter().find(|a| a.id == id).unwrap().data
}

proptest! {
    #[test]
    fn reg_mr(pd: u32, start: u64, length: u64, iova: u64, access: u32, keys: [u32; 3]) {
        let access = access & !IBV_ACCESS_ON_DEMAND;
        let [mr_handle, lkey, rkey] = keys;
        let kernel = written(&ib_uverbs_reg_mr_resp { mr_handle, lkey, rkey });
        let cover = Cover { start, length, iova, access };
        let made = mr::reg_mr(&kernel, pd, &cover, &mut Driver::none());
        prop_assert_eq!(made, Ok(Region { handle: mr_handle, lkey, rkey }));
        let (number, c) = reported::<ib_uverbs_reg_mr>(&kernel);
        prop_assert_eq!(number, IB_USER_VERBS_CMD_REG_MR);
        prop_assert_eq!((c.start, c.length, c.hca_va), (start, length, iova));
        prop_assert_eq!((c.pd_handle, c.access_flags), (pd, access));
    }

    #[test]
    fn rereg_mr(mr: u32, flags in 0u32..8, pd: u32, start: u64, length: u64, keys: [u32; 2]) {
        let [lkey, rkey] = keys;
        let kernel = written(&ib_uverbs_rereg_mr_resp { lkey, rkey });
        let cover = Cover { start, length, iova: 5, access: 1 };
        let made = mr::rereg_mr(&kernel, mr, flags, Some(pd), &cover, &mut Driver::none());
        prop_assert_eq!(made, Ok(Region { handle: mr, lkey, rkey }));
        let (_, c) = reported::<ib_uverbs_rereg_mr>(&kernel);
        let domain = if flags & IBV_REREG_MR_CHANGE_PD == 0 { 0 } else { pd };
        prop_assert_eq!((c.mr_handle, c.flags, c.pd_handle), (mr, flags, domain));
        prop_assert_eq!((c.start, c.length, c.hca_va, c.access_flags), (start, length, 5, 1));
    }

    #[test]
    fn create_ah(pd: u32, name: u64, dgid: [u8; 16], dlid: u16, handle: u32) {
        let kernel = written(&ib_uverbs_create_ah_resp { ah_handle: handle });
        let grh = ib_uverbs_global_route { dgid, hop_limit: 7, ..Default::default() };
        let attr = ib_uverbs_ah_attr { grh, dlid, ..Default::default() };
        let made = ah::create_ah(&kernel, pd, name, attr, &mut Driver::none());
        prop_assert_eq!(made, Ok(handle));
        let (number, c) = reported::<ib_uverbs_create_ah>(&kernel);
        prop_assert_eq!(number, IB_USER_VERBS_CMD_CREATE_AH);
        prop_assert_eq!((c.user_handle, c.pd_handle), (name, pd));
        prop_assert_eq!(bytemuck::bytes_of(&c.attr), bytemuck::bytes_of(&attr));
    }

    #[test]
    fn multicast(qp: u32, gid: [u8; 16], lid: u16) {
        let kernel = written(&());
        prop_assert_eq!(ah::attach_mcast(&kernel, qp, gid, lid), Ok(()));
        let (number, c) = reported::<ib_uverbs_attach_mcast>(&kernel);
        prop_assert_eq!(number, IB_USER_VERBS_CMD_ATTACH_MCAST);
        prop_assert_eq!((c.gid, c.qp_handle, c.mlid), (gid, qp, lid));
        let kernel = written(&());
        prop_assert_eq!(ah::detach_mcast(&kernel, qp, gid, lid), Ok(()));
        let (number, c) = reported::<ib_uverbs_detach_mcast>(&kernel);
        prop_assert_eq!(number, IB_USER_VERBS_CMD_DETACH_MCAST);
        prop_assert_eq!((c.gid, c.qp_handle, c.mlid), (gid, qp, lid));
    }

    #[test]
    fn reg_dm_mr(pd: u32, memory: u32, offset: u64, length: u64, keys: [u32; 3]) {
        let kernel = method(|call| {
            assert_eq!(handle(call, UVERBS_ATTR_REG_DM_MR_PD_HANDLE), u64::from(pd));
            assert_eq!(handle(call, UVERBS_ATTR_REG_DM_MR_DM_HANDLE), u64::from(memory));
            assert_eq!(number(call, UVERBS_ATTR_REG_DM_MR_OFFSET), offset);
            assert_eq!(number(call, UVERBS_ATTR_REG_DM_MR_LENGTH), length);
            call.answer(UVERBS_ATTR_REG_DM_MR_HANDLE, &keys[0].to_ne_bytes());
            call.answer(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &keys[1].to_ne_bytes());
            call.answer(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &keys[2].to_ne_bytes());
        });
        let access = IBV_ACCESS_ZERO_BASED;
        let mut none = Driver::none();
        let made = dm::reg_dm_mr(&kernel, pd, memory, (offset, length), access, &mut none);
        prop_assert_eq!(made, Ok(Region { handle: keys[0], lkey: keys[1], rkey: keys[2] }));
    }

    #[test]
    fn dmabuf(pd: u32, start: u64, length: u64, iova: u64, fd: i32, access: u32, keys: [u32; 3]) {
        let kernel = method(|call| {
            assert_eq!(call.target(), (UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR));
            assert_eq!(handle(call, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE), u64::from(pd));
            assert_eq!(number(call, UVERBS_ATTR_REG_DMABUF_MR_OFFSET), start);
            assert_eq!(number(call, UVERBS_ATTR_REG_DMABUF_MR_LENGTH), length);
            assert_eq!(number(call, UVERBS_ATTR_REG_DMABUF_MR_IOVA), iova);
            assert_eq!(call.input(UVERBS_ATTR_REG_DMABUF_MR_FD).unwrap(), fd.to_ne_bytes());
            let flags = call.input(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS).unwrap();
            assert_eq!(flags, access.to_ne_bytes());
            call.answer(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, &keys[0].to_ne_bytes());
            call.answer(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &keys[1].to_ne_bytes());
            call.answer(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &keys[2].to_ne_bytes());
        });
        let cover = Cover { start, length, iova, access };
        let made = mr::reg_dmabuf_mr(&kernel, pd, &cover, fd, &mut Driver::none());
        prop_assert_eq!(made, Ok(Region { handle: keys[0], lkey: keys[1], rkey: keys[2] }));
    }
}

#[test]
fn the_whole_address_space_starts_at_zero() {
    let kernel = written(&ib_uverbs_reg_mr_resp::default());
    let mut cover = Cover {
        start: 4096,
        length: u64::MAX,
        iova: 0,
        access: IBV_ACCESS_ON_DEMAND,
    };
    let made = mr::reg_mr(&kernel, 1, &cover, &mut Driver::none());
    assert_eq!(made, Err(Errno::INVAL));
    assert!(kernel.asked.borrow().is_empty());
    cover.start = 0;
    assert!(mr::reg_mr(&kernel, 1, &cover, &mut Driver::none()).is_ok());
}

#[test]
fn a_change_of_domain_needs_one() {
    let kernel = written(&ib_uverbs_rereg_mr_resp::default());
    let cover = Cover::default();
    let flags = IBV_REREG_MR_CHANGE_PD;
    let made = mr::rereg_mr(&kernel, 1, flags, None, &cover, &mut Driver::none());
    assert_eq!(made, Err(Errno::INVAL));
}

#[test]
fn domains_and_windows() {
    let kernel = written(&ib_uverbs_open_xrcd_resp { xrcd_handle: 3 });
    let open = pd::open_xrcd(&kernel, u32::MAX, 0o100, &mut Driver::none());
    assert_eq!(open, Ok(3));
    let (number, c) = reported::<ib_uverbs_open_xrcd>(&kernel);
    assert_eq!((number, c.fd, c.oflags), (37, u32::MAX, 0o100));

    let answer = ib_uverbs_alloc_mw_resp {
        mw_handle: 4,
        rkey: 5,
    };
    let kernel = written(&answer);
    let made = mr::alloc_mw(&kernel, 9, 2, &mut Driver::none());
    assert_eq!(made, Ok((4, 5)));
    let (number, c) = reported::<ib_uverbs_alloc_mw>(&kernel);
    assert_eq!((number, c.pd_handle, c.mw_type), (14, 9, 2));
    let bad = mr::alloc_mw(&kernel, 9, 258, &mut Driver::none());
    assert_eq!(bad, Err(Errno::INVAL));
}

#[test]
fn device_memory_has_no_address() {
    let kernel = method(|_| panic!("asked"));
    let made = dm::reg_dm_mr(&kernel, 1, 2, (0, 8), 1, &mut Driver::none());
    assert_eq!(made, Err(Errno::INVAL));
}

#[test]
fn device_memory_and_counters_are_made() {
    let kernel = method(|call| {
        assert_eq!(number(call, UVERBS_ATTR_ALLOC_DM_LENGTH), 4096);
        assert_eq!(number(call, UVERBS_ATTR_ALLOC_DM_ALIGNMENT), 6);
        call.answer(UVERBS_ATTR_ALLOC_DM_HANDLE, &[9]);
    });
    assert_eq!(dm::alloc_dm(&kernel, 4096, 6, &mut Driver::none()), Ok(9));

    let kernel = method(|call| call.answer(UVERBS_ATTR_CREATE_COUNTERS_HANDLE, &[8]));
    assert_eq!(
        counters::create_counters(&kernel, &mut Driver::none()),
        Ok(8)
    );

    let kernel = method(|call| {
        assert_eq!(handle(call, UVERBS_ATTR_READ_COUNTERS_HANDLE), 8);
        assert_eq!(number(call, UVERBS_ATTR_READ_COUNTERS_FLAGS), 1);
        call.answer(UVERBS_ATTR_READ_COUNTERS_BUFF, &[1; 16]);
    });
    let mut values = [0; 16];
    let read = counters::read_counters(&kernel, 8, &mut values, 1, &mut Driver::none());
    assert_eq!((read, values), (Ok(()), [1; 16]));
}

#[test]
fn a_region_of_another_process_is_described() {
    let kernel = method(|call| {
        assert_eq!(handle(call, UVERBS_ATTR_QUERY_MR_HANDLE), 6);
        call.answer(UVERBS_ATTR_QUERY_MR_RESP_LKEY, &1u32.to_ne_bytes());
        call.answer(UVERBS_ATTR_QUERY_MR_RESP_RKEY, &2u32.to_ne_bytes());
        call.answer(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &3u64.to_ne_bytes());
    });
    let region = Region {
        handle: 6,
        lkey: 1,
        rkey: 2,
    };
    assert_eq!(mr::query_mr(&kernel, 6), Ok((region, 3)));
}

#[test]
fn advice_names_ranges() {
    let ranges = [7u8; 32];
    let kernel = method(|call| {
        assert_eq!(handle(call, UVERBS_ATTR_ADVISE_MR_PD_HANDLE), 5);
        assert_eq!(number(call, UVERBS_ATTR_ADVISE_MR_ADVICE), 1);
        assert_eq!(number(call, UVERBS_ATTR_ADVISE_MR_FLAGS), 1);
        assert_eq!(call.input(UVERBS_ATTR_ADVISE_MR_SGE_LIST).unwrap(), [7; 32]);
    });
    assert_eq!(mr::advise_mr(&kernel, 5, 1, 1, &ranges), Ok(()));
}

#[test]
fn a_context_is_queried_by_method_and_by_write() {
    let kernel = method(|call| {
        call.answer(
            UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS,
            &4u32.to_ne_bytes(),
        );
        call.answer(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &1u64.to_ne_bytes());
    });
    for get in [context::get_context, context::query_context] {
        let reported = get(&kernel, &mut Driver::none()).unwrap();
        assert_eq!(
            (reported.num_comp_vectors, reported.core_support),
            (4, Some(1))
        );
        assert!(reported.async_fd.is_none());
    }

    let fd = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
    let kernel = written(&ib_uverbs_get_context_resp {
        async_fd: u32::try_from(fd).unwrap(),
        num_comp_vectors: 2,
    });
    let reported = context::get_context(&kernel, &mut Driver::none()).unwrap();
    assert_eq!(
        (reported.num_comp_vectors, reported.core_support),
        (2, None)
    );
    assert_eq!(reported.async_fd.unwrap().as_raw_fd(), fd);
}

#[test]
fn descriptors_of_events_are_made() {
    let fd = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
    let bits = u32::try_from(fd).unwrap();
    let id = UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE;
    let kernel = method(|call| call.answer(id, &bits.to_ne_bytes()));
    assert_eq!(context::alloc_async_fd(&kernel).unwrap().as_raw_fd(), fd);

    let fd = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
    let kernel = written(&ib_uverbs_create_comp_channel_resp {
        fd: u32::try_from(fd).unwrap(),
    });
    let made = context::create_comp_channel(&kernel).unwrap();
    assert_eq!(made.as_raw_fd(), fd);
    let kernel = written(&ib_uverbs_create_comp_channel_resp { fd: u32::MAX });
    let made = context::create_comp_channel(&kernel);
    assert_eq!(made.err(), Some(Errno(libc::EBADF)));
}

#[test]
fn gid_queries_fall_back_without_flags_only() {
    let mut entry = [0; 32];
    let kernel = method(|call| {
        assert_eq!(number(call, UVERBS_ATTR_QUERY_GID_ENTRY_PORT), 1);
        assert_eq!(number(call, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX), 2);
        call.answer(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &[5; 32]);
    });
    assert_eq!(gid::query_gid_entry(&kernel, 1, 2, 0, &mut entry), Ok(true));
    assert_eq!(entry, [5; 32]);

    let kernel = method(|call| {
        assert_eq!(number(call, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE), 32);
        let id = UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES;
        call.answer(id, &1u64.to_ne_bytes());
    });
    let read = gid::query_gid_table(&kernel, 32, 0, &mut [0; 64]);
    assert_eq!(read, Ok(Some(1)));

    let old = written(&());
    assert_eq!(gid::query_gid_entry(&old, 1, 2, 0, &mut entry), Ok(false));
    assert_eq!(gid::query_gid_table(&old, 32, 0, &mut [0; 64]), Ok(None));
    let flags = gid::query_gid_entry(&old, 1, 2, 1, &mut entry);
    assert_eq!(flags, Err(Errno::OPNOTSUPP));
    let flags = gid::query_gid_table(&old, 32, 1, &mut [0; 64]);
    assert_eq!(flags, Err(Errno::OPNOTSUPP));

    let empty = Fake::new(|_| Err(Errno::NODATA), |_| panic!("written"));
    let answer = gid::query_gid_entry(&empty, 1, 2, 0, &mut entry);
    assert_eq!(answer, Err(Errno::NODATA));
}
