//! `cargo +nightly fuzz run receive`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uroce_cm::fuzz::fuzz_receive(data));
