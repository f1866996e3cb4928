//! The lines in which C tests over the library's own providers are known to differ.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, bail};

/// Lists among the expected ones: over the provider for rxe, and over uroce.
pub const RUST: &str = "c-tests.rust.diff";
pub const UROCE: &str = "c-tests.uroce.diff";

/// By program: the differences, with their reasons.
#[derive(Debug)]
pub struct Known {
    file: &'static str,
    programs: BTreeMap<String, Vec<String>>,
}

impl Known {
    /// Reads a list.
    pub fn load(expected: &Path, file: &'static str) -> Result<Self> {
        let path = expected.join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let programs = Self::parse(&text).with_context(|| path.display().to_string())?;
        Ok(Self { file, programs })
    }

    /// `== PROGRAM`, then its lines in the form of a difference: `-` the reference's, `+` its own.
    /// Lines that begin with `#` are comments; each program has one with the reason.
    fn parse(text: &str) -> Result<BTreeMap<String, Vec<String>>> {
        let mut programs = BTreeMap::new();
        let mut blocks = text.split("\n== ");
        blocks.next();
        for block in blocks {
            let mut lines = block.lines();
            let name = lines.next().unwrap_or_default().to_owned();
            let (reasons, lines): (Vec<_>, Vec<_>) = lines
                .filter(|line| !line.is_empty())
                .partition(|line| line.starts_with('#'));
            if reasons.is_empty() {
                bail!("{name} differs for no reason");
            }
            if let Some(odd) = lines.iter().find(|line| !line.starts_with(['-', '+'])) {
                bail!("{name}: neither - nor +: {odd}");
            }
            let lines = lines.into_iter().map(str::to_owned).collect();
            if programs.insert(name.clone(), lines).is_some() {
                bail!("{name} is there twice");
            }
        }
        Ok(programs)
    }

    /// The comment in the list about a difference, line by line. `title` is that of the comparison,
    /// `text` all that it printed. A program that did not end well is never known.
    pub fn reason(&self, title: &str, text: &str) -> Option<String> {
        let (program, place) = named(title)?;
        if place.contains(": ") {
            return None;
        }
        let known = self.programs.get(program)?;
        let same = changed(title, text).eq(known.iter().map(String::as_str));
        same.then(|| format!("{program} differs in the lines of expected/{}", self.file))
    }

    /// Programs of the list that none of the comparisons' titles names: they do not differ any
    /// more.
    pub fn stale(&self, titles: &[String]) -> Vec<String> {
        let differ: Vec<&str> = titles
            .iter()
            .filter_map(|title| Some(named(title)?.0))
            .collect();
        let known = self.programs.keys();
        let gone = known.filter(|program| !differ.contains(&program.as_str()));
        gone.map(|program| {
            format!(
                "{program} does not differ, but is in expected/{}",
                self.file
            )
        })
        .collect()
    }
}

/// The program of a comparison's title, and where it ran.
fn named(title: &str) -> Option<(&str, &str)> {
    title.split_once(' ')?.1.split_once(" on ")
}

/// The lines of a paragraph that one side has and the other has not.
fn changed<'a>(title: &str, text: &'a str) -> impl Iterator<Item = &'a str> {
    let is_title = move |line: &&str| line.strip_suffix(':') == Some(title);
    // Two lines follow that name the sides, as printed lines may look as well.
    text.lines()
        .skip_while(move |line| !is_title(line))
        .skip(3)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with(['-', '+']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLE: &str = "stock-gcc rxe/qp on /x";
    const TEXT: &str = "stock-gcc rxe/cq on /x:\n--- reference\n+++ found\n-other\n\n\
                        stock-gcc rxe/qp on /x:\n--- reference\n+++ found\n@@ -1 +1 @@\n \
                        same\n--- a\n+b\n\n7 outputs agree, 2 differ\n";

    fn of(text: &str) -> Result<Known> {
        let programs = Known::parse(text)?;
        Ok(Known {
            file: RUST,
            programs,
        })
    }

    #[test]
    fn a_difference_is_known_with_all_its_lines_and_no_other() -> Result<()> {
        let known = |lines: &str| of(&format!("# all\n\n== rxe/qp\n# why\n{lines}"));
        assert!(known("--- a\n+b\n")?.reason(TITLE, TEXT).is_some());
        for other in ["", "--- a\n", "+b\n--- a\n", "--- a\n+b\n+c\n"] {
            assert_eq!(known(other)?.reason(TITLE, TEXT), None, "{other}");
        }
        Ok(())
    }

    #[test]
    fn a_program_that_ends_badly_is_never_known() -> Result<()> {
        let known = of("\n== rxe/qp\n# why\n")?;
        for title in ["signal 11", "exit 1", "hung"].map(|how| format!("{TITLE}: {how}")) {
            assert_eq!(known.reason(&title, &format!("{title}\n")), None);
        }
        assert_eq!(known.reason("stock-gcc rxe/qp: not run", TEXT), None);
        assert_eq!(known.reason("stock-gcc rxe/mr on /x", TEXT), None);
        Ok(())
    }

    #[test]
    fn known_differences_that_are_gone_leave_the_list() -> Result<()> {
        let known = of("\n== rxe/qp\n# why\n-a\n\n== rxe/cq\n# why\n-a\n")?;
        let both = [
            TITLE.to_owned(),
            "stock-gcc rxe/cq on /x: exit 1".to_owned(),
        ];
        assert!(known.stale(&both).is_empty());
        let stale = known.stale(&both[..1]);
        assert_eq!(stale.len(), 1);
        assert!(stale[0].starts_with("rxe/cq "));
        Ok(())
    }

    #[test]
    fn a_list_has_each_reason_once() {
        for bad in [
            "\n== rxe/qp\n-a\n",
            "\n== rxe/qp\n# why\n a\n",
            "\n== rxe/qp\n# why\n-a\n\n== rxe/qp\n# why\n-b\n",
        ] {
            assert!(Known::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_lists_can_be_read() -> Result<()> {
        let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected");
        for file in [RUST, UROCE] {
            assert!(!Known::load(&expected, file)?.programs.is_empty());
        }
        Ok(())
    }
}
