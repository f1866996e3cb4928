//! Times as messages carry them, and how long the protocol waits.

/// Milliseconds of a time in a message: 4.096 microseconds times two to its power, taken as the
/// kernel takes it (a power of two of milliseconds, at least one).
#[must_use]
pub fn milliseconds(exponent: u8) -> u64 {
    1 << exponent.saturating_sub(8).min(31)
}

/// The times that this side announces, and uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// In which time each side answers (`remote_cm_response_timeout`, `local_cm_response_timeout`).
    pub response: u8,
    /// How long a packet lives on the way.
    pub packet_life: u8,
    /// How often a message is repeated.
    pub retries: u8,
    /// How long a program may take that was handed a request, in an MRA.
    pub service: u8,
}

impl Default for Times {
    /// Those of Linux 6.3 and later.
    fn default() -> Self {
        Self {
            response: 20,
            packet_life: 16,
            retries: 15,
            service: 24,
        }
    }
}

impl Times {
    /// How long the active side waits for an answer, in milliseconds.
    #[must_use]
    pub fn answer(&self, response: u8) -> u64 {
        2 * milliseconds(self.packet_life) + milliseconds(response)
    }
}

/// When a message is first repeated early, in milliseconds: longer than an answer takes on any
/// usual path. The time doubles with each early repetition.
pub const EARLY: u64 = 250;

/// Milliseconds that an MRA allows in addition to its stated time (`ms(19)`).
pub const SLACK: u64 = 1 << 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_kernel_s() {
        assert_eq!([20, 18, 8, 3].map(milliseconds), [4096, 1024, 1, 1]);
        let times = Times {
            packet_life: 18,
            ..Times::default()
        };
        assert_eq!(times.answer(20), 6144);
        assert_eq!(Times::default().answer(20), 4608);
        assert_eq!(milliseconds(24) + SLACK, 65536 + 2048);
    }
}
