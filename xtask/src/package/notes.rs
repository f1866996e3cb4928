//! In the throw-away root: the results of tests, in a file of the job's directory.
#![forbid(unsafe_code)]

use std::{fs::File, io::Write, path::Path};

use anyhow::{Context, Result};

use super::{COMPLETE, RESULTS};
use crate::record::{Record, Verdict};

/// The results, one line a test.
pub(super) struct Notes {
    file: File,
    /// Whether no test has failed.
    pub(super) fine: bool,
}

impl Notes {
    pub(super) fn new(job: &Path) -> Result<Self> {
        Ok(Self {
            file: File::create(job.join(RESULTS)).context(RESULTS)?,
            fine: true,
        })
    }

    pub(super) fn add(&mut self, name: &str, result: Result<()>) -> Result<()> {
        let record = match result {
            Ok(()) => Record::new(name, Verdict::Ok, ""),
            Err(error) => {
                self.fine = false;
                Record::new(name, Verdict::Fail, format!("{error:#}"))
            }
        };
        self.note(&record)
    }

    pub(super) fn skip(&mut self, name: &str, reason: &str) -> Result<()> {
        self.note(&Record::new(name, Verdict::Skip, reason))
    }

    /// Adds the line that says that no test is missing.
    pub(super) fn complete(&mut self) -> Result<()> {
        writeln!(self.file, "{COMPLETE}").context(RESULTS)
    }

    fn note(&mut self, record: &Record) -> Result<()> {
        println!("{record}");
        writeln!(self.file, "{record}").context(RESULTS)
    }
}
