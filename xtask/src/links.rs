//! The stage `links`: the targets of links in documents exist. It needs no network: links to other
//! hosts are ignored.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::report::Tally;

pub const STAGE: &str = "links";

/// The table of contents of the user guide, and the folder of its pages.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Looks at every document; each is one test.
pub fn run(root: &Path) -> Tally {
    let mut tally = Tally::default();
    let documents = match documents(root) {
        Ok(documents) => documents,
        Err(error) => {
            tally.fail(format!("{STAGE}: {error:#}"));
            return tally;
        }
    };
    for document in &documents {
        match broken(root, document) {
            Ok(broken) if broken.is_empty() => tally.passed += 1,
            Ok(broken) => tally.fail(format!(
                "{STAGE}: {}: {}",
                document.display(),
                broken.join(", ")
            )),
            Err(error) => tally.fail(format!("{STAGE}: {}: {error:#}", document.display())),
        }
    }
    match contents(root, &documents) {
        Ok(complaints) if complaints.is_empty() => tally.passed += 1,
        Ok(complaints) => tally.fail(format!("{STAGE}: {CONTENTS} {}", complaints.join(", "))),
        Err(error) => tally.fail(format!("{STAGE}: {CONTENTS}: {error:#}")),
    }
    tally
}

/// The documents of the checkout, by their paths in it.
fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    below(root, Path::new(""), &mut found)?;
    found.sort();
    Ok(found)
}

fn below(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    const NOT_OURS: [&str; 4] = ["target", ".git", "vendor", "cargo-target"];
    let dir = root.join(folder);
    for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name();
        let path = folder.join(&name);
        if entry.file_type()?.is_dir() {
            if !NOT_OURS.iter().any(|not| name == *not) {
                below(root, &path, found)?;
            }
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// The links of a document that lead nowhere.
fn broken(root: &Path, document: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(document))?;
    let mut broken = Vec::new();
    for link in links(&text) {
        if !leads_somewhere(root, document, &link)? {
            broken.push(link);
        }
    }
    Ok(broken)
}

fn leads_somewhere(root: &Path, document: &Path, link: &str) -> Result<bool> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(true);
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => document.to_owned(),
        path => {
            let folder = document.parent().unwrap_or(Path::new(""));
            match inside(&folder.join(path)) {
                Some(target) => target,
                None => return Ok(false),
            }
        }
    };
    let target = root.join(target);
    if !target.exists() {
        return Ok(false);
    }
    if anchor.is_empty() {
        return Ok(true);
    }
    let text = fs::read_to_string(&target)?;
    Ok(headings(&text).contains(anchor))
}

/// The path without `..`; `None` if it leads out of the checkout.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            _ => return None,
        }
    }
    Some(plain)
}

/// Lines outside of code, with the text between backticks blanked out.
fn prose(text: &str) -> impl Iterator<Item = String> {
    let mut fenced = false;
    let lines = text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence && !line.starts_with("    ")
    });
    lines.map(|line| {
        let parts = line.split('`').enumerate();
        let kept = parts.map(|(number, part)| if number % 2 == 0 { part } else { "x" });
        kept.collect()
    })
}

/// Where the inline links of a document lead.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(text) {
        for part in line.split("](").skip(1) {
            if let Some((link, _)) = part.split_once(')') {
                links.push(link.trim().to_owned());
            }
        }
    }
    links
}

/// The anchors of a document's headings, as they are made of the words.
fn headings(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// The faults of the table of contents, and of pages as parts of a book. mdbook(1) takes each page
/// once, and no file outside of the folder.
fn contents(root: &Path, documents: &[PathBuf]) -> Result<Vec<String>> {
    let contents = Path::new(CONTENTS);
    let folder = contents.parent().unwrap_or(Path::new(""));
    let named = links(&fs::read_to_string(root.join(contents))?);
    let pages = documents
        .iter()
        .filter(|page| page.parent() == Some(folder) && page.as_path() != contents)
        .filter_map(|page| page.file_name()?.to_str().map(str::to_owned));
    let complaints =
        pages.filter_map(
            |page| match named.iter().filter(|name| **name == page).count() {
                1 => None,
                0 => Some(format!("leaves out {page}")),
                _ => Some(format!("names {page} twice")),
            },
        );
    let mut complaints: Vec<String> = complaints.collect();
    let pages: BTreeSet<PathBuf> = named.iter().map(|name| folder.join(name)).collect();
    for page in pages {
        let Ok(text) = fs::read_to_string(root.join(&page)) else {
            continue;
        };
        let away = links(&text).into_iter().filter(|to| to.starts_with("../"));
        complaints
            .extend(away.map(|to| format!("has {}, which leads out to {to}", page.display())));
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_in_prose_alone() {
        let text =
            "see [a](a.md), [b](b.md#c)\n    [code](no)\n`[code](no)` [c](c)\n```\n[d](no)\n```\n";
        assert_eq!(links(text), ["a.md", "b.md#c", "c"]);
    }

    #[test]
    fn headings_become_anchors() {
        let anchors = headings("# Who owns a QP number?\n## `uroce`: RDMA\ntext\n");
        let wanted = ["who-owns-a-qp-number", "uroce-rdma"];
        assert_eq!(anchors.len(), 2);
        assert!(wanted.iter().all(|anchor| anchors.contains(*anchor)));
    }

    #[test]
    fn missing_targets_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        fs::create_dir(dir.path().join("docs")).unwrap();
        write(
            "docs/a.md",
            "# One\n[b](b.md) [up](../c.md#two) [own](#one)",
        );
        write(
            "docs/b.md",
            "[a](a.md#none) [gone](gone.md) [out](../../x) [web](https://x/y)",
        );
        write("docs/SUMMARY.md", "[a](a.md)");
        write("c.md", "## Two\n");
        let reported = |name: &str| broken(dir.path(), Path::new(name)).unwrap();
        assert!(reported("docs/a.md").is_empty());
        assert_eq!(reported("docs/b.md"), ["a.md#none", "gone.md", "../../x"]);
        let all = documents(dir.path()).unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(
            contents(dir.path(), &all).unwrap(),
            [
                "leaves out b.md",
                "has docs/a.md, which leads out to ../c.md#two"
            ]
        );
        let tally = run(dir.path());
        assert_eq!((tally.passed, tally.failures.len()), (3, 2));
        write("docs/SUMMARY.md", "[a](a.md)\n[b](b.md)\n[a](a.md)");
        assert_eq!(
            contents(dir.path(), &all).unwrap(),
            [
                "names a.md twice",
                "has docs/a.md, which leads out to ../c.md#two",
                "has docs/b.md, which leads out to ../../x"
            ]
        );
    }
}
