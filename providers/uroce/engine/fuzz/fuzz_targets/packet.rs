//! `cargo +nightly fuzz run packet`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uroce_engine::fuzz::fuzz_packet(data));
