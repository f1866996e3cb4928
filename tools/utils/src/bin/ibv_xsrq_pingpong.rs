//! See `utils::pingpong::xsrq`.
#![forbid(unsafe_code)]

use utils::pingpong::xsrq;

fn main() -> std::process::ExitCode {
    utils::main(xsrq::OPTIONS, xsrq::run)
}
