//! Idioms that comments and documents do not use.
//!
//! An idiom is a sequence of words, found in one line. Text in backticks is code and does not
//! count. An exception in the list permits an idiom in one file, with a reason.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// Folders without documents of this project.
const FOREIGN: [&str; 3] = ["target", ".git", "vendor"];
/// Endings of manual pages.
const PAGES: [&str; 3] = ["1", "3", "7"];

/// The list of idioms.
#[derive(Default)]
pub struct Idioms {
    idioms: Vec<Idiom>,
    exceptions: Vec<(String, String)>,
}

/// Words, each with its alternatives, and the replacement.
struct Idiom {
    words: Vec<Vec<String>>,
    instead: String,
}

impl Idioms {
    /// # Errors
    /// A line without a replacement or a reason.
    pub fn parse(text: &str) -> Result<Self> {
        let mut list = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let Some((idiom, text)) = line.split_once("  ") else {
                bail!("an idiom needs two blanks and a replacement: {line:?}");
            };
            let text = text.trim().to_owned();
            if let Some(exception) = idiom.strip_prefix("except ") {
                let (file, words) = exception
                    .split_once(": ")
                    .with_context(|| format!("an exception needs a file: {line:?}"))?;
                list.exceptions.push((file.to_owned(), words.to_owned()));
            } else {
                list.idioms.push(Idiom::new(idiom, text));
            }
        }
        Ok(list)
    }

    /// The complaint about a comment in one line of a file, if any.
    pub fn in_line(&self, file: &str, number: usize, text: &str) -> Option<String> {
        let words = words(text);
        self.idioms.iter().find_map(|idiom| {
            let found = idiom.find(&words)?;
            let excepted = |(known, idiom): &(String, String)| known == file && *idiom == found;
            (!self.exceptions.iter().any(excepted))
                .then(|| format!("{number}: idiom \"{found}\", instead: {}", idiom.instead))
        })
    }

    /// The complaints about a document, without its blocks of code.
    pub fn in_document(&self, file: &str, text: &str) -> Vec<String> {
        let mut fenced = false;
        let lines = (1..).zip(text.lines()).filter(|(_, line)| {
            let is_fence = line.trim_start().starts_with("```");
            fenced ^= is_fence;
            !fenced && !is_fence && !line.starts_with("    ")
        });
        lines
            .filter_map(|(number, line)| self.in_line(file, number, line))
            .collect()
    }
}

impl Idiom {
    fn new(words: &str, instead: String) -> Self {
        let words = words
            .split_whitespace()
            .map(|word| word.split('|').map(str::to_owned).collect())
            .collect();
        Self { words, instead }
    }

    /// The words that match.
    fn find(&self, text: &[String]) -> Option<String> {
        let fits = |word: &Vec<String>, found: &String| word.contains(found) || word == &["*"];
        let found = text.windows(self.words.len()).find(|found| {
            let mut pairs = self.words.iter().zip(*found);
            pairs.all(|(word, found)| fits(word, found))
        })?;
        Some(found.join(" "))
    }
}

/// The words of a text in lower case, without text in backticks and fonts of manual pages.
fn words(text: &str) -> Vec<String> {
    let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" x ");
    let prose = ["\\fI", "\\fB", "\\fR"]
        .iter()
        .fold(prose, |prose, font| prose.replace(font, ""));
    prose
        .split(|character: char| !character.is_alphanumeric() && character != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// All documents: Markdown, and manual pages.
///
/// # Errors
/// Those of reading directories.
pub fn documents(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let dir = root.join(folder);
    let mut entries = fs::read_dir(&dir)
        .with_context(|| dir.display().to_string())?
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = folder.join(entry.file_name());
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if FOREIGN.iter().all(|foreign| name != *foreign) {
                documents(root, &path, found)?;
            }
        } else if is_document(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_document(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    ending == "md" || path.starts_with("docs/man") && PAGES.iter().any(|page| ending == *page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Idioms {
        let text = "# Head\n\nnobody  no thread\ngo|goes on  continue\nhold * against  compare\n\
                    except a.md: goes on  a reason\n";
        Idioms::parse(text).unwrap()
    }

    #[test]
    fn idioms_are_found_as_words() {
        let found = |text: &str| list().in_line("a.rs", 3, text);
        assert_eq!(
            found("// It goes on.").unwrap(),
            "3: idiom \"goes on\", instead: continue"
        );
        assert!(found("/// Nobody").is_some());
        assert!(found("hold it against").is_some());
        assert!(found("the user `nobody`, `x` goes `on`").is_none());
        assert!(found("goes only, hold against").is_none());
        assert!(found("ago on").is_none());
    }

    #[test]
    fn exceptions_hold_for_one_file_and_idiom() {
        assert!(list().in_line("a.md", 1, "goes on").is_none());
        assert!(list().in_line("a.md", 1, "go on").is_some());
        assert!(list().in_line("b.md", 1, "goes on").is_some());
    }

    #[test]
    fn code_of_documents_does_not_count() {
        let text = "goes on\n    nobody\n```\nnobody\n```\nnobody\n";
        assert_eq!(
            list().in_document("b.md", text),
            [
                "1: idiom \"goes on\", instead: continue",
                "6: idiom \"nobody\", instead: no thread"
            ]
        );
    }

    #[test]
    fn each_line_has_a_replacement() {
        assert!(Idioms::parse("nobody\n").is_err());
        assert!(Idioms::parse("except nobody  reason\n").is_err());
    }
}
