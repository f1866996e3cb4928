//! The instructions of a Dockerfile, as far as this project's has them.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};

/// A stage: the image that it begins with, and its instructions, each with its words.
#[derive(Debug, Default, PartialEq)]
pub struct Stage<'a> {
    pub from: String,
    pub instructions: Vec<(&'a str, String)>,
}

/// The stages of a file.
///
/// # Errors
/// An instruction is before the first image, or has no words.
pub fn stages(text: &str) -> Result<Vec<Stage<'_>>> {
    let mut stages: Vec<Stage<'_>> = Vec::new();
    let mut lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    while let Some(line) = lines.next() {
        let (name, words) = line.split_once(' ').context("an instruction of no words")?;
        let mut whole = String::new();
        let mut part = words;
        while let Some(begin) = part.strip_suffix('\\') {
            whole += begin.trim_end();
            whole.push(' ');
            part = lines.next().context("the last line is continued")?.trim();
        }
        whole += part;
        match (name, stages.last_mut()) {
            ("FROM", _) => stages.push(Stage {
                from: whole,
                instructions: Vec::new(),
            }),
            (_, Some(stage)) => stage.instructions.push((name, whole)),
            (_, None) => bail!("{name} is before the first image"),
        }
    }
    Ok(stages)
}

/// The words of an instruction in the form of a JSON list of plain words.
pub fn listed(words: &str) -> Option<Vec<&str>> {
    let inner = words.strip_prefix('[')?.strip_suffix(']')?;
    let words = inner.split(',').map(str::trim);
    words
        .map(|word| word.strip_prefix('"')?.strip_suffix('"'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continued_lines_are_one_instruction() {
        let text = "# x\nFROM a AS b\nRUN one \\\n && two\n\nFROM c\nCMD [\"d\", \"e\"]\n";
        let found = stages(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].from, "a AS b");
        assert_eq!(found[0].instructions, [("RUN", "one && two".to_owned())]);
        assert_eq!(listed(&found[1].instructions[0].1), Some(vec!["d", "e"]));
    }

    #[test]
    fn incomplete_files_are_refused() {
        assert!(stages("RUN x\n").is_err());
        assert!(stages("FROM a\nRUN x \\\n").is_err());
        assert_eq!(listed("ibv_doctor"), None);
    }
}
