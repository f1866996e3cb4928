//! Each variable that the library reads from the environment is in a manual page.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Where the library's sources are.
const SOURCES: [&str; 2] = ["src", "providers"];
/// Folders in them that are not in the library.
const NOT_INSTALLED: [&str; 4] = ["tests", "examples", "ctest", "fuzz"];
/// Words in the sources that look like the name of a variable.
const NO_VARIABLES: [&str; 6] = [
    "ADDR_QUERY",
    "ADDR_RESOLVED",
    "RAW_PACKET",
    "ROUTE_RESOLVED",
    "XRC_RECV",
    "XRC_SEND",
];
/// Read by the compiler.
const OF_THE_BUILD: [&str; 1] = ["FERROVERBS_PROVIDER_DIR"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            found.push(path);
        } else if !NOT_INSTALLED.iter().any(|name| path.ends_with(name)) {
            files_below(&path, found);
        }
    }
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs")
}

/// `A_B`, of capitals, digits and underscores.
fn looks_like_a_variable(word: &str) -> bool {
    let kind = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.contains('_')
        && word.chars().all(kind)
}

/// The enumerators of the headers, whose names the library prints.
fn enumerators() -> BTreeSet<String> {
    let mut headers = Vec::new();
    files_below(&root().join("include"), &mut headers);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let texts = headers.iter().map(|path| fs::read_to_string(path).unwrap());
    texts
        .flat_map(|text| {
            let words = text.split(|c| !is_part(c)).map(str::to_owned);
            words.collect::<Vec<_>>()
        })
        .filter(|word| word.starts_with("IBV_"))
        .collect()
}

/// Quoted words in the sources that look like variables, with the file.
fn variables() -> BTreeMap<String, PathBuf> {
    let enumerators = enumerators();
    let mut sources = Vec::new();
    for folder in SOURCES {
        files_below(&root().join(folder), &mut sources);
    }
    let mut found = BTreeMap::new();
    for path in sources.into_iter().filter(|path| is_source(path)) {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let words = code.split('"').filter(|word| looks_like_a_variable(word));
        for word in words {
            let other = NO_VARIABLES.contains(&word)
                || OF_THE_BUILD.contains(&word)
                // Set by cargo for build scripts.
                || word.starts_with("CARGO_")
                || word.starts_with("IBVERBS_PRIVATE_")
                || enumerators.contains(word);
            if !other {
                found.insert(word.to_owned(), path.clone());
            }
        }
    }
    found
}

#[test]
fn every_variable_is_in_a_manual_page() {
    let found = variables();
    for known in [
        "IBVERBS_TRACE",
        "SYSFS_PATH",
        "UROCE_DEVICES",
        "VERBS_LOG_LEVEL",
    ] {
        assert!(found.contains_key(known), "{known} was not found");
    }
    let page = |name: &str| fs::read_to_string(root().join(super::MANUAL).join(name)).unwrap();
    let (ferroverbs, uroce) = (page("ferroverbs.7"), page("uroce.7"));
    for (variable, path) in found {
        assert!(
            ferroverbs.contains(&variable),
            "ferroverbs(7) lacks {variable}, of {}",
            path.display()
        );
        if variable.starts_with("UROCE_") {
            assert!(uroce.contains(&variable), "uroce(7) lacks {variable}");
        }
    }
}

/// And the documents name no other variable.
#[test]
fn manual_pages_name_no_other_variable() {
    let found = variables();
    for name in ["ferroverbs.7", "uroce.7"] {
        let page = fs::read_to_string(root().join(super::MANUAL).join(name)).unwrap();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for word in page.split(|c| !is_part(c)) {
            if looks_like_a_variable(word) {
                assert!(found.contains_key(word), "{name} names {word}");
            }
        }
    }
}
