//! The carrier's settings in the environment.

use super::capture::{self, Capture};
use super::faults::{self, BadNetwork, Faults};
use crate::carrier::choice::{self, Carrier};
use kit::errno::{Errno, Result};
use kit::sys::output::print_line;

/// Faults and a capture, if requested.
#[derive(Debug, Default)]
pub struct Tools {
    /// `UROCE_FAULTS`.
    pub network: Option<BadNetwork>,
    /// `UROCE_PCAP`.
    pub capture: Option<Capture>,
    /// `UROCE_CARRIER`. Faults and captures apply to packets: with `auto` there is no shared memory
    /// then.
    pub carrier: Carrier,
}

impl Tools {
    /// Those that the environment names; none in a program that has more rights than its caller.
    ///
    /// # Errors
    /// EINVAL if `UROCE_FAULTS` or `UROCE_CARRIER` cannot be understood; of opening the capture's
    /// file.
    pub fn from_environment() -> Result<Self> {
        if kit::sys::privilege::exceeds_caller() {
            return Ok(Self {
                carrier: Carrier::Udp,
                ..Self::default()
            });
        }
        let value = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let carrier = std::env::var_os(choice::VARIABLE);
        let mut tools = Self {
            carrier: Carrier::parse(carrier.as_deref())?,
            ..Self::default()
        };
        if let Some(text) = value(faults::VARIABLE) {
            let faults = text.to_str().map(Faults::parse);
            let faults = faults.and_then(core::result::Result::ok);
            tools.network = Some(BadNetwork::new(faults.ok_or(Errno::INVAL)?));
        }
        if let Some(name) = value(capture::VARIABLE) {
            let name = name.to_str().ok_or(Errno::INVAL)?;
            tools.capture = Capture::open(name)
                .inspect_err(|e| {
                    let why = std::io::Error::from_raw_os_error(e.raw());
                    print_line(&format!(
                        "{}={name}: {why}: nothing is captured",
                        capture::VARIABLE
                    ));
                })
                .ok();
        }
        let plain = tools.network.is_none() && tools.capture.is_none();
        if tools.carrier == Carrier::Auto && !plain {
            tools.carrier = Carrier::Udp;
        }
        Ok(tools)
    }
}
