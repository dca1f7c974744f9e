//! Cuts that are shown, of all shards, put together into pages.
//!
//! Cuts of one shard come in their order, those of several in any. A page is sealed when it is full; until it is durable, what is on it
//! is found here.

use std::collections::{BTreeMap, VecDeque};

use record::{Offset, Position};

use super::cutter::Shown;
use super::entry::{Open, Run};
use super::page::Page;

/// The runs of a page after which it is sealed.
pub const PAGE_RUNS: usize = 4_096;
/// The most positions of a page: what the batch that it is stored in can span.
pub(super) const PAGE_SPAN: u64 = 1 << 30;

/// See the module. Shards go by their numbers.
#[derive(Debug)]
pub struct Gathered {
    /// Pages that are full and perhaps not durable yet, in their order.
    sealed: VecDeque<SealedPage>,
    /// The page behind them.
    page: Page,
    /// The position behind all that is here.
    end: Position,
    /// Cuts above a position that is missing yet, by their bases.
    early: BTreeMap<Position, (usize, Shown)>,
    /// Of each shard the offset in its strand behind the last cut that is on a page here.
    strands: BTreeMap<usize, Offset>,
}

/// A page that is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedPage {
    /// The page.
    pub page: Page,
    /// Once it is durable, nothing of these strands below these offsets is needed.
    pub strands: BTreeMap<usize, Offset>,
}

impl Gathered {
    /// Nothing yet, behind all that an opening says.
    #[must_use]
    pub fn behind(open: &Open) -> Gathered {
        Gathered {
            sealed: VecDeque::new(),
            page: Page::behind(open),
            end: open.first,
            early: BTreeMap::new(),
            strands: BTreeMap::new(),
        }
    }

    /// The first position that is not here.
    #[must_use]
    pub fn end(&self) -> Position {
        self.end
    }

    /// Takes a cut of a shard. One above a position that is missing waits for that.
    ///
    /// # Panics
    /// One of its positions is here.
    pub fn take(&mut self, shard: usize, cut: Shown) {
        assert!(self.end <= cut.base, "a position is given once");
        self.early.insert(cut.base, (shard, cut));
        while let Some(first) = self.early.first_entry()
            && *first.key() == self.end
        {
            let (shard, cut) = first.remove();
            self.take_cut(&cut.runs);
            self.strands.insert(shard, cut.entry.advance(1));
            self.seal_if_full();
        }
    }

    /// Takes a cut that has the next positions. All of it goes on one page: recovery takes cuts whole, from the end of a page on.
    pub fn take_cut(&mut self, runs: &[Run]) {
        let count: u64 = runs.iter().map(|run| u64::from(run.offsets)).sum();
        let spans = self.end.0 - self.page.first.0 + count;
        if self.page.runs.len() + runs.len() > PAGE_RUNS || spans > PAGE_SPAN {
            self.seal();
        }
        runs.iter().for_each(|run| self.add_run(*run));
    }

    /// Takes a run of records that are in no cut, which has the next positions.
    pub fn take_run(&mut self, run: Run) {
        self.add_run(run);
        self.seal_if_full();
    }

    fn add_run(&mut self, run: Run) {
        let mut left = u64::from(run.offsets);
        while left > 0 {
            let room = PAGE_SPAN - (self.end.0 - self.page.first.0);
            let taken = left.min(room);
            left -= taken;
            self.end = Position(self.end.0 + taken);
            let offsets = u32::try_from(taken).expect("a page spans fewer");
            match self.page.runs.last_mut() {
                Some(last) if last.partition == run.partition => last.offsets += offsets,
                _ => self.page.runs.push(Run {
                    partition: run.partition,
                    offsets,
                }),
            }
            if taken == room {
                self.seal();
            }
        }
    }

    fn seal_if_full(&mut self) {
        if self.page.runs.len() >= PAGE_RUNS {
            self.seal();
        }
    }

    /// Ends the page that is begun, if anything is on it.
    pub fn seal(&mut self) {
        if self.page.runs.is_empty() {
            return;
        }
        let next = Page::behind(&self.page.end());
        let page = std::mem::replace(&mut self.page, next);
        let strands = self.strands.clone();
        self.sealed.push_back(SealedPage { page, strands });
    }

    /// The pages that are full, from a position on: those that begin there or later.
    pub fn sealed(&self, from: Position) -> impl Iterator<Item = &SealedPage> {
        let from = self.sealed.partition_point(|sealed| sealed.page.first < from);
        self.sealed.range(from..)
    }

    /// Takes note that the pages below a position are durable; gives what of the strands is not needed any more.
    pub fn handle_durable(&mut self, below: Position) -> BTreeMap<usize, Offset> {
        let mut strands = BTreeMap::new();
        while let Some(first) = self.sealed.front()
            && first.page.first < below
        {
            strands = self.sealed.pop_front().expect("there is a first one").strands;
        }
        strands
    }

    /// The page that has a position; `None` if it is on a durable one, or on none yet.
    #[must_use]
    pub fn page_of(&self, position: Position) -> Option<&Page> {
        if self.page.first <= position {
            return (position < self.end).then_some(&self.page);
        }
        let behind = self
            .sealed
            .partition_point(|sealed| sealed.page.first <= position);
        let place = behind.checked_sub(1)?;
        Some(&self.sealed[place].page)
    }

    /// Of each partition the first offset that has no position here or below.
    #[must_use]
    pub fn vector(&self) -> Vec<Offset> {
        self.page.end().vector
    }
}
