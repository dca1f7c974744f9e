//! How far an order stands, out of what is left of its entries: at a start, and wherever those who made it are gone.

use planted::{Bug, planted};
use record::{Offset, Position};
use thiserror::Error;

use super::entry::{Cut, Entry, Generation, Open, Run};

/// The state that an order goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The last generation; the next one is to be opened, durably, before anything is shown.
    pub generation: Generation,
    /// The first position that nobody was shown.
    pub next: Position,
    /// Of each partition the first offset that has no position below that.
    pub vector: Vec<Offset>,
    /// The cuts of that generation that count, in their order.
    pub cuts: Vec<Cut>,
}

impl Recovered {
    /// The entry that opens the next generation.
    #[must_use]
    pub fn open(&self) -> Open {
        Open {
            generation: Generation(self.generation.0 + 1),
            first: self.next,
            vector: self.vector.clone(),
        }
    }
}

/// Entries of one order that cannot stand beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Contradiction {
    /// A position was given out twice.
    #[error("a cut of generation {generation} begins at position {base}, which another one has taken")]
    Overlap {
        /// The generation.
        generation: u32,
        /// Where the second cut begins.
        base: u64,
    },
    /// A cut names a partition that the topic does not have.
    #[error("a cut names partition {partition}, and the topic has {partitions}")]
    UnknownPartition {
        /// The index.
        partition: i32,
        /// The number of partitions.
        partitions: usize,
    },
    /// The positions below an opening are not as many as the offsets that it says have one.
    #[error("generation {generation} begins at position {first} with {offsets} offsets below")]
    Uneven {
        /// The generation.
        generation: u32,
        /// Its first position.
        first: u64,
        /// The sum of its vector.
        offsets: i128,
    },
}

/// Finds how far an order stands: `strands` are its entries that are durable, shard by shard, each in the order in which they were written;
/// `tails` the ends of the partitions' logs. The end of the pages is given as an opening among them. `None` if it was never opened.
///
/// Cuts count as long as they touch: behind a gap nothing was shown, since something below was never durable. A cut that names offsets which a
/// partition does not have ends it, too.
///
/// # Errors
/// See [`Contradiction`].
pub fn recover(strands: &[Vec<Entry>], tails: &[Offset]) -> Result<Option<Recovered>, Contradiction> {
    let entries = || strands.iter().flatten();
    let opened = entries().filter_map(|entry| match entry {
        Entry::Open(open) => Some(open),
        Entry::Cut(_) => None,
    });
    let Some(open) = opened.max_by_key(|open| (open.generation, open.first)) else {
        return Ok(None);
    };
    check_even(open)?;
    let is_of = |cut: &Cut| cut.generation == open.generation || planted(Bug::VoidCutsCount);
    let cuts = entries().filter_map(|entry| match entry {
        Entry::Cut(cut) if is_of(cut) && cut.base >= open.first => Some(cut),
        _ => None,
    });
    let mut cuts: Vec<&Cut> = cuts.collect();
    cuts.sort_by_key(|cut| cut.base);
    let mut recovered = Recovered {
        generation: open.generation,
        next: open.first,
        vector: open.vector.clone(),
        cuts: Vec::new(),
    };
    recovered
        .vector
        .resize(tails.len().max(open.vector.len()), Offset::ZERO);
    for cut in cuts {
        if cut.base < recovered.next {
            return Err(Contradiction::Overlap {
                generation: cut.generation.0,
                base: cut.base.0,
            });
        }
        let is_behind_gap = cut.base > recovered.next && !planted(Bug::GapJumped);
        if is_behind_gap || !recovered.take(cut, tails)? {
            break;
        }
    }
    Ok(Some(recovered))
}

/// Records are never left out of an order by cuts, so there are as many positions as offsets.
fn check_even(open: &Open) -> Result<(), Contradiction> {
    let offsets: i128 = open.vector.iter().map(|next| i128::from(next.0)).sum();
    match offsets == i128::from(open.first.0) {
        true => Ok(()),
        false => Err(Contradiction::Uneven {
            generation: open.generation.0,
            first: open.first.0,
            offsets,
        }),
    }
}

impl Recovered {
    /// Takes a cut, all of it or nothing. Returns false if a partition's log does not reach so far.
    fn take(&mut self, cut: &Cut, tails: &[Offset]) -> Result<bool, Contradiction> {
        for (taken, run) in cut.runs.iter().enumerate() {
            let place = usize::try_from(run.partition).ok();
            let tail = place.and_then(|place| tails.get(place));
            let next = place.and_then(|place| self.vector.get_mut(place));
            let (Some(next), Some(tail)) = (next, tail) else {
                return Err(Contradiction::UnknownPartition {
                    partition: run.partition,
                    partitions: tails.len(),
                });
            };
            let end = next.advance(i64::from(run.offsets));
            if end > *tail {
                self.give_back(&cut.runs[..taken]);
                return Ok(false);
            }
            *next = end;
        }
        self.next = cut.next();
        self.cuts.push(cut.clone());
        Ok(true)
    }

    fn give_back(&mut self, runs: &[Run]) {
        for run in runs {
            let place = usize::try_from(run.partition).expect("it was found");
            self.vector[place] = self.vector[place].advance(-i64::from(run.offsets));
        }
    }
}
