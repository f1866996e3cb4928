//! Extracts the example code from the installed manual pages, so that the tests compile and run it.

use std::{fs, path::Path, process::Command};

use crate::Result;

/// The pages with example code, and how many `.nf` blocks their section
/// EXAMPLES has.
const PAGES: [(&str, usize); 2] = [("ibv_get_cq_event", 2), ("ibv_get_async_event", 1)];

/// Writes each fragment to `dir/<page>.<block>.<part>.inc`, counted from 1. A
/// block is split into parts where the page leaves code out (a run of lines
/// that hold one dot).
///
/// # Errors
/// When a page is not installed (package libibverbs-dev) or has another number
/// of examples than known.
pub fn extract_all(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    for (page, blocks) in PAGES {
        let found = examples(&read_page(page)?);
        if found.len() != blocks {
            return Err(format!("{page}(3): {} examples, {blocks} known", found.len()).into());
        }
        for (b, parts) in found.iter().enumerate() {
            for (p, part) in parts.iter().enumerate() {
                write_if_changed(&dir.join(format!("{page}.{}.{}.inc", b + 1, p + 1)), part)?;
            }
        }
    }
    Ok(())
}

fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    // An unchanged file keeps its time, and the programs stay fresh.
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    Ok(fs::write(path, text)?)
}

fn read_page(page: &str) -> Result<String> {
    let path = format!("/usr/share/man/man3/{page}.3.gz");
    let output = Command::new("gzip").args(["-dc", &path]).output()?;
    if !output.status.success() {
        return Err(format!("{path} cannot be read: install the package libibverbs-dev").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The code blocks of the section EXAMPLES, each as its parts.
fn examples(roff: &str) -> Vec<Vec<String>> {
    let mut in_section = false;
    let mut block: Option<Vec<String>> = None;
    let mut blocks = Vec::new();
    for line in roff.lines() {
        if line.starts_with(".SH") {
            in_section = line.contains("EXAMPLE");
            continue;
        }
        if !in_section {
            continue;
        }
        match (line, &mut block) {
            (".nf", _) => block = Some(Vec::new()),
            (".fi", Some(lines)) => {
                blocks.push(split_at_dots(lines));
                block = None;
            }
            (_, Some(lines)) if !line.starts_with('.') => lines.push(unescape(line)),
            _ => {}
        }
    }
    blocks
}

fn unescape(line: &str) -> String {
    line.replace("\\&", "")
        .replace("\\-", "-")
        .replace("\\e", "\\")
}

fn split_at_dots(lines: &[String]) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_dot = false;
    for line in lines {
        if line == "." {
            after_dot = true;
            continue;
        }
        if after_dot {
            parts.push(String::new());
            after_dot = false;
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_taken_from_the_examples_section_alone() {
        let page = ".SH \"SYNOPSIS\"\n.nf\nno\n.fi\n.SH \"EXAMPLES\"\ntext\n.nf\na(\"x\\en\");\n.PP\n\
                    \\&.\n\\&.\nb;\n.fi\nmore\n.nf\nc;\n.fi\n.SH \"SEE ALSO\"\n.nf\nno\n.fi\n";
        let found = examples(page);
        assert_eq!(
            found,
            [
                vec!["a(\"x\\n\");\n".to_owned(), "b;\n".to_owned()],
                vec!["c;\n".to_owned()]
            ]
        );
    }
}
