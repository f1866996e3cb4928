//! The congestion window: how many request packets may be unacknowledged. It grows by one for each
//! window of progress and halves on loss and congestion notifications. RoCE assumes a network
//! without loss; over ordinary Ethernet and sockets, a sender without a window would lose whole
//! bursts.
//!
//! The window holds at most `max_in_flight` packets and 384 KiB, and 64 packets of messages shorter
//! than 16 packets, so that requests that waited for one acknowledgement leave together. Reads and
//! atomics together may request four times as many response packets, and at most 256. No other file
//! limits the amount in flight.

/// The window, in packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    size: u32,
    max: u32,
    acknowledged: u32,
}

const MIN: u32 = 4;
const START: u32 = 128;
/// Maximum bytes in flight: those that fit a receiver's socket by Linux's default limits (a
/// `net.core.rmem_max` of 208 KiB is doubled, and part of it counts overhead of packets). If the
/// receiver is the slower side, all of the window waits there.
const BYTES: u32 = 384 << 10;
/// Messages of fewer packets than this are short, and at most so many of their packets are in
/// flight: short messages that wait for an acknowledgement are then sent together, which costs less
/// than one after the other.
const LONG: u32 = 16;
const OF_SHORT: u32 = 64;
/// Response packets for each request packet of the window, and at most: the side that asked is
/// there to take them, so queues hold more.
const RESPONSES: u32 = 4;
const MOST_RESPONSES: u32 = super::responses::MOST_PACKETS;
/// A long read is asked for by so many requests at a time.
const REQUESTS: u32 = 4;

impl Window {
    pub(crate) fn new(max: u32) -> Self {
        let max = max.max(MIN);
        Self {
            size: START.min(max),
            max,
            acknowledged: 0,
        }
    }

    /// Packets have up to so many bytes of payload.
    pub(crate) fn fit(&mut self, payload: u32) {
        self.max = self.max.min(BYTES / payload.max(1)).max(MIN);
        self.size = self.size.min(self.max);
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// How many may be under way before the next one of a message of so many.
    pub(crate) fn before(&self, packets: u32) -> u32 {
        if packets < LONG {
            return self.size.min(OF_SHORT);
        }
        self.size
    }

    /// How many response packets may be asked for.
    pub(crate) fn responses(&self) -> u32 {
        self.size.saturating_mul(RESPONSES).min(MOST_RESPONSES)
    }

    /// For how many response packets one request asks, of `max_rd_atomic` that may be under way: so
    /// few that one can be answered while the next ones are on their way, and the window is used
    /// up.
    pub(crate) fn request(&self, max_rd_atomic: u8) -> u32 {
        let requests = u32::from(max_rd_atomic).clamp(1, REQUESTS);
        (self.responses() / requests).max(MIN)
    }

    pub(crate) fn on_progress(&mut self, packets: u32) {
        self.acknowledged = self.acknowledged.saturating_add(packets);
        if self.acknowledged >= self.size {
            self.acknowledged = 0;
            self.size = (self.size + 1).min(self.max);
        }
    }

    pub(crate) fn on_loss(&mut self) {
        self.acknowledged = 0;
        self.size = (self.size / 2).max(MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinks_by_halves_and_grows_by_one() {
        let mut window = Window::new(130);
        assert_eq!(window.size(), 128);
        window.on_progress(127);
        assert_eq!(window.size(), 128);
        window.on_progress(1);
        assert_eq!(window.size(), 129);
        window.on_progress(1000);
        window.on_progress(1000);
        assert_eq!(window.size(), 130);
        for _ in 0..20 {
            window.on_loss();
        }
        assert_eq!((window.size(), window.before(1)), (MIN, MIN));
        assert_eq!((window.responses(), window.request(4)), (16, MIN));
    }

    #[test]
    fn long_packets_are_fewer() {
        for (payload, packets) in [(256, 128), (1024, 128), (2048, 128), (4096, 96)] {
            let mut window = Window::new(128);
            window.fit(payload);
            assert_eq!(window.size(), packets);
            window.on_progress(1000);
            assert_eq!(window.size(), packets);
            assert_eq!(window.responses(), 256);
            let requests = [0, 1, 2, 4, 128].map(|reads| window.request(reads));
            assert_eq!(requests, [256, 256, 128, 64, 64]);
            assert_eq!((window.before(16), window.before(15)), (packets, 64));
        }
    }
}
