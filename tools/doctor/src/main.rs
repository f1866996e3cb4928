//! Examines a machine, and reports the problems that keep RDMA from working and the commands that
//! help.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doctor::cli::main()
}
