//! Command line of the C tests; README.md shows how it is used.

#![forbid(unsafe_code)]

use std::{env, path::PathBuf, process::ExitCode, time::Duration};

use c_tests::{
    Result,
    build::{self, COMBOS, Combo},
    compare::compare,
    record,
    run::{self, Library, Plan},
    tree::Set,
};

const USAGE: &str = "\
c-tests build --out DIR [--combo NAME]...
c-tests run --programs DIR --lib DIR|stock --out FILE
            [--set no_device|rxe|ioctl|plugin|rdmacm|man|self_checking|post_44|post_44_rxe]...
            [--combo NAME]...
            [--only TEXT] [--patience SECONDS]
c-tests compare REFERENCE OTHER... [--set NAME]...
names of combos: stock-gcc ours-gcc stock-clang ours-clang";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((verb, rest)) if verb == "build" => build_command(rest),
        Some((verb, rest)) if verb == "run" => run_command(rest),
        Some((verb, rest)) if verb == "compare" => compare_command(rest),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("c-tests: {e}");
            ExitCode::from(2)
        }
    }
}

/// The options of a command, each with its value, in order.
fn options(args: &[String]) -> Result<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    let mut rest = args.iter();
    while let Some(name) = rest.next() {
        let value = rest
            .next()
            .ok_or_else(|| format!("{name} needs a value\n{USAGE}"))?;
        found.push((name.as_str(), value.as_str()));
    }
    Ok(found)
}

fn unknown(name: &str, value: &str) -> c_tests::Error {
    format!("{name} {value}: not understood\n{USAGE}").into()
}

fn build_command(args: &[String]) -> Result<bool> {
    let mut out = None;
    let mut combos = Vec::new();
    for (name, value) in options(args)? {
        match name {
            "--out" => out = Some(PathBuf::from(value)),
            "--combo" => combos.push(Combo::from_name(value).ok_or_else(|| unknown(name, value))?),
            _ => return Err(unknown(name, value)),
        }
    }
    if combos.is_empty() {
        combos = COMBOS.to_vec();
    }
    let out = out.ok_or(USAGE)?;
    let count = build::build(&out, &combos)?;
    println!("{count} programs compiled");
    Ok(true)
}

fn run_command(args: &[String]) -> Result<bool> {
    let (mut programs, mut library, mut out) = (None, None, None);
    let (mut sets, mut combos) = (Vec::new(), Vec::new());
    let (mut only, mut patience) = (None, None);
    for (name, value) in options(args)? {
        match name {
            "--programs" => programs = Some(PathBuf::from(value)),
            "--lib" if value == "stock" => library = Some(Library::Stock),
            "--lib" => library = Some(Library::Dir(PathBuf::from(value))),
            "--out" => out = Some(PathBuf::from(value)),
            "--set" => sets.push(Set::from_name(value).ok_or_else(|| unknown(name, value))?),
            "--combo" => combos.push(Combo::from_name(value).ok_or_else(|| unknown(name, value))?),
            "--only" => only = Some(value.to_owned()),
            "--patience" => patience = Some(Duration::from_secs(value.parse()?)),
            _ => return Err(unknown(name, value)),
        }
    }
    let mut plan = Plan::all(programs.ok_or(USAGE)?, library.ok_or(USAGE)?);
    if !sets.is_empty() {
        plan.sets = sets;
    }
    if !combos.is_empty() {
        plan.combos = combos;
    }
    plan.only = only;
    plan.patience = patience.unwrap_or(plan.patience);
    let records = run::run(&plan, &out.ok_or(USAGE)?)?;
    let failed = records.iter().filter(|r| r.status != "exit 0").count();
    println!("{} programs run, {failed} failed", records.len());
    Ok(failed == 0)
}

fn compare_command(args: &[String]) -> Result<bool> {
    let begin = args.iter().position(|arg| arg.starts_with("--"));
    let (files, rest) = args.split_at(begin.unwrap_or(args.len()));
    let (reference, others) = files.split_first().ok_or(USAGE)?;
    let mut sets = Vec::new();
    for (name, value) in options(rest)? {
        match name {
            "--set" => sets.push(Set::from_name(value).ok_or_else(|| unknown(name, value))?),
            _ => return Err(unknown(name, value)),
        }
    }
    if sets.is_empty() {
        sets = Set::ALL.to_vec();
    }
    let reference = record::read(reference.as_ref())?;
    let mut runs = Vec::new();
    for other in others {
        runs.push(record::read(other.as_ref())?);
    }
    let report = compare(&reference, &runs, &sets);
    for words in &report.differences {
        println!("{words}");
    }
    println!(
        "{} outputs agree, {} differ",
        report.agree,
        report.differences.len()
    );
    Ok(report.differences.is_empty() && report.agree > 0)
}
