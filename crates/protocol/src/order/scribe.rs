//! The scribe of an order that several nodes hold: the leader of its log, which gives positions to what partitions have committed.
//!
//! ```text
//!   leader of partition 2 ── all below 17 is committed ──► scribe ── page: partition 2, 5 offsets ──► the order's log, on its quorum
//!                         ◄── offsets 12..17 are at position 40 ──                                 committed ──┘
//! ```
//! Records are committed first, and named afterwards: whatever becomes of a leader, a position names what is there for ever. Positions are the offsets of
//! the order's log, so its epochs fence a scribe, and the next one goes on at its end.
//!
//! An append that depends on the tail is promised its position before it is staged, and nothing is put on a page until the leader that was promised it
//! reports again, or the next one of its partition does. That is the first partition of the topic, the *lane*, and no other: a new scribe does not know of
//! promises, and begins with the lane's report to it. Decision 0044.
//!
//! A scribe must tell nobody of a page that is not committed, nobody who asks a lower end than an earlier scribe has told, and nobody a position that is promised.

use std::collections::{BTreeMap, VecDeque};

use planted::{Bug, planted};
use record::{Epoch, Offset, PartitionId, Position};

use super::entry::{Generation, Open, Run};
use super::gathered::{PAGE_RUNS, PAGE_SPAN};
use super::page::{Page, Place};
use crate::leader::NodeId;

/// The partition whose appends can depend on the tail; it also has what is appended to the twin.
pub const LANE: i32 = 0;

/// Pages that are on their way to the quorum at a time. All that is reported meanwhile comes on the next one together.
const PAGES_UNDER_WAY_MAX: usize = 4;

/// The word of a partition's leader: all below this is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The partition.
    pub partition: PartitionId,
    /// Its epoch, which the answer repeats.
    pub epoch: Epoch,
    /// The first offset that is kept.
    pub log_start: Offset,
    /// Its tail.
    pub tail: Offset,
}

/// A leader's word as it is sent to a scribe, and to no later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The epoch of the order's log that its leader knows.
    pub scribe: Epoch,
    /// The word.
    pub committed: Committed,
}

/// The wish of the lane's leader that what it appends next gets a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The epoch of the order's log that its leader knows.
    pub scribe: Epoch,
    /// Its own epoch.
    pub epoch: Epoch,
    /// The offset that it appends at. All below has its position.
    pub first: Offset,
    /// The position.
    pub position: Position,
}

/// A claim that is not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimRefusal {
    /// Another position is the next one, or something else is about to get it.
    TailMoved {
        /// The first one that is not ordered.
        tail: Position,
    },
    /// This is not the scribe that was asked, or it has not heard of the leader yet: ask again.
    Unsettled,
}

/// The word of a scribe to a partition's leader: all below the end of a place is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordered {
    /// The partition.
    pub partition: PartitionId,
    /// The epoch that the leader has told.
    pub epoch: Epoch,
    /// The position of the first of these offsets; it says nothing where there are none.
    pub position: Position,
    /// The first of the offsets whose positions this tells.
    pub first: Offset,
    /// The first that is not ordered.
    pub next: Offset,
}

/// A leader that has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leader {
    node: NodeId,
    epoch: Epoch,
}

/// See the module. It lives as long as its epoch of the order's log.
#[derive(Debug)]
pub struct Scribe {
    /// The order behind all pages that were taken.
    end: Open,
    /// The order behind those that are committed.
    committed: Open,
    /// Pages that were taken and are not committed, in their order.
    pages: VecDeque<Page>,
    /// The partitions that were reported, by their indexes.
    reports: BTreeMap<i32, Reported>,
    /// The next position is promised, or may be: nothing gets it before the lane is reported.
    is_promised: bool,
}

/// A partition as it was reported.
#[derive(Debug)]
struct Reported {
    partition: PartitionId,
    /// The latest leader that has reported.
    leader: Leader,
    /// The end of what is committed.
    tail: Offset,
    /// The last places that were told: the word of them may be lost.
    recent: VecDeque<Place>,
}

impl Scribe {
    /// The scribe of an epoch of the order's log, which goes on behind its last page, if there is one. All of the log is committed.
    #[must_use]
    pub fn behind(epoch: Epoch, last: Option<&Page>) -> Scribe {
        let nothing = || Open {
            generation: Generation(0),
            first: Position(0),
            vector: Vec::new(),
        };
        let end = Open {
            generation: generation_of(epoch),
            ..last.map_or_else(nothing, Page::end)
        };
        Scribe {
            committed: end.clone(),
            end,
            pages: VecDeque::new(),
            reports: BTreeMap::new(),
            is_promised: true,
        }
    }

    /// Promises a position, if all below is committed and nothing else was reported that would get it. The promise ends with the next report of the lane, which its
    /// leader makes when the append is committed, or was not made.
    ///
    /// # Errors
    /// See [`ClaimRefusal`].
    pub fn claim(&mut self, node: NodeId, claim: &Claim) -> Result<(), ClaimRefusal> {
        let leader = Leader {
            node,
            epoch: claim.epoch,
        };
        let is_of_leader = self.reports.get(&LANE).is_some_and(|lane| lane.leader == leader);
        if !(is_of_leader && self.is_of(claim.scribe)) || self.is_promised {
            return Err(ClaimRefusal::Unsettled);
        }
        let is_next = claim.position == self.committed.first && at(&self.end, LANE) == claim.first;
        if !(is_next && self.pages.is_empty() && self.unnamed().next().is_none()) {
            return Err(ClaimRefusal::TailMoved {
                tail: self.committed.first,
            });
        }
        self.is_promised = true;
        Ok(())
    }

    /// Takes a report. Returns the answer to it where the leader does not know how far its partition is ordered: it is true as long as nobody else can
    /// have become the scribe without the knowledge of this one.
    pub fn handle_report(&mut self, node: NodeId, report: &Report) -> Vec<Ordered> {
        if !self.is_of(report.scribe) {
            return Vec::new();
        }
        let report = &report.committed;
        let leader = Leader {
            node,
            epoch: report.epoch,
        };
        let ordered = at(&self.committed, report.partition.index);
        let before = self.reports.get(&report.partition.index);
        let known = before.filter(|known| known.leader == leader);
        let is_news = known.is_some_and(|known| known.tail != report.tail);
        let known = self.reports.entry(report.partition.index).or_insert(Reported {
            partition: report.partition,
            leader,
            tail: report.tail,
            recent: VecDeque::new(),
        });
        if known.leader.epoch > leader.epoch {
            return Vec::new();
        }
        known.leader = leader;
        known.tail = known.tail.max(report.tail);
        self.is_promised &= report.partition.index != LANE;
        if is_news && ordered < known.tail {
            // It is told when that is ordered, too.
            return Vec::new();
        }
        let end = Place {
            position: Position(0),
            partition: report.partition.index,
            first: ordered,
            next: ordered,
        };
        let places = known.recent.iter().chain([&end]);
        places.map(|place| known.ordered(place)).collect()
    }

    /// Takes the next page, if something was reported that is on none and not too many are under way. It is to be appended to the order's log at once.
    pub fn take_page(&mut self) -> Option<Page> {
        let is_held = self.is_promised && !planted(Bug::ClaimForgotten);
        if self.pages.len() >= PAGES_UNDER_WAY_MAX || is_held {
            return None;
        }
        let (mut runs, mut room) = (Vec::new(), PAGE_SPAN);
        // The lane comes first: what it was promised is the first of the page.
        for (partition, left) in self.unnamed() {
            let offsets = u32::try_from(left.min(room)).expect("a page spans fewer");
            room -= u64::from(offsets);
            runs.push(Run { partition, offsets });
            if room == 0 || runs.len() == PAGE_RUNS {
                break;
            }
        }
        if runs.is_empty() {
            return None;
        }
        let mut page = Page::behind(&self.end);
        page.runs = runs;
        self.end = page.end();
        self.pages.push_back(page.clone());
        Some(page)
    }

    /// Partitions of which more was reported than is on pages, each with the number of these offsets.
    fn unnamed(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        self.reports.iter().filter_map(|(index, reported)| {
            let left = reported.tail.0 - at(&self.end, *index).0;
            u64::try_from(left)
                .ok()
                .filter(|left| *left > 0)
                .map(|left| (*index, left))
        })
    }

    /// Takes the next page that is committed, if the order's log is below a position; and what leaders are to be told of it, each with its node.
    pub fn take_committed(&mut self, below: Position) -> Option<(Page, Vec<(NodeId, Ordered)>)> {
        let end = self.pages.front()?.end().first;
        if end > below && !planted(Bug::PageToldEarly) {
            return None;
        }
        let page = self.pages.pop_front().expect("there is a first one");
        self.committed = page.end();
        let told = page.places(page.first).filter_map(|place| {
            let reported = self.reports.get_mut(&place.partition)?;
            if reported.recent.len() == PAGES_UNDER_WAY_MAX {
                reported.recent.pop_front();
            }
            reported.recent.push_back(place);
            Some((reported.leader.node, reported.ordered(&place)))
        });
        let told = told.collect();
        Some((page, told))
    }

    fn is_of(&self, epoch: Epoch) -> bool {
        self.end.generation == generation_of(epoch)
    }

    /// The order behind the last page of the log that it found.
    #[must_use]
    pub fn committed(&self) -> &Open {
        &self.committed
    }
}

impl Reported {
    /// The word of a place to its leader.
    fn ordered(&self, place: &Place) -> Ordered {
        Ordered {
            partition: self.partition,
            epoch: self.leader.epoch,
            position: place.position,
            first: place.first,
            next: place.next,
        }
    }
}

fn generation_of(epoch: Epoch) -> Generation {
    Generation(epoch.0.unsigned_abs())
}

/// The first offset of a partition that an order does not have.
fn at(order: &Open, index: i32) -> Offset {
    let place = usize::try_from(index).expect("no index is below 0");
    order.vector.get(place).copied().unwrap_or(Offset::ZERO)
}

#[cfg(test)]
mod tests {
    use record::TopicId;

    use super::*;

    const HERE: NodeId = NodeId(1);
    const THERE: NodeId = NodeId(2);

    fn report(index: i32, epoch: i32, tail: i64) -> Report {
        to_scribe(1, index, epoch, tail)
    }

    fn to_scribe(scribe: i32, index: i32, epoch: i32, tail: i64) -> Report {
        Report {
            scribe: Epoch(scribe),
            committed: Committed {
                partition: partition(index),
                epoch: Epoch(epoch),
                log_start: Offset::ZERO,
                tail: Offset(tail),
            },
        }
    }

    fn claim(epoch: i32, first: i64, position: u64) -> Claim {
        Claim {
            scribe: Epoch(1),
            epoch: Epoch(epoch),
            first: Offset(first),
            position: Position(position),
        }
    }

    fn partition(index: i32) -> PartitionId {
        PartitionId {
            topic: TopicId([3; 16]),
            index,
        }
    }

    /// One that has heard of the lane, of which nothing is committed.
    fn scribe() -> Scribe {
        let mut scribe = Scribe::behind(Epoch(1), None);
        scribe.handle_report(HERE, &report(LANE, 0, 0));
        scribe
    }

    fn ordered(index: i32, epoch: i32, position: u64, first: i64, next: i64) -> Ordered {
        Ordered {
            partition: partition(index),
            epoch: Epoch(epoch),
            position: Position(position),
            first: Offset(first),
            next: Offset(next),
        }
    }

    /// The words to leaders when the log is committed below a position.
    fn told(scribe: &mut Scribe, below: u64) -> Vec<(NodeId, Ordered)> {
        let pages = std::iter::from_fn(|| scribe.take_committed(Position(below)));
        pages.flat_map(|(_, told)| told).collect()
    }

    #[test]
    fn what_is_committed_gets_positions_and_is_told_when_its_page_is_committed() {
        let mut scribe = scribe();
        assert_eq!(scribe.take_page(), None, "nothing was reported");
        let answer = scribe.handle_report(HERE, &report(0, 4, 3));
        assert_eq!(answer, [ordered(0, 4, 0, 0, 0)], "nothing of it is ordered yet");
        scribe.handle_report(THERE, &report(2, 7, 2));
        let page = scribe.take_page().expect("five records have no position");
        let runs: Vec<(i32, u32)> = page.runs.iter().map(|run| (run.partition, run.offsets)).collect();
        assert_eq!((page.first, runs), (Position(0), vec![(0, 3), (2, 2)]));
        assert_eq!(scribe.take_page(), None, "all is on a page");
        assert_eq!(
            scribe.handle_report(HERE, &report(0, 4, 2)),
            [],
            "it is told soon"
        );
        assert_eq!(scribe.take_committed(Position(4)), None, "a page counts whole");
        let told = told(&mut scribe, 5);
        assert_eq!(
            told,
            [(HERE, ordered(0, 4, 0, 0, 3)), (THERE, ordered(2, 7, 3, 0, 2))]
        );
        assert_eq!(scribe.committed().first, Position(5));
        let again = scribe.handle_report(HERE, &report(0, 4, 3));
        assert_eq!(
            again,
            [ordered(0, 4, 0, 0, 3), ordered(0, 4, 0, 3, 3)],
            "the word was lost"
        );
        scribe.handle_report(HERE, &report(0, 4, 4));
        let page = scribe.take_page().expect("one record more");
        assert_eq!(
            (page.first, page.vector),
            (Position(5), [3, 0, 2].map(Offset).to_vec())
        );
    }

    #[test]
    fn pages_follow_each_other_while_some_are_under_way_and_then_what_came_meanwhile_is_one() {
        let mut scribe = scribe();
        for tail in 1..=10 {
            scribe.handle_report(HERE, &report(1, 0, tail));
            let is_taken = scribe.take_page().is_some();
            assert_eq!(is_taken, tail <= PAGES_UNDER_WAY_MAX as i64);
        }
        assert_eq!(told(&mut scribe, 1).len(), 1);
        let page = scribe.take_page().expect("there is room for one");
        assert_eq!((page.first, page.count()), (Position(4), 6));
    }

    #[test]
    fn a_later_leader_is_told_and_an_earlier_one_is_not_heard() {
        let mut scribe = scribe();
        scribe.handle_report(HERE, &report(0, 1, 5));
        scribe.take_page().expect("there are records");
        let answer = scribe.handle_report(THERE, &report(0, 2, 5));
        assert_eq!(answer, [ordered(0, 2, 0, 0, 0)], "its page is not committed yet");
        assert_eq!(scribe.handle_report(HERE, &report(0, 1, 9)), []);
        assert_eq!(scribe.take_page(), None, "nobody leads in epoch 1 any more");
        let told = told(&mut scribe, 5);
        assert_eq!(told, [(THERE, ordered(0, 2, 0, 0, 5))]);
        // Less than was ordered: the partition was opened without replicas that had more.
        let behind = scribe.handle_report(HERE, &report(0, 3, 2));
        assert_eq!(behind, [ordered(0, 3, 0, 0, 5), ordered(0, 3, 0, 5, 5)]);
        assert_eq!(scribe.take_page(), None);
    }

    #[test]
    fn the_next_scribe_goes_on_at_the_end_of_the_log() {
        let mut first = scribe();
        first.handle_report(HERE, &report(3, 0, 4));
        let page = first.take_page().expect("there are records");
        let mut next = Scribe::behind(Epoch(2), Some(&page));
        let answer = next.handle_report(HERE, &to_scribe(2, 3, 0, 4));
        assert_eq!(answer, [ordered(3, 0, 0, 4, 4)]);
        next.handle_report(HERE, &to_scribe(2, LANE, 0, 0));
        assert_eq!(next.take_page(), None);
    }

    #[test]
    fn what_is_promised_to_the_lane_nothing_else_gets() {
        let mut scribe = scribe();
        let moved = |tail| Err(ClaimRefusal::TailMoved { tail: Position(tail) });
        assert_eq!(
            scribe.claim(HERE, &claim(0, 0, 1)),
            moved(0),
            "another position is next"
        );
        assert_eq!(
            scribe.claim(HERE, &claim(0, 1, 0)),
            moved(0),
            "the lane holds more than is ordered"
        );
        assert_eq!(scribe.claim(THERE, &claim(0, 0, 0)), Err(ClaimRefusal::Unsettled));
        assert_eq!(scribe.claim(HERE, &claim(1, 0, 0)), Err(ClaimRefusal::Unsettled));
        assert_eq!(scribe.claim(HERE, &claim(0, 0, 0)), Ok(()));
        assert_eq!(
            scribe.claim(HERE, &claim(0, 0, 0)),
            Err(ClaimRefusal::Unsettled),
            "it is promised"
        );
        scribe.handle_report(THERE, &report(1, 0, 5));
        assert_eq!(scribe.take_page(), None, "the next position is promised");
        scribe.handle_report(HERE, &report(LANE, 0, 2));
        let page = scribe.take_page().expect("the promise is kept");
        let runs: Vec<(i32, u32)> = page.runs.iter().map(|run| (run.partition, run.offsets)).collect();
        assert_eq!((page.first, runs), (Position(0), vec![(LANE, 2), (1, 5)]));
        assert_eq!(
            scribe.claim(HERE, &claim(0, 2, 7)),
            moved(0),
            "its page is under way"
        );
        assert_eq!(told(&mut scribe, 7).len(), 2);
        scribe.handle_report(THERE, &report(1, 0, 6));
        assert_eq!(
            scribe.claim(HERE, &claim(0, 2, 7)),
            moved(7),
            "something is about to get it"
        );
        scribe.take_page().expect("it gets its place");
        assert_eq!(told(&mut scribe, 8).len(), 1);
        assert_eq!(scribe.claim(HERE, &claim(0, 2, 8)), Ok(()));
        // The leader is lost, and with it what it had appended.
        scribe.handle_report(THERE, &report(1, 0, 7));
        assert_eq!(scribe.take_page(), None);
        scribe.handle_report(THERE, &report(LANE, 1, 2));
        let page = scribe.take_page().expect("nobody holds the promise any more");
        assert_eq!((page.first, page.runs[0].partition), (Position(8), 1));
        assert_eq!(told(&mut scribe, 9).len(), 1);
        assert_eq!(scribe.claim(THERE, &claim(1, 2, 9)), Ok(()));
        scribe.handle_report(THERE, &report(1, 0, 8));
        scribe.handle_report(HERE, &report(LANE, 0, 3));
        assert_eq!(scribe.take_page(), None, "that one leads no more");
    }

    #[test]
    fn a_new_scribe_puts_nothing_on_a_page_before_the_lane_is_reported_to_it() {
        let mut scribe = Scribe::behind(Epoch(2), None);
        scribe.handle_report(THERE, &to_scribe(2, 1, 0, 3));
        assert_eq!(
            scribe.take_page(),
            None,
            "an earlier one may have promised its place"
        );
        assert_eq!(
            scribe.handle_report(HERE, &report(LANE, 4, 1)),
            [],
            "that is an old word"
        );
        assert_eq!(scribe.take_page(), None);
        scribe.handle_report(HERE, &to_scribe(2, LANE, 4, 1));
        let page = scribe.take_page().expect("the lane is reported");
        assert_eq!(page.runs[0].partition, LANE);
    }

    #[test]
    fn a_page_spans_no_more_than_its_batch_can() {
        let mut scribe = scribe();
        let all = 3 * PAGE_SPAN as i64 / 2;
        scribe.handle_report(HERE, &report(0, 0, all));
        scribe.handle_report(HERE, &report(1, 0, 10));
        let first = scribe.take_page().expect("there are records");
        let second = scribe.take_page().expect("there are more");
        assert_eq!((first.count(), first.runs.len()), (PAGE_SPAN, 1));
        assert_eq!(second.count(), PAGE_SPAN / 2 + 10);
        assert_eq!(second.first, first.end().first);
    }
}
