//! Output for people and scripts.

use std::{
    io::{self, Write},
    net::Ipv6Addr,
};

use verbs::tools::{abi::*, firmware};

use super::shown::{Gid, GidKind, Shown, Trouble, gids};
use crate::words;

pub(super) fn guid(guid: be64) -> String {
    let number = guid.get();
    let part = |shift: u32| (number >> shift) & 0xffff;
    format!(
        "{:04x}:{:04x}:{:04x}:{:04x}",
        part(48),
        part(32),
        part(16),
        part(0)
    )
}

/// A GID in groups of four digits, none left out.
pub(super) fn groups(gid: &[u8; 16]) -> String {
    let pairs = gid.chunks(2).map(|pair| {
        let digits: String = pair.iter().map(|byte| format!("{byte:02x}")).collect();
        digits
    });
    pairs.collect::<Vec<_>>().join(":")
}

pub(super) fn device(shown: &Shown<'_>, out: &mut impl Write) -> io::Result<()> {
    let attr = &shown.attr.orig_attr;
    let transport = shown.device.transport();
    writeln!(out, "hca_id:\t{}", shown.device.name())?;
    let word = words::transport(transport);
    writeln!(out, "\ttransport:\t\t\t{word} ({transport})")?;
    let version = firmware(&shown.attr);
    if !version.is_empty() {
        writeln!(out, "\tfw_ver:\t\t\t\t{version}")?;
    }
    writeln!(out, "\tnode_guid:\t\t\t{}", guid(attr.node_guid))?;
    let image = guid(attr.sys_image_guid);
    writeln!(out, "\tsys_image_guid:\t\t\t{image}")?;
    writeln!(out, "\tvendor_id:\t\t\t0x{:04x}", attr.vendor_id)?;
    let part = attr.vendor_part_id.cast_signed();
    writeln!(out, "\tvendor_part_id:\t\t\t{part}")?;
    writeln!(out, "\thw_ver:\t\t\t\t0x{:X}", attr.hw_ver)?;
    if let Some(board) = shown.device.sysfs_file("board_id") {
        writeln!(out, "\tboard_id:\t\t\t{board}")?;
    }
    writeln!(out, "\tphys_port_cnt:\t\t\t{}", attr.phys_port_cnt)?;
    if shown.verbose {
        limits(attr, out)?;
        features(shown, out)?;
    }
    Ok(())
}

fn limits(attr: &ibv_device_attr, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\tmax_mr_size:\t\t\t0x{:x}", attr.max_mr_size)?;
    writeln!(out, "\tpage_size_cap:\t\t\t0x{:x}", attr.page_size_cap)?;
    writeln!(out, "\tmax_qp:\t\t\t\t{}", attr.max_qp)?;
    writeln!(out, "\tmax_qp_wr:\t\t\t{}", attr.max_qp_wr)?;
    writeln!(
        out,
        "\tdevice_cap_flags:\t\t0x{:08x}",
        attr.device_cap_flags
    )?;
    flags(out, attr.device_cap_flags.into(), words::DEVICE)?;
    writeln!(out, "\tmax_sge:\t\t\t{}", attr.max_sge)?;
    writeln!(out, "\tmax_sge_rd:\t\t\t{}", attr.max_sge_rd)?;
    writeln!(out, "\tmax_cq:\t\t\t\t{}", attr.max_cq)?;
    writeln!(out, "\tmax_cqe:\t\t\t{}", attr.max_cqe)?;
    writeln!(out, "\tmax_mr:\t\t\t\t{}", attr.max_mr)?;
    writeln!(out, "\tmax_pd:\t\t\t\t{}", attr.max_pd)?;
    writeln!(out, "\tmax_qp_rd_atom:\t\t\t{}", attr.max_qp_rd_atom)?;
    writeln!(out, "\tmax_ee_rd_atom:\t\t\t{}", attr.max_ee_rd_atom)?;
    writeln!(out, "\tmax_res_rd_atom:\t\t{}", attr.max_res_rd_atom)?;
    writeln!(
        out,
        "\tmax_qp_init_rd_atom:\t\t{}",
        attr.max_qp_init_rd_atom
    )?;
    writeln!(
        out,
        "\tmax_ee_init_rd_atom:\t\t{}",
        attr.max_ee_init_rd_atom
    )?;
    let atomics = words::atomics(attr.atomic_cap);
    writeln!(out, "\tatomic_cap:\t\t\t{atomics} ({})", attr.atomic_cap)?;
    writeln!(out, "\tmax_ee:\t\t\t\t{}", attr.max_ee)?;
    writeln!(out, "\tmax_rdd:\t\t\t{}", attr.max_rdd)?;
    writeln!(out, "\tmax_mw:\t\t\t\t{}", attr.max_mw)?;
    writeln!(out, "\tmax_raw_ipv6_qp:\t\t{}", attr.max_raw_ipv6_qp)?;
    writeln!(out, "\tmax_raw_ethy_qp:\t\t{}", attr.max_raw_ethy_qp)?;
    writeln!(out, "\tmax_mcast_grp:\t\t\t{}", attr.max_mcast_grp)?;
    writeln!(
        out,
        "\tmax_mcast_qp_attach:\t\t{}",
        attr.max_mcast_qp_attach
    )?;
    let total = attr.max_total_mcast_qp_attach;
    writeln!(out, "\tmax_total_mcast_qp_attach:\t{total}")?;
    writeln!(out, "\tmax_ah:\t\t\t\t{}", attr.max_ah)?;
    writeln!(out, "\tmax_fmr:\t\t\t{}", attr.max_fmr)?;
    if attr.max_fmr != 0 {
        writeln!(out, "\tmax_map_per_fmr:\t\t{}", attr.max_map_per_fmr)?;
    }
    writeln!(out, "\tmax_srq:\t\t\t{}", attr.max_srq)?;
    if attr.max_srq != 0 {
        writeln!(out, "\tmax_srq_wr:\t\t\t{}", attr.max_srq_wr)?;
        writeln!(out, "\tmax_srq_sge:\t\t\t{}", attr.max_srq_sge)?;
    }
    writeln!(out, "\tmax_pkeys:\t\t\t{}", attr.max_pkeys)?;
    writeln!(out, "\tlocal_ca_ack_delay:\t\t{}", attr.local_ca_ack_delay)
}

fn features(shown: &Shown<'_>, out: &mut impl Write) -> io::Result<()> {
    let attr = &shown.attr;
    on_demand(attr, out)?;
    match attr.completion_timestamp_mask {
        0 => writeln!(out, "\tcompletion_timestamp_mask not supported")?,
        mask => writeln!(out, "\tcompletion timestamp_mask:\t\t\t0x{mask:016x}")?,
    }
    match attr.hca_core_clock {
        0 => writeln!(out, "\tcore clock not supported")?,
        clock => writeln!(out, "\thca_core_clock:\t\t\t{clock}kHZ")?,
    }
    if attr.raw_packet_caps != 0 {
        writeln!(out, "\traw packet caps:")?;
        let (names, _) = words::flags(attr.raw_packet_caps.into(), words::RAW_PACKET);
        lines(out, names)?;
    }
    let more = attr.device_cap_flags_ex;
    writeln!(out, "\tdevice_cap_flags_ex:\t\t0x{more:X}")?;
    flags(out, more & !0xffff_ffff, words::DEVICE_EX)?;
    segmentation(&attr.tso_caps, out)?;
    hashing(&attr.rss_caps, out)?;
    writeln!(out, "\tmax_wq_type_rq:\t\t\t{}", attr.max_wq_type_rq)?;
    pacing(&attr.packet_pacing_caps, out)?;
    tag_matching(&attr.tm_caps, out)?;
    moderation(attr.cq_mod_caps, out)?;
    if attr.max_dm_size != 0 {
        let size = attr.max_dm_size;
        writeln!(out, "\tmaximum available device memory:\t{size}Bytes\n")?;
    }
    let vectors = shown.context.completion_vectors();
    writeln!(out, "\tnum_comp_vectors:\t\t{vectors}")
}

const INDENT: &str = "\t\t\t\t\t";

fn lines<'a>(out: &mut impl Write, names: impl Iterator<Item = &'a str>) -> io::Result<()> {
    for name in names {
        writeln!(out, "{INDENT}{name}")?;
    }
    Ok(())
}

/// Flags by their names, and those without one.
fn flags(out: &mut impl Write, set: u64, table: &[(u64, &str)]) -> io::Result<()> {
    let (names, unknown) = words::flags(set, table);
    lines(out, names)?;
    if unknown != 0 {
        writeln!(out, "{INDENT}Unknown flags: 0x{unknown:X}")?;
    }
    Ok(())
}

fn on_demand(attr: &ibv_device_attr_ex, out: &mut impl Write) -> io::Result<()> {
    let caps = &attr.odp_caps;
    writeln!(out, "\tgeneral_odp_caps:")?;
    flags(out, caps.general_caps, words::ODP)?;
    let of = &caps.per_transport_caps;
    for (name, set) in [
        ("rc", of.rc_odp_caps),
        ("uc", of.uc_odp_caps),
        ("ud", of.ud_odp_caps),
        ("xrc", attr.xrc_odp_caps),
    ] {
        writeln!(out, "\t{name}_odp_caps:")?;
        match set {
            0 => writeln!(out, "{INDENT}NO SUPPORT")?,
            set => flags(out, set.into(), words::ODP_TRANSPORT)?,
        }
    }
    Ok(())
}

fn queue_pairs(out: &mut impl Write, set: u32) -> io::Result<()> {
    writeln!(out, "\t\tsupported_qp:")?;
    flags(out, set.into(), words::QUEUE_PAIRS)
}

fn segmentation(caps: &ibv_tso_caps, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\ttso_caps:")?;
    writeln!(out, "\t\tmax_tso:\t\t\t{}", caps.max_tso.cast_signed())?;
    match caps.max_tso {
        0 => Ok(()),
        _ => queue_pairs(out, caps.supported_qpts),
    }
}

fn hashing(caps: &ibv_rss_caps, out: &mut impl Write) -> io::Result<()> {
    let (tables, size) = (
        caps.max_rwq_indirection_tables,
        caps.max_rwq_indirection_table_size,
    );
    let (function, fields) = (caps.rx_hash_function, caps.rx_hash_fields_mask);
    writeln!(out, "\trss_caps:")?;
    writeln!(out, "\t\tmax_rwq_indirection_tables:\t\t\t{tables}")?;
    writeln!(out, "\t\tmax_rwq_indirection_table_size:\t\t\t{size}")?;
    writeln!(out, "\t\trx_hash_function:\t\t\t\t0x{function:x}")?;
    writeln!(out, "\t\trx_hash_fields_mask:\t\t\t\t0x{fields:X}")?;
    match caps.supported_qpts {
        0 => Ok(()),
        set => queue_pairs(out, set),
    }
}

fn pacing(caps: &ibv_packet_pacing_caps, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\tpacket_pacing_caps:")?;
    writeln!(
        out,
        "\t\tqp_rate_limit_min:\t{}kbps",
        caps.qp_rate_limit_min
    )?;
    writeln!(
        out,
        "\t\tqp_rate_limit_max:\t{}kbps",
        caps.qp_rate_limit_max
    )?;
    match caps.qp_rate_limit_max {
        0 => Ok(()),
        _ => queue_pairs(out, caps.supported_qpts),
    }
}

fn tag_matching(caps: &ibv_tm_caps, out: &mut impl Write) -> io::Result<()> {
    if caps.max_num_tags == 0 {
        return writeln!(out, "\ttag matching not supported");
    }
    writeln!(out, "\tmax_rndv_hdr_size:\t\t{}", caps.max_rndv_hdr_size)?;
    writeln!(out, "\tmax_num_tags:\t\t\t{}", caps.max_num_tags)?;
    writeln!(out, "\tmax_ops:\t\t\t{}", caps.max_ops)?;
    writeln!(out, "\tmax_sge:\t\t\t{}", caps.max_sge)?;
    writeln!(out, "\tflags:")?;
    if caps.flags & IBV_TM_CAP_RC != 0 {
        writeln!(out, "{INDENT}IBV_TM_CAP_RC")?;
    }
    Ok(())
}

fn moderation(caps: ibv_cq_moderation_caps, out: &mut impl Write) -> io::Result<()> {
    let (count, period) = (caps.max_cq_count, caps.max_cq_period);
    if count == 0 || period == 0 {
        return Ok(());
    }
    writeln!(out, "\n\tcq moderation caps:")?;
    writeln!(out, "\t\tmax_cq_count:\t{count}")?;
    writeln!(out, "\t\tmax_cq_period:\t{period} us\n")
}

pub(super) fn port(
    shown: &Shown<'_>,
    number: u8,
    attr: &ibv_port_attr,
    out: &mut impl Write,
) -> Result<(), Trouble> {
    let state = words::port_state(attr.state);
    writeln!(out, "\t\tport:\t{number}")?;
    writeln!(out, "\t\t\tstate:\t\t\t{state} ({})", attr.state)?;
    for (name, mtu) in [("max", attr.max_mtu), ("active", attr.active_mtu)] {
        writeln!(out, "\t\t\t{name}_mtu:\t\t{} ({mtu})", words::mtu(mtu))?;
    }
    writeln!(out, "\t\t\tsm_lid:\t\t\t{}", attr.sm_lid)?;
    writeln!(out, "\t\t\tport_lid:\t\t{}", attr.lid)?;
    writeln!(out, "\t\t\tport_lmc:\t\t0x{:02x}", attr.lmc)?;
    let layer = words::link_layer(attr.link_layer);
    writeln!(out, "\t\t\tlink_layer:\t\t{layer}")?;
    if shown.verbose {
        port_details(shown, attr, out)?;
        let (found, done) = gids(shown, number, attr);
        for gid in &found {
            gid_line(gid, attr, out)?;
        }
        done?;
    }
    Ok(writeln!(out)?)
}

fn port_details(shown: &Shown<'_>, attr: &ibv_port_attr, out: &mut impl Write) -> io::Result<()> {
    let lanes = words::virtual_lanes(attr.max_vl_num);
    let (width, speed) = (attr.active_width, attr.active_speed);
    writeln!(out, "\t\t\tmax_msg_sz:\t\t0x{:x}", attr.max_msg_sz)?;
    writeln!(
        out,
        "\t\t\tport_cap_flags:\t\t0x{:08x}",
        attr.port_cap_flags
    )?;
    writeln!(
        out,
        "\t\t\tport_cap_flags2:\t0x{:04x}",
        attr.port_cap_flags2
    )?;
    writeln!(out, "\t\t\tmax_vl_num:\t\t{lanes} ({})", attr.max_vl_num)?;
    writeln!(out, "\t\t\tbad_pkey_cntr:\t\t0x{:x}", attr.bad_pkey_cntr)?;
    writeln!(out, "\t\t\tqkey_viol_cntr:\t\t0x{:x}", attr.qkey_viol_cntr)?;
    writeln!(out, "\t\t\tsm_sl:\t\t\t{}", attr.sm_sl)?;
    writeln!(out, "\t\t\tpkey_tbl_len:\t\t{}", attr.pkey_tbl_len)?;
    writeln!(out, "\t\t\tgid_tbl_len:\t\t{}", attr.gid_tbl_len)?;
    writeln!(out, "\t\t\tsubnet_timeout:\t\t{}", attr.subnet_timeout)?;
    writeln!(out, "\t\t\tinit_type_reply:\t{}", attr.init_type_reply)?;
    let word = words::width(width);
    writeln!(out, "\t\t\tactive_width:\t\t{word}X ({width})")?;
    let word = words::speed(speed);
    writeln!(out, "\t\t\tactive_speed:\t\t{word} ({speed})")?;
    if shown.device.is_ib() {
        let (word, number) = (words::physical_state(attr.phys_state), attr.phys_state);
        writeln!(out, "\t\t\tphys_state:\t\t{word} ({number})")?;
    }
    Ok(())
}

fn gid_line(gid: &Gid, attr: &ibv_port_attr, out: &mut impl Write) -> io::Result<()> {
    let ethernet = u32::from(attr.link_layer) == IBV_LINK_LAYER_ETHERNET;
    let (text, kind) = match gid.kind {
        Some(GidKind::IbOrV1) => (groups(&gid.raw), "RoCE v1"),
        Some(GidKind::V2) => (Ipv6Addr::from(gid.raw).to_string(), "RoCE v2"),
        None => return Ok(()),
    };
    let kind = if ethernet {
        format!(", {kind}")
    } else {
        String::new()
    };
    writeln!(out, "\t\t\tGID[{:3}]:\t\t{text}{kind}", gid.index)
}
