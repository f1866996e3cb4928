//! Threads of a process that opens a device.
#![allow(
    clippy::expect_used,
    reason = "a test ends where something is not as expected"
)]

mod alone;
mod ends;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

mod inside {
    use super::alone::{tasks, there};
    use super::ends::End;
    use kit::abi::IBV_QPT_RC;
    use std::time::Duration;

    /// Longer than the kernel takes to register a process of several threads for barriers.
    const LOOKS: u32 = 200;
    const APART: Duration = Duration::from_millis(1);

    /// At its end a thread calls madvise(2) for its stack. UCX replaces the first instructions of
    /// that function after it has opened a device.
    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn no_thread_ends_after_a_device_was_opened() {
        if !there() {
            return;
        }
        let before = tasks();
        assert!(before.len() > 1, "the harness has a thread for each test");
        let end = End::new(IBV_QPT_RC);
        let then = tasks();
        assert!(then.len() > before.len(), "the device has a thread");
        for _ in 0..LOOKS {
            std::thread::sleep(APART);
            assert_eq!(tasks(), then);
        }
        drop(end);
    }
}
