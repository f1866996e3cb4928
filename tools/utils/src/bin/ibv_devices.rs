//! Lists the RDMA devices.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    utils::main(&[], utils::devices::run)
}
