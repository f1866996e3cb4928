//! Each finding from facts alone. `tests/machine.rs` makes the situations.

use super::*;
use crate::facts::*;

/// A machine on which everything is as it should be.
fn sound() -> Facts {
    let gid = |index, raw: [u8; 16]| VerbsGid {
        index,
        raw,
        roce_v2: true,
        interface: 2,
    };
    let mapped = std::net::Ipv4Addr::new(10, 0, 0, 1)
        .to_ipv6_mapped()
        .octets();
    Facts {
        kernel: Kernel {
            release: "6.1.0".into(),
            core: true,
            uverbs: true,
            modules: Some(true),
            foreign: Vec::new(),
        },
        cards: vec![Card {
            address: "0000:01:00.0".into(),
            id: "15b3:1017".into(),
            modules: ("mlx5_core", "mlx5_ib"),
            driver: Some("mlx5_core".into()),
        }],
        devices: vec![Device {
            name: "mlx5_0".into(),
            node: Some("uverbs0".into()),
            access: Access::Granted,
            provider: Some("mlx5"),
            firmware: "16.35".into(),
            ports: vec![Port {
                number: 1,
                state: "ACTIVE".into(),
                physical: "LinkUp".into(),
                link_layer: "Ethernet".into(),
                interface: Some("eth0".into()),
                gids: vec![Gid::default()],
            }],
        }],
        nodes: Nodes {
            folder: true,
            ..Nodes::default()
        },
        cm: Cm {
            module: true,
            access: Access::Granted,
            library: Some("/usr/lib/librdmacm.so.1".into()),
            reaches_uroce: true,
        },
        plugins: vec![Plugin {
            name: "mlx5".into(),
            state: PluginState::Fine,
        }],
        memlock: Memlock {
            limit: None,
            exempt: false,
        },
        interfaces: [(
            "eth0".to_owned(),
            Interface {
                index: 2,
                up: true,
                carrier: true,
                mtu: 4200,
            },
        )]
        .into(),
        verbs: Some(Verbs {
            error: None,
            has_uroce: true,
            devices: vec![VerbsDevice {
                name: "mlx5_0".into(),
                kernel: true,
                firmware: "16.35".into(),
                ports: vec![VerbsPort {
                    number: 1,
                    state: PORT_ACTIVE,
                    link_layer: ETHERNET,
                    active_mtu: 4096,
                    max_mtu: 4096,
                    lid: 0,
                    gids: vec![gid(0, [0xfe; 16]), gid(1, mapped)],
                }],
                ..VerbsDevice::default()
            }],
        }),
    }
}

/// The names of the findings after a change.
fn ids(change: impl FnOnce(&mut Facts)) -> Vec<&'static str> {
    let mut facts = sound();
    change(&mut facts);
    diagnose(&facts).iter().map(|finding| finding.id).collect()
}

fn verbs(facts: &mut Facts) -> &mut Verbs {
    facts.verbs.get_or_insert_default()
}

fn device(facts: &mut Facts) -> &mut VerbsDevice {
    &mut verbs(facts).devices[0]
}

fn port(facts: &mut Facts) -> &mut VerbsPort {
    &mut device(facts).ports[0]
}

fn no_devices(facts: &mut Facts) {
    facts.devices.clear();
    verbs(facts).devices.clear();
}

/// No RDMA at all, as on a laptop.
fn without_rdma(facts: &mut Facts) {
    no_devices(facts);
    facts.cards.clear();
    facts.kernel.core = false;
    facts.kernel.uverbs = false;
    verbs(facts).error = Some((38, "Function not implemented".into()));
}

#[test]
fn a_sound_machine_has_no_findings() {
    assert!(ids(|_| {}).is_empty());
    assert_eq!(usable(&sound()).collect::<Vec<_>>(), ["mlx5_0"]);
}

#[test]
fn the_kernel() {
    let none = |facts: &mut Facts| {
        without_rdma(facts);
        facts.kernel.modules = Some(false);
    };
    assert_eq!(ids(none), ["uroce", "kernel-without-rdma", "no-card"]);
    assert_eq!(ids(without_rdma), ["uroce", "uverbs-not-loaded", "no-card"]);
    let hidden = |facts: &mut Facts| {
        without_rdma(facts);
        facts.kernel.modules = None;
    };
    assert_eq!(ids(hidden), ["uroce", "uverbs-not-loaded", "no-card"]);
    let foreign = |facts: &mut Facts| facts.kernel.foreign = vec!["ib_core".into()];
    assert_eq!(ids(foreign), ["foreign-stack"]);
}

#[test]
fn cards() {
    let idle = |facts: &mut Facts| {
        no_devices(facts);
        facts.cards[0].driver = None;
    };
    assert_eq!(ids(idle), ["card-without-driver", "uroce"]);
    assert_eq!(ids(no_devices), ["card-without-device", "uroce"]);
    let away = |facts: &mut Facts| facts.cards[0].driver = Some("vfio-pci".into());
    assert_eq!(ids(away), ["card-given-away"]);
    let none = |facts: &mut Facts| {
        no_devices(facts);
        facts.cards.clear();
    };
    assert_eq!(ids(none), ["uroce", "no-card"]);
}

#[test]
fn connection_managers() {
    let access = |access: Access, module: bool| {
        move |facts: &mut Facts| {
            facts.cm.access = access;
            facts.cm.module = module;
        }
    };
    assert_eq!(ids(access(Access::Denied, true)), ["cm-permission"]);
    assert_eq!(ids(access(Access::Missing, true)), ["cm-node-missing"]);
    assert_eq!(ids(access(Access::Missing, false)), ["cm-not-loaded"]);
    let uroce = |reaches_uroce: bool, access: Access| {
        move |facts: &mut Facts| {
            facts.devices.clear();
            facts.cm.access = access;
            facts.cm.reaches_uroce = reaches_uroce;
            device(facts).kernel = false;
        }
    };
    assert_eq!(ids(uroce(true, Access::Missing)), ["card-without-device"]);
    let found = ids(uroce(false, Access::Missing));
    assert_eq!(found, ["card-without-device", "cm-library"]);
    let found = ids(uroce(true, Access::Granted));
    assert_eq!(found, ["card-without-device", "cm-of-kernel"]);
}

#[test]
fn another_library_has_no_uroce() {
    let mut facts = sound();
    without_rdma(&mut facts);
    verbs(&mut facts).has_uroce = false;
    let findings = diagnose(&facts);
    assert_eq!(findings[0].id, "uroce");
    assert_eq!(findings[0].commands[0], "apt-get install libferroverbs1");
}

/// A uroce device that fails has a separate finding.
#[test]
fn uroce_is_not_proposed_where_it_fails() {
    let fails = |facts: &mut Facts| {
        facts.devices.clear();
        facts.cards.clear();
        device(facts).kernel = false;
        device(facts).error = Some((98, "Address already in use".into()));
    };
    assert_eq!(ids(fails), ["no-card", "open-failed"]);
}

/// On a machine where uroce is configured, a missing card is no problem.
#[test]
fn software_is_enough_where_it_was_chosen() {
    let chosen = |facts: &mut Facts| {
        facts.devices.clear();
        facts.cards.clear();
        facts.cm.access = Access::Missing;
        device(facts).name = "uroce_eth0".into();
        device(facts).kernel = false;
    };
    assert_eq!(ids(chosen), ["no-card"]);
    let mut facts = sound();
    chosen(&mut facts);
    assert_eq!(diagnose(&facts)[0].weight, Weight::Note);
}

#[test]
fn nodes() {
    let missing = |facts: &mut Facts| {
        facts.devices[0].access = Access::Missing;
        verbs(facts).devices.clear();
    };
    assert_eq!(ids(missing), ["node-missing", "uroce"]);
    let container = |facts: &mut Facts| {
        missing(facts);
        facts.nodes.container = Some("docker".into());
    };
    assert_eq!(ids(container), ["hidden-by-container", "uroce"]);
    let private = |facts: &mut Facts| {
        missing(facts);
        facts.nodes.private = true;
    };
    assert_eq!(ids(private), ["hidden-by-systemd", "uroce"]);
    let denied = |facts: &mut Facts| {
        facts.devices[0].access = Access::Denied;
        device(facts).error = Some((13, "Permission denied".into()));
    };
    assert_eq!(ids(denied), ["permission", "uroce"]);
}

#[test]
fn providers() {
    let unlisted = |state: Option<PluginState>| {
        ids(|facts| {
            verbs(facts).devices.clear();
            match state {
                Some(state) => facts.plugins[0].state = state,
                None => facts.plugins.clear(),
            }
        })
    };
    assert_eq!(unlisted(None), ["provider-missing", "uroce"]);
    assert_eq!(
        unlisted(Some(PluginState::Missing)),
        ["provider-missing", "uroce"]
    );
    assert_eq!(
        unlisted(Some(PluginState::Foreign(183, 62))),
        ["provider-foreign", "uroce"]
    );
    assert_eq!(
        unlisted(Some(PluginState::Generation(66, vec![34, 59]))),
        ["provider-generation", "uroce"]
    );
    assert_eq!(
        unlisted(Some(PluginState::Damaged("no ELF file".into()))),
        ["provider-damaged", "uroce"]
    );
    assert_eq!(unlisted(Some(PluginState::Fine)), ["not-listed", "uroce"]);
    // One that no device needs: worth a word if it cannot be loaded, none if it is gone.
    let other = |state| {
        ids(|facts| {
            facts.plugins.push(Plugin {
                name: "efa".into(),
                state,
            });
        })
    };
    assert_eq!(
        other(PluginState::Generation(66, vec![34, 59])),
        ["provider-generation"]
    );
    assert!(other(PluginState::Missing).is_empty());
}

/// ferroverbs has a built-in provider for soft-RoCE, and needs no other.
#[test]
fn providers_of_the_librarys_own() {
    let soft = |change: fn(&mut Facts)| {
        ids(|facts| {
            facts.cards.clear();
            facts.plugins.clear();
            facts.devices[0].name = "rxe0".into();
            facts.devices[0].provider = Some("rxe");
            device(facts).name = "rxe0".into();
            change(facts);
        })
    };
    assert!(soft(|_| {}).is_empty());
    // rdma-core's library, which needs one.
    assert_eq!(
        soft(|facts| verbs(facts).devices.clear()),
        ["provider-missing", "uroce"]
    );
    // Without a node no library has the device.
    let hidden = |facts: &mut Facts| {
        verbs(facts).devices.clear();
        facts.devices[0].access = Access::Missing;
    };
    assert_eq!(soft(hidden), ["node-missing", "uroce"]);
    assert!(soft(|facts| facts.verbs = None).is_empty());
}

#[test]
fn the_library() {
    let list = |facts: &mut Facts| {
        verbs(facts).devices.clear();
        verbs(facts).error = Some((1, "Operation not permitted".into()));
    };
    assert_eq!(ids(list), ["no-list", "uroce"]);
    let open = |facts: &mut Facts| device(facts).error = Some((5, "I/O error".into()));
    assert_eq!(ids(open), ["open-failed", "uroce"]);
    let port_taken = |facts: &mut Facts| {
        device(facts).kernel = false;
        device(facts).error = Some((98, "Address already in use".into()));
    };
    let mut facts = sound();
    port_taken(&mut facts);
    assert!(diagnose(&facts)[0].why.contains("4791"));
}

#[test]
fn memory() {
    let small = |facts: &mut Facts| facts.memlock.limit = Some(65536);
    assert_eq!(ids(small), ["memlock"]);
    let exempt = |facts: &mut Facts| {
        small(facts);
        facts.memlock.exempt = true;
    };
    assert!(ids(exempt).is_empty());
    let refused = |facts: &mut Facts| {
        device(facts).registration = Some((12, "Cannot allocate memory".into(), 1 << 20));
    };
    assert_eq!(ids(refused), ["registration-failed"]);
    let both = |facts: &mut Facts| {
        small(facts);
        refused(facts);
    };
    let mut facts = sound();
    both(&mut facts);
    let findings = diagnose(&facts);
    assert_eq!(findings.len(), 1);
    assert_eq!(
        (findings[0].id, findings[0].weight),
        ("memlock", Weight::Problem)
    );
    // uroce pins nothing.
    let software = |facts: &mut Facts| {
        small(facts);
        facts.devices.clear();
    };
    assert!(!ids(software).contains(&"memlock"));
}

#[test]
fn ports() {
    let state = |number| move |facts: &mut Facts| port(facts).state = number;
    assert_eq!(ids(state(1)), ["port-down", "uroce"]);
    assert_eq!(ids(state(2)), ["port-not-active", "uroce"]);
    let off = |facts: &mut Facts| {
        port(facts).state = 1;
        let eth0 = facts.interfaces.get_mut("eth0").unwrap();
        (eth0.up, eth0.carrier) = (false, false);
    };
    assert_eq!(ids(off), ["netdev-down", "uroce"]);
    let infiniband = |facts: &mut Facts| {
        port(facts).link_layer = 1;
        port(facts).gids.clear();
    };
    assert!(ids(infiniband).is_empty());
}

#[test]
fn gids_and_mtu() {
    assert_eq!(ids(|facts| port(facts).gids.clear()), ["no-gid"]);
    let v1 = |facts: &mut Facts| {
        for gid in &mut port(facts).gids {
            gid.roce_v2 = false;
        }
    };
    assert_eq!(ids(v1), ["no-roce-v2"]);
    let local = |facts: &mut Facts| {
        port(facts).gids.truncate(1);
        port(facts).gids[0].raw = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    };
    assert_eq!(ids(local), ["no-address"]);
    assert_eq!(ids(|facts| port(facts).active_mtu = 1024), ["mtu"]);
}

/// With a folder in place of the machine the library is not asked, and sysfs has to do.
#[test]
fn ports_in_sysfs() {
    let with = |change: fn(&mut Port)| {
        ids(|facts| {
            facts.verbs = None;
            change(&mut facts.devices[0].ports[0]);
        })
    };
    assert!(with(|_| {}).is_empty());
    assert_eq!(with(|port| port.state = "DOWN".into()), ["port-down"]);
    assert_eq!(with(|port| port.state = "INIT".into()), ["port-not-active"]);
    assert_eq!(with(|port| port.gids.clear()), ["no-gid"]);
}

#[test]
fn every_finding_has_a_command() {
    let changes: [fn(&mut Facts); 6] = [
        without_rdma,
        no_devices,
        |facts| facts.devices[0].access = Access::Denied,
        |facts| facts.memlock.limit = Some(1),
        |facts| port(facts).state = 1,
        |facts| port(facts).gids.clear(),
    ];
    for change in changes {
        let mut facts = sound();
        change(&mut facts);
        let findings = diagnose(&facts);
        assert!(!findings.is_empty());
        for finding in findings {
            assert!(!finding.commands.is_empty(), "{}", finding.id);
            assert!(!finding.what.is_empty() && !finding.why.is_empty());
        }
    }
}
