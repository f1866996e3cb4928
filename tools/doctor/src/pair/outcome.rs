//! The outcome of a test.

use serde_json::{Value, json};

use super::talk::Hello;
use crate::{
    diagnose::{Finding, Weight},
    report::word,
};

/// Something that was tried and worked.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Bytes that went over, once.
    pub bytes: usize,
    /// The mean time of one, in microseconds, where it was measured.
    pub usec: Option<f64>,
}

/// The outcome of a test.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// This end and the other one.
    pub ends: Option<(Hello, Hello)>,
    /// Incompatible facts.
    pub findings: Vec<Finding>,
    /// The successful steps, in order.
    pub steps: Vec<Step>,
    /// Why it ended early.
    pub failure: Option<String>,
}

impl Outcome {
    pub(super) fn fail(&mut self, reason: String) {
        self.failure = Some(reason);
    }

    /// Whether all steps worked.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failure.is_none() && !self.steps.is_empty()
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some((own, peer)) = &self.ends {
            text.push_str(&line("this end: ", own));
            text.push_str(&line("other end:", peer));
        }
        for finding in &self.findings {
            let weight = word(finding.weight);
            text.push_str(&format!("{weight} [{}] {}\n", finding.id, finding.what));
            text.push_str(&format!("   {}\n", finding.why));
            for command in &finding.commands {
                text.push_str(&format!("       {command}\n"));
            }
        }
        for step in &self.steps {
            let time = step
                .usec
                .map_or(String::new(), |usec| format!(", {usec:.1} usec each"));
            text.push_str(&format!("{}: ok, {} bytes{time}\n", step.name, step.bytes));
        }
        match &self.failure {
            Some(reason) => text.push_str(&format!("failed: {reason}\n")),
            None => text.push_str("passed\n"),
        }
        text
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let ends = self
            .ends
            .as_ref()
            .map(|(own, peer)| json!({"this": own.json(), "other": peer.json()}));
        let findings: Vec<Value> = self
            .findings
            .iter()
            .map(|finding| {
                json!({
                    "id": finding.id,
                    "weight": word(finding.weight),
                    "what": finding.what,
                    "why": finding.why,
                    "commands": finding.commands,
                })
            })
            .collect();
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|step| json!({"name": step.name, "bytes": step.bytes, "usec": step.usec}))
            .collect();
        json!({
            "passed": self.passed(),
            "ends": ends,
            "findings": findings,
            "steps": steps,
            "failure": self.failure,
        })
    }

    /// The finding that explains a failure best, if there is one.
    pub(super) fn likely(&self) -> Option<&Finding> {
        self.findings
            .iter()
            .find(|finding| finding.weight == Weight::Problem)
    }
}

fn line(whose: &str, end: &Hello) -> String {
    let gid = end.gid.map_or("no GID".to_owned(), |gid| {
        let version = if end.roce_v2 { ", RoCE v2" } else { "" };
        format!("GID {}{version}", std::net::Ipv6Addr::from(gid))
    });
    let firmware = match end.firmware.as_str() {
        "" => String::new(),
        version => format!(", firmware {version}"),
    };
    format!(
        "{whose} {} port {}, MTU {}, {gid}{firmware}\n",
        end.device, end.port, end.mtu
    )
}
