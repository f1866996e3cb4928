//! Which way of computing a CRC is the faster one here.

use std::hint::black_box;
use std::sync::Once;
use std::time::{Duration, Instant};
use uroce_engine::wire::crc::{Method, Register, prefer};

/// Bytes that are measured: those of a packet.
const BYTES: usize = 1024;
/// How often. The best time counts: any other is that of something besides.
const ROUNDS: u32 = 5;

/// Measures, once in the life of the process, and has the faster way taken from then on. It takes
/// as long as some ten packets.
pub fn choose() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| {
        let (words, multiplication) = (best(Method::Words), best(Method::Multiplication));
        if words < multiplication {
            prefer(Method::Words);
        }
    });
}

fn best(method: Method) -> Duration {
    let bytes = [0xa5; BYTES];
    let round = |_| {
        let began = Instant::now();
        let mut register = Register::by(method);
        register.update(black_box(&bytes));
        black_box(register.finish());
        began.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}
