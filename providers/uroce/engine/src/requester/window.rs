//! How many request packets may be under way unacknowledged: grows by one a window while all goes
//! well, halves on loss and on congestion. RoCE expects a network without loss; over ordinary
//! Ethernet and sockets that drop, a sender without a window would lose whole bursts.

/// The window, in packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    size: u32,
    max: u32,
    acknowledged: u32,
}

const MIN: u32 = 4;
const START: u32 = 128;
/// Response packets for each request packet of the window: the side that asked is there to take
/// them, so queues hold more.
const RESPONSES: u32 = 4;

impl Window {
    pub(crate) fn new(max: u32) -> Self {
        let max = max.max(MIN);
        Self {
            size: START.min(max),
            max,
            acknowledged: 0,
        }
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// How many response packets may be asked for.
    pub(crate) fn responses(&self) -> u32 {
        self.size.saturating_mul(RESPONSES)
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
        assert_eq!(window.size(), MIN);
    }
}
