//! A fetch that waits for records. It is woken with the numbers of the partitions that moved, looks at what is new in those,
//! and reads again only where there is something. So one append costs a fetch of thousands of partitions as much as a fetch of
//! a single one.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use record::Offset;
use shard::{ReadResult, Watch, Watcher};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::Fetch;
use super::decision::{Decision, decide};
use super::look::{Outcome, Planned, SLICE, forget_batches, read_all};
use super::tally::{Tally, rest_after};
use crate::core::Core;

/// See the module. Partitions go by their number among those that the fetch has planned.
pub(super) struct Waiting {
    watcher: Arc<Watcher>,
    /// Those that do not wake the fetch yet, or not any more.
    unwatched: Vec<usize>,
    tally: Tally,
    /// Those that have moved since all that there is was read.
    moved: BTreeSet<usize>,
}

impl Waiting {
    /// Waits at the tails of these partitions.
    pub(super) fn at(planned: &[Planned]) -> Waiting {
        Waiting {
            watcher: Watcher::new(planned.len()),
            unwatched: (0..planned.len()).collect(),
            tally: Tally::default(),
            moved: BTreeSet::new(),
        }
    }

    /// The partitions that have something, or may have it: all others are as they were.
    pub(super) fn numbers(&self) -> BTreeSet<usize> {
        self.tally.numbers().chain(self.moved.iter().copied()).collect()
    }

    /// Counts what was found in the partitions of these numbers, or in all, and lets go of it.
    pub(super) fn begin(
        &mut self,
        planned: &[Planned],
        numbers: Option<BTreeSet<usize>>,
        outcomes: &mut [Outcome],
    ) {
        self.tally = Tally::default();
        self.moved.clear();
        let mut count = |number: usize| {
            let Planned { place, read } = &planned[number];
            self.tally.note(number, read.from, &outcomes[*place]);
            forget_batches(&mut outcomes[*place]);
        };
        match numbers {
            Some(numbers) => numbers.into_iter().for_each(count),
            None => (0..planned.len()).for_each(&mut count),
        }
    }

    /// Says whether there was nothing, and nothing has come.
    pub(super) fn has_nothing(&self) -> bool {
        self.tally.is_empty() && self.moved.is_empty()
    }

    /// Returns when there is enough, as far as can be told without holding it. Nothing is lost if the wait is given up.
    pub(super) async fn until_more(&mut self, fetch: &Fetch<'_>, outcomes: &mut [Outcome]) {
        let mut looked_at = 0;
        loop {
            self.watch(fetch.core, &fetch.planned, outcomes).await;
            self.watcher.woken().await;
            // A fetch that has found too little need not look at every commit.
            if !self.tally.is_empty() {
                sleep(rest_after(looked_at)).await;
            }
            let moved = self.watcher.take_moved();
            self.moved.extend(&moved);
            self.unwatched.extend(&moved);
            looked_at = moved.len();
            // Any record will do, if it is one.
            if looked_at > 0 && (fetch.bounds.bytes_min <= 1 || self.count(fetch, &moved, outcomes).await) {
                return;
            }
        }
    }

    /// Counts what is new in partitions that have moved; true if all together is to be read.
    async fn count(&mut self, fetch: &Fetch<'_>, moved: &[usize], outcomes: &mut [Outcome]) -> bool {
        let rest = |number: &usize| Some((*number, self.tally.rest_of(*number, &fetch.planned[*number])?));
        let (numbers, mut news): (Vec<usize>, Vec<Planned>) = moved.iter().filter_map(rest).unzip();
        news.iter_mut()
            .enumerate()
            .for_each(|(place, news)| news.place = place);
        let mut found: Vec<Outcome> = vec![Ok(ReadResult::default()); news.len()];
        let (_granted, room) = fetch.grant();
        read_all(fetch.core, &news, room.unwrap_or(0), &mut found).await;
        for ((number, news), found) in numbers.into_iter().zip(news).zip(found) {
            self.tally.note(number, news.read.from, &found);
            let known = &mut outcomes[fetch.planned[number].place];
            if let (Ok(known), Ok(found)) = (known, found) {
                (known.log_start, known.tail) = (found.log_start, found.tail);
                (known.stable, known.until) = (found.stable, found.until);
            }
        }
        let sight = self.tally.sight(&fetch.planned, room);
        decide(&sight, fetch.bounds.bytes_min) != Decision::WaitForRecords
    }

    /// Has the fetch woken as soon as the tail of a partition moves beyond what was seen of it.
    async fn watch(&mut self, core: &Rc<Core>, planned: &[Planned], outcomes: &[Outcome]) {
        while !self.unwatched.is_empty() {
            let rest = self.unwatched.len().saturating_sub(SLICE);
            let slice = self.unwatched.split_off(rest);
            for shard in 0..core.facts.shards {
                let theirs: Vec<Watch> = slice
                    .iter()
                    .filter(|number| core.facts.shard_of(planned[**number].read.partition) == shard)
                    .map(|number| watch_of(*number, &planned[*number], outcomes))
                    .collect();
                self.send(core, shard, theirs);
            }
            if rest > 0 {
                yield_now().await;
            }
        }
    }

    fn send(&self, core: &Rc<Core>, shard: usize, watches: Vec<Watch>) {
        if watches.is_empty() {
            return;
        }
        match core.facts.core_of(shard) {
            owner if owner == core.index => watch_here(core, shard, &watches, &self.watcher),
            owner => {
                let watcher = self.watcher.clone();
                let letter = move |core: &Rc<Core>| watch_here(core, shard, &watches, &watcher);
                core.facts.mailboxes.send(owner, letter);
            }
        }
    }
}

/// Watches partitions of one shard, and twins whose home is here.
fn watch_here(core: &Rc<Core>, shard: usize, watches: &[Watch], watcher: &Arc<Watcher>) {
    let is_twin = |watch: &&Watch| core.home_of_twin(watch.partition).is_some();
    let (twins, partitions): (Vec<Watch>, Vec<Watch>) = watches.iter().partition(is_twin);
    core.shard(shard).watch(&partitions, watcher);
    for watch in twins {
        if let Some(home) = core.home_of_twin(watch.partition) {
            home.watch(&watch, watcher);
        }
    }
}

fn watch_of(number: usize, planned: &Planned, outcomes: &[Outcome]) -> Watch {
    let seen = outcomes[planned.place].as_ref();
    let seen: Offset = seen.map_or(planned.read.from, |result| result.tail);
    Watch {
        partition: planned.read.partition,
        seen,
        number: u32::try_from(number).expect("a request names fewer partitions"),
    }
}
