//! See `utils::asyncwatch`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    utils::main(utils::asyncwatch::OPTIONS, utils::asyncwatch::run)
}
