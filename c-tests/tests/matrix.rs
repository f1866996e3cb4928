//! docs/compatibility.md names a test for each of its cells: each exists, and the stage that the
//! cell names runs it. xtask checks that the stages exist.

use std::{
    fs,
    path::{Path, PathBuf},
};

use c_tests::{
    Result,
    tree::{Program, package_dir, programs, workspace_dir},
};

/// The stage whose programs run on this machine, and the one whose programs have a device.
const UNIT: &str = "unit";
const GUEST: &str = "guest:c-tests";

/// A name in backquotes, and the text before it.
type Name<'a> = (&'a str, &'a str);

fn names(text: &str) -> Vec<Name<'_>> {
    let parts: Vec<&str> = text.split('`').collect();
    let pairs = parts.chunks_exact(2);
    pairs.map(|pair| (pair[0], pair[1])).collect()
}

/// The programs of a name: one, or a set.
fn named<'a>(all: &'a [Program], name: &str) -> Vec<&'a Program> {
    let name = name.trim_end_matches(".c");
    let is_meant = |program: &&Program| program.key() == name || program.set.name() == name;
    all.iter().filter(is_meant).collect()
}

/// There are such programs, and the stage runs them.
fn check_programs(all: &[Program], stage: Option<&str>, name: &str) {
    let meant = named(all, name);
    assert!(!meant.is_empty(), "there is no program {name}");
    for program in meant {
        let (key, on) = (program.key(), stage.unwrap_or(GUEST));
        let is_run = on == GUEST || on == UNIT && !program.set.needs_device();
        assert!(is_run, "{on} does not run {key}");
    }
}

/// A function that one of these programs calls.
fn check_function(all: &[Program], programs: &str, function: &str) {
    let call = format!("{function}(");
    let calls = |program: &&Program| {
        fs::read_to_string(program.source()).is_ok_and(|text| text.contains(&call))
    };
    assert!(
        named(all, programs).iter().any(calls),
        "no {programs} calls {call}"
    );
}

/// Where sources of unit tests are named from.
fn roots() -> [PathBuf; 3] {
    let kit = workspace_dir().join("providers/kit/src");
    [workspace_dir().into(), kit.join("abi"), kit.join("uverbs")]
}

/// A file of unit tests has some, and is a part of its crate.
fn check_unit_tests(name: &str) -> Result<()> {
    let files = roots().map(|root| root.join(name));
    let file = files.iter().find(|file| file.exists());
    let file = file.ok_or_else(|| format!("{name} is not there"))?;
    assert!(has_tests(file)?, "no test is in {name}");
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let folder = file.parent().ok_or("a file without a folder")?;
    let parents = [folder.join("mod.rs"), folder.with_extension("rs")];
    let declared = format!("mod {stem};");
    let is_declared = |parent: &PathBuf| {
        fs::read_to_string(parent)
            .is_ok_and(|text| text.lines().any(|line| line.ends_with(&declared)))
    };
    assert!(parents.iter().any(is_declared), "no module has {name}");
    Ok(())
}

fn has_tests(file: &Path) -> Result<bool> {
    Ok(fs::read_to_string(file)?.contains("#[test]"))
}

/// Returns how many tests the text names.
fn check(text: &str, all: &[Program]) -> Result<usize> {
    let mut stage = None;
    let mut last: Option<&str> = None;
    let mut checked = 0;
    for (before, name) in names(text) {
        let stage_before = last.replace(name).filter(|_| before == ": ");
        if name == UNIT || name.starts_with("guest:") || name.starts_with("uroce:") {
            stage = Some(name);
            continue;
        }
        if let Some(program) = name.strip_prefix("programs/") {
            check_programs(all, stage, program);
        } else if let Some(own) = name.strip_prefix("c-tests/tests/") {
            assert!(has_tests(&package_dir().join("tests").join(own))?, "{own}");
        } else if name.ends_with(".rs") {
            check_unit_tests(name)?;
        } else if let Some(programs) = stage_before.and_then(|last| last.strip_prefix("programs/"))
        {
            check_function(all, programs, name);
        } else {
            continue;
        }
        checked += 1;
    }
    Ok(checked)
}

#[test]
fn the_matrix_names_tests_that_are_run() -> Result<()> {
    let matrix = fs::read_to_string(workspace_dir().join("docs/compatibility.md"))?;
    let all = programs()?;
    let mut checked = 0;
    for line in matrix.lines() {
        for cell in line.split('|') {
            checked += check(cell, &all)?;
        }
    }
    assert!(checked > 20, "{checked} names");
    Ok(())
}

#[test]
#[should_panic(expected = "does not run")]
fn a_stage_without_a_device_runs_no_program_that_needs_one() {
    let all = programs().unwrap();
    check("`unit`: `programs/rxe/mw`", &all).unwrap();
}

#[test]
#[should_panic(expected = "no program")]
fn a_program_that_is_gone_is_found_out() {
    check("`unit`: `programs/post_44/gone`", &programs().unwrap()).unwrap();
}
