//! `cargo xtask size`: the sizes of the parts of the library, as the table of docs/size.md.
//!
//! The sizes of functions and tables come from the library's symbols, the others from its sections.
//! A symbol counts for the crate that begins its path: a generic function for the crate that
//! defines it, a method of a trait for the crate of the type. The functions that are exported to C
//! have no path; they are the library's crate.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};

use crate::{dirs::Dirs, host::must};

/// The crate that exports functions to C.
const EXPORTS: &str = "ibverbs";
/// Rust's standard library, and the crates in it.
const STANDARD: [&str; 12] = [
    "addr2line",
    "adler2",
    "alloc",
    "compiler_builtins",
    "core",
    "gimli",
    "hashbrown",
    "memchr",
    "miniz_oxide",
    "rustc_demangle",
    "std",
    "std_detect",
];
const STANDARD_ROW: &str = "Rust's standard library";
/// Sections with functions and tables: their parts without a symbol are texts for the most part.
const CONTENTS: [&str; 4] = [".text", ".rodata", ".data", ".data.rel.ro"];
const TEXTS: &str = "texts, and constants without a symbol";
/// The other rows, each with the beginnings of the names of its sections.
const ROWS: [(&str, &[&str]); 3] = [
    ("tables for unwinding", &[".eh_frame", ".gcc_except_table"]),
    (
        "symbols and their versions",
        &[".dynsym", ".dynstr", ".gnu."],
    ),
    ("relocations", &[".rela.", ".got"]),
];
const OTHERS: &str = "others";
/// Crates with fewer bytes are among the others.
const SMALL: u64 = 4096;

/// Prints the table of the library that was built.
pub fn run() -> Result<ExitCode> {
    let library = Dirs::find()?.built()?;
    let symbols = printed(&library, "nm", &["--print-size", "--demangle"])?;
    let sections = printed(&library, "readelf", &["--wide", "--sections"])?;
    print!("{}", table(&parts(&symbols, &sections)?)?);
    Ok(ExitCode::SUCCESS)
}

fn printed(library: &Path, program: &str, options: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    must(command.args(options).arg(library).env("LC_ALL", "C"))
}

/// The bytes of each part.
fn parts(symbols: &str, sections: &str) -> Result<BTreeMap<String, u64>> {
    let mut parts = crates(symbols);
    let named: u64 = parts.values().sum();
    if named == 0 {
        bail!("the library has no symbols");
    }
    let mut contents = 0_u64;
    for (name, size) in loaded(sections) {
        if CONTENTS.contains(&name) {
            contents += size;
            continue;
        }
        let begins = |row: &&(&str, &[&str])| row.1.iter().any(|begin| name.starts_with(begin));
        let row = ROWS.iter().find(begins).map_or(OTHERS, |row| row.0);
        *parts.entry(row.to_owned()).or_default() += size;
    }
    let texts = contents.checked_sub(named);
    let texts = texts.context("the symbols are larger than their sections")?;
    parts.insert(TEXTS.to_owned(), texts);
    Ok(parts)
}

/// The bytes of each crate, by its symbols.
fn crates(symbols: &str) -> BTreeMap<String, u64> {
    // Names of one function, such as those of several versions, have one place.
    let mut places = BTreeMap::new();
    for line in symbols.lines() {
        let mut fields = line.splitn(4, ' ');
        let (Some(place), Some(size), Some(kind), Some(name)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        // Memory that is zero at the start takes no space in the file.
        let Ok(size) = u64::from_str_radix(size, 16) else {
            continue;
        };
        if !kind.eq_ignore_ascii_case("b") {
            places.insert(place, (crate_of(name), size));
        }
    }
    let mut crates: BTreeMap<String, u64> = BTreeMap::new();
    for (owner, size) in places.into_values() {
        let row = if STANDARD.contains(&owner) {
            STANDARD_ROW
        } else {
            owner
        };
        *crates.entry(row.to_owned()).or_default() += size;
    }
    let small: u64 = crates.values().filter(|size| **size < SMALL).sum();
    crates.retain(|_, size| *size >= SMALL);
    crates.insert(OTHERS.to_owned(), small);
    crates
}

/// The crate that begins a path.
fn crate_of(name: &str) -> &str {
    let Some((head, _)) = name.split_once("::") else {
        return EXPORTS;
    };
    // `<&T as core::fmt::Debug>::fmt` is core's.
    let head = head
        .rsplit([' ', '<', '&', '*', '(', '['])
        .next()
        .unwrap_or(head);
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // A method of a type of the language, such as `<u16>::from_ascii_radix`.
    if head.is_empty() || !head.chars().all(part) {
        return "core";
    }
    head
}

/// The sections that a stripped file has, with their sizes.
fn loaded(sections: &str) -> impl Iterator<Item = (&str, u64)> {
    sections.lines().filter_map(|line| {
        // [Nr] Name Type Address Off Size ES Flg
        let (_, fields) = line.split_once(']')?;
        let mut fields = fields.split_whitespace();
        let (name, kind) = (fields.next()?, fields.next()?);
        let size = u64::from_str_radix(fields.nth(2)?, 16).ok()?;
        let flags = fields.nth(1)?;
        (flags.contains('A') && kind != "NOBITS").then_some((name, size))
    })
}

fn table(parts: &BTreeMap<String, u64>) -> Result<String> {
    let whole: u64 = parts.values().sum();
    let mut rows: Vec<_> = parts.iter().collect();
    rows.sort_by_key(|(name, size)| (name.as_str() == OTHERS, std::cmp::Reverse(**size)));
    let mut text = "| part | bytes | share |\n| --- | --- | --- |\n".to_owned();
    for (name, size) in rows {
        let percent = size * 100 / whole;
        writeln!(text, "| {name} | {size} | {percent} % |")?;
    }
    writeln!(text, "| all | {whole} | |")?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_count_for_the_crate_of_their_path() {
        for (name, owner) in [
            ("uroce::cm::state::ask", "uroce"),
            ("<uroce::node::Node as core::fmt::Debug>::fmt", "uroce"),
            ("<&T as core::fmt::Debug>::fmt", "core"),
            ("<&mut kit::table::Table>::take", "kit"),
            ("<[kit::Row]>::sort", "kit"),
            ("<u16>::from_ascii_radix", "core"),
            ("ibv_open_device", EXPORTS),
        ] {
            assert_eq!(crate_of(name), owner, "{name}");
        }
    }

    #[test]
    fn every_byte_is_in_one_row() {
        let symbols = "0000000000001000 0000000000002000 t uroce::a\n\
            0000000000001000 0000000000002000 T uroce::b\n\
            0000000000003000 0000000000001000 T ibv_open_device\n\
            0000000000004000 0000000000001000 b uroce::zero\n\
            0000000000005000 0000000000000010 t small::c\n                 U malloc\n";
        let sections = "  [Nr] Name Type Address Off Size ES Flg Lk Inf Al\n\
              [ 1] .text PROGBITS 0000000000001000 001000 004000 00  AX  0   0 16\n\
              [ 2] .bss NOBITS 0000000000005000 005000 001000 00  WA  0   0  8\n\
              [ 3] .eh_frame PROGBITS 0000000000006000 006000 000100 00   A  0   0  8\n\
              [ 4] .init PROGBITS 0000000000007000 007000 000020 00  AX  0   0  4\n\
              [10] .symtab SYMTAB 0000000000000000 008000 000100 18     12  13  8\n";
        let parts = parts(symbols, sections).unwrap();
        let wanted = [
            (EXPORTS, 0x1000),
            (OTHERS, 0x10 + 0x20),
            ("tables for unwinding", 0x100),
            (TEXTS, 0xff0),
            ("uroce", 0x2000),
        ];
        let wanted = wanted.map(|(name, size)| (name.to_owned(), size));
        assert_eq!(parts, BTreeMap::from(wanted));
        let text = table(&parts).unwrap();
        assert!(
            text.ends_with("| others | 48 | 0 % |\n| all | 16672 | |\n"),
            "{text}"
        );
    }

    #[test]
    fn a_stripped_library_is_an_error() {
        assert!(parts("", "").is_err());
    }
}
