//! Common functions of the tests of this package.

use std::path::PathBuf;

use c_tests::{
    Result,
    build::{COMBOS, build},
    library::target_dir,
};

/// Compiles every program every way, and returns the folder.
pub fn compiled() -> Result<PathBuf> {
    let out = target_dir().join("c-tests/programs");
    build(&out, &COMBOS)?;
    Ok(out)
}
