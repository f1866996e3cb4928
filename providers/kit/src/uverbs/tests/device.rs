//! Queries of devices and ports.

use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;
use crate::abi::{ibv_device_attr, ibv_device_attr_ex, ibv_port_attr};
use crate::errno::Errno;
use crate::uverbs::device::{query_device, query_plain, query_port};
use crate::uverbs::fake::Fake;
use crate::uverbs::{Driver, Kernel as _};
use core::sync::atomic::Ordering;

const PLAIN: usize = size_of::<ibv_device_attr>();
const WHOLE: usize = size_of::<ibv_device_attr_ex>();

fn full(response_length: u32) -> ib_uverbs_ex_query_device_resp {
    let mut answer = ib_uverbs_ex_query_device_resp {
        response_length,
        timestamp_mask: 11,
        max_dm_size: 12,
        xrc_odp_caps: 13,
        ..Default::default()
    };
    answer.base.max_qp = 100;
    answer.base.phys_port_cnt = 2;
    answer
}

/// A kernel that answers the extended query so, or with that error.
fn kernel(extended: Result<ib_uverbs_ex_query_device_resp, Errno>) -> Fake<'static> {
    Fake::new(
        |_| panic!("ioctl"),
        move |request| {
            let long = request.number() & 0x8000_0000 != 0;
            let whole = match extended {
                Err(e) if long => return Err(e),
                answer => answer.unwrap_or(full(0)),
            };
            let out = request.parts().core_out;
            out.copy_from_slice(&bytemuck::bytes_of(&whole)[..out.len()]);
            Ok(())
        },
    )
}

fn zero() -> ibv_device_attr_ex {
    bytemuck::Zeroable::zeroed()
}

#[test]
fn members_beyond_the_request_or_the_answer_stay_zero() {
    let mut attr = zero();
    let filled = query_device(&kernel(Ok(full(304))), WHOLE, &mut attr, 0, &mut []);
    assert_eq!(filled, Ok(304));
    assert_eq!(
        (attr.orig_attr.max_qp, attr.completion_timestamp_mask),
        (100, 11)
    );
    assert_eq!((attr.max_dm_size, attr.xrc_odp_caps), (12, 13));
    assert_eq!(attr.phys_port_cnt_ex, 2);

    let mut attr = zero();
    let filled = query_device(&kernel(Ok(full(216))), WHOLE, &mut attr, 7, &mut []);
    assert_eq!(filled, Ok(216));
    assert_eq!((attr.completion_timestamp_mask, attr.max_dm_size), (11, 0));
    assert_eq!(attr.phys_port_cnt_ex, 7);

    let mut attr = zero();
    let filled = query_device(&kernel(Ok(full(304))), 300, &mut attr, 7, &mut []);
    assert_eq!(filled, Ok(304));
    assert_eq!((attr.completion_timestamp_mask, attr.max_dm_size), (11, 0));
    assert_eq!(attr.phys_port_cnt_ex, 0);
}

#[test]
fn an_old_kernel_answers_the_plain_query() {
    for e in [Errno::OPNOTSUPP, Errno::NOSYS] {
        let mut attr = zero();
        let mut resp = [0xee; 304];
        let filled = query_device(&kernel(Err(e)), WHOLE, &mut attr, 7, &mut resp);
        assert_eq!(filled, Ok(176));
        assert_eq!((attr.orig_attr.max_qp, attr.phys_port_cnt_ex), (100, 0));
        assert_eq!(resp[180..184], 176u32.to_ne_bytes());
    }
    let mut attr = zero();
    let filled = query_device(&kernel(Err(Errno::IO)), WHOLE, &mut attr, 7, &mut []);
    assert_eq!(filled, Err(Errno::IO));
}

#[test]
fn the_plain_part_alone_asks_the_plain_query() {
    let mut attr = zero();
    let filled = query_device(&kernel(Err(Errno::IO)), PLAIN, &mut attr, 7, &mut []);
    assert_eq!((filled, attr.orig_attr.max_qp), (Ok(176), 100));
    let less = query_device(&kernel(Err(Errno::IO)), PLAIN - 1, &mut attr, 7, &mut []);
    assert_eq!(less, Err(Errno::INVAL));
}

#[test]
fn a_response_too_short_is_einval() {
    let mut resp = [0; 300];
    let filled = query_device(&kernel(Ok(full(304))), WHOLE, &mut zero(), 0, &mut resp);
    assert_eq!(filled, Err(Errno::INVAL));
}

#[test]
fn driver_data_stands_behind_the_answer_wherever_the_response_lies() {
    let fake = Fake::new(
        |call| {
            call.answer(UVERBS_ATTR_CORE_OUT, bytemuck::bytes_of(&full(304)));
            call.answer(UVERBS_ATTR_UHW_OUT, &[7; 8]);
            Ok(())
        },
        |request| {
            let parts = request.parts();
            parts
                .core_out
                .copy_from_slice(bytemuck::bytes_of(&full(304)));
            parts.driver_out.fill(7);
            Ok(())
        },
    );
    for (carried, from) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        fake.private().ioctl_write.store(carried, Ordering::Relaxed);
        let mut room = [0xeeee_u64; 40];
        let room: &mut [u8] = bytemuck::cast_slice_mut(&mut room);
        let resp = &mut room[from..from + 312];
        let mut attr = zero();
        assert_eq!(query_device(&fake, WHOLE, &mut attr, 0, resp), Ok(304));
        assert_eq!((attr.orig_attr.max_qp, attr.xrc_odp_caps), (100, 13));
        assert_eq!(&resp[..304], bytemuck::bytes_of(&full(304)));
        assert_eq!(resp[304..], [7; 8]);
    }
}

#[test]
fn the_plain_command_alone_answers_the_plain_part() {
    let mut attr = zero();
    let mut resp = [0xee; 304];
    let filled = query_plain(&kernel(Err(Errno::IO)), &mut attr.orig_attr, &mut resp);
    assert_eq!((filled, attr.orig_attr.max_qp), (Ok(176), 100));
    assert_eq!(resp[180..185], [176, 0, 0, 0, 0xee]);
    assert_eq!(
        query_plain(&kernel(Err(Errno::IO)), &mut attr.orig_attr, &mut []),
        Ok(176)
    );
}

fn port() -> ib_uverbs_query_port_resp {
    ib_uverbs_query_port_resp {
        state: 4,
        gid_tbl_len: 5,
        lid: 6,
        link_layer: 2,
        flags: 1,
        ..Default::default()
    }
}

#[test]
fn a_port_is_queried_by_method_and_by_write() {
    let kernel = Fake::new(
        |call| {
            assert_eq!(call.input(UVERBS_ATTR_QUERY_PORT_PORT_NUM).unwrap()[0], 3);
            let answer = ib_uverbs_query_port_resp_ex {
                legacy_resp: port(),
                port_cap_flags2: 9,
                ..Default::default()
            };
            call.answer(UVERBS_ATTR_QUERY_PORT_RESP, bytemuck::bytes_of(&answer));
            Ok(())
        },
        |_| panic!("written"),
    );
    let mut attr: ibv_port_attr = bytemuck::Zeroable::zeroed();
    query_port(&kernel, 3, &mut attr, &mut Driver::none()).unwrap();
    assert_eq!((attr.state, attr.gid_tbl_len, attr.lid), (4, 5, 6));
    assert_eq!(
        (attr.link_layer, attr.flags, attr.port_cap_flags2),
        (2, 1, 9)
    );

    let kernel = Fake::new(
        |_| panic!("ioctl"),
        |request| {
            let parts = request.parts();
            assert_eq!(parts.core_in[8], 3);
            parts.core_out.copy_from_slice(bytemuck::bytes_of(&port()));
            Ok(())
        },
    );
    kernel.private().set_all_ioctls_unsupported();
    let mut attr: ibv_port_attr = bytemuck::Zeroable::zeroed();
    let mut cmd = [0xee; 24];
    let mut driver = Driver::buffers::<ib_uverbs_query_port>(&mut cmd, &mut []).unwrap();
    query_port(&kernel, 3, &mut attr, &mut driver).unwrap();
    assert_eq!((attr.state, attr.port_cap_flags2), (4, 0));
    assert_eq!(cmd[17..], [0; 7]);
}
