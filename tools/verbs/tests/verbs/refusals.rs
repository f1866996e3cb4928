//! What uroce does not have: the calls reach it, and say so.

use super::open;
use verbs::{
    Error,
    flow::{AesGcm, Esp, EspParameters, Gre, Mpls, Rule},
    tag_matching::Size,
};

fn unsupported(refused: Error, verb: &str) {
    assert_eq!(
        (refused.function(), refused.errno()),
        (verb, libc::EOPNOTSUPP)
    );
    // The library said so, and not the crate.
    assert_eq!(refused.reason(), None);
}

#[test]
fn there_are_no_tags() {
    let context = open();
    assert_eq!(context.extended_attributes().unwrap().tm_caps.flags, 0);
    let cq = context.completion_queue_builder(64).tags().build();
    unsupported(cq.unwrap_err(), "ibv_create_cq_ex");
    let cq = context.completion_queue_builder(64).flow_tags().build();
    unsupported(cq.unwrap_err(), "ibv_create_cq_ex");
    // So no queue of tags can be made, for want of a completion queue.
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue(64).unwrap();
    let size = Size {
        requests: 8,
        segments: 1,
        tags: 8,
        operations: 8,
    };
    let refused = pd.tag_queue(&cq, size).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
}

#[test]
fn there_are_no_actions() {
    let context = open();
    let key = AesGcm {
        key: &[1; 32],
        salt: 0,
        vector: 0,
        check_length: 16,
    };
    let parameters = EspParameters::new().aes_gcm(key).unwrap();
    let refused = context.esp_action(&parameters).unwrap_err();
    unsupported(refused, "ibv_create_flow_action_esp");
}

#[test]
fn there_are_no_headers_of_tunnels() {
    let pd = open().protection_domain().unwrap();
    let cq = pd.context().completion_queue(64).unwrap();
    let qp = match pd.raw_packets(&cq).build() {
        Ok(qp) => qp,
        Err(error) => {
            assert_eq!(error.errno(), libc::EPERM, "{error}");
            eprintln!("skipped: raw packets need CAP_NET_RAW");
            return;
        }
    };
    let rule = Rule::new;
    for rule in [
        rule().vxlan(1, 0xff_ffff),
        rule().gre(Gre::default(), Gre::default()),
        rule().mpls(Mpls::default(), Mpls::default()),
        rule().esp(Esp::default(), Esp::default()),
        rule().egress(),
    ] {
        unsupported(qp.flow(&rule).unwrap_err(), "ibv_create_flow");
    }
}
