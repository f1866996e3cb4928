//! Findings as people and programs read them.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::{
    diagnose::{Finding, Weight, next, usable},
    facts::{Facts, PORT_ACTIVE, VerbsDevice},
};

/// The word for a weight.
#[must_use]
pub fn word(weight: Weight) -> &'static str {
    match weight {
        Weight::Problem => "problem",
        Weight::Warning => "warning",
        Weight::Note => "note",
    }
}

fn color(weight: Weight) -> &'static str {
    match weight {
        Weight::Problem => "\x1b[31;1m",
        Weight::Warning => "\x1b[33;1m",
        Weight::Note => "\x1b[36m",
    }
}

/// Prints the working parts and the findings.
///
/// # Errors
/// Writing failed.
pub fn text(
    facts: &Facts,
    findings: &[Finding],
    colored: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let (bold, plain) = if colored {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    };
    let devices = facts.verbs.iter().flat_map(|verbs| &verbs.devices);
    for device in devices.filter(|device| device.error.is_none()) {
        writeln!(out, "{bold}{}{plain}: {}", device.name, summary(device))?;
    }
    for (number, finding) in (1..).zip(findings) {
        let weight = word(finding.weight);
        let paint = if colored { color(finding.weight) } else { "" };
        let about = match finding.about.as_str() {
            "" => String::new(),
            about => format!("{about}: "),
        };
        writeln!(
            out,
            "{number}. {paint}{weight}{plain} [{}] {about}{}",
            finding.id, finding.what
        )?;
        if !finding.why.is_empty() {
            writeln!(out, "   {}", finding.why)?;
        }
        for command in &finding.commands {
            writeln!(out, "       {command}")?;
        }
    }
    let count = |weight| {
        findings
            .iter()
            .filter(|finding| finding.weight == weight)
            .count()
    };
    let (problems, warnings) = (count(Weight::Problem), count(Weight::Warning));
    let usable: Vec<&str> = usable(facts).collect();
    let usable = match usable.as_slice() {
        [] => "no device can be used".to_owned(),
        names => format!("can be used: {}", names.join(", ")),
    };
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    writeln!(
        out,
        "{bold}{problems} problem{}, {warnings} warning{}; {usable}{plain}",
        plural(problems),
        plural(warnings)
    )?;
    match next(facts, findings) {
        Some(command) => writeln!(out, "{bold}next:{plain} {command}"),
        None => Ok(()),
    }
}

fn summary(device: &VerbsDevice) -> String {
    let ports = device.ports.iter().map(|port| {
        let state = if port.state == PORT_ACTIVE {
            "active"
        } else {
            "not active"
        };
        let gids = match port.gids.len() {
            1 => "1 GID".to_owned(),
            count => format!("{count} GIDs"),
        };
        format!(
            "port {} {state}, MTU {}, {gids}",
            port.number, port.active_mtu
        )
    });
    ports.collect::<Vec<_>>().join("; ")
}

/// One document: the findings in order, and the devices that can be used.
#[must_use]
pub fn document(facts: &Facts, findings: &[Finding]) -> Value {
    let list: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "id": finding.id,
                "weight": word(finding.weight),
                "about": finding.about,
                "what": finding.what,
                "why": finding.why,
                "commands": finding.commands,
            })
        })
        .collect();
    let usable: Vec<&str> = usable(facts).collect();
    json!({"findings": list, "usable": usable, "next": next(facts, findings)})
}
