//! See `utils::pingpong`.
#![forbid(unsafe_code)]

use utils::pingpong::{self, UD};

fn main() -> std::process::ExitCode {
    utils::main(UD.options, |values| pingpong::run(&UD, values))
}
