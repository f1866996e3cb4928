//! The output at the end.

use std::{
    io::{self, Write},
    time::Duration,
};

use serde_json::{Value, json};

use super::args::Args;

/// Differences between the times of receives, in the device's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub most: u64,
    pub least: u64,
    pub total: u64,
    pub count: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            most: 0,
            least: 0xffff_ffff,
            total: 0,
            count: 0,
        }
    }
}

impl Times {
    pub fn add(&mut self, delta: u64) {
        self.most = self.most.max(delta);
        self.least = self.least.min(delta);
        self.total = self.total.wrapping_add(delta);
        self.count += 1;
    }

    fn average(&self) -> f64 {
        float(self.total) / float(self.count)
    }
}

/// The nearest number with a fraction, as C converts it.
fn float(value: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "it is printed with two places")]
    let near = value as f64;
    near
}

/// The outcome of a run.
pub(super) struct Outcome {
    bytes: u64,
    iters: u32,
    usec: f64,
    times: Option<Times>,
    pub bad_pages: Vec<usize>,
}

impl Outcome {
    pub fn new(args: &Args, time: Duration, times: Times) -> Self {
        let size = u64::try_from(args.size).unwrap_or(u64::MAX);
        let messages = u64::from(args.iters) * 2;
        Self {
            bytes: size.saturating_mul(messages),
            iters: args.iters,
            usec: time.as_secs_f64() * 1e6,
            times: (args.timestamps && times.count > 0).then_some(times),
            bad_pages: Vec::new(),
        }
    }

    fn mbit_per_sec(&self) -> f64 {
        float(self.bytes) * 8. / self.usec
    }

    fn usec_per_iter(&self) -> f64 {
        self.usec / f64::from(self.iters)
    }

    pub fn print(&self) -> io::Result<()> {
        let mut out = io::stdout();
        let seconds = self.usec / 1e6;
        let (bytes, rate) = (self.bytes, self.mbit_per_sec());
        writeln!(
            out,
            "{bytes} bytes in {seconds:.2} seconds = {rate:.2} Mbit/sec"
        )?;
        let (iters, each) = (self.iters.cast_signed(), self.usec_per_iter());
        writeln!(
            out,
            "{iters} iters in {seconds:.2} seconds = {each:.2} usec/iter"
        )?;
        if let Some(times) = self.times {
            let (most, least, average) = (times.most, times.least, times.average());
            writeln!(out, "Max receive completion clock cycles = {most}")?;
            writeln!(out, "Min receive completion clock cycles = {least}")?;
            writeln!(
                out,
                "Average receive completion clock cycles = {average:.6}"
            )?;
        }
        for page in &self.bad_pages {
            writeln!(out, "invalid data in page {page}")?;
        }
        Ok(())
    }

    pub fn json(&self, local: Vec<Value>, remote: Vec<Value>) -> Value {
        let clock = self.times.map(
            |times| json!({"max": times.most, "min": times.least, "average": times.average()}),
        );
        json!({
            "local": local,
            "remote": remote,
            "bytes": self.bytes,
            "iters": self.iters,
            "seconds": self.usec / 1e6,
            "mbit_per_sec": self.mbit_per_sec(),
            "usec_per_iter": self.usec_per_iter(),
            "receive_completion_clock_cycles": clock,
            "invalid_pages": self.bad_pages,
        })
    }
}
