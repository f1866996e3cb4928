//! Programs that people run over RDMA: fio, the disks of tgt, libiscsi and QEMU over iSER, the
//! moving of QEMU's machines, and qperf.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target};

pub const NAME: &str = "applications";

/// Cases that run once more over a second provider: each program that drives queues directly.
pub const AGAIN: &[&str] = &["fio-write", "fio-read", "iser", "migration", "qperf"];

/// Verbs that fio's client requests from its server.
const VERBS: &[&str] = &["write", "read", "send"];
/// In threads: the process that was started is the one that listens.
const BLOCKS: &str = "--thread --ioengine=rdma --bs=64k --size=8m --iodepth=8";

/// Messages of the script when a family of libiscsi's tests has passed.
const ISER: &[&str] = &[
    "Read16: as it should be",
    "Write16: as it should be",
    "Verify16: as it should be",
    "WriteVerify16: as it should be",
    "OrWrite: as it should be",
    "CompareAndWrite: as it should be",
    "ReportSupportedOpcodes: as it should be",
    "PrinReadKeys: as it should be",
    "the same bytes came back, and are on the disk",
];

/// Those of its tests that it connects by the connection manager, as RoCE needs it, and that
/// soft-RoCE in emulation gets through within a second.
const QPERF: &str = "rc_lat rc_bw rc_rdma_read_lat rc_rdma_write_lat rc_rdma_write_bw rc_rdma_write_poll_lat \
                     rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add";

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases: Vec<_> = VERBS
        .iter()
        .zip(23_500..)
        .map(|row| fio(target, row))
        .collect();
    cases.push(iser(target));
    cases.push(migration("migration", target, ""));
    cases.push(migration("migration-pinned", target, "rdma-pin-all"));
    cases.push(qperf(target));
    cases
}

/// Some of fio's, with ports from this one on.
pub fn fio_cases(target: &Target, verbs: &[&str], port: u16) -> Vec<Case> {
    verbs
        .iter()
        .zip(port..)
        .map(|row| fio(target, row))
        .collect()
}

fn fio(target: &Target, (verb, port): (&&str, u16)) -> Case {
    // fio permits no RNR retry, and its client waits half a second for the server to post receive
    // requests. The server has as many as the client sends messages, so that none depends on the
    // time that the server takes to post the next.
    let server = format!("fio --name=server {BLOCKS} --iodepth=128 --rw=read --port={port}");
    let client = format!(
        "fio --name=client {BLOCKS} --rw=write --port={port} --hostname={} --verb={verb}",
        target.address
    );
    Case::pair(format!("fio-{verb}"), &server, Ready::RdmaCm, &client)
        .check(Check::Says("err= 0"))
        .check(Check::Says("issued rwts: total=0,128,0,0"))
        .check(Check::NeverSays("error"))
}

/// The disk of tgt.
///
/// libiscsi 1.19 has two faults, by which its programs end by a signal, depending on what the heap
/// has at their places. It reads the list of a connection's buffers before it writes it. And its
/// thread that waits for events of the connection manager outlives the connection: if it is
/// scheduled late after it has acknowledged `ESTABLISHED`, it reads the channel for the next wait
/// out of freed memory, and any librdmacm reads the descriptor out of that. With this allocator new
/// memory is zero, and freed memory is unchanged.
pub fn iser(target: &Target) -> Case {
    let line = format!("{}/iser-disk {}", target.helpers.display(), target.address);
    // The target, two tools, a run of the tests for each family, and QEMU.
    let case = Case::single("iser", &line)
        .users(12)
        .env("LD_PRELOAD", "libjemalloc.so.2")
        .env("MALLOC_CONF", "zero:true,dirty_decay_ms:-1");
    ISER.iter()
        .fold(case, |case, text| case.check(Check::Says(text)))
}

fn migration(name: &str, target: &Target, capability: &str) -> Case {
    let helpers = target.helpers.display();
    let line = format!("{helpers}/migrate.py {} {capability}", target.address);
    Case::single(name, &line)
        .users(2)
        .check(Check::Says("the same memory"))
}

/// qperf's tests, connected by the connection manager.
pub fn qperf(target: &Target) -> Case {
    let client = format!("qperf -cm 1 -t 1 {} {QPERF}", target.address);
    Case::pair("qperf", "qperf", Ready::Tcp(19765), &client)
        .server_stays()
        .check(Check::Says("ver_rc_fetch_add"))
        .check(Check::NeverSays("failed"))
}
