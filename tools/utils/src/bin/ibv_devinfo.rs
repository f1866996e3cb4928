//! See `utils::devinfo`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    utils::main(utils::devinfo::OPTIONS, utils::devinfo::run)
}
