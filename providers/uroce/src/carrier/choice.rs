//! Which carrier: `UROCE_CARRIER`.

use kit::errno::{Errno, Result};
use std::ffi::OsStr;

/// The variable: `auto`, `udp` or `shm`.
pub const VARIABLE: &str = "UROCE_CARRIER";

/// How packets travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// By shared memory to processes of this host and user, where it is available; else by UDP.
    #[default]
    Auto,
    /// By UDP.
    Udp,
    /// To addresses of this host only by shared memory: packets without such a path are lost.
    Shm,
}

impl Carrier {
    /// The value of the variable; none or an empty one is `auto`.
    ///
    /// # Errors
    /// EINVAL for another word.
    pub fn parse(value: Option<&OsStr>) -> Result<Self> {
        match value.and_then(OsStr::to_str) {
            None if value.is_none() => Ok(Self::default()),
            Some("") => Ok(Self::default()),
            Some("auto") => Ok(Self::Auto),
            Some("udp") => Ok(Self::Udp),
            Some("shm") => Ok(Self::Shm),
            _ => Err(Errno::INVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let parse = |text: &str| Carrier::parse(Some(OsStr::new(text)));
        assert_eq!(Carrier::parse(None), Ok(Carrier::Auto));
        assert_eq!(parse(""), Ok(Carrier::Auto));
        assert_eq!(parse("auto"), Ok(Carrier::Auto));
        assert_eq!(parse("udp"), Ok(Carrier::Udp));
        assert_eq!(parse("shm"), Ok(Carrier::Shm));
        assert_eq!(parse("SHM"), Err(Errno::INVAL));
    }
}
