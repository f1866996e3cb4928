//! Flow rules and their specifications.

use super::commands::written;
use crate::abi::handle::FlowSpec;
use crate::abi::kernel::*;
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::sys::command::EXTENDED;
use crate::uverbs::fake::Call;
use crate::uverbs::flow::{self, NewFlow};
use crate::uverbs::{Driver, Ioctl};
use proptest::prelude::*;

const NEW: NewFlow = NewFlow {
    qp: 7,
    attr_type: IBV_FLOW_ATTR_NORMAL,
    priority: 2,
    port: 1,
    flags: IBV_FLOW_ATTR_FLAGS_EGRESS,
};

/// Makes a rule; returns its attributes and specifications as the kernel got them, and the bytes
/// after them.
fn reported(
    specs: &[FlowSpec<'_>],
    data: &mut [u8],
) -> Result<(ib_uverbs_create_flow, Vec<u8>, Vec<u8>)> {
    let kernel = written(&ib_uverbs_create_flow_resp {
        comp_mask: 0,
        flow_handle: 77,
    });
    let specs = specs.iter().map(|&spec| Ok(spec));
    let mut driver = Driver::data(data);
    assert_eq!(flow::create_flow(&kernel, &NEW, specs, &mut driver)?, 77);
    let asked = kernel.asked.borrow();
    let [Call::Write(number, core, driver, 8, 0)] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert_eq!(*number, IB_USER_VERBS_EX_CMD_CREATE_FLOW | EXTENDED);
    let (head, specs) = core.split_at(24);
    Ok((
        bytemuck::pod_read_unaligned(head),
        specs.to_vec(),
        driver.clone(),
    ))
}

/// A specification of the API: header, gap, value of ones, mask of twos.
fn api(spec_type: u32, size: usize, from: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[..4].copy_from_slice(&spec_type.to_ne_bytes());
    bytes[4..6].copy_from_slice(&u16::try_from(size).unwrap().to_ne_bytes());
    bytes[from..from + len].fill(1);
    bytes[from + len..from + 2 * len].fill(2);
    bytes
}

/// The kernel's form of it.
fn kernel(spec_type: u32, size: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[..4].copy_from_slice(&spec_type.to_ne_bytes());
    bytes[4..6].copy_from_slice(&u16::try_from(size).unwrap().to_ne_bytes());
    let half = (size - 8) / 2;
    bytes[8..8 + len].fill(1);
    bytes[8 + half..8 + half + len].fill(2);
    bytes
}

/// Type, size, start and length of the API's filter; type, size and length of the kernel's.
const FILTERS: [(u32, usize, usize, usize, u32, usize, usize); 15] = [
    (0x20, 40, 6, 16, 0x20, 40, 16),
    (0x120, 40, 6, 16, 0x120, 40, 16),
    (0x30, 24, 8, 8, 0x30, 24, 8),
    (0x130, 24, 8, 8, 0x130, 24, 8),
    (0x32, 32, 8, 12, 0x30, 32, 12),
    (0x132, 32, 8, 12, 0x130, 32, 12),
    (0x34, 24, 8, 8, 0x34, 24, 8),
    (0x134, 24, 8, 8, 0x134, 24, 8),
    (0x40, 16, 6, 4, 0x40, 16, 4),
    (0x41, 16, 6, 4, 0x41, 16, 4),
    (0x141, 16, 6, 4, 0x141, 16, 4),
    (0x50, 16, 8, 4, 0x50, 16, 4),
    (0x51, 24, 8, 8, 0x51, 24, 8),
    (0x60, 16, 8, 4, 0x60, 16, 4),
    (0x160, 16, 8, 4, 0x160, 16, 4),
];

#[test]
fn each_filter_goes_to_its_place() {
    for (from_type, from_size, from, from_len, to_type, to_size, to_len) in FILTERS {
        let bytes = api(from_type, from_size, from, from_len);
        let (rule, specs, _) = reported(&[FlowSpec::Plain(from_type, &bytes)], &mut []).unwrap();
        assert_eq!(specs, kernel(to_type, to_size, to_len), "{from_type:#x}");
        assert_eq!(usize::from(rule.flow_attr.size), to_size);
        let short = FlowSpec::Plain(from_type, &bytes[..from + 2 * from_len - 2]);
        assert_eq!(
            reported(&[short], &mut []).err(),
            Some(Errno::INVAL),
            "{from_type:#x}"
        );
    }
}

#[test]
fn the_padding_of_ipv6_is_not_asked_for() {
    let mut bytes = api(IBV_FLOW_SPEC_IPV6, 88, 8, 40);
    let refused = reported(&[FlowSpec::Plain(IBV_FLOW_SPEC_IPV6, &bytes)], &mut []);
    assert_eq!(refused.err(), Some(Errno::OPNOTSUPP));
    bytes[87] = 0;
    let (_, specs, _) = reported(&[FlowSpec::Plain(IBV_FLOW_SPEC_IPV6, &bytes)], &mut []).unwrap();
    assert_eq!(specs, kernel(IBV_FLOW_SPEC_IPV6, 88, 39));
}

#[test]
fn a_longer_filter_may_ask_for_nothing_more() {
    // Filters of 16 bytes; the kernel knows 12.
    let mut bytes = api(IBV_FLOW_SPEC_IPV4_EXT, 40, 8, 16);
    let refused = reported(&[FlowSpec::Plain(IBV_FLOW_SPEC_IPV4_EXT, &bytes)], &mut []);
    assert_eq!(refused.err(), Some(Errno::OPNOTSUPP));
    bytes[36..].fill(0);
    let (_, specs, _) =
        reported(&[FlowSpec::Plain(IBV_FLOW_SPEC_IPV4_EXT, &bytes)], &mut []).unwrap();
    assert_eq!(specs, kernel(IBV_FLOW_SPEC_IPV4, 32, 12));
}

#[test]
fn actions_name_their_numbers() {
    let mut tag = api(IBV_FLOW_SPEC_ACTION_TAG, 12, 8, 0);
    tag[8..].copy_from_slice(&0xabcd_u32.to_ne_bytes());
    let drop = api(IBV_FLOW_SPEC_ACTION_DROP, 8, 8, 0);
    let specs = [
        FlowSpec::Plain(IBV_FLOW_SPEC_ACTION_TAG, &tag),
        FlowSpec::Plain(IBV_FLOW_SPEC_ACTION_DROP, &drop),
        FlowSpec::Object(IBV_FLOW_SPEC_ACTION_HANDLE, 5),
        FlowSpec::Object(IBV_FLOW_SPEC_ACTION_COUNT, 6),
    ];
    let (rule, encoded, data) = reported(&specs, &mut [9; 16]).unwrap();
    let attr = rule.flow_attr;
    assert_eq!((rule.qp_handle, attr.num_of_specs, attr.size), (7, 4, 56));
    assert_eq!((attr.priority, attr.port, attr.flags), (2, 1, 4));
    assert_eq!(data, [9; 16]);
    let words: Vec<u32> = encoded
        .chunks_exact(4)
        .map(|b| u32::from_ne_bytes(b.try_into().unwrap()))
        .collect();
    let expected = [
        [0x1000, 16, 0xabcd, 0].as_slice(),
        &[0x1001, 8],
        &[0x1002, 16, 5, 0],
        &[0x1003, 16, 6, 0],
    ];
    assert_eq!(words, expected.concat());
}

#[test]
fn refuses_unknown_types_and_too_many() {
    for unknown in [0, 0x21, 0x150, 0x151, 0x1004] {
        let bytes = api(unknown, 88, 8, 40);
        let refused = reported(&[FlowSpec::Plain(unknown, &bytes)], &mut []);
        assert_eq!(refused.err(), Some(Errno::INVAL), "{unknown:#x}");
    }
    let drop = FlowSpec::Plain(IBV_FLOW_SPEC_ACTION_DROP, &[]);
    assert!(reported(&[drop; 255], &mut []).is_ok());
    assert_eq!(reported(&[drop; 256], &mut []).err(), Some(Errno::INVAL));
}

#[test]
fn a_bad_specification_stops_the_rule() {
    let kernel = written(&());
    let specs = [Err(Errno::INVAL)].into_iter();
    let refused = flow::create_flow(&kernel, &NEW, specs, &mut Driver::none());
    assert_eq!(refused, Err(Errno::INVAL));
    assert!(kernel.asked.borrow().is_empty());
}

#[test]
fn ends_a_rule() {
    let kernel = super::commands::method(|call: &mut Ioctl<'_>| {
        assert_eq!(call.target(), (9, 0));
    });
    assert_eq!(flow::destroy_flow(&kernel, 77), Ok(()));
    let kernel = written(&());
    assert_eq!(flow::destroy_flow(&kernel, 77), Ok(()));
    let (number, c) = super::commands::reported::<ib_uverbs_destroy_flow>(&kernel);
    assert_eq!(number, IB_USER_VERBS_EX_CMD_DESTROY_FLOW | EXTENDED);
    assert_eq!(c.flow_handle, 77);
}

proptest! {
    #[test]
    fn any_bytes_make_whole_specifications_or_none(
        specs in proptest::collection::vec((any::<u32>(), proptest::collection::vec(any::<u8>(), 0..100)), 0..5),
        known in 0_usize..FILTERS.len(),
    ) {
        let specs: Vec<_> = specs
            .iter()
            .map(|(t, bytes)| FlowSpec::Plain(if t & 1 == 0 { FILTERS[known].0 } else { *t }, bytes))
            .collect();
        let Ok((rule, mut rest, _)) = reported(&specs, &mut []) else { return Ok(()) };
        prop_assert_eq!(usize::from(rule.flow_attr.size), rest.len());
        for _ in 0..rule.flow_attr.num_of_specs {
            let size = usize::from(u16::from_ne_bytes([rest[4], rest[5]]));
            prop_assert!(size >= 8 && size.is_multiple_of(8));
            rest.drain(..size);
        }
        prop_assert!(rest.is_empty());
    }
}
