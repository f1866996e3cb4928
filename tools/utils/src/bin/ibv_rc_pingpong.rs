//! See `utils::pingpong`.
#![forbid(unsafe_code)]

use utils::pingpong::{self, RC};

fn main() -> std::process::ExitCode {
    utils::main(RC.options, |said| pingpong::run(&RC, said))
}
