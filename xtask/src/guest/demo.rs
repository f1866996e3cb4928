//! The part of the demonstration that needs an RDMA device.
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
    setup::{ADDRESS, DEVICE},
};
use crate::suites::Ready;

/// Where the pingpong programs listen if nothing else is said.
const PORT: u16 = 18515;
const PINGPONG: &str = "ibv_rc_pingpong";
const BOUND: Duration = Duration::from_secs(300);

pub fn run(ours: &Path) -> Result<ExitCode> {
    let file = fs::canonicalize(ours.join("libibverbs.so.1"))?;
    println!("$ ibv_devinfo -d {DEVICE}");
    let status = over(ours, "ibv_devinfo", &["-d", DEVICE]).status()?;
    if !status.success() {
        bail!("ibv_devinfo: {status}");
    }
    pingpong(ours, &file)?;
    println!("both programs ended well");
    Ok(ExitCode::SUCCESS)
}

fn over(ours: &Path, program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env("LD_LIBRARY_PATH", ours);
    command
}

fn pingpong(ours: &Path, file: &Path) -> Result<()> {
    let words = ["-d", DEVICE, "-g", "1", "-c"];
    println!("$ {PINGPONG} {} &", words.join(" "));
    let log = Path::new("/run/demo-server");
    let mut server = Process::start(&mut over(ours, PINGPONG, &words), log)?;
    if !wait_until_ready(&Ready::Tcp(PORT), &mut server)? {
        bail!("{PINGPONG} does not listen: {}", fs::read_to_string(log)?);
    }
    show_mapping(&server, file)?;
    println!("$ {PINGPONG} {} {ADDRESS}", words.join(" "));
    let mut client_words = words.to_vec();
    client_words.push(ADDRESS);
    let client = over(ours, PINGPONG, &client_words).status()?;
    let server = server.wait(BOUND)?;
    println!(
        "-- the server had printed:\n{}",
        fs::read_to_string(log)?.trim_end()
    );
    if !client.success() || server != End::Exit(0) {
        bail!("{PINGPONG}: client {client}, server {server}");
    }
    Ok(())
}

/// Shows the lines of the running server's memory map that hold a libibverbs.
fn show_mapping(server: &Process, file: &Path) -> Result<()> {
    let path = format!("/proc/{}/maps", server.id());
    let maps = fs::read_to_string(&path).context("the server's memory map")?;
    let wanted = file.display().to_string();
    println!("$ grep libibverbs.so {path}");
    let mut found = 0;
    for line in maps.lines().filter(|line| line.contains("libibverbs.so")) {
        println!("{line}");
        if !line.ends_with(&wanted) {
            bail!("{PINGPONG} runs over another libibverbs than {wanted}");
        }
        found += 1;
    }
    if found == 0 {
        bail!("{PINGPONG} loaded no libibverbs");
    }
    Ok(())
}
