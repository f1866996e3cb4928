#![forbid(unsafe_code)]
//! Keeps the kernel's marks in step with the counts: a page is marked while it lies in a live
//! range.

use super::counts::{Block, PageCounts, Pages};
use kit::errno::{Errno, Result};

/// Sets and clears the marks: the kernel, or a test.
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

    /// The fast path of [`protect`](Self::protect), where no mark changes and the pages are few;
    /// returns whether it was taken.
    #[inline(always)]
    pub fn protect_again(&mut self, pages: &Pages) -> bool {
        self.counts.add_again(pages)
    }

    /// Adds a live range; its pages that lay in none are marked.
    ///
    /// # Errors
    /// ENOMEM, and those of madvise(2); everything is then as before.
    #[inline(always)]
    pub fn protect(&mut self, pages: Pages) -> Result<()> {
        let Some(one) = self.counts.in_one_leaf(&pages) else {
            return self.protect_across(pages);
        };
        let clear = self.counts.clear_of(&one);
        if self.counts.is_idle(&one) {
            self.marks.prepare(pages.start);
        }
        if !clear.is_empty() {
            self.mark_all(clear.span(), clear.is_run())?;
        }
        self.counts.add_to(&one);
        Ok(())
    }

    #[inline(never)]
    fn protect_across(&mut self, pages: Pages) -> Result<()> {
        let Some((spot, clear)) = self.counts.clear_near(&pages) else {
            return self.protect_far(pages);
        };
        if !clear.is_empty() {
            self.prepare(clear.span().start);
            self.mark_all(clear.span(), clear.is_run())?;
        }
        self.counts.add_at(&spot);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn protect_far(&mut self, pages: Pages) -> Result<()> {
        self.counts.reserve()?;
        let clear = self.clear_in(pages.clone());
        if clear.runs > 0 {
            self.prepare(clear.span.start);
            self.mark_all(clear.span, clear.runs == 1)?;
        }
        self.counts.add(pages);
        Ok(())
    }

    fn prepare(&mut self, page: u64) {
        if !self.counts.counts_near(page) {
            self.marks.prepare(page);
        }
    }

    /// Marks the clear pages of a span that begins and ends with one; `run` means that all its
    /// pages are clear.
    #[inline(always)]
    fn mark_all(&mut self, span: Pages, run: bool) -> Result<()> {
        if run {
            return self.mark(span);
        }
        self.mark_between(span)
    }

    /// The fast path of [`give_back`](Self::give_back), where no mark changes and the pages are
    /// few; returns whether it went.
    #[inline(always)]
    pub fn give_back_spare(&mut self, pages: &Pages) -> bool {
        self.counts.remove_spare(pages)
    }

    /// Takes a live range away; its pages that lie in no other are cleared. Pages that lie in
    /// no live range are left alone.
    ///
    /// # Errors
    /// ENOMEM; the state is unchanged then. Errors of madvise(2) are ignored here: pages that
    /// cannot be cleared either do not exist any more, or are cleared by a later call.
    #[inline(always)]
    pub fn give_back(&mut self, pages: Pages) -> Result<()> {
        let found = self.counts.in_one_leaf(&pages);
        let Some((one, single)) = found.and_then(|one| self.counts.single_of(one)) else {
            return self.give_back_across(pages);
        };
        let owing = self.clear_runs(single);
        self.counts.take_from(&one);
        if owing {
            self.settle();
        }
        Ok(())
    }

    #[inline(never)]
    fn give_back_across(&mut self, pages: Pages) -> Result<()> {
        let Some((spot, single)) = self.counts.single_near(&pages) else {
            return self.give_back_far(pages);
        };
        let owing = self.clear_runs(single);
        self.counts.remove_at(&spot);
        if owing {
            self.settle();
        }
        Ok(())
    }

    /// Clears the pages; returns whether there were some, and others owed before.
    #[inline(always)]
    fn clear_runs(&mut self, single: Block) -> bool {
        let owing = !self.owed.is_empty() && !single.is_empty();
        for run in single.runs() {
            clear_all(&mut self.marks, run, &mut self.owed);
        }
        owing
    }

    #[cold]
    #[inline(never)]
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
    #[inline(always)]
    fn mark(&mut self, run: Pages) -> Result<()> {
        self.marks
            .mark(run.clone())
            .or_else(|error| self.take_back(run, error))
    }

    /// Clears the marks of a failed call.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, run: Pages, error: Errno) -> Result<()> {
        clear_all(&mut self.marks, run, &mut self.owed);
        Err(error)
    }

    /// Marks clear pages with marked ones between them. One call over all of them costs little more
    /// than one for the first alone. If that fails, perhaps because a marked page is not mapped any
    /// more, each run is marked separately.
    #[inline(never)]
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

    /// Tries again to clear the pages that an earlier call could not clear.
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

/// Clears every page of `pages` that can be.
#[inline(always)]
fn clear_all(marks: &mut impl Marks, pages: Pages, owed: &mut Vec<Pages>) {
    if let Err(error) = marks.clear(pages.clone()) {
        clear_rest(marks, pages, owed, error);
    }
}

/// Clears the pages that a call for all of `pages` has not cleared. A failure leaves the later
/// pages unchanged, so halves are tried, down to the page that fails: for example a part of a huge
/// page that was mapped there meanwhile.
#[cold]
#[inline(never)]
fn clear_rest(marks: &mut impl Marks, pages: Pages, owed: &mut Vec<Pages>, error: Errno) {
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
