//! Looks at a machine, says what keeps RDMA from working, and what to type.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doctor::cli::main()
}
