//! The figures that the virtual machine measures, in a file of the directory that it shares.
#![forbid(unsafe_code)]

use std::{fs, fs::File, io::Write as _, path::Path};

use anyhow::{Context, Result, bail};

use super::row::Figure;

const NAME: &str = "figures.tsv";
/// Written last, so that a machine that stopped half-way is noticed.
const COMPLETE: &str = "# complete";

/// The file, while it is written.
pub struct FigureFile(File);

impl FigureFile {
    /// An empty one in `dir`.
    pub fn create(dir: &Path) -> Result<Self> {
        let path = dir.join(NAME);
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        Ok(Self(file))
    }

    pub fn write(&mut self, figures: Vec<Figure>) -> Result<()> {
        for figure in figures {
            println!("bench: {figure}");
            writeln!(self.0, "{figure}")?;
        }
        Ok(())
    }

    /// Nothing else is measured.
    pub fn complete(mut self) -> Result<()> {
        writeln!(self.0, "{COMPLETE}")?;
        Ok(())
    }
}

/// The figures of a file that is complete.
pub fn read(dir: &Path) -> Result<Vec<Figure>> {
    let path = dir.join(NAME);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let Some(figures) = text.strip_suffix(&format!("{COMPLETE}\n")) else {
        bail!("{} was not written to its end", path.display());
    };
    figures.lines().map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::{Side, Unit};

    #[test]
    fn figures_are_read_once_they_are_complete() {
        let dir = tempfile::tempdir().unwrap();
        let figure = Figure {
            table: "t".to_owned(),
            row: "r".to_owned(),
            unit: Unit::Nanoseconds,
            side: Side::Ours,
            value: 2.5,
        };
        let mut file = FigureFile::create(dir.path()).unwrap();
        file.write(vec![figure.clone()]).unwrap();
        assert!(read(dir.path()).is_err());
        file.complete().unwrap();
        assert_eq!(read(dir.path()).unwrap(), [figure]);
    }
}
