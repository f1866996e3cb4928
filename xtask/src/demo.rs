//! `cargo xtask demo`: the library at work, on a machine that has no RDMA.
#![forbid(unsafe_code)]

use std::{net::TcpListener, path::Path, process::ExitCode};

use anyhow::{Context, Result, bail};

use crate::{
    debian_deps,
    dirs::{Dirs, RDMACM_BESIDE},
    guest::{
        demo::{self, Show},
        place::HELPERS,
    },
    suites::{uroce, uroce_ways},
    vm::{self, Job},
};

/// Over a kernel with RDMA in the virtual machine, or over uroce right here.
pub fn run(kernel: bool) -> Result<ExitCode> {
    let dirs = Dirs::find()?;
    if kernel {
        in_the_guest(&dirs)?;
    } else {
        here(&dirs)?;
    }
    println!(
        "Debian's own programs ran over {0}/libibverbs.so and {0}/librdmacm.so",
        dirs.target.join("release").display()
    );
    Ok(ExitCode::SUCCESS)
}

fn here(dirs: &Dirs) -> Result<()> {
    debian_deps::for_the_demo(dirs)?;
    vm::build_library(dirs)?;
    demo::run(&Show {
        ours: &dirs.library()?.join(RDMACM_BESIDE),
        target: &uroce_ways::target(Path::new(HELPERS), false),
        env: &[uroce::DEVICES],
        port: free_port()?,
        room: &dirs.fresh("demo")?,
        bandwidth: true,
    })?;
    Ok(())
}

/// A TCP port that is free now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("0.0.0.0", 0)).context("a free TCP port")?;
    Ok(listener.local_addr()?.port())
}

fn in_the_guest(dirs: &Dirs) -> Result<()> {
    let machine = debian_deps::provide(dirs)?;
    vm::build_library(dirs)?;
    let job = Job::Demo {
        ours: dirs.library()?.join(RDMACM_BESIDE),
    };
    println!("-- booting {} (half a minute)", machine.kernel.display());
    let dir = dirs.fresh("demo")?;
    let log = dirs.work.join("demo.log");
    let outcome = vm::boot(dirs, &machine, &dir, &job, &log, true)?;
    if !outcome.status.success() {
        bail!("the demonstration failed; see {}", log.display());
    }
    Ok(())
}
