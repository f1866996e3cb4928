//! See `utils::pingpong`.
#![forbid(unsafe_code)]

use utils::pingpong::{self, RC};

fn main() -> std::process::ExitCode {
    utils::main(RC.options, |values| pingpong::run(&RC, values))
}
