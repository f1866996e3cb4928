//! The stage `circles`: modules of a crate do not import each other in a circle.
//!
//! | file | contents |
//! | --- | --- |
//! | `modules` | the modules of a crate: their files, and the items that each defines, re-exports and names |
//! | `graph` | which module needs which, and the circles in the graph |
//!
//! A module needs another when it names an item of it. A name that a module only re-exports counts
//! as the module's that defines it, so a `mod.rs` that gathers the names of its folder is in no
//! circle. So does a name that a child takes from its parent's private imports. Tests do not count:
//! they may use the code that they test. `circles.txt` lists the allowed circles, each with its
//! reason. A circle that is not within one of those is a failure, and so is an allowed one that
//! does not exist any more.
#![forbid(unsafe_code)]

mod graph;
mod modules;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::report::Tally;
use graph::{Circle, Graph};
use modules::Crate;

pub const STAGE: &str = "circles";

/// The circles that are allowed.
const ALLOWED: &str = "xtask/circles.txt";

/// An allowed circle.
#[derive(Debug, PartialEq)]
struct Allowed {
    package: String,
    circle: Circle,
}

/// Looks at every crate of the workspace; each is one test.
pub fn run(root: &Path) -> Tally {
    Tally::of(STAGE, |tally| look(root, tally))
}

fn look(root: &Path, tally: &mut Tally) -> Result<()> {
    let allowed = fs::read_to_string(root.join(ALLOWED)).context(ALLOWED)?;
    let allowed = parse(&allowed)?;
    for folder in packages(root)? {
        let package = folder.display().to_string();
        let package = if package.is_empty() { "." } else { &package };
        let graph = Graph::new(&Crate::read(&root.join(&folder).join("src"))?);
        let circles = graph.circles();
        let complaints = complaints(package, &circles, &allowed);
        if !complaints.is_empty() {
            let imports = circles.iter().flat_map(|circle| graph.imports(circle));
            imports.for_each(|line| println!("{package}: {line}"));
        }
        if complaints.is_empty() {
            tally.passed += 1;
        }
        complaints.into_iter().for_each(|line| tally.fail(line));
    }
    Ok(())
}

/// The complaints about the circles of a package.
fn complaints(package: &str, circles: &[Circle], allowed: &[Allowed]) -> Vec<String> {
    let of_package = || allowed.iter().filter(|allowed| allowed.package == package);
    let new = circles
        .iter()
        .filter(|circle| !of_package().any(|allowed| circle.is_subset(&allowed.circle)))
        .map(|circle| format!("{STAGE}: {package}: new circle of {}", words(circle)));
    let gone = of_package()
        .filter(|allowed| !circles.contains(&allowed.circle))
        .map(|allowed| {
            let left: Vec<_> = circles
                .iter()
                .filter(|circle| circle.is_subset(&allowed.circle))
                .map(words)
                .collect();
            format!(
                "{STAGE}: {package}: {ALLOWED} allows the circle of {}; now it is: {}",
                words(&allowed.circle),
                if left.is_empty() {
                    "none".to_owned()
                } else {
                    left.join(" / ")
                }
            )
        });
    new.chain(gone).collect()
}

fn words(circle: &Circle) -> String {
    circle.iter().cloned().collect::<Vec<_>>().join(" ")
}

/// The packages of the workspace, by their folders in it.
fn packages(root: &Path) -> Result<Vec<PathBuf>> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let members = manifest
        .lines()
        .find_map(|line| line.strip_prefix("members = "))
        .context("Cargo.toml has no line `members = `")?;
    let mut packages = vec![PathBuf::new()];
    packages.extend(members.split('"').skip(1).step_by(2).map(PathBuf::from));
    // Where it is a link, the sources are those of another package.
    let own = |folder: &PathBuf| root.join(folder).join("src");
    packages.retain(|folder| own(folder).is_dir() && !own(folder).is_symlink());
    Ok(packages)
}

/// Reads lines of the form `PACKAGE: MODULE MODULE...`; each has its reason in comment lines above.
fn parse(text: &str) -> Result<Vec<Allowed>> {
    let mut allowed = Vec::new();
    let mut reason = false;
    for line in text.lines().map(str::trim) {
        if line.is_empty() {
            reason = false;
        } else if line.starts_with('#') {
            reason = true;
        } else {
            let (package, modules) = line
                .split_once(": ")
                .with_context(|| format!("{ALLOWED}: no package in {line:?}"))?;
            if !reason {
                bail!("{ALLOWED}: no reason above {line:?}");
            }
            allowed.push(Allowed {
                package: package.to_owned(),
                circle: modules.split_whitespace().map(str::to_owned).collect(),
            });
        }
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(words: &str) -> Circle {
        words.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn allowed_circles_have_reasons() {
        let text = "# Head.\n\n# They call each other.\nxtask: a b\n";
        let expected = Allowed {
            package: "xtask".to_owned(),
            circle: circle("a b"),
        };
        assert_eq!(parse(text).unwrap(), [expected]);
        assert!(parse("# Head.\n\nxtask: a b\n").is_err());
        assert!(parse("# Reason.\na b\n").is_err());
    }

    #[test]
    fn new_and_gone_circles_are_reported() {
        let allowed = parse("# Reason.\np: a b c\n").unwrap();
        assert_eq!(complaints("p", &[circle("a b c")], &allowed), [""; 0]);
        let new = complaints("p", &[circle("a b c"), circle("d e")], &allowed);
        assert_eq!(new, ["circles: p: new circle of d e"]);
        let smaller = complaints("p", &[circle("a b")], &allowed);
        assert_eq!(smaller.len(), 1, "{smaller:?}");
        assert!(smaller.concat().ends_with("now it is: a b"));
        assert_eq!(complaints("q", &[circle("a b")], &allowed).len(), 1);
    }

    #[test]
    fn the_workspace_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let packages = packages(&root).unwrap();
        assert!(packages.contains(&PathBuf::new()), "{packages:?}");
        assert!(packages.contains(&PathBuf::from("xtask")), "{packages:?}");
    }
}
