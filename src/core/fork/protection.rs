#![forbid(unsafe_code)]
//! Keeps the kernel's marks in step with the counts: a page is marked while it lies in a live
//! range.

use super::counts::{PageCounts, Pages};
use kit::errno::{Errno, Result};

/// Who sets and clears the marks: the kernel, or a test.
pub trait Marks {
    /// Keeps the pages out of forked children.
    ///
    /// # Errors
    /// Those of madvise(2) with `MADV_DONTFORK`; part of the pages may be marked then.
    fn mark(&mut self, pages: Pages) -> Result<()>;

    /// Called before [`mark`](Self::mark) for a page out of the neighbourhood of marked ones.
    fn prepare(&mut self, page: u64);

    /// Lets forked children have the pages again.
    ///
    /// # Errors
    /// Those of madvise(2) with `MADV_DOFORK`. After ENOMEM (some of it is not mapped) the rest
    /// of the pages is clear; after another error the pages behind the failure may be marked.
    fn clear(&mut self, pages: Pages) -> Result<()>;
}

/// The live ranges of a process and their marks.
pub struct Protection<M> {
    counts: PageCounts,
    marks: M,
    /// Pages that should be clear but for a want of kernel memory or map entries (EAGAIN) are
    /// not yet.
    owed: Vec<Pages>,
}

/// The pages that one mark has to reach: from the first that is clear to the last.
struct Clear {
    span: Pages,
    runs: usize,
}

impl<M: Marks> Protection<M> {
    /// No live range.
    pub const fn new(marks: M) -> Self {
        Self {
            counts: PageCounts::new(),
            marks,
            owed: Vec::new(),
        }
    }

    /// Takes the first memory, so that the first range needs none.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn reserve(&mut self) -> Result<()> {
        self.counts.reserve()
    }

    /// Adds a live range; its pages that lay in none are marked.
    ///
    /// # Errors
    /// ENOMEM, and those of madvise(2); everything is then as before.
    pub fn protect(&mut self, pages: Pages) -> Result<()> {
        if let Some((spot, clear)) = self.counts.clear_near(&pages) {
            if !clear.is_empty() {
                self.mark_all(clear.span(), clear.is_run())?;
            }
            self.counts.add_at(&spot);
            return Ok(());
        }
        self.protect_far(pages)
    }

    fn protect_far(&mut self, pages: Pages) -> Result<()> {
        self.counts.reserve()?;
        let clear = self.clear_in(pages.clone());
        if clear.runs > 0 && !self.counts.counts_near(clear.span.start) {
            self.marks.prepare(clear.span.start);
        }
        if clear.runs > 0 {
            self.mark_all(clear.span, clear.runs == 1)?;
        }
        self.counts.add(pages);
        Ok(())
    }

    /// Marks the clear pages of a span that begins and ends with one; `run` says that they are
    /// all of it.
    fn mark_all(&mut self, span: Pages, run: bool) -> Result<()> {
        if run {
            return self.mark(span);
        }
        self.mark_between(span)
    }

    /// Takes a live range away; its pages that lie in no other are cleared. Pages that lie in
    /// no live range are left alone.
    ///
    /// # Errors
    /// ENOMEM; everything is then as before. What madvise(2) says is no error here: pages that
    /// cannot be cleared are either not there any more, or cleared by a later call.
    pub fn give_back(&mut self, pages: Pages) -> Result<()> {
        let Some((spot, single)) = self.counts.single_near(&pages) else {
            return self.give_back_far(pages);
        };
        if single.is_empty() {
            self.counts.remove_at(&spot);
            return Ok(());
        }
        let before = self.owed.len();
        for run in single.runs() {
            clear_all(&mut self.marks, run, &mut self.owed);
        }
        self.counts.remove_at(&spot);
        if before > 0 {
            self.settle();
        }
        Ok(())
    }

    fn give_back_far(&mut self, pages: Pages) -> Result<()> {
        self.counts.reserve()?;
        let Self {
            counts,
            marks,
            owed,
        } = self;
        let before = owed.len();
        let mut cleared = false;
        let Ok(()) = counts.runs::<std::convert::Infallible>(pages.clone(), 1, |run| {
            cleared = true;
            clear_all(marks, run, owed);
            Ok(())
        });
        counts.remove(pages);
        if cleared && before > 0 {
            self.settle();
        }
        Ok(())
    }

    fn clear_in(&self, pages: Pages) -> Clear {
        let mut clear = Clear {
            span: pages.end..pages.end,
            runs: 0,
        };
        let Ok(()) = self
            .counts
            .runs::<std::convert::Infallible>(pages, 0, |run| {
                clear.span.start = clear.span.start.min(run.start);
                clear.span.end = run.end;
                clear.runs += 1;
                Ok(())
            });
        clear
    }

    /// Marks one run of clear pages.
    fn mark(&mut self, run: Pages) -> Result<()> {
        self.marks
            .mark(run.clone())
            .inspect_err(|_| clear_all(&mut self.marks, run, &mut self.owed))
    }

    /// Marks clear pages with marked ones between them. One call over all of them costs little
    /// more than one for the first alone; where that fails, perhaps because a marked page is not
    /// mapped any more, each run stands for itself.
    fn mark_between(&mut self, span: Pages) -> Result<()> {
        if self.marks.mark(span.clone()).is_ok() {
            return Ok(());
        }
        let Self {
            counts,
            marks,
            owed,
        } = self;
        let marked = counts.runs(span.clone(), 0, |run| marks.mark(run));
        if marked.is_err() {
            let Ok(()) = counts.runs::<std::convert::Infallible>(span, 0, |run| {
                clear_all(marks, run, owed);
                Ok(())
            });
        }
        marked
    }

    /// Tries again to clear what an earlier call could not.
    fn settle(&mut self) {
        for pages in std::mem::take(&mut self.owed) {
            let Self {
                counts,
                marks,
                owed,
            } = self;
            let Ok(()) = counts.runs::<std::convert::Infallible>(pages, 0, |run| {
                clear_all(marks, run, owed);
                Ok(())
            });
        }
    }
}

/// Clears every page of `pages` that can be. A failure leaves the pages behind it as they were,
/// so halves are tried, down to the page that fails: a part of a huge page, say, that has been
/// mapped there meanwhile.
fn clear_all(marks: &mut impl Marks, pages: Pages, owed: &mut Vec<Pages>) {
    let Err(error) = marks.clear(pages.clone()) else {
        return;
    };
    if error == Errno::NOMEM {
        return;
    }
    if error == Errno::AGAIN {
        owe(owed, pages);
        return;
    }
    let Some(middle) = middle(&pages) else {
        return;
    };
    clear_all(marks, pages.start..middle, owed);
    clear_all(marks, middle..pages.end, owed);
}

/// The roundest page number inside, so that huge pages are not cut; none in a single page.
fn middle(pages: &Pages) -> Option<u64> {
    let last = pages.end.checked_sub(1)?;
    if last <= pages.start {
        return None;
    }
    // The highest bit in which the ends differ: below it `last` is rounded down.
    let bit = (pages.start ^ last).ilog2();
    Some(last >> bit << bit)
}

fn owe(owed: &mut Vec<Pages>, pages: Pages) {
    if let Some(last) = owed.last_mut()
        && last.end == pages.start
    {
        last.end = pages.end;
        return;
    }
    if owed.try_reserve(1).is_ok() {
        owed.push(pages);
    }
}

#[cfg(test)]
mod tests;
