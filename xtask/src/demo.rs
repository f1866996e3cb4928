//! `cargo xtask demo`: the library at work, on a machine that has no RDMA.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::{
    dirs::Dirs,
    needs,
    vm::{self, Job},
};

pub fn run() -> Result<ExitCode> {
    let dirs = Dirs::find()?;
    let machine = needs::provide(&dirs)?;
    vm::build_library(&dirs)?;
    let job = Job::Demo {
        ours: dirs.library()?,
    };
    println!("-- booting {} (half a minute)", machine.kernel.display());
    let dir = dirs.fresh("demo")?;
    let log = dirs.work.join("demo.log");
    let outcome = vm::boot(&dirs, &machine, &dir, &job, &log)?;
    if !outcome.status.success() {
        bail!("the demonstration failed; see {}", log.display());
    }
    println!(
        "Debian's own programs ran over {}",
        dirs.target.join("release/libibverbs.so").display()
    );
    Ok(ExitCode::SUCCESS)
}
