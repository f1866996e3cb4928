//! Rules and actions that uroce does not have, as a device gets them.

use std::{net::Ipv4Addr, sync::Arc};

use kit::abi::*;

use super::*;
use crate::{
    completion::Operation,
    context::Context,
    request::ReceiveRequest,
    sys::{
        fake::{self, Reported, structure},
        flow::Receiver,
    },
};

/// A queue pair that rules may name; the fake device does not look at its type.
fn receiver(context: &Context) -> Receiver {
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue(64).unwrap();
    let qp = pd.reliable(&cq).build().unwrap();
    Receiver::Own(Arc::clone(&qp.pair().qp))
}

/// The rule as the device gets it: the attributes, and each specification with its type.
fn given(context: &Context, rule: &Rule) -> (ibv_flow_attr, Vec<(u32, Vec<u8>)>) {
    drop(Flow::new(receiver(context), rule, 1).unwrap());
    let rule = fake::with(|state| state.rules.pop().unwrap());
    let front: ibv_flow_attr = structure(&rule[..size_of::<ibv_flow_attr>()]);
    let specs = fake::specs(&rule);
    assert_eq!(usize::from(front.num_of_specs), specs.len());
    (front, specs)
}

#[test]
fn headers_of_tunnels_lie_where_the_headers_say() {
    let context = fake::open();
    let esp = |index, sequence| Esp { index, sequence };
    let gre = |flags, protocol, key| Gre {
        flags,
        protocol,
        key,
    };
    let mpls = |label, traffic_class, is_last, ttl| Mpls {
        label,
        traffic_class,
        is_last,
        ttl,
    };
    let rule = Rule::new()
        .esp(esp(0x0102_0304, 5), esp(u32::MAX, 6))
        .gre(gre(0x2000, 0x6558, 7), gre(0xb000, 0xffff, 8))
        .mpls(mpls(0x12345, 5, true, 64), mpls(0xf_ffff, 7, true, 0))
        .vxlan(0x0a_0b0c, 0xff_ffff);
    let (front, specs) = given(&context, &rule.egress());
    assert_eq!(front.flags, IBV_FLOW_ATTR_FLAGS_EGRESS);
    let kinds: Vec<_> = specs.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        kinds,
        [
            IBV_FLOW_SPEC_ESP,
            IBV_FLOW_SPEC_GRE,
            IBV_FLOW_SPEC_MPLS,
            IBV_FLOW_SPEC_VXLAN_TUNNEL
        ]
    );
    // Members are in network order.
    let of_esp: ibv_flow_spec_esp = structure(&specs[0].1);
    let values = [of_esp.val.spi, of_esp.val.seq, of_esp.mask.spi];
    assert_eq!(values, [0x0102_0304_u32, 5, u32::MAX].map(u32::to_be));
    assert_eq!(of_esp.mask.seq, 6_u32.to_be());
    let of_gre: ibv_flow_spec_gre = structure(&specs[1].1);
    let short = [of_gre.val.c_ks_res0_ver, of_gre.val.protocol];
    assert_eq!(short, [0x2000_u16, 0x6558].map(u16::to_be));
    let short = [of_gre.mask.c_ks_res0_ver, of_gre.mask.protocol];
    assert_eq!(short, [0xb000_u16, 0xffff].map(u16::to_be));
    assert_eq!(
        [of_gre.val.key, of_gre.mask.key],
        [7_u32, 8].map(u32::to_be)
    );
    let of_mpls: ibv_flow_spec_mpls = structure(&specs[2].1);
    assert_eq!(of_mpls.val.label, 0x1234_5b40_u32.to_be());
    assert_eq!(of_mpls.mask.label, 0xffff_ff00_u32.to_be());
    let of_vxlan: ibv_flow_spec_tunnel = structure(&specs[3].1);
    assert_eq!(of_vxlan.val.tunnel_id, 0x0a_0b0c_u32.to_be());
    assert_eq!(of_vxlan.mask.tunnel_id, 0xff_ffff_u32.to_be());
}

#[test]
fn headers_behind_a_tunnel_are_inner_ones_and_actions_are_not() {
    let context = fake::open();
    let ports = Ports::default();
    let address = |source| Ipv4 {
        source,
        ..Ipv4::default()
    };
    let any = address(Ipv4Addr::UNSPECIFIED);
    let rule = Rule::new()
        .udp(ports, ports)
        .vxlan(1, 1)
        .inner()
        .ipv4(address(Ipv4Addr::LOCALHOST), any)
        .tcp(ports, ports)
        .tag(0x55)
        .drop_frames();
    let (_, specs) = given(&context, &rule);
    let kinds: Vec<_> = specs.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        kinds,
        [
            IBV_FLOW_SPEC_UDP,
            IBV_FLOW_SPEC_VXLAN_TUNNEL,
            IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_IPV4,
            IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_TCP,
            IBV_FLOW_SPEC_ACTION_TAG,
            IBV_FLOW_SPEC_ACTION_DROP
        ]
    );
    let inner: ibv_flow_spec_ipv4 = structure(&specs[2].1);
    assert_eq!(inner.val.src_ip.to_ne_bytes(), [127, 0, 0, 1]);
    let tag: ibv_flow_spec_action_tag = structure(&specs[4].1);
    assert_eq!(tag.tag_id, 0x55);
}

#[test]
fn an_action_has_its_parameters_and_stays_as_long_as_its_rules() {
    let context = fake::open();
    let key: Vec<u8> = (1..=16).collect();
    let aes = AesGcm {
        key: &key,
        salt: 3,
        vector: 4,
        check_length: 16,
    };
    assert_eq!(format!("{aes:?}"), "AesGcm { .. }");
    let whole = EspParameters::new()
        .aes_gcm(aes)
        .unwrap()
        .encrypt()
        .transport()
        .full()
        .index(0x100)
        .sequence(9)
        .padding(2)
        .limit(1 << 40)
        .replay_window(64)
        .extended_sequence(0)
        .around(Encapsulation::Ipv4(Ipv4 {
            destination: Ipv4Addr::LOCALHOST,
            ..Ipv4::default()
        }))
        .around(Encapsulation::Udp(Ports {
            destination: 4500,
            source: 4500,
        }));
    let action = context.esp_action(&whole).unwrap();
    let last = || fake::with(|state| state.actions.pop().unwrap());
    let seen = last();
    let esp = seen.esp.unwrap();
    assert_eq!((esp.spi, esp.seq, esp.tfc_pad), (0x100, 9, 2));
    assert_eq!((esp.flags, esp.hard_limit_pkts), (1 | 2 | 4, 1 << 40));
    let words = seen.key.unwrap();
    assert_eq!((words.key_len, words.icv_len), (16, 16));
    assert_eq!((words.salt, words.iv), (3, 4));
    assert_eq!(words.aes_key[3], u32::from_ne_bytes([13, 14, 15, 16]));
    assert_eq!(words.aes_key[4..], [0; 4]);
    assert_eq!((seen.replay, seen.esn), (Some(64), Some(0)));
    let kinds: Vec<_> = seen
        .around
        .iter()
        .map(|(kind, filter)| (u32::from(*kind), filter.len()))
        .collect();
    assert_eq!(kinds, [(IBV_FLOW_SPEC_IPV4, 8), (IBV_FLOW_SPEC_UDP, 4)]);
    assert_eq!(seen.around[0].1[4..], [127, 0, 0, 1]);

    // Parts that are not set stay: none of them is passed.
    let change = EspParameters::new().extended_sequence(8);
    action.modify(&change).unwrap();
    let seen = last();
    assert_eq!(seen.esn, Some(8));
    assert!(seen.esp.is_none() && seen.key.is_none() && seen.replay.is_none());
    // A new one has all attributes.
    drop(context.esp_action(&change).unwrap());
    let esp = last().esp.unwrap();
    assert_eq!(bytemuck::bytes_of(&esp), [0; 24]);
    assert_eq!(fake::with(|state| state.destroyed), (1, 0));

    let rule = Rule::new().action(&action);
    let flow = Flow::new(receiver(&context), &rule, 1).unwrap();
    let bytes = fake::with(|state| state.rules.pop().unwrap());
    let (kind, spec) = fake::specs(&bytes).remove(0);
    let spec: ibv_flow_spec_action_handle = structure(&spec);
    assert_eq!(kind, IBV_FLOW_SPEC_ACTION_HANDLE);
    assert_eq!(spec.action.cast_mut(), action.object().as_ptr());
    let elsewhere = receiver(&fake::open());
    drop((action, rule.clone()));
    let refused = Flow::new(elsewhere, &rule, 1).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
    drop(rule);
    assert_eq!(fake::with(|state| state.destroyed), (0, 0));
    drop(flow);
    assert_eq!(fake::with(|state| state.destroyed), (1, 1));
}

#[test]
fn a_key_has_a_length_of_aes() {
    let key = |length| AesGcm {
        key: &[0; 33][..length],
        salt: 0,
        vector: 0,
        check_length: 16,
    };
    for length in [0, 15, 17, 33] {
        let refused = EspParameters::new().aes_gcm(key(length)).unwrap_err();
        assert_eq!(refused.errno(), libc::EINVAL);
    }
    for length in [16, 24, 32] {
        assert!(EspParameters::new().aes_gcm(key(length)).is_ok());
    }
}

#[test]
fn completions_have_the_mark_of_their_rule() {
    let context = fake::open();
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue_builder(64).flow_tags();
    let cq = cq.build().unwrap();
    let readers = fake::with(|state| state.readers);
    assert_ne!(readers & u64::from(IBV_WC_EX_WITH_FLOW_TAG), 0);
    let srq = pd.shared_receive_queue(4, 1).unwrap();
    let _qp = pd.reliable(&cq).shared_receives(&srq).build().unwrap();
    let request = ReceiveRequest::new(pd.buffer(64).unwrap()).id(3);
    srq.post_receive(request).unwrap();
    fake::with(|state| {
        state.completions.push_back(Reported {
            wr_id: state.receives.remove(0),
            opcode: IBV_WC_RECV,
            bytes: 20,
            flow_tag: 0x1234,
            ..Reported::default()
        });
    });
    let done = cq.poll().unwrap().remove(0);
    assert_eq!((done.id, done.operation), (3, Operation::Receive));
    assert_eq!((done.flow_tag(), done.tag()), (Some(0x1234), None));
}
