//! Explanations and records of librdmacm. It finds the reasons by itself; the outputs are those of
//! this library, so that a file has the calls of both in their order.

use super::is_on;
use crate::core::report;
use crate::core::trace::{self, record::Record, record::of_librdmacm};
use kit::cm::{EXPLAINS, Observed, RECORDS};

/// What the environment asks for.
pub fn requested() -> u32 {
    if !is_on() {
        return 0;
    }
    let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
    bit(report::explains(), EXPLAINS) | bit(trace::on(), RECORDS)
}

/// Writes an explanation.
pub fn explain(text: &str) {
    if report::explains() {
        report::explain(text);
    }
}

/// Records a call, whose words these are. One that this library does not know is left out.
pub fn record(call: &Observed, words: &[u64]) {
    let Some(number) = of_librdmacm(call.call).filter(|_| trace::on()) else {
        return;
    };
    trace::add(&Record {
        call: number,
        thread: trace::thread(),
        begin: call.begin,
        took: call.took,
        error: call.error,
        value: call.value,
        words,
    });
}
