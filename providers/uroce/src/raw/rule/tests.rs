//! Rules against frames.

use super::super::headers::tests::{tcp6, udp4};
use super::*;
use crate::context::Context;
use proptest::prelude::*;

type Part = FlowPart<'static, Context>;

fn filter(kind: u32, value: &[u8], mask: &[u8]) -> Part {
    let (value, mask) = (value.to_vec().leak(), mask.to_vec().leak());
    FlowPart::Filter { kind, value, mask }
}

fn init(attr_type: u32, parts: Vec<Part>) -> FlowInit<'static, Context> {
    FlowInit {
        attr_type,
        priority: 0,
        port: 1,
        flags: 0,
        parts,
    }
}

/// A rule of these filters.
pub fn normal(priority: u16, parts: Vec<Part>) -> Rule {
    let init = FlowInit {
        priority,
        ..init(IBV_FLOW_ATTR_NORMAL, parts)
    };
    rule(&init).expect("a rule").0
}

/// A rule for the source address of IPv4, or the bits of it that count.
pub fn from(priority: u16, address: [u8; 4], mask: [u8; 4]) -> Rule {
    let value = [address, [0; 4]].concat();
    let mask = [mask, [0; 4]].concat();
    normal(priority, vec![filter(IBV_FLOW_SPEC_IPV4, &value, &mask)])
}

/// A rule of another kind.
pub fn default(attr_type: u32) -> Rule {
    rule(&init(attr_type, Vec::new())).expect("a rule").0
}

fn meets(rule: &Rule, frame: &[u8]) -> bool {
    rule.matches(&Headers::read(frame).expect("a frame"))
}

#[test]
fn each_layer_is_compared() {
    let (four, six) = (udp4(None, [1; 4], 1234), tcp6());
    let eth = |mask: &[u8; 16]| filter(IBV_FLOW_SPEC_ETH, &four_value(), mask);
    let udp = || filter(IBV_FLOW_SPEC_UDP, &[0x16, 0x2e, 4, 210], &[0xff; 4]);
    let whole = normal(0, vec![udp(), eth(&[0xff; 16])]);
    assert!(!meets(&whole, &four), "a tag is asked for");
    let mut mask = [0xff; 16];
    mask[14..].fill(0);
    let whole = normal(0, vec![udp(), eth(&mask)]);
    assert!(meets(&whole, &four) && !meets(&whole, &six));
    assert_eq!(whole.destination(), Some([1, 0x50, 0x56, 1, 2, 3]));
    mask[5] = 0xfe;
    assert_eq!(normal(0, vec![eth(&mask)]).destination(), None);
    let ipv6 = [&[0xa0; 16][..], &[0xb0; 16], &[0; 7]].concat();
    let mask = [&[0xff; 32][..], &[0; 7]].concat();
    let to = normal(0, vec![filter(IBV_FLOW_SPEC_IPV6, &ipv6, &mask)]);
    assert!(meets(&to, &six) && !meets(&to, &four));
    let tcp = normal(
        0,
        vec![filter(
            IBV_FLOW_SPEC_TCP,
            &[22, 46, 0, 0],
            &[255, 255, 0, 0],
        )],
    );
    assert!(meets(&tcp, &six) && !meets(&tcp, &four));
}

fn four_value() -> [u8; 16] {
    Headers::read(&udp4(None, [1; 4], 1))
        .expect("a frame")
        .ethernet
}

#[test]
fn tags_are_compared() {
    let mut value = [0; 16];
    value[14..].copy_from_slice(&[0xac, 0x0c]);
    let mut mask = [0; 16];
    mask[14..].copy_from_slice(&[0x0f, 0xff]);
    let rule = normal(0, vec![filter(IBV_FLOW_SPEC_ETH, &value, &mask)]);
    assert!(meets(&rule, &udp4(Some(0xac0c), [1; 4], 1)));
    assert!(
        meets(&rule, &udp4(Some(0x0c0c), [1; 4], 1)),
        "another priority"
    );
    assert!(!meets(&rule, &udp4(Some(0xac0d), [1; 4], 1)));
    assert!(!meets(&rule, &udp4(None, [1; 4], 1)));
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let refuses = |init: FlowInit<'static, Context>| rule(&init).err();
    let normal = |parts| init(IBV_FLOW_ATTR_NORMAL, parts);
    let eth = || filter(IBV_FLOW_SPEC_ETH, &[0; 16], &[0; 16]);
    let four = || filter(IBV_FLOW_SPEC_IPV4, &[0; 8], &[0; 8]);
    let six = || filter(IBV_FLOW_SPEC_IPV6, &[0; 39], &[0; 39]);
    assert_eq!(refuses(init(4, Vec::new())), Some(Errno::INVAL));
    assert_eq!(refuses(normal(vec![eth(), eth()])), Some(Errno::INVAL));
    assert_eq!(refuses(normal(vec![four(), six()])), Some(Errno::INVAL));
    let sniffer = init(IBV_FLOW_ATTR_SNIFFER, vec![eth()]);
    assert_eq!(refuses(sniffer), Some(Errno::INVAL));
    let with = |port, flags| FlowInit {
        port,
        flags,
        ..normal(Vec::new())
    };
    assert_eq!(refuses(with(2, 0)), Some(Errno::INVAL));
    assert_eq!(refuses(with(0, 0)), Some(Errno::INVAL));
    assert_eq!(refuses(with(1, 8)), Some(Errno::INVAL));
    assert_eq!(
        refuses(with(1, IBV_FLOW_ATTR_FLAGS_EGRESS)),
        Some(Errno::OPNOTSUPP)
    );
    assert_eq!(refuses(with(1, IBV_FLOW_ATTR_FLAGS_DONT_TRAP)), None);
    let passing = FlowInit {
        flags: IBV_FLOW_ATTR_FLAGS_DONT_TRAP,
        ..init(IBV_FLOW_ATTR_ALL_DEFAULT, Vec::new())
    };
    assert_eq!(refuses(passing), Some(Errno::INVAL));
    let tunnel = filter(IBV_FLOW_SPEC_VXLAN_TUNNEL, &[0; 4], &[0; 4]);
    assert_eq!(refuses(normal(vec![tunnel])), Some(Errno::OPNOTSUPP));
    let inner = filter(IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER, &[0; 16], &[0; 16]);
    assert_eq!(refuses(normal(vec![inner])), Some(Errno::OPNOTSUPP));
    assert_eq!(
        refuses(normal(vec![FlowPart::Tag(1)])),
        Some(Errno::OPNOTSUPP)
    );
}

proptest! {
    #[test]
    fn a_bit_counts_if_the_mask_has_it(
        address: [u8; 4],
        other: [u8; 4],
        mask: [u8; 4],
    ) {
        let (a, b) = (u32::from_be_bytes(address), u32::from_be_bytes(other));
        let same = (a ^ b) & u32::from_be_bytes(mask) == 0;
        prop_assert_eq!(meets(&from(0, address, mask), &udp4(None, other, 7)), same);
        prop_assert!(meets(&from(0, address, mask), &udp4(Some(3), address, 7)));
        prop_assert!(!meets(&from(0, address, mask), &tcp6()));
    }
}
