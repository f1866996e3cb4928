//! Compiles the programs every way, checks the symbols that they use, and runs those that need no
//! device on this machine.

mod common;

use std::{collections::BTreeSet, fs, path::Path};

use c_tests::{
    Result,
    build::{COMBOS, binary},
    compare::compare,
    elf,
    library::built_library,
    run::{Library, Plan, run},
    tree::{Set, package_dir, programs},
};

/// The three steps share the compiled programs, so they are one test: two
/// would compile into the same folder at the same time.
#[test]
fn programs_compile_cover_the_interface_and_agree_on_this_machine() -> Result<()> {
    let dir = common::compiled()?;
    every_public_symbol_is_used(&dir)?;
    every_inline_is_used()?;
    outputs_agree_without_a_device(&dir)
}

fn every_public_symbol_is_used(dir: &Path) -> Result<()> {
    let mut used = BTreeSet::new();
    for combo in COMBOS {
        for program in programs()?.iter().filter(|p| combo.fits(p)) {
            let image = elf::read(&binary(dir, combo, program))?;
            used.extend(image.undefined.into_iter().map(|s| (s.name, s.node)));
        }
    }
    let text = fs::read_to_string(package_dir().join("data/symbols.tsv"))?;
    let mut missing = Vec::new();
    for line in text.lines().skip(1) {
        let mut fields = line.split('\t');
        let name = fields.next().unwrap_or_default().to_owned();
        let node = fields.next().unwrap_or_default().to_owned();
        let public = !node.starts_with("IBVERBS_PRIVATE");
        if public && !used.contains(&(name.clone(), node.clone())) {
            missing.push(format!("{name}@{node}"));
        }
    }
    assert!(missing.is_empty(), "no program uses {missing:?}");
    Ok(())
}

fn every_inline_is_used() -> Result<()> {
    let mut words = BTreeSet::new();
    for program in programs()? {
        let text = fs::read_to_string(program.source())?;
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        words.extend(text.split(|c| !is_part(c)).map(str::to_owned));
    }
    let text = fs::read_to_string(package_dir().join("data/inlines.txt"))?;
    let missing: Vec<&str> = text.lines().filter(|name| !words.contains(*name)).collect();
    assert!(missing.is_empty(), "no program uses {missing:?}");
    Ok(())
}

fn outputs_agree_without_a_device(dir: &Path) -> Result<()> {
    let mut stock = Plan::all(dir.to_owned(), Library::Stock);
    stock.sets = vec![Set::NoDevice];
    let stock = run(&stock, &dir.join("stock.txt"))?;
    let mut ours = Plan::all(dir.to_owned(), Library::Dir(built_library()?));
    ours.sets.retain(|set| !set.needs_device());
    let ours = run(&ours, &dir.join("ours.txt"))?;
    let report = compare(&stock, &[ours], &[Set::NoDevice]);
    println!("{} outputs agree", report.agree);
    assert!(
        report.differences.is_empty(),
        "{}",
        report.differences.join("\n")
    );
    Ok(())
}
