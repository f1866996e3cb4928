//! Subnet administration records that librdmacm marshals.
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `struct ibv_sa_path_rec`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_sa_path_rec {
    pub dgid: ibv_gid,
    pub sgid: ibv_gid,
    pub dlid: be16,
    pub slid: be16,
    pub raw_traffic: c_int,
    pub flow_label: be32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reversible: c_int,
    pub numb_path: u8,
    pub pkey: be16,
    pub sl: u8,
    pub mtu_selector: u8,
    pub mtu: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}
layout!(ibv_sa_path_rec, 64, { dgid: 0, sgid: 16, dlid: 32, slid: 34, raw_traffic: 36, flow_label: 40, hop_limit: 44, traffic_class: 45, reversible: 48, numb_path: 52, pkey: 54, sl: 56, mtu_selector: 57, mtu: 58, rate_selector: 59, rate: 60, packet_life_time_selector: 61, packet_life_time: 62, preference: 63 });
