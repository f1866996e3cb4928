//! The stage `style`: comments have lines of at most 100 columns, names that were replaced by the
//! field's words do not come back, and neither do idioms in comments and documents.
//!
//! It reads Rust and C files, and documents. A row of a table in documentation may be longer, and
//! has to be one line, because rustdoc takes the rest of a broken row for another row.
//! `retired.txt` lists names with their replacements; only code counts there, because in comments
//! and strings these words are plain English. `idioms.txt` lists idioms with their replacements;
//! comments, documents, and the names of functions count there (see [`idioms`]). The name of a test
//! is a sentence with a subject: it does not begin with `what` or `who`.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::report::Tally;

mod idioms;

use idioms::Idioms;

pub const STAGE: &str = "style";

/// The names that are not used any more.
const RETIRED: &str = "xtask/retired.txt";
/// The idioms that are not used any more.
const IDIOMS: &str = "xtask/idioms.txt";
/// Columns of a line of a comment.
const WIDTH: usize = 100;
/// Columns of a tab in C.
const TAB: usize = 8;
/// Folders with source files of this project.
const FOLDERS: [&str; 8] = [
    "c-tests",
    "examples",
    "include",
    "providers",
    "rdmacm",
    "src",
    "tools",
    "xtask",
];

/// Looks at every file; each is one test.
pub fn run(root: &Path) -> Tally {
    Tally::of(STAGE, |tally| look(root, tally))
}

fn look(root: &Path, tally: &mut Tally) -> Result<()> {
    let retired = fs::read_to_string(root.join(RETIRED)).context(RETIRED)?;
    let retired = retired_names(&retired);
    let idioms = fs::read_to_string(root.join(IDIOMS)).context(IDIOMS)?;
    let idioms = Idioms::parse(&idioms)?;
    let mut files = vec![PathBuf::from("build.rs"), PathBuf::from("stub/library.rs")];
    for folder in FOLDERS {
        below(root, Path::new(folder), &mut files)?;
    }
    let mut documents = Vec::new();
    idioms::documents(root, Path::new(""), &mut documents)?;
    let is_document = |at: usize| at >= files.len();
    for (at, file) in files.iter().chain(&documents).enumerate() {
        let shown = file.display().to_string();
        let text = fs::read_to_string(root.join(file)).with_context(|| shown.clone())?;
        let complaints = if is_document(at) {
            idioms.in_document(&shown, &text)
        } else {
            complaints(&shown, &text, &retired, &idioms)
        };
        if complaints.is_empty() {
            tally.passed += 1;
        }
        for complaint in complaints {
            tally.fail(format!("{STAGE}: {shown}:{complaint}"));
        }
    }
    Ok(())
}

fn below(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let dir = root.join(folder);
    let mut entries = fs::read_dir(&dir)
        .with_context(|| dir.display().to_string())?
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                below(root, &path, found)?;
            }
        } else if path
            .extension()
            .is_some_and(|ending| ["rs", "c", "h"].iter().any(|known| ending == *known))
        {
            found.push(path);
        }
    }
    Ok(())
}

/// The first word of each line that is no comment.
fn retired_names(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// The complaints about a source file: line numbers, and reasons.
fn complaints(file: &str, text: &str, retired: &[&str], idioms: &Idioms) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut code = Code::default();
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        let (names, comment) = code.split(line);
        if is_comment(line) && !is_table(line) && width(line) > WIDTH {
            let width = width(line);
            complaints.push(format!(
                "{number}: a comment has {width} columns, {WIDTH} are allowed"
            ));
        }
        fenced ^= is_fence(line);
        if is_table(line) && !fenced && !line.trim_end().ends_with('|') {
            complaints.push(format!("{number}: a row of a table is broken into lines"));
        }
        for name in names.iter().filter(|name| retired.contains(&name.as_str())) {
            complaints.push(format!(
                "{number}: {name} is not used any more, see {RETIRED}"
            ));
        }
        complaints.extend(idioms.in_line(file, number, &comment));
        if let Some(name) = function(&names) {
            complaints.extend(idioms.in_line(file, number, &name.replace('_', " ")));
            if ["what_", "who_"].iter().any(|word| name.starts_with(word)) {
                complaints.push(format!("{number}: {name} has no subject"));
            }
        }
    }
    complaints
}

/// The function that a line declares.
fn function(names: &[String]) -> Option<&str> {
    let mut pairs = names.windows(2);
    let declared = pairs.find(|pair| pair.first().is_some_and(|word| word == "fn"))?;
    declared.last().map(String::as_str)
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    ["//", "/*", "* "]
        .iter()
        .any(|begin| line.starts_with(begin))
}

/// A row of a table in documentation.
fn is_table(line: &str) -> bool {
    documentation(line).is_some_and(|text| text.starts_with('|'))
}

/// The begin or the end of an example or a diagram in documentation.
fn is_fence(line: &str) -> bool {
    documentation(line).is_some_and(|text| text.starts_with("```"))
}

/// The text of a line of documentation.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = ["///", "//!"]
        .iter()
        .find_map(|begin| line.strip_prefix(begin))?;
    Some(text.trim_start())
}

fn width(line: &str) -> usize {
    line.chars().fold(0, |at, character| match character {
        '\t' => (at / TAB + 1) * TAB,
        _ => at + 1,
    })
}

/// Separates code from comments and strings, line by line.
#[derive(Default)]
struct Code {
    /// Within a comment that ends in a later line, or a string.
    inside: Option<Inside>,
}

#[derive(Clone, PartialEq)]
enum Inside {
    Comment,
    String,
    /// A raw string, which ends with a quote and that many `#`.
    Raw(usize),
}

impl Code {
    /// The names in the code of the next line, and the text of its comments.
    fn split(&mut self, line: &str) -> (Vec<String>, String) {
        let mut names = Vec::new();
        let mut comment = String::new();
        let mut name = String::new();
        let mut rest = line;
        while let Some(character) = rest.chars().next() {
            if let Some(inside) = self.inside.clone() {
                if inside == Inside::Comment {
                    comment.push(character);
                }
                rest = self.skip(&inside, rest);
                continue;
            }
            if character.is_alphanumeric() || character == '_' {
                name.push(character);
                rest = rest.split_at(character.len_utf8()).1;
                continue;
            }
            let raw = is_raw(&name);
            if !raw || character != '"' && character != '#' {
                names.extend((!name.is_empty()).then(|| name.clone()));
            }
            name.clear();
            if rest.starts_with("//") {
                comment.push_str(rest);
                return (names, comment);
            }
            rest = self.begin(raw, rest);
        }
        names.extend((!name.is_empty()).then_some(name));
        (names, comment)
    }

    /// Skips the beginning of a comment or a string, or punctuation.
    fn begin<'a>(&mut self, raw: bool, rest: &'a str) -> &'a str {
        if let Some(rest) = rest.strip_prefix("/*") {
            self.inside = Some(Inside::Comment);
            return rest;
        }
        let fences = rest.len() - rest.trim_start_matches('#').len();
        if raw && let Some(rest) = rest.trim_start_matches('#').strip_prefix('"') {
            self.inside = Some(Inside::Raw(fences));
            return rest;
        }
        if let Some(rest) = rest.strip_prefix('"') {
            self.inside = Some(Inside::String);
            return rest;
        }
        let quoted = ["'\"'", "'\\\"'", "'\\''"];
        if let Some(rest) = quoted.iter().find_map(|quoted| rest.strip_prefix(quoted)) {
            return rest;
        }
        let mut characters = rest.chars();
        characters.next();
        characters.as_str()
    }

    /// Skips the next character of a comment or string, or its end.
    fn skip<'a>(&mut self, inside: &Inside, rest: &'a str) -> &'a str {
        let end = match inside {
            Inside::Comment => "*/".to_owned(),
            Inside::String => "\"".to_owned(),
            Inside::Raw(fences) => format!("\"{}", "#".repeat(*fences)),
        };
        if let Some(rest) = rest.strip_prefix(&end) {
            self.inside = None;
            return rest;
        }
        let mut characters = rest.chars();
        if characters.next() == Some('\\') && *inside == Inside::String {
            characters.next();
        }
        characters.as_str()
    }
}

/// Whether a name is the prefix of a raw string.
fn is_raw(name: &str) -> bool {
    ["r", "br", "cr"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_comments_are_reported_and_tables_are_not() {
        let long = "x".repeat(96);
        let text = format!("// {long} y\n/// | {long} |\nlet a = 1; // {long}\n\t/* {long}\n");
        let complaints = complaints("a.rs", &text, &[], &Idioms::default());
        assert_eq!(
            complaints,
            [
                "1: a comment has 101 columns, 100 are allowed",
                "4: a comment has 107 columns, 100 are allowed"
            ]
        );
    }

    #[test]
    fn a_row_of_a_table_is_one_line() {
        let text = "/// | a | b |\n//! | a | the first\n//! line |\nlet or = a\n    || b;\n\
                    /// ```text\n/// | output\n/// ```\n";
        let complaints = complaints("a.rs", text, &[], &Idioms::default());
        assert_eq!(complaints, ["2: a row of a table is broken into lines"]);
    }

    #[test]
    fn names_of_functions_are_sentences() {
        let idioms = Idioms::parse("nobody  no thread\ngo|goes on  continue\n").unwrap();
        let text = "pub(super) fn it_goes_on() {\nfn what_it_does() {\nfn goes() {}\n\
                    let nobody = || what_it_does();\n";
        let complaints = complaints("a.rs", text, &[], &idioms);
        assert_eq!(
            complaints,
            [
                "1: idiom \"goes on\", instead: continue",
                "2: what_it_does has no subject"
            ]
        );
    }

    #[test]
    fn retired_names_are_reported_in_code_alone() {
        let retired = retired_names("# Head.\n\nDoor  RendezvousSocket\nsee_off  tear_down\n");
        assert_eq!(retired, ["Door", "see_off"]);
        let text = "fn f(d: Door) {}\n// Door\nlet t = \"Door \\\" Door\"; see_off();\n\
                    let r = r#\"Door \" Door\"#;\n/* Door\n Door */ Door\n\
                    let c = '\"'; Door\nDoors door\nlet m = \"Door\nDoor\"; x\n";
        let lines: Vec<_> = complaints("a.rs", text, &retired, &Idioms::default())
            .iter()
            .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(lines, ["1: Door", "3: see_off", "6: Door", "7: Door"]);
    }

    #[test]
    fn the_lists_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fs::read_to_string(root.join(RETIRED)).unwrap();
        assert!(retired_names(&text).contains(&"Door"));
        let idioms = fs::read_to_string(root.join(IDIOMS)).unwrap();
        let idioms = Idioms::parse(&idioms).unwrap();
        let complaints = complaints(
            "a.rs",
            "let x: Door; // Nobody waits.\n/* It goes\n on. */",
            &retired_names(&text),
            &idioms,
        );
        assert_eq!(complaints.len(), 2, "{complaints:?}");
    }
}
