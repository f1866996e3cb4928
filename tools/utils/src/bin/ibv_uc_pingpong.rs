//! See `utils::pingpong`.
#![forbid(unsafe_code)]

use utils::pingpong::{self, UC};

fn main() -> std::process::ExitCode {
    utils::main(UC.options, |values| pingpong::run(&UC, values))
}
