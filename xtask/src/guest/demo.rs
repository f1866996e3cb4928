//! The part of the demonstration that needs an RDMA device, of the kernel or in user space.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{
    case::wait_until_ready,
    process::{End, Process},
};
use crate::suites::{Ready, Target};

const PINGPONG: &str = "ibv_rc_pingpong";
const BANDWIDTH: &str = "ib_write_bw";
/// Connects by librdmacm.
const PING: &str = "rping";
const BOUND: Duration = Duration::from_secs(300);

/// The contents of a demonstration, and its form.
pub struct Show<'a> {
    /// The directory of the libraries.
    pub ours: &'a Path,
    pub target: &'a Target,
    /// Set for every program.
    pub env: &'a [(&'a str, &'a str)],
    /// A free TCP port, where programs meet.
    pub port: u16,
    /// Where a program may write.
    pub room: &'a Path,
    /// Whether a bandwidth is measured too.
    pub bandwidth: bool,
}

pub fn run(show: &Show) -> Result<ExitCode> {
    println!("$ {} ibv_devinfo -d {}", show.setting(), show.target.device);
    let status = show
        .over("ibv_devinfo", &["-d", show.target.device])
        .status()?;
    if !status.success() {
        bail!("ibv_devinfo: {status}");
    }
    let (gid, port) = (show.target.gid.to_string(), show.port.to_string());
    let words = ["-d", show.target.device, "-g", &gid, "-p", &port, "-c"];
    let listens = Ready::Tcp(show.port);
    pair(show, PINGPONG, &listens, &words, &[show.target.address])?;
    if show.bandwidth {
        let words = [
            "-d",
            show.target.device,
            "-x",
            &gid,
            "-p",
            &port,
            "-F",
            "-n",
            "2000",
        ];
        pair(show, BANDWIDTH, &listens, &words, &[show.target.address])?;
    }
    let words = ["-a", show.target.address, "-p", &port, "-C", "3", "-v"];
    let [server, client] = ["-s", "-c"].map(|role| [&words[..], &[role]].concat());
    pair_of(show, PING, &Ready::RdmaCm, &server, &client)?;
    println!("all programs ended well");
    Ok(ExitCode::SUCCESS)
}

impl Show<'_> {
    fn over(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .env("LD_LIBRARY_PATH", self.ours)
            .envs(self.env.iter().copied());
        command
    }

    /// The variables as a shell takes them.
    fn setting(&self) -> String {
        let own = [("LD_LIBRARY_PATH", self.ours.display().to_string())];
        let env = self
            .env
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let all = own.into_iter().chain(env);
        let words: Vec<_> = all.map(|(name, value)| format!("{name}={value}")).collect();
        words.join(" ")
    }
}

/// Runs a server, and its client with more words.
fn pair(show: &Show, program: &str, ready: &Ready, words: &[&str], more: &[&str]) -> Result<()> {
    pair_of(show, program, ready, words, &[words, more].concat())
}

/// Runs a server and its client, which talk to each other over the device.
fn pair_of(
    show: &Show,
    program: &str,
    ready: &Ready,
    words: &[&str],
    client_words: &[&str],
) -> Result<()> {
    let setting = show.setting();
    println!("$ {setting} {program} {} &", words.join(" "));
    let log = show.room.join("demo-server");
    let mut server = Process::start(&mut show.over(program, words), &log)?;
    if !wait_until_ready(ready, &mut server)? {
        bail!("{program} does not listen: {}", fs::read_to_string(&log)?);
    }
    show_mapping(
        program,
        &server,
        &fs::canonicalize(show.ours.join("libibverbs.so.1"))?,
    )?;
    println!("$ {setting} {program} {}", client_words.join(" "));
    let client = show.over(program, client_words).status()?;
    let server = server.wait(BOUND)?;
    println!(
        "-- the server had printed:\n{}",
        fs::read_to_string(&log)?.trim_end()
    );
    if !client.success() || server != End::Exit(0) {
        bail!("{program}: client {client}, server {server}");
    }
    Ok(())
}

/// Shows the lines of the running server's memory map that hold a libibverbs.
fn show_mapping(program: &str, server: &Process, file: &Path) -> Result<()> {
    let path = format!("/proc/{}/maps", server.id());
    let maps = fs::read_to_string(&path).context("the server's memory map")?;
    let wanted = file.display().to_string();
    println!("$ grep libibverbs.so {path}");
    let mut found = 0;
    for line in maps.lines().filter(|line| line.contains("libibverbs.so")) {
        println!("{line}");
        if !line.ends_with(&wanted) {
            bail!("{program} runs over another libibverbs than {wanted}");
        }
        found += 1;
    }
    if found == 0 {
        bail!("{program} loaded no libibverbs");
    }
    Ok(())
}
