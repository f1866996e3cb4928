//! Failures that are neither this project's fault nor the machine's: a registry of packages cannot
//! be reached, or a release of a distribution cannot be installed today. Their stages are skipped.
#![forbid(unsafe_code)]

use std::{error, fmt};

use anyhow::Error;

/// Such a failure, in words.
#[derive(Debug)]
pub struct Excused(String);

impl Excused {
    /// The same failure as an excused one.
    pub fn of(error: &Error) -> Error {
        Error::new(Self(format!("{error:#}")))
    }
}

impl fmt::Display for Excused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Excused {}

/// What cargo prints if it cannot reach a registry, or may not.
const UNREACHED: [&str; 2] = [
    "spurious network error (1 try remaining)",
    "using offline mode",
];

/// The failure of a command that makes cargo download crates, which printed this.
pub fn of_crates(error: Error, printed: &str) -> Error {
    let unreached = UNREACHED.iter().any(|words| printed.contains(words));
    if unreached {
        Excused::of(&error)
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn only_a_registry_out_of_reach_is_an_excuse() {
        let of = |printed| of_crates(anyhow!("vendor failed"), printed);
        let unreached = of(
            "warning: spurious network error (1 try remaining): [6] Could not \
             resolve hostname (index.crates.io)\nerror: failed to sync\n",
        );
        assert!(unreached.is::<Excused>());
        assert_eq!(unreached.to_string(), "vendor failed");
        assert!(unreached.context("no packages").is::<Excused>());
        let again = of(
            "warning: spurious network error (3 tries remaining): [28] Timeout was \
             reached\nerror: checksum changed\n",
        );
        assert!(!again.is::<Excused>());
        let wrong = of("error: no matching package named `nonesuch` found\n");
        assert!(!wrong.is::<Excused>());
    }
}
