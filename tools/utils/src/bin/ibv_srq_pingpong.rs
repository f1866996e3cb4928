//! See `utils::pingpong`.
#![forbid(unsafe_code)]

use utils::pingpong::{self, SRQ};

fn main() -> std::process::ExitCode {
    utils::main(SRQ.options, |said| pingpong::run(&SRQ, said))
}
