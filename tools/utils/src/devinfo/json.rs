//! Output for programs: the same members, numbers as numbers. `docs/devinfo.schema.json` describes
//! it.

use std::net::Ipv6Addr;

use serde_json::{Map, Value, json};
use verbs::tools::{abi::*, firmware};

use super::{
    shown::{GidKind, Shown, Trouble, gids},
    text,
};
use crate::words;

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let members = members.map(|(name, value)| (name.to_owned(), value));
    Value::Object(Map::from_iter(members))
}

fn add(to: &mut Value, more: Value) {
    if let (Value::Object(to), Value::Object(more)) = (to, more) {
        to.extend(more);
    }
}

pub(super) fn add_ports(to: &mut Value, ports: Vec<Value>) {
    add(to, json!({ "ports": ports }));
}

fn names(set: u64, table: &[(u64, &str)]) -> Value {
    let (names, unknown) = words::flags(set, table);
    let names: Vec<&str> = names.collect();
    json!({"flags": names, "unknown": unknown})
}

pub(super) fn device(shown: &Shown<'_>) -> Value {
    let attr = &shown.attr.orig_attr;
    let mut device = json!({
        "hca_id": shown.device.name(),
        "transport": words::transport(shown.device.transport()),
        "fw_ver": firmware(&shown.attr),
        "node_guid": text::guid(attr.node_guid),
        "sys_image_guid": text::guid(attr.sys_image_guid),
        "vendor_id": attr.vendor_id,
        "vendor_part_id": attr.vendor_part_id,
        "hw_ver": attr.hw_ver,
        "board_id": shown.device.sysfs_file("board_id"),
        "phys_port_cnt": attr.phys_port_cnt,
    });
    if shown.verbose {
        add(&mut device, limits(attr));
        add(&mut device, features(shown));
    }
    device
}

fn limits(attr: &ibv_device_attr) -> Value {
    object([
        ("max_mr_size", attr.max_mr_size.into()),
        ("page_size_cap", attr.page_size_cap.into()),
        ("max_qp", attr.max_qp.into()),
        ("max_qp_wr", attr.max_qp_wr.into()),
        (
            "device_cap_flags",
            names(attr.device_cap_flags.into(), words::DEVICE),
        ),
        ("max_sge", attr.max_sge.into()),
        ("max_sge_rd", attr.max_sge_rd.into()),
        ("max_cq", attr.max_cq.into()),
        ("max_cqe", attr.max_cqe.into()),
        ("max_mr", attr.max_mr.into()),
        ("max_pd", attr.max_pd.into()),
        ("max_qp_rd_atom", attr.max_qp_rd_atom.into()),
        ("max_ee_rd_atom", attr.max_ee_rd_atom.into()),
        ("max_res_rd_atom", attr.max_res_rd_atom.into()),
        ("max_qp_init_rd_atom", attr.max_qp_init_rd_atom.into()),
        ("max_ee_init_rd_atom", attr.max_ee_init_rd_atom.into()),
        ("atomic_cap", words::atomics(attr.atomic_cap).into()),
        ("max_ee", attr.max_ee.into()),
        ("max_rdd", attr.max_rdd.into()),
        ("max_mw", attr.max_mw.into()),
        ("max_raw_ipv6_qp", attr.max_raw_ipv6_qp.into()),
        ("max_raw_ethy_qp", attr.max_raw_ethy_qp.into()),
        ("max_mcast_grp", attr.max_mcast_grp.into()),
        ("max_mcast_qp_attach", attr.max_mcast_qp_attach.into()),
        (
            "max_total_mcast_qp_attach",
            attr.max_total_mcast_qp_attach.into(),
        ),
        ("max_ah", attr.max_ah.into()),
        ("max_fmr", attr.max_fmr.into()),
        ("max_map_per_fmr", attr.max_map_per_fmr.into()),
        ("max_srq", attr.max_srq.into()),
        ("max_srq_wr", attr.max_srq_wr.into()),
        ("max_srq_sge", attr.max_srq_sge.into()),
        ("max_pkeys", attr.max_pkeys.into()),
        ("local_ca_ack_delay", attr.local_ca_ack_delay.into()),
    ])
}

fn features(shown: &Shown<'_>) -> Value {
    let attr = &shown.attr;
    let odp = &attr.odp_caps;
    let of = &odp.per_transport_caps;
    let odp_of = |set: u32| names(set.into(), words::ODP_TRANSPORT);
    let queue_pairs = |set: u32| names(set.into(), words::QUEUE_PAIRS);
    let (tso, rss, pacing, tags) = (
        &attr.tso_caps,
        &attr.rss_caps,
        &attr.packet_pacing_caps,
        &attr.tm_caps,
    );
    object([
        ("general_odp_caps", names(odp.general_caps, words::ODP)),
        ("rc_odp_caps", odp_of(of.rc_odp_caps)),
        ("uc_odp_caps", odp_of(of.uc_odp_caps)),
        ("ud_odp_caps", odp_of(of.ud_odp_caps)),
        ("xrc_odp_caps", odp_of(attr.xrc_odp_caps)),
        (
            "completion_timestamp_mask",
            attr.completion_timestamp_mask.into(),
        ),
        ("hca_core_clock", attr.hca_core_clock.into()),
        (
            "raw_packet_caps",
            names(attr.raw_packet_caps.into(), words::RAW_PACKET),
        ),
        (
            "device_cap_flags_ex",
            names(attr.device_cap_flags_ex & !0xffff_ffff, words::DEVICE_EX),
        ),
        (
            "tso_caps",
            json!({"max_tso": tso.max_tso, "supported_qp": queue_pairs(tso.supported_qpts)}),
        ),
        (
            "rss_caps",
            json!({
                "max_rwq_indirection_tables": rss.max_rwq_indirection_tables,
                "max_rwq_indirection_table_size": rss.max_rwq_indirection_table_size,
                "rx_hash_function": rss.rx_hash_function,
                "rx_hash_fields_mask": rss.rx_hash_fields_mask,
                "supported_qp": queue_pairs(rss.supported_qpts),
            }),
        ),
        ("max_wq_type_rq", attr.max_wq_type_rq.into()),
        (
            "packet_pacing_caps",
            json!({
                "qp_rate_limit_min": pacing.qp_rate_limit_min,
                "qp_rate_limit_max": pacing.qp_rate_limit_max,
                "supported_qp": queue_pairs(pacing.supported_qpts),
            }),
        ),
        (
            "tm_caps",
            json!({
                "max_rndv_hdr_size": tags.max_rndv_hdr_size,
                "max_num_tags": tags.max_num_tags,
                "max_ops": tags.max_ops,
                "max_sge": tags.max_sge,
                "rc": tags.flags & IBV_TM_CAP_RC != 0,
            }),
        ),
        (
            "cq_moderation_caps",
            json!({
                "max_cq_count": attr.cq_mod_caps.max_cq_count,
                "max_cq_period": attr.cq_mod_caps.max_cq_period,
            }),
        ),
        ("max_dm_size", attr.max_dm_size.into()),
        (
            "num_comp_vectors",
            shown.context.completion_vectors().into(),
        ),
    ])
}

/// Gigabits a second of a lane.
fn gigabits(speed: u8) -> Option<f64> {
    words::speed(speed).strip_suffix(" Gbps")?.parse().ok()
}

pub(super) fn port(shown: &Shown<'_>, number: u8, attr: &ibv_port_attr) -> Result<Value, Trouble> {
    // An unknown value has no number.
    let bytes = |mtu: ibv_mtu| words::mtu(mtu).parse::<u32>().ok();
    let mut port = json!({
        "port": number,
        "state": words::port_state(attr.state),
        "max_mtu": bytes(attr.max_mtu),
        "active_mtu": bytes(attr.active_mtu),
        "sm_lid": attr.sm_lid,
        "port_lid": attr.lid,
        "port_lmc": attr.lmc,
        "link_layer": words::link_layer(attr.link_layer),
    });
    if !shown.verbose {
        return Ok(port);
    }
    let (found, done) = gids(shown, number, attr);
    done?;
    let gids: Vec<Value> = found
        .iter()
        .map(|gid| {
            let kind = gid.kind.map(|kind| match kind {
                GidKind::V2 => "RoCE v2",
                GidKind::IbOrV1 => "IB/RoCE v1",
            });
            json!({
                "index": gid.index,
                "gid": Ipv6Addr::from(gid.raw).to_string(),
                "type": kind,
            })
        })
        .collect();
    add(
        &mut port,
        json!({
            "max_msg_sz": attr.max_msg_sz,
            "port_cap_flags": attr.port_cap_flags,
            "port_cap_flags2": attr.port_cap_flags2,
            "max_vl_num": words::virtual_lanes(attr.max_vl_num).parse::<u32>().ok(),
            "bad_pkey_cntr": attr.bad_pkey_cntr,
            "qkey_viol_cntr": attr.qkey_viol_cntr,
            "sm_sl": attr.sm_sl,
            "pkey_tbl_len": attr.pkey_tbl_len,
            "gid_tbl_len": attr.gid_tbl_len,
            "subnet_timeout": attr.subnet_timeout,
            "init_type_reply": attr.init_type_reply,
            "active_width": words::width(attr.active_width).parse::<u32>().ok(),
            "active_speed": gigabits(attr.active_speed),
            "phys_state": words::physical_state(attr.phys_state),
            "gids": gids,
        }),
    );
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_numbers() {
        let speeds = [1, 2, 4, 8, 16, 32, 64, 128].map(gigabits);
        let known = [2.5, 5.0, 10.0, 10.0, 14.0, 25.0, 50.0, 100.0].map(Some);
        assert_eq!(speeds, known);
        assert_eq!(gigabits(3), None);
    }
}
