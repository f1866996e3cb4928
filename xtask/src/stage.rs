//! Names of stages, and which of them are asked for.
#![forbid(unsafe_code)]

use crate::suites::{Kind, SUITES};

pub const BUILD: &str = "build";

pub const GUEST: &str = "guest:";

pub const C_TESTS: &str = "c-tests";

/// Whether a name is that of a stage in which uroce meets the kernel's soft-RoCE.
pub fn is_two_hosts(name: &str) -> bool {
    let Some(asked) = name.strip_prefix(GUEST) else {
        return false;
    };
    SUITES.iter().any(|suite| {
        let label = asked.strip_suffix(".cm").unwrap_or(asked);
        label == suite.name && matches!(suite.kind, Kind::TwoHosts(_))
    })
}

/// Whether a stage was asked for: by its name, or by a part of it up to a `:` or `.`.
pub fn chosen(only: &[String], stage: &str) -> bool {
    only.is_empty() || only.iter().any(|asked| names_stage(asked, stage))
}

/// The same for a stage that a whole run leaves out.
pub fn named(only: &[String], stage: &str) -> bool {
    !only.is_empty() && chosen(only, stage)
}

pub fn names_stage(asked: &str, stage: &str) -> bool {
    let Some(rest) = stage.strip_prefix(asked) else {
        return false;
    };
    rest.is_empty() || rest.starts_with([':', '.'])
}

pub const FMT: &str = "fmt";

pub const UNIT: &str = "unit";

/// The crate for programs in Rust, linked with the library statically.
pub const VERBS: &str = "unit:verbs";
