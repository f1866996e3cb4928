//! Chains as C programs build them.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use core::ptr::null_mut;

fn zeroed<T>() -> T {
    // SAFETY: the C structures of this file are integers, pointers and unions of them.
    unsafe { core::mem::zeroed() }
}

fn element(addr: u64) -> ibv_sge {
    ibv_sge {
        addr,
        length: 2,
        lkey: 3,
    }
}

fn bytes(request: &ib_uverbs_send_wr) -> &[u8] {
    bytemuck::bytes_of(request)
}

#[test]
fn a_chain_ends_at_null() {
    // SAFETY: no chain at all.
    unsafe {
        assert!(sends(null_mut(), IBV_QPT_RC).next().is_none());
        assert!(receives(null_mut()).next().is_none());
    }
}

#[test]
fn receives_keep_order_and_elements() {
    let mut elements = [element(10), element(20)];
    let mut second: ibv_recv_wr = zeroed();
    second.wr_id = 2;
    let mut first = ibv_recv_wr {
        wr_id: 1,
        next: &raw mut second,
        sg_list: elements.as_mut_ptr(),
        num_sge: 2,
    };
    let at = &raw mut first;
    // SAFETY: the chain lives on this stack.
    let all: Vec<_> = unsafe { receives(at) }.collect();
    let [(one, Ok((wr, list))), (two, Ok((last, none)))] = all.as_slice() else {
        panic!("{}", all.len());
    };
    assert_eq!((*one, *two), (at, &raw mut second));
    assert_eq!((wr.wr_id, wr.num_sge, last.wr_id), (1, 2, 2));
    let addresses: Vec<_> = list.iter().map(|e| (e.addr, e.length, e.lkey)).collect();
    assert_eq!(addresses, [(10, 2, 3), (20, 2, 3)]);
    assert!(none.is_empty());
}

#[test]
fn a_bad_list_is_einval_and_the_chain_continues() {
    let (mut last, mut one): (ibv_recv_wr, _) = (zeroed(), element(1));
    for (count, list) in [(-1, &raw mut one), (1, null_mut())] {
        let mut first = ibv_recv_wr {
            wr_id: 1,
            next: &raw mut last,
            sg_list: list,
            num_sge: count,
        };
        // SAFETY: the chain lives on this stack.
        let answers: Vec<_> = unsafe { receives(&raw mut first) }
            .map(|(_, posted)| posted.err())
            .collect();
        assert_eq!(answers, [Some(Errno::INVAL), None]);
    }
}

fn send_one(wr: &mut ibv_send_wr, qp_type: ibv_qp_type) -> Result<ib_uverbs_send_wr> {
    // SAFETY: the chain is one request that outlives the call.
    let (_, posted) = unsafe { sends(wr, qp_type) }.next().unwrap();
    posted.map(|(request, _)| request)
}

#[test]
fn each_opcode_has_its_address() {
    let mut wr: ibv_send_wr = zeroed();
    wr.wr_id = 5;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm.imm_data = be32::new(0x0102_0304);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.wr.rdma = ibv_send_wr_wr_rdma {
        remote_addr: 0x1111,
        rkey: 0x22,
    };
    let rdma = send_one(&mut wr, IBV_QPT_RC).unwrap();
    assert_eq!((rdma.wr_id, rdma.send_flags), (5, IBV_SEND_SIGNALED));
    // Immediate data stays in network order.
    assert_eq!(rdma.ex.to_ne_bytes(), [1, 2, 3, 4]);
    assert_eq!(bytes(&rdma)[24..32], 0x1111_u64.to_ne_bytes());
    assert_eq!(bytes(&rdma)[32..36], 0x22_u32.to_ne_bytes());
    assert!(bytes(&rdma)[36..].iter().all(|&b| b == 0));

    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic = ibv_send_wr_wr_atomic {
        remote_addr: 1,
        compare_add: 2,
        swap: 3,
        rkey: 4,
    };
    let atomic = send_one(&mut wr, IBV_QPT_RC).unwrap();
    assert_eq!(atomic.wr[..3], [1, 2, 3]);
    assert_eq!(bytes(&atomic)[48..52], 4_u32.to_ne_bytes());

    wr.opcode = IBV_WR_SEND;
    let send = send_one(&mut wr, IBV_QPT_RC).unwrap();
    assert_eq!(send.wr, [0; 4]);
}

#[test]
fn a_datagram_names_its_address_handle() {
    let mut ah: ibv_ah = zeroed();
    ah.handle = 9;
    let mut wr: ibv_send_wr = zeroed();
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud = ibv_send_wr_wr_ud {
        ah: &raw mut ah,
        remote_qpn: 10,
        remote_qkey: 11,
    };
    let datagram = send_one(&mut wr, IBV_QPT_UD).unwrap();
    let expected = [9_u32, 10, 11, 0].map(u32::to_ne_bytes).concat();
    assert_eq!(bytes(&datagram)[24..40], expected);

    wr.wr.ud.ah = null_mut();
    let refused = send_one(&mut wr, IBV_QPT_UD);
    assert_eq!(refused.err(), Some(Errno::INVAL));
}

/// Attributes of a rule with specifications behind them.
#[repr(C)]
struct Rule {
    attr: ibv_flow_attr,
    specs: [u8; 64],
}

fn rule(num_of_specs: u8, specs: &[&[u8]]) -> Rule {
    let mut rule: Rule = zeroed();
    rule.attr.num_of_specs = num_of_specs;
    let all = specs.concat();
    rule.specs[..all.len()].copy_from_slice(&all);
    rule
}

fn spec(spec_type: u32, size: u16, rest: &[u8]) -> Vec<u8> {
    let mut bytes = spec_type.to_ne_bytes().to_vec();
    bytes.extend(size.to_ne_bytes());
    bytes.extend([0; 2]);
    bytes.extend(rest);
    bytes
}

fn put_pointer<T>(rule: &mut Rule, at: usize, object: *mut T) {
    let place = &mut rule.specs[at..at + size_of::<*mut T>()];
    // SAFETY: the place is as long as a pointer.
    unsafe { place.as_mut_ptr().cast::<*mut T>().write_unaligned(object) };
}

fn all(rule: &Rule) -> Vec<Result<FlowSpec<'_>>> {
    // SAFETY: the specifications stand right behind the attributes.
    unsafe { specs((&raw const *rule).cast()) }.collect()
}

#[test]
fn specifications_follow_each_other_by_their_size() {
    let mut action: verbs_flow_action = zeroed();
    action.handle = 5;
    let mut counters: verbs_counters = zeroed();
    counters.handle = 6;
    let mut rule = rule(
        4,
        &[
            &spec(IBV_FLOW_SPEC_ACTION_DROP, 8, &[]),
            &spec(IBV_FLOW_SPEC_ACTION_HANDLE, 16, &[0; 8]),
            &spec(IBV_FLOW_SPEC_ACTION_COUNT, 16, &[0; 8]),
            &spec(IBV_FLOW_SPEC_ACTION_TAG, 12, &[7, 0, 0, 0]),
        ],
    );
    // Written as pointers: an address put together of bytes leads to no object.
    put_pointer(&mut rule, 16, &raw mut action);
    put_pointer(&mut rule, 32, &raw mut counters);
    let drop = &rule.specs[..8];
    let tag = &rule.specs[40..52];
    assert_eq!(
        all(&rule),
        [
            Ok(FlowSpec::Plain(IBV_FLOW_SPEC_ACTION_DROP, drop)),
            Ok(FlowSpec::Object(IBV_FLOW_SPEC_ACTION_HANDLE, 5)),
            Ok(FlowSpec::Object(IBV_FLOW_SPEC_ACTION_COUNT, 6)),
            Ok(FlowSpec::Plain(IBV_FLOW_SPEC_ACTION_TAG, tag)),
        ]
    );
}

#[test]
fn a_specification_that_lies_about_its_size_ends_them() {
    for bad in [
        spec(IBV_FLOW_SPEC_ETH, 0, &[]),
        spec(IBV_FLOW_SPEC_ETH, 7, &[]),
        spec(IBV_FLOW_SPEC_ACTION_HANDLE, 8, &[]),
        spec(IBV_FLOW_SPEC_ACTION_HANDLE, 16, &[0; 8]),
        spec(IBV_FLOW_SPEC_ACTION_COUNT, 16, &[0; 8]),
    ] {
        let rule = rule(3, &[&bad]);
        assert_eq!(all(&rule), [Err(Errno::INVAL)]);
    }
    assert_eq!(all(&rule(0, &[])), []);
}
