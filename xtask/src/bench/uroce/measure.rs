//! Running the rows of a place, round by round.
#![forbid(unsafe_code)]

use std::{fs, fs::File, io::Write, os::fd::AsRawFd, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::{
    before, curves,
    figure::{Figure, Side},
    pair::{self, Call},
    ranks,
    row::{
        Addressing, Carrier, Datagrams, Location, Perftest, Quantity, Row, SYSFS, SharedFile, Site,
        Transports, UCX_OVER_UROCE, UcxTest, Unit, Work,
    },
    rows::rows_of,
};
use crate::{
    guest::setup::{ADDRESS, DEVICE, ToAndFro, TwoHosts},
    suites::uroce::DEVICES,
};

/// Where figures are written, in the directory of the job.
pub const RESULTS: &str = "figures.tsv";
/// Written last, so that a run that stopped half-way is noticed.
pub const COMPLETE: &str = "# complete";
/// The program that moves bytes without RDMA.
pub const RAW: &str = "raw";

/// Bytes of a file that a program of perftest has as its buffer.
const SHARED: u64 = 4 << 20;

/// A host places the processors of a virtual machine now near to each other and now far away, for
/// seconds at a time; a cache line then takes several times as long from one to the other, and so
/// does every message through shared memory. Where that happens between the two sides of a row,
/// they are measured again, so often at most.
const TRIES: usize = 8;
/// How often the line goes to and fro for that: some 10 ms.
const PROBES: u32 = 50_000;
/// Times of a line that are the same, but for chance.
const ALIKE: f64 = 1.5;

struct Room<'a> {
    dir: &'a Path,
    ours: &'a Path,
    place: Location,
}

/// The rows of this machine; `lo` is up.
pub fn in_network(dir: &Path, ours: &Path, rounds: usize) -> Result<()> {
    rounds_of(dir, ours, Site::Here, rounds)
}

/// The points of the plots; `lo` is up.
pub fn curves_in_network(dir: &Path, ours: &Path, rounds: usize) -> Result<()> {
    let place = Location::Loopback;
    let room = Room { dir, ours, place };
    let path = dir.join(RESULTS);
    let mut file = File::create(&path).with_context(|| path.display().to_string())?;
    for round in 0..rounds {
        println!("bench: round {} of {rounds}", round + 1);
        for point in curves::points() {
            let value = one(&room, &point.name, point.unit, point.work)?;
            println!("bench: {}: {value}", point.name);
            let (row, side) = (point.name, Side::Ours);
            writeln!(file, "{}", Figure { row, side, value })?;
        }
    }
    writeln!(file, "{COMPLETE}")?;
    Ok(())
}

/// The rows of the virtual machine.
pub fn in_the_guest(dir: &Path, ours: &Path, rounds: usize) -> Result<()> {
    let _wire = ToAndFro::new()?;
    rounds_of(dir, ours, Site::Guest, rounds)
}

fn rounds_of(dir: &Path, ours: &Path, site: Site, rounds: usize) -> Result<()> {
    let hosts = TwoHosts::new()?;
    let path = dir.join(RESULTS);
    let mut file = File::create(&path).with_context(|| path.display().to_string())?;
    let before = before::library(dir);
    for round in 0..rounds {
        println!("bench: round {} of {rounds}", round + 1);
        for row in rows_of(site).filter(|row| round < row.place.rounds()) {
            if before.is_some() && !row.ours.runs_uroce() {
                continue;
            }
            let place = row.place;
            let room = Room { dir, ours, place };
            prepare(&hosts, place)?;
            let pair = pair_of(&room, before.as_deref(), row, round)
                .with_context(|| row.name.to_owned())?;
            for (side, value) in pair {
                println!("bench: {}: {side:?} {value}", row.name);
                let row = row.name.to_owned();
                writeln!(file, "{}", Figure { row, side, value })?;
            }
        }
    }
    writeln!(file, "{COMPLETE}")?;
    Ok(())
}

/// Gives the path between the hosts what the row says of it.
fn prepare(hosts: &TwoHosts, place: Location) -> Result<()> {
    match place {
        Location::Pair(mtu) => hosts.set_mtu(mtu),
        Location::Guest => hosts.set_netem(""),
        Location::Netem(netem) => hosts.set_netem(netem),
        Location::Loopback | Location::FourHosts | Location::Scale => Ok(()),
    }
}

/// Both sides of a row, at a time at which the processors were as far from each other throughout.
fn pair_of(
    room: &Room<'_>,
    before: Option<&Path>,
    row: &Row,
    round: usize,
) -> Result<[(Side, f64); 2]> {
    let earlier = before.map(|ours| Room { ours, ..*room });
    let distance = || match row.ours {
        Work::Uroce(_, Carrier::Shm) | Work::UroceShared(..) => {
            raw(room, "line", (8, PROBES), &[], Quantity::Time).map(Some)
        }
        _ => Ok(None),
    };
    let measured = |side| {
        let (room, work) = match (side, &earlier) {
            (Side::Ours, _) => (room, row.ours),
            (Side::Peer, Some(earlier)) => (earlier, row.ours),
            (Side::Peer, None) => (room, row.peer),
        };
        Ok::<_, anyhow::Error>((side, one(room, row.name, row.unit, work)?))
    };
    let [first, second] = Side::in_turn(round);
    let mut tries = 1;
    loop {
        let before = distance()?;
        let first = measured(first)?;
        let between = distance()?;
        let second = measured(second)?;
        let times = [before, between, distance()?].map(|time| time.unwrap_or(0.0));
        if are_alike(times) {
            return Ok([first, second]);
        }
        let [before, between, after] = times;
        println!(
            "bench: {}: a cache line took {before} us before, {between} us in between, {after} us after",
            row.name
        );
        if tries == TRIES {
            return Ok([first, second]);
        }
        tries += 1;
    }
}

fn are_alike(times: [f64; 3]) -> bool {
    let most = times.into_iter().fold(f64::MIN, f64::max);
    let least = times.into_iter().fold(f64::MAX, f64::min);
    most <= least * ALIKE
}

/// The result of a work. perftest divides by the frequency of the processor's clock, which it does
/// not always find, and then prints "inf".
fn one(room: &Room<'_>, name: &str, unit: Unit, work: Work) -> Result<f64> {
    for _ in 0..TRIES {
        let value = once(room, unit, work).with_context(|| name.to_owned())?;
        if value.is_finite() {
            return Ok(value);
        }
        println!("bench: {name}: {value}, measured again");
    }
    bail!("{name}: no figure in {TRIES} runs")
}

fn once(room: &Room<'_>, unit: Unit, work: Work) -> Result<f64> {
    match work {
        Work::Uroce(perftest, carrier) => uroce(room, perftest, carrier, ""),
        Work::Lossy(perftest, faults) => uroce(room, perftest, Carrier::Udp, faults),
        Work::OnTheWire(perftest, faults) => on_the_wire(room, perftest, faults),
        Work::Fixed(value) => Ok(value),
        Work::UroceShared(perftest, file) => shared(room, perftest, file),
        Work::Ucx(test, transports) => ucx(room, test, transports, unit),
        Work::Mpi(test, over) => ranks::measure(room.dir, room.ours, test, over),
        Work::Raw(what, size, count, reported) => raw(room, what, (size, count), &[], reported),
        Work::Sockets(addressing, size, count) => sockets(room, addressing, (size, count)),
        Work::Queues(queues, count) => {
            let queues = queues.to_string();
            raw(room, "queues", (64, count), &[&queues], Quantity::Rate)
        }
        Work::Datagrams(stream) => datagrams(room, stream),
        Work::Rxe(perftest) => rxe(room, perftest),
        Work::Tcp(test, size) => tcp(room, test, size, unit),
        Work::Nothing => bail!("nothing to run"),
    }
}

fn line(perftest: Perftest, device: &str, gid: u8, port: u16) -> String {
    let Perftest {
        program, options, ..
    } = perftest;
    format!("{program} -d {device} -x {gid} -F -p {port} {options}")
}

/// No faults if `faults` is empty.
fn uroce(room: &Room<'_>, perftest: Perftest, carrier: Carrier, faults: &str) -> Result<f64> {
    let port = pair::port();
    let call = |interface: &'static str, address: &str| {
        let line = line(perftest, &format!("uroce_{interface}"), 0, port);
        Call::new(&format!("{line} {address}"))
            .env("LD_LIBRARY_PATH", room.ours)
            .env("UROCE_CARRIER", carrier.word())
            .env("UROCE_FAULTS", faults)
            .env(DEVICES.0, interface)
    };
    let (server, client) = if room.place.has_two_hosts() {
        let [server, client] = TwoHosts::HOSTS;
        let host =
            |(namespace, interface), address| call(interface, address).in_namespace(namespace);
        (host(server, ""), host(client, TwoHosts::ADDRESS))
    } else {
        (call(DEVICES.1, ""), call(DEVICES.1, "127.0.0.1"))
    };
    let text = pair::run(room.dir, &server, &client, port)?;
    perftest_field(&text, perftest.field)
}

/// The bytes that cross `lo` meanwhile; nothing else uses it.
fn on_the_wire(room: &Room<'_>, perftest: Perftest, faults: &str) -> Result<f64> {
    let before = received_by_lo()?;
    uroce(room, perftest, Carrier::Udp, faults)?;
    Ok(received_by_lo()? - before)
}

/// Bytes that the loopback interface of this network has received.
fn received_by_lo() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/net/dev").context("/proc/self/net/dev")?;
    bytes_of_lo(&text).context("no lo in /proc/self/net/dev")
}

fn bytes_of_lo(text: &str) -> Option<f64> {
    let counters = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("lo:"))?;
    counters.split_whitespace().next()?.parse().ok()
}

/// A file of shared memory, until this is dropped.
struct Buffer {
    path: String,
    file: Option<File>,
}

impl Buffer {
    fn create(kind: SharedFile, name: &str) -> Result<Self> {
        let (path, file) = match kind {
            SharedFile::DevShm => {
                let path = format!("/dev/shm/xtask-bench-{}-{name}", std::process::id());
                let file = File::create_new(&path).with_context(|| path.clone())?;
                file.set_len(SHARED)?;
                (path, None)
            }
            SharedFile::SealedMemfd => {
                let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
                let file = File::from(memfd_create("xtask-bench", flags)?);
                file.set_len(SHARED)?;
                fcntl_add_seals(&file, SealFlags::SHRINK)?;
                let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
                (path, Some(file))
            }
        };
        Ok(Self { path, file })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.file.is_none() {
            // Nothing can be done about a file that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Each side's buffer is a separate file in shared memory.
fn shared(room: &Room<'_>, perftest: Perftest, kind: SharedFile) -> Result<f64> {
    let port = pair::port();
    let line = line(perftest, "uroce_lo", 0, port);
    let buffer = |side: &str| Buffer::create(kind, &format!("{port}-{side}"));
    let [server, client] = [buffer("server")?, buffer("client")?];
    let call = |buffer: &Buffer, address: &str| {
        Call::new(&format!("{line} --mmap={} {address}", buffer.path))
            .env("LD_LIBRARY_PATH", room.ours)
            .env("UROCE_CARRIER", Carrier::Shm.word())
            .env(DEVICES.0, DEVICES.1)
    };
    let (server, client) = (call(&server, ""), call(&client, "127.0.0.1"));
    let text = pair::run(room.dir, &server, &client, port)?;
    perftest_field(&text, perftest.field)
}

fn ucx(room: &Room<'_>, test: UcxTest, transports: Transports, unit: Unit) -> Result<f64> {
    let UcxTest {
        test,
        size,
        count,
        field,
    } = test;
    let port = pair::port();
    let call = |words: &str| {
        let call = Call::new(&format!("ucx_perftest -p {port} {words}"));
        match transports {
            Transports::Named(names) => call.env("UCX_TLS", names).env("UCX_NET_DEVICES", "lo"),
            Transports::Uroce(carrier) => call
                .entering(&room.dir.join(SYSFS).display().to_string())
                .env("UCX_TLS", UCX_OVER_UROCE)
                .env("UCX_NET_DEVICES", "uroce_lo:1")
                .env("UCX_IB_GID_INDEX", "0")
                .env("LD_LIBRARY_PATH", room.ours)
                .env("UROCE_CARRIER", carrier.word())
                .env(DEVICES.0, DEVICES.1),
        }
    };
    let client = call(&format!("-t {test} -s {size} -n {count} 127.0.0.1"));
    let text = pair::run(room.dir, &call(""), &client, port)?;
    let value = ucx_field(&text, field).with_context(|| format!("no figure in {text:?}"))?;
    Ok(match unit {
        Unit::Messages => value / 1e6,
        _ => value,
    })
}

/// A field of the last row of ucx_perftest's table.
fn ucx_field(text: &str, field: usize) -> Option<f64> {
    let row = text.lines().find_map(|line| line.strip_prefix("Final:"))?;
    row.split_whitespace().nth(field)?.parse().ok()
}

/// Between the hosts.
fn sockets(room: &Room<'_>, addressing: Addressing, much: (u32, u32)) -> Result<f64> {
    let [(first, _), (second, _)] = TwoHosts::HOSTS;
    raw(
        room,
        addressing.word(),
        much,
        &[first, second, TwoHosts::ADDRESS],
        Quantity::Time,
    )
}

/// Between the hosts, from the second to the first, as perftest's client to its server.
fn datagrams(room: &Room<'_>, stream: Datagrams) -> Result<f64> {
    let [(first, _), (second, _)] = TwoHosts::HOSTS;
    let payload = stream.payload.to_string();
    raw(
        room,
        if stream.checked { "checked" } else { "stream" },
        (stream.size, stream.count),
        &[first, second, TwoHosts::ADDRESS, &payload],
        Quantity::Bandwidth,
    )
}

/// That many bytes, so often. It pins itself, and its child.
fn raw(
    room: &Room<'_>,
    what: &str,
    (size, count): (u32, u32),
    more: &[&str],
    reported: Quantity,
) -> Result<f64> {
    let mut command = Command::new(room.dir.join(RAW));
    command
        .args([what, &size.to_string(), &count.to_string()])
        .args(more);
    let text = crate::host::must(&mut command)?;
    let (name, scale) = match reported {
        Quantity::Time => ("median", 1e-3),
        Quantity::Bandwidth | Quantity::Rate => ("mean", 1.0),
    };
    let nanoseconds: f64 = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .find(|(known, _)| *known == name)
        .with_context(|| format!("no {name} in {text:?}"))?
        .1
        .parse()?;
    Ok(match reported {
        Quantity::Time => nanoseconds * scale,
        Quantity::Rate => 1e3 / nanoseconds,
        Quantity::Bandwidth => f64::from(size) / nanoseconds * 1e9 / f64::from(1 << 20),
    })
}

/// Both on the kernel's soft-RoCE, one on each end of the Ethernet pair.
fn rxe(room: &Room<'_>, perftest: Perftest) -> Result<f64> {
    let port = pair::port();
    let server = Call::new(&line(perftest, DEVICE, 1, port));
    let client = line(perftest, ToAndFro::DEVICE, 1, port);
    let client = Call::new(&format!("{client} {ADDRESS}"));
    let text = pair::run(room.dir, &server, &client, port)?;
    perftest_field(&text, perftest.field)
}

/// A field of the only row of perftest's table.
fn perftest_field(text: &str, field: usize) -> Result<f64> {
    let numbers = |line: &str| {
        let numbers = line.split_whitespace().map(str::parse);
        numbers.collect::<std::result::Result<Vec<f64>, _>>().ok()
    };
    let row = text.lines().filter_map(numbers).find(|row| row.len() >= 5);
    let value = row.as_ref().and_then(|row| row.get(field));
    value.copied().context("no row in perftest's table")
}

fn tcp(room: &Room<'_>, test: &str, size: u32, unit: Unit) -> Result<f64> {
    let port = pair::port();
    let server = Call::new(&format!("qperf -lp {port}"));
    let client = |seconds: u32, address: &str| {
        // The server runs until it gets the command to quit.
        Call::new(&format!(
            "qperf -lp {port} -uu -t {seconds} -m {size} {address} {test} quit"
        ))
    };
    let (server, client) = if room.place.has_two_hosts() {
        let [(first, _), (second, _)] = TwoHosts::HOSTS;
        // A long path takes TCP some round trips until its window is as long.
        let client = client(3, TwoHosts::ADDRESS).in_namespace(second);
        (server.in_namespace(first), client)
    } else {
        (server, client(1, "127.0.0.1"))
    };
    let text = pair::run(room.dir, &server, &client, port)?;
    let value = qperf_value(&text).with_context(|| format!("no figure in {text:?}"))?;
    Ok(match unit {
        Unit::Microseconds => value * 1e6,
        _ => value / f64::from(1 << 20),
    })
}

/// The figure in seconds or bytes a second, as qperf prints it with `-uu`.
fn qperf_value(text: &str) -> Option<f64> {
    let (_, value) = text.lines().find_map(|line| line.split_once('='))?;
    let mut words = value.split_whitespace();
    let number: f64 = words.next()?.replace(',', "").parse().ok()?;
    let scale = match words.next()? {
        "sec" | "bytes/sec" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        "KB/sec" => 1e3,
        "MB/sec" => 1e6,
        "GB/sec" => 1e9,
        _ => return None,
    };
    Some(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_near_or_far() {
        assert!(are_alike([0.05, 0.06, 0.05]) && are_alike([0.25, 0.24, 0.25]));
        assert!(!are_alike([0.05, 0.05, 0.25]) && !are_alike([0.25, 0.05, 0.05]));
        // Near again by the end.
        assert!(!are_alike([0.05, 0.25, 0.05]));
        // Where nothing is asked.
        assert!(are_alike([0.0; 3]));
    }

    #[test]
    fn fields_of_perftest() {
        let text =
            " #bytes #iterations\n 8       10000          18.70   10411.07  1120.12  1288.75\n--\n";
        assert_eq!(perftest_field(text, 4).ok(), Some(1120.12));
        assert!(perftest_field("", 4).is_err());
        assert!(perftest_field(text, 9).is_err());
    }

    #[test]
    fn fields_of_ucx_perftest() {
        let text =
            "[thread 0] 1 2 3\nFinal:   200000  0.621  12.346  7.187  0.62  1.06  81000  139144\n";
        assert_eq!(ucx_field(text, 1), Some(0.621));
        assert_eq!(ucx_field(text, 7), Some(139_144.0));
        assert_eq!(ucx_field("", 1), None);
    }

    #[test]
    fn counters_of_lo() {
        let text = "Inter-|   Receive\n face |bytes packets\n  eth0: 1 2 3\n    lo: 450 7 0\n";
        assert_eq!(bytes_of_lo(text), Some(450.0));
        assert_eq!(bytes_of_lo("eth0: 1 2"), None);
    }

    #[test]
    fn figures_of_qperf() {
        let value = |text: &str| qperf_value(text).map(|value| (value * 1e9).round());
        assert_eq!(value("tcp_lat:\n    latency  =  7.7 us\n"), Some(7700.0));
        assert_eq!(value("    bw  =  1.5 GB/sec\n"), Some(1.5e18));
        assert_eq!(value("    bw  =  1,000 bytes/sec\n"), Some(1e12));
        assert_eq!(value("    bw  =  1 parsec\n"), None);
    }
}
