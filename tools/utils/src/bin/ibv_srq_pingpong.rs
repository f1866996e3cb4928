//! See `utils::pingpong`.
#![forbid(unsafe_code)]

use utils::pingpong::{self, SRQ};

fn main() -> std::process::ExitCode {
    utils::main(SRQ.options, |values| pingpong::run(&SRQ, values))
}
