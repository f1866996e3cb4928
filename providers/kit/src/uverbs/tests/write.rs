//! Write commands and driver data, on both ways.

use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;
use crate::errno::{Errno, Result};
use crate::sys::command::WriteCommand;
use crate::sys::write::Request;
use crate::uverbs::fake::Fake;
use crate::uverbs::{Driver, Ioctl, Kernel, context, write, write_parts};
use core::sync::atomic::Ordering;
use proptest::prelude::*;
use std::cell::RefCell;

/// The data that the kernel received: structure and driver data.
type Seen = RefCell<(Vec<u8>, Vec<u8>)>;

fn on_ioctl(call: &mut Ioctl<'_>, seen: &Seen, core: &[u8], driver: &[u8]) -> Result<()> {
    let input = |id| call.input(id).unwrap_or_default();
    seen.replace((input(UVERBS_ATTR_CORE_IN), input(UVERBS_ATTR_UHW_IN)));
    for (id, answer) in [(UVERBS_ATTR_CORE_OUT, core), (UVERBS_ATTR_UHW_OUT, driver)] {
        if call.attrs().iter().any(|attr| attr.id == id) {
            call.answer(id, answer);
        }
    }
    Ok(())
}

fn on_write(request: &mut Request<'_>, seen: &Seen, core: &[u8], driver: &[u8]) -> Result<()> {
    let parts = request.parts();
    seen.replace((parts.core_in.to_vec(), parts.driver_in.to_vec()));
    let copy = |to: &mut [u8], from: &[u8]| {
        let n = to.len().min(from.len());
        to[..n].copy_from_slice(&from[..n]);
    };
    copy(parts.core_out, core);
    copy(parts.driver_out, driver);
    Ok(())
}

/// A kernel that answers those bytes, on the way asked for.
fn kernel<'f>(carried: bool, seen: &'f Seen, core: &'f [u8], driver: &'f [u8]) -> Fake<'f> {
    let fake = Fake::new(
        move |call| on_ioctl(call, seen, core, driver),
        move |request| on_write(request, seen, core, driver),
    );
    let flag = &fake.private().ioctl_write;
    flag.store(carried, Ordering::Relaxed);
    fake
}

const COMMAND: ib_uverbs_reg_mr = ib_uverbs_reg_mr {
    response: 0,
    start: 1,
    length: 2,
    hca_va: 3,
    pd_handle: 4,
    access_flags: 5,
};

fn words(of: usize) -> impl Strategy<Value = Vec<u8>> {
    (0usize..20).prop_flat_map(move |n| prop::collection::vec(any::<u8>(), n * of))
}

proptest! {
    #[test]
    fn both_interfaces_pass_and_return_the_same(
        carried: bool, din in words(4), dout in words(4), handle: u32, lkey: u32, rkey: u32,
    ) {
        let answer = ib_uverbs_reg_mr_resp { mr_handle: handle, lkey, rkey };
        let seen = Seen::default();
        let fake = kernel(carried, &seen, bytemuck::bytes_of(&answer), &dout);
        let mut cmd = vec![0xee; ib_uverbs_reg_mr::FRONT];
        cmd.extend(&din);
        let mut resp = vec![0xee; 12 + dout.len()];
        let mut driver = Driver::buffers::<ib_uverbs_reg_mr>(&mut cmd, &mut resp).unwrap();
        let got = write(&fake, &COMMAND, &mut driver).unwrap();
        prop_assert_eq!(bytemuck::bytes_of(&got), bytemuck::bytes_of(&answer));
        let (core, uhw) = &*seen.borrow();
        prop_assert_eq!(&core[8..], &bytemuck::bytes_of(&COMMAND)[8..]);
        prop_assert_eq!(uhw, &din);
        // The provider finds command and answer in its own buffers.
        prop_assert_eq!(&cmd[16..48], &bytemuck::bytes_of(&COMMAND)[8..]);
        prop_assert_eq!(&resp[..12], bytemuck::bytes_of(&answer));
        prop_assert_eq!(&resp[12..], &dout[..]);
    }

    #[test]
    fn trailing_members_come_before_driver_data(
        carried: bool, more in words(8), din in words(8), more_out in words(8), dout in words(8),
    ) {
        let head = ib_uverbs_create_flow_resp { comp_mask: 1, flow_handle: 2 };
        let mut answer = bytemuck::bytes_of(&head).to_vec();
        answer.extend(&more_out);
        let seen = Seen::default();
        let fake = kernel(carried, &seen, &answer, &dout);
        let mut cmd = vec![0xee; ib_uverbs_create_flow::FRONT];
        cmd.extend(&din);
        let mut resp = vec![0xee; 8 + dout.len()];
        let mut tail = vec![0; more_out.len()];
        let command = ib_uverbs_create_flow { qp_handle: 9, ..bytemuck::Zeroable::zeroed() };
        let mut driver = Driver::buffers::<ib_uverbs_create_flow>(&mut cmd, &mut resp).unwrap();
        let got = write_parts(&fake, &command, &more, &mut driver, &mut tail).unwrap();
        prop_assert_eq!(got.flow_handle, 2);
        let (core, uhw) = &*seen.borrow();
        let mut want = bytemuck::bytes_of(&command).to_vec();
        want.extend(&more);
        prop_assert_eq!(core, &want);
        prop_assert_eq!(uhw, &din);
        prop_assert_eq!(&tail, &more_out);
        prop_assert_eq!(&resp[8..], &dout[..]);
    }
}

proptest! {
    #[test]
    fn a_method_takes_driver_data_along(din in words(4), dout in words(4)) {
        let sent = RefCell::new(None);
        let fake = Fake::new(
            |call| {
                sent.replace(call.input(UVERBS_ATTR_UHW_IN));
                if call.attrs().iter().any(|attr| attr.id == UVERBS_ATTR_UHW_OUT) {
                    call.answer(UVERBS_ATTR_UHW_OUT, &dout);
                }
                Ok(())
            },
            |_| panic!("written"),
        );
        let mut cmd = vec![0xee; ib_uverbs_get_context::FRONT];
        cmd.extend(&din);
        let mut resp = vec![0xee; 8 + dout.len()];
        let mut driver = Driver::buffers::<ib_uverbs_get_context>(&mut cmd, &mut resp).unwrap();
        context::get_context(&fake, &mut driver).unwrap();
        prop_assert_eq!(sent.take(), (!din.is_empty()).then_some(din));
        // The structures in front are the write command's alone.
        prop_assert_eq!(&resp[..8], &[0xee; 8]);
        prop_assert_eq!(&resp[8..], &dout[..]);
    }

    #[test]
    fn a_method_that_is_refused_is_written_with_the_same_driver_data(
        din in words(4), dout in words(4),
    ) {
        let answer = ib_uverbs_get_context_resp { async_fd: u32::MAX, num_comp_vectors: 3 };
        let seen = Seen::default();
        let fake = Fake::new(
            |_| Err(Errno::PROTONOSUPPORT),
            |request| on_write(request, &seen, bytemuck::bytes_of(&answer), &dout),
        );
        let mut cmd = vec![0xee; ib_uverbs_get_context::FRONT];
        cmd.extend(&din);
        let mut resp = vec![0xee; 8 + dout.len()];
        let mut driver = Driver::buffers::<ib_uverbs_get_context>(&mut cmd, &mut resp).unwrap();
        let reported = context::get_context(&fake, &mut driver);
        // No descriptor has that number.
        prop_assert_eq!(reported.err(), Some(Errno(libc::EBADF)));
        prop_assert_eq!(&seen.borrow().1, &din);
        prop_assert_eq!(&resp[8..], &dout[..]);
    }
}

#[test]
fn without_buffers_the_command_is_in_the_librarys_memory() {
    for carried in [false, true] {
        let answer = ib_uverbs_alloc_pd_resp { pd_handle: 42 };
        let seen = Seen::default();
        let fake = kernel(carried, &seen, bytemuck::bytes_of(&answer), &[]);
        let command = ib_uverbs_alloc_pd::default();
        let got = write(&fake, &command, &mut Driver::none()).unwrap();
        assert_eq!(got.pd_handle, 42);
        assert_eq!(seen.borrow().0.len(), 8);
    }
}

#[test]
fn a_kernel_that_answers_less_leaves_zeros() {
    for carried in [false, true] {
        let seen = Seen::default();
        let fake = kernel(carried, &seen, &[7, 0, 0, 0], &[]);
        let (mut cmd, mut resp) = (vec![0; ib_uverbs_reg_mr::FRONT], vec![0xee; 12]);
        let mut driver = Driver::buffers::<ib_uverbs_reg_mr>(&mut cmd, &mut resp).unwrap();
        let got = write(&fake, &COMMAND, &mut driver).unwrap();
        assert_eq!((got.mr_handle, got.lkey, got.rkey), (7, 0, 0));
    }
}

#[test]
fn buffers_too_short_for_the_structures_are_einval() {
    let short = |cmd: usize, resp: usize| {
        let (mut cmd, mut resp) = (vec![0; cmd], vec![0; resp]);
        Driver::buffers::<ib_uverbs_reg_mr>(&mut cmd, &mut resp).err()
    };
    assert_eq!(short(47, 12), Some(Errno::INVAL));
    assert_eq!(short(48, 11), Some(Errno::INVAL));
    assert_eq!(short(48, 12), None);
    assert_eq!(short(0, 0), None);
}

#[test]
fn an_error_is_the_answer_on_both_ways() {
    for carried in [false, true] {
        let fake = Fake::new(|_| Err(Errno::NOMEM), |_| Err(Errno::NOMEM));
        fake.private().ioctl_write.store(carried, Ordering::Relaxed);
        let got = write(&fake, &COMMAND, &mut Driver::none());
        assert_eq!(got.err(), Some(Errno::NOMEM));
    }
}

#[test]
fn a_carried_command_names_its_number() {
    for (want, extended) in [(9u64, false), (0x8000_0001, true)] {
        let number = RefCell::new(Vec::new());
        let fake = Fake::new(
            |call| {
                number.replace(call.input(UVERBS_ATTR_WRITE_CMD).unwrap());
                Ok(())
            },
            |_| panic!("written"),
        );
        fake.private().ioctl_write.store(true, Ordering::Relaxed);
        let none = &mut Driver::none();
        if extended {
            write(&fake, &ib_uverbs_ex_query_device::default(), none).unwrap();
        } else {
            write(&fake, &COMMAND, none).unwrap();
        }
        assert_eq!(*number.borrow(), want.to_ne_bytes());
    }
}
