#![forbid(unsafe_code)]
//! Sizes of rsockets, and the files with their defaults.

use kit::sys::per_process::PerProcess;
use std::time::Duration;

const FOLDER: &str = "/etc/rdma/rsocket";

/// Range of the number of requests in a queue.
const QUEUE: std::ops::RangeInclusive<u32> = 16..=65534;
/// Range of a buffer's size in bytes.
const BUFFER: std::ops::RangeInclusive<u32> = 4096..=1 << 30;
/// Maximum of inline data in bytes.
const INLINE: u32 = 65534;

/// Sizes of a socket, which can be set until it connects or listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub send_queue: u32,
    pub receive_queue: u32,
    pub inline: u32,
    pub iomap: u32,
    pub receive_buffer: u32,
    pub send_buffer: u32,
}

impl Sizes {
    pub fn set_send_queue(&mut self, wanted: u32) {
        self.send_queue = wanted.clamp(*QUEUE.start(), *QUEUE.end());
    }

    pub fn set_receive_queue(&mut self, wanted: u32) {
        self.receive_queue = wanted.clamp(*QUEUE.start(), *QUEUE.end());
    }

    pub fn set_inline(&mut self, wanted: u32) {
        self.inline = wanted.min(INLINE);
    }

    /// The size is sent in one byte, larger sizes in units of 256.
    pub fn set_iomap(&mut self, wanted: u32) {
        let wanted = u16::try_from(wanted).unwrap_or(u16::MAX);
        self.iomap = rsocket_protocol::ConnectData::sent_iomap_size(wanted.min(0x7fff)).into();
    }

    pub fn set_receive_buffer(&mut self, wanted: u32) {
        // The buffer is granted in two halves.
        self.receive_buffer = wanted.clamp(*BUFFER.start(), *BUFFER.end()) & !1;
    }

    pub fn set_send_buffer(&mut self, wanted: u32) {
        self.send_buffer = wanted.clamp(*BUFFER.start(), *BUFFER.end());
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            send_queue: 384,
            receive_queue: 384,
            inline: 64,
            iomap: 0,
            receive_buffer: 131_072,
            send_buffer: 131_072,
        }
    }
}

/// Settings from the files, or the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub sizes: Sizes,
    /// How long a call polls before it sleeps.
    pub polling_time: Duration,
    /// Longest sleep of rpoll before it polls again.
    pub wake_up_interval: Duration,
}

impl Settings {
    /// Settings from files with one number each; `read` returns the number of a file.
    fn by(read: impl Fn(&str) -> Option<u32>) -> Self {
        let mut sizes = Sizes::default();
        let mut with = |name: &str, set: fn(&mut Sizes, u32)| {
            if let Some(number) = read(name) {
                set(&mut sizes, number);
            }
        };
        with("sqsize_default", Sizes::set_send_queue);
        with("rqsize_default", Sizes::set_receive_queue);
        with("inline_default", Sizes::set_inline);
        with("iomap_size", Sizes::set_iomap);
        with("mem_default", Sizes::set_receive_buffer);
        with("wmem_default", Sizes::set_send_buffer);
        Self {
            sizes,
            polling_time: Duration::from_micros(read("polling_time").unwrap_or(10).into()),
            // 0 does not mean a process that never sleeps.
            wake_up_interval: Duration::from_millis(
                read("wake_up_interval").unwrap_or(500).max(1).into(),
            ),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::by(|name| {
            let text = std::fs::read_to_string(format!("{FOLDER}/{name}")).ok()?;
            number(&text)
        })
    }
}

/// The number at the beginning of a file.
fn number(text: &str) -> Option<u32> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// The settings of the process, read at the first use.
pub fn get() -> Settings {
    static READ: PerProcess<Settings> = PerProcess::new();
    READ.get()
        .copied()
        .unwrap_or_else(|_| Settings::by(|_| None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_one_number() {
        assert_eq!(number(" 64\n"), Some(64));
        assert_eq!(number("64 bytes"), Some(64));
        assert_eq!(number("-1"), None);
        assert_eq!(number(""), None);
        assert_eq!(number("99999999999"), None);
    }

    #[test]
    fn sizes_are_cut_to_their_limits() {
        let usual = Settings::by(|_| None);
        assert_eq!(
            (usual.sizes, usual.polling_time),
            (Sizes::default(), Duration::from_micros(10))
        );
        let small = Settings::by(|_| Some(1)).sizes;
        assert_eq!((small.send_queue, small.receive_queue), (16, 16));
        assert_eq!((small.inline, small.iomap), (1, 1));
        assert_eq!((small.send_buffer, small.receive_buffer), (4096, 4096));
        let large = Settings::by(|_| Some(u32::MAX)).sizes;
        assert_eq!(
            (large.send_queue, large.inline, large.iomap),
            (65534, 65534, 0x7f00)
        );
        assert_eq!(large.receive_buffer, 1 << 30);
        let mut odd = Sizes::default();
        odd.set_receive_buffer(8193);
        assert_eq!(odd.receive_buffer, 8192);
    }
}
