//! Earlier results of compilers, kept outside the checkout by sccache: other people's crates, most
//! of the work for a fresh clone, change only with Cargo.lock.
#![forbid(unsafe_code)]

use std::{
    env,
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

use crate::dirs::Dirs;

/// Cargo's wrapper of compilers. A user's value is kept, also an empty one.
pub const WRAPPER: &str = "RUSTC_WRAPPER";
const PROGRAM: &str = "sccache";
/// A whole run leaves some 200 MB.
const SIZE: &str = "1G";
/// How long the server may take to begin, in looks and the time between two of them.
const LOOKS: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(25);

/// Runs this program again, with the same arguments, with a cache of compiler results. `None` if
/// that is impossible or was decided before: then this run continues.
///
/// # Errors
/// Of starting this program, of the cache directory.
pub fn run_again(dirs: &Dirs) -> Result<Option<ExitCode>> {
    if env::var_os(WRAPPER).is_some() {
        return Ok(None);
    }
    let Some(server) = Server::start(dirs)? else {
        println!("-- {PROGRAM} does not start; everything is compiled");
        return Ok(None);
    };
    let mut command = Command::new(&dirs.program);
    command.args(env::args_os().skip(1)).env(WRAPPER, PROGRAM);
    let status = server.print_output(&mut command).status();
    let status = status.with_context(|| format!("start {}", dirs.program.display()))?;
    Ok(Some(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }))
}

/// A separate server, which ends with this program: one that its clients start would outlive them,
/// with their output open.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(dirs: &Dirs) -> Result<Option<Self>> {
        let kept = dirs.cache.join(PROGRAM);
        std::fs::create_dir_all(&kept).with_context(|| kept.display().to_string())?;
        let mut command = Command::new(PROGRAM);
        command
            .env("SCCACHE_START_SERVER", "1")
            .env("SCCACHE_NO_DAEMON", "1")
            .env("SCCACHE_DIR", kept)
            .env("SCCACHE_CACHE_SIZE", SIZE)
            .env("SCCACHE_IDLE_TIMEOUT", "0")
            .stdin(Stdio::null());
        let port = free_port()?;
        let Ok(child) = with_port(&mut command, port).spawn() else {
            return Ok(None);
        };
        let mut server = Self { child, port };
        Ok(server.has_begun().then_some(server))
    }

    fn has_begun(&mut self) -> bool {
        for _ in 0..LOOKS {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return true;
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            thread::sleep(BETWEEN);
        }
        false
    }

    /// Has a client ask this server, and compile by itself if it is gone.
    fn print_output<'a>(&self, client: &'a mut Command) -> &'a mut Command {
        with_port(client, self.port).env("SCCACHE_IGNORE_SERVER_IO_ERROR", "1")
    }
}

impl Drop for Server {
    /// Ends the server, which then writes its cache.
    fn drop(&mut self) {
        let mut stop = Command::new(PROGRAM);
        match self.print_output(stop.arg("--stop-server")).output() {
            Ok(output) if output.status.success() => {
                let text = String::from_utf8_lossy(&output.stdout);
                let [hits, misses] = ["Cache hits", "Cache misses"].map(|what| number(&text, what));
                println!("-- {PROGRAM}: {hits} compilations were kept, {misses} were not");
            }
            _ => drop(self.child.kill()),
        }
        let _ = self.child.wait();
    }
}

/// A number of the statistics: the line of this name, and not that of one of its parts.
fn number(text: &str, what: &str) -> u64 {
    let line = |line: &str| line.strip_prefix(what)?.trim().parse().ok();
    text.lines().find_map(line).unwrap_or(0)
}

fn with_port(command: &mut Command, port: u16) -> &mut Command {
    command.env("SCCACHE_SERVER_PORT", port.to_string())
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a free TCP port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistics_are_read() {
        let text = "Stopping sccache server...\n\
                    Cache hits (Rust)                    118\n\
                    Cache hits                           120\n\
                    Cache misses                           0\n";
        assert_eq!(number(text, "Cache hits"), 120);
        assert_eq!(number(text, "Cache misses"), 0);
        assert_eq!(number("", "Cache misses"), 0);
    }
}
