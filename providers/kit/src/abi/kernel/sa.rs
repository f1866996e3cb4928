//! Subnet administration: structs and constants of the kernel ABI (linux-libc-dev,
//! `rdma/ib_user_verbs.h` and its neighbours).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

/// `struct ib_path_rec_data`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_path_rec_data {
    pub flags: u32,
    pub reserved: u32,
    pub path_rec: [u32; 16],
}
layout!(ib_path_rec_data, 72, { flags: 0, reserved: 4, path_rec: 8 });

/// `struct ib_user_path_rec`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_user_path_rec {
    pub dgid: [u8; 16],
    pub sgid: [u8; 16],
    pub dlid: be16,
    pub slid: be16,
    pub raw_traffic: u32,
    pub flow_label: be32,
    pub reversible: u32,
    pub mtu: u32,
    pub pkey: be16,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub numb_path: u8,
    pub sl: u8,
    pub mtu_selector: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}
layout!(ib_user_path_rec, 64, { dgid: 0, sgid: 16, dlid: 32, slid: 34, raw_traffic: 36, flow_label: 40, reversible: 44, mtu: 48, pkey: 52, hop_limit: 54, traffic_class: 55, numb_path: 56, sl: 57, mtu_selector: 58, rate_selector: 59, rate: 60, packet_life_time_selector: 61, packet_life_time: 62, preference: 63 });
