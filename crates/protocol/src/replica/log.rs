//! The log of one replica as far as the protocol needs it: its ends, who wrote what, what was promised and accepted.
//!
//! Every change is an entry to persist, and reading the entries back in order gives the same log ([`Stored`]). Only committed
//! batches are in the history; the facts of the others wait, so that nothing is ever taken back out of it. The log must never
//! lose a committed record: a cut that would is refused, whoever orders it.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};
use record::{Epoch, Offset};

use super::contract::{Action, Base, Landmark, NO_EPOCH, Persist, Refusal, Standing};
use crate::epochs::{EpochEnd, Epochs, Run};
use crate::history::{BatchFacts, History, Part, RecoverError, Vows};
use crate::leader::Found;
use crate::producers::{ProducerLimits, Remembered, Stamp};

/// No record has a time.
const NO_TIMESTAMP: i64 = -1;

/// A replica as storage found it, read back from its entries or from a checkpoint and the entries behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The highest epoch promised.
    pub promised: Epoch,
    /// The highest epoch accepted: by an entry of its own, or by a batch of that epoch.
    pub accepted: Epoch,
    /// The first offset that has not been given up.
    pub log_start: Offset,
    /// The end of the log.
    pub next_offset: Offset,
    /// The offset below which `history` covers all batches. They are committed.
    pub covered: Offset,
    /// A snapshot of the partition's history; empty if there is none.
    pub history: Bytes,
    /// The batches that the history does not cover, in order.
    pub batches: Vec<BatchFacts>,
}

impl Default for Stored {
    fn default() -> Stored {
        Stored {
            promised: NO_EPOCH,
            accepted: NO_EPOCH,
            log_start: Offset::ZERO,
            next_offset: Offset::ZERO,
            covered: Offset::ZERO,
            history: Bytes::new(),
            batches: Vec::new(),
        }
    }
}

impl Stored {
    /// The replica of a log that recovery found, with the vows that the journal has. Those of the snapshot may be older or newer.
    ///
    /// # Errors
    /// The snapshot is corrupt.
    pub fn found(found: &Found<'_>, vows: Vows) -> Result<Stored, RecoverError> {
        let kept = match found.snapshot.is_empty() {
            true => Vows::default(),
            false => History::vows_in(found.snapshot)?,
        };
        let batches: Vec<_> = found.batches.iter().map(BatchFacts::of).collect();
        let writer = batches.iter().map(|batch| Some(batch.epoch)).max().flatten();
        let accepted = kept.accepted.max(vows.accepted).max(writer);
        let promised = kept.promised.max(vows.promised).max(accepted);
        Ok(Stored {
            promised: promised.unwrap_or(NO_EPOCH),
            accepted: accepted.unwrap_or(NO_EPOCH),
            log_start: found.log_start,
            next_offset: found.next_offset,
            covered: batches
                .first()
                .map_or(found.next_offset, |first| first.first_offset),
            history: Bytes::copy_from_slice(found.snapshot),
            batches,
        })
    }

    /// Reads one entry back: what each of them means to a replica that starts.
    pub fn replay(&mut self, entry: &Persist) {
        match entry {
            Persist::Append { batch } => {
                self.batches.push(*batch);
                self.next_offset = batch.next_offset();
                if !planted(Bug::CatchUpKeepsAccepted) {
                    self.accepted = self.accepted.max(batch.epoch);
                }
            }
            Persist::Accept { epoch, first, .. } => {
                self.cut_to(*first);
                self.accepted = self.accepted.max(*epoch);
            }
            Persist::Cut { first } => {
                self.cut_to(*first);
                if planted(Bug::AcceptedFallsWithCut) {
                    self.accepted = self.batches.last().map_or(NO_EPOCH, |last| last.epoch);
                }
            }
            Persist::Promise { epoch } => {
                if !planted(Bug::PromiseForgotten) {
                    self.promised = self.promised.max(*epoch);
                }
            }
            Persist::Base(base) => {
                self.batches.clear();
                (self.log_start, self.next_offset) = (base.first, base.first);
                (self.covered, self.history) = (base.covered, base.history.clone());
            }
            Persist::Trim { log_start } => self.log_start = self.log_start.max(*log_start),
        }
        self.promised = self.promised.max(self.accepted);
    }

    fn cut_to(&mut self, first: Offset) {
        self.batches.retain(|batch| batch.first_offset < first);
        self.next_offset = self.next_offset.min(first);
    }
}

/// The log of one replica.
#[derive(Debug, Clone)]
pub(super) struct Log {
    promised: Epoch,
    accepted: Epoch,
    /// The writers of all batches, committed or not.
    writers: Epochs,
    log_start: Offset,
    /// Where the first batch begins: below `log_start`, if that is inside it. `None` until the driver has looked.
    first: Option<Offset>,
    tail: Offset,
    next_offset: Offset,
    /// The history of the batches below the tail; of producers below `covered`, where that is further. A leader has it while
    /// there is one.
    history: Option<History>,
    covered: Offset,
    /// The batches at the tail and above.
    waiting: VecDeque<BatchFacts>,
    /// The end of what is known to equal the log of this epoch's leader, whether the epoch is accepted or not.
    verified: Option<(Epoch, Offset)>,
    /// The greatest tail that the leader of this epoch has told.
    heard: Option<(Epoch, Offset)>,
    limits: ProducerLimits,
}

impl Log {
    /// The log that storage found. What it covers is known to be committed.
    pub(super) fn recover(
        now: Duration,
        limits: ProducerLimits,
        stored: Stored,
    ) -> Result<Log, RecoverError> {
        let mut history = match stored.history.is_empty() {
            true => History::new(limits),
            false => History::restore(now, limits, &stored.history)?,
        };
        let tail = stored.covered.min(stored.next_offset);
        history.epochs.cut_to(tail);
        let mut writers = history.epochs.clone();
        let mut waiting = VecDeque::from(stored.batches);
        waiting.retain(|batch| batch.first_offset >= tail);
        for batch in &waiting {
            writers.replay(batch.epoch, batch.first_offset)?;
        }
        writers.trim(stored.log_start);
        let mut log = Log {
            promised: stored.promised,
            accepted: stored.accepted,
            writers,
            log_start: stored.log_start,
            first: (stored.log_start == Offset::ZERO).then_some(Offset::ZERO),
            tail,
            next_offset: stored.next_offset,
            history: Some(history),
            covered: stored.covered,
            waiting,
            verified: None,
            heard: None,
            limits,
        };
        log.commit_start(now, stored.log_start);
        Ok(log)
    }

    /// Returns the state that storage has to find again, with a history up to the tail.
    pub(super) fn stored(&self, covered: Offset, history: Bytes) -> Stored {
        Stored {
            promised: self.promised,
            accepted: self.accepted,
            log_start: self.log_start,
            next_offset: self.next_offset,
            covered,
            history,
            batches: self.waiting.iter().copied().collect(),
        }
    }

    pub(super) fn promised(&self) -> Epoch {
        self.promised
    }

    pub(super) fn accepted(&self) -> Epoch {
        self.accepted
    }

    pub(super) fn vows(&self) -> Vows {
        let given = |epoch| Some(epoch).filter(|epoch| *epoch != NO_EPOCH);
        Vows {
            promised: given(self.promised),
            accepted: given(self.accepted),
        }
    }

    pub(super) fn log_start(&self) -> Offset {
        self.log_start
    }

    /// Where the first batch begins, as far as that is known: the beginning of all that can be compared and copied.
    pub(super) fn first(&self) -> Offset {
        self.first.unwrap_or(self.log_start)
    }

    /// Says whether the batch at the log's start may begin further below.
    pub(super) fn must_find_first(&self) -> bool {
        self.first.is_none() && self.log_start < self.next_offset
    }

    /// The first offset of the epoch that wrote at `log_start`.
    pub(super) fn epoch_at_start(&self) -> Offset {
        let run = self.writers.run_at(self.log_start, self.next_offset);
        run.map_or(self.log_start, |run| run.first_offset.min(self.log_start))
    }

    /// Takes note of where the batch at `log_start` begins.
    pub(super) fn note_first(&mut self, first: Offset) {
        let first = match planted(Bug::BeginsInsideBatch) {
            true => self.log_start,
            false => first.min(self.log_start),
        };
        self.first = Some(first);
        self.writers.begin_at(first);
    }

    pub(super) fn tail(&self) -> Offset {
        self.tail
    }

    pub(super) fn next_offset(&self) -> Offset {
        self.next_offset
    }

    pub(super) fn epoch_end(&self, epoch: Epoch) -> EpochEnd {
        self.writers.end_of(epoch, self.next_offset)
    }

    pub(super) fn writer_at(&self, offset: Offset) -> Option<Epoch> {
        self.writers.at(offset).filter(|_| offset < self.next_offset)
    }

    pub(super) fn last_writer(&self) -> Epoch {
        self.writers.latest().unwrap_or(NO_EPOCH)
    }

    pub(super) fn standing(&self, is_certain: bool) -> Standing {
        Standing {
            accepted: match planted(Bug::AcceptsIgnored) {
                true => self.last_writer(),
                false => self.accepted,
            },
            last_writer: self.last_writer(),
            log_start: self.log_start,
            tail: self.tail,
            next_offset: self.next_offset,
            is_certain,
        }
    }

    /// The epoch that wrote the record before `first`. Unknown where that record has been given up.
    pub(super) fn writer_before(&self, first: Offset) -> Epoch {
        if first == self.next_offset {
            return self.last_writer();
        }
        match first > self.first() {
            true => self.writers.at(Offset(first.0 - 1)).unwrap_or(NO_EPOCH),
            false => NO_EPOCH,
        }
    }

    /// Says whether this log and a leader's whose record before `first` was written in `writer_before` are equal below `first`.
    /// Records committed here are in every leader's log, which may not know any more who wrote them.
    pub(super) fn continues_at(&self, first: Offset, writer_before: Epoch) -> bool {
        let within = self.first() <= first && first <= self.next_offset;
        let is_committed = first <= self.tail && !planted(Bug::CommittedCompared);
        within && (is_committed || self.writer_before(first) == writer_before)
    }

    /// Says whether this very batch, as far as its epoch can tell, is in the log. Its beginning may have been given up.
    pub(super) fn holds(&self, batch: &BatchFacts) -> bool {
        let within = batch.next_offset() <= self.next_offset && self.log_start < batch.next_offset();
        within && self.writers.at(batch.first_offset.max(self.log_start)) == Some(batch.epoch)
    }

    /// A landmark of this log at an offset, with what `history` gives if it has to be the beginning. A log begins where a batch does:
    /// one that is told of an offset inside a batch could never take that batch.
    pub(super) fn landmark(&self, at: Offset, history: impl FnOnce() -> (Offset, Bytes)) -> Landmark {
        let first = self.first();
        if at < first {
            let (covered, history) = history();
            return Landmark::Base(Base {
                first,
                run: self.run_at(first),
                covered,
                history,
            });
        }
        let run = self.run_at(at);
        run.map_or(Landmark::End(self.next_offset), Landmark::Run)
    }

    /// The run that an offset lies in, as far as the log has it.
    fn run_at(&self, at: Offset) -> Option<Run> {
        let run = self.writers.run_at(at, self.next_offset)?;
        Some(self.within(run))
    }

    /// A run without what was given up of it: with that, nothing can be compared.
    fn within(&self, run: Run) -> Run {
        Run {
            first_offset: run.first_offset.max(self.first()),
            ..run
        }
    }

    /// The last offset of the log, where two logs that are nearly alike have a landmark in common.
    pub(super) fn last_offset(&self) -> Offset {
        Offset(self.next_offset.0 - 1).max(self.log_start)
    }

    /// The batches that stood between two offsets of this log, as far as it can tell: each offset is in one of them, and is of the epoch
    /// that it was written in. `None` where the log does not have that part any more.
    pub(super) fn batches_gone(
        &self,
        remembered: &Remembered,
        first: Offset,
        next_offset: Offset,
    ) -> Option<Vec<BatchFacts>> {
        let mut gone = Vec::new();
        let mut at = first;
        for (stamp, written) in remembered.between(first, next_offset) {
            self.fill(&mut gone, at, written.first_offset)?;
            gone.push(BatchFacts {
                epoch: self.writers.at(written.first_offset)?,
                first_offset: written.first_offset,
                record_count: written.record_count,
                max_timestamp_ms: NO_TIMESTAMP,
                producer: Some(*stamp),
                part: Part::Outside,
            });
            at = written.next_offset();
        }
        self.fill(&mut gone, at, next_offset)?;
        Some(gone)
    }

    /// Adds batches of nobody in particular: one for each epoch.
    fn fill(&self, gone: &mut Vec<BatchFacts>, mut at: Offset, next_offset: Offset) -> Option<()> {
        while at < next_offset {
            let run = self.writers.run_at(at, self.next_offset)?;
            let end = match planted(Bug::GapsOfOneEpoch) {
                true => next_offset,
                false => run.next_offset.min(next_offset),
            };
            let record_count = i32::try_from(end.0 - at.0).unwrap_or(i32::MAX);
            gone.push(BatchFacts {
                epoch: run.writer,
                first_offset: at,
                record_count,
                max_timestamp_ms: NO_TIMESTAMP,
                producer: None,
                part: Part::Outside,
            });
            at = at.advance(i64::from(record_count));
        }
        Some(())
    }

    /// Raises the promise. A batch or an accept of that epoch says the same, so nothing else is persisted for these.
    pub(super) fn promise(&mut self, epoch: Epoch, actions: &mut VecDeque<Action>) {
        if epoch > self.promised {
            self.promised = epoch;
            actions.push_back(Action::Persist(Persist::Promise { epoch }));
        }
    }

    /// Takes a batch at the end.
    ///
    /// # Panics
    /// The batch does not continue the log, or is of an epoch below the last one's.
    pub(super) fn append(&mut self, batch: BatchFacts, actions: &mut VecDeque<Action>) {
        assert_eq!(
            batch.first_offset, self.next_offset,
            "a log is written without gaps"
        );
        if self.log_start == self.next_offset {
            self.first = Some(batch.first_offset);
        }
        self.writers
            .replay(batch.epoch, batch.first_offset)
            .expect("a batch is taken only behind one of the same epoch or an earlier one");
        self.next_offset = batch.next_offset();
        self.waiting.push_back(batch);
        actions.push_back(Action::Persist(Persist::Append { batch }));
        self.raise_accepted(batch.epoch);
    }

    /// Accepts an epoch that begins at `first`: what stands there goes.
    pub(super) fn accept(
        &mut self,
        epoch: Epoch,
        first: Offset,
        writer_before: Epoch,
        actions: &mut VecDeque<Action>,
    ) -> Result<(), Refusal> {
        self.check_cut(first)?;
        self.forget_from(first);
        actions.push_back(Action::Persist(Persist::Accept {
            epoch,
            first,
            writer_before,
        }));
        self.accepted = self.accepted.max(epoch);
        self.promised = self.promised.max(epoch);
        Ok(())
    }

    /// Makes this log a prefix of the one that the landmark is of, exactly: what both have in common stays. Gives its end then,
    /// or the offset of another landmark that is needed.
    ///
    /// The landmark may be old. The log that it is of does not change any more, and what is cut off follows from this log as it
    /// is now: so it cannot cut off what has come from there since. What is below the tail is in that log, whatever it is.
    pub(super) fn meet(
        &mut self,
        now: Duration,
        landmark: &Landmark,
        actions: &mut VecDeque<Action>,
    ) -> Result<Met, Refusal> {
        let tail = self.tail;
        match landmark {
            Landmark::Run(run) => match self.shared(run) {
                Some(mine) => self.meet_run(&mine, run, actions),
                None if run.first_offset <= tail && tail < run.next_offset => self.cut(tail, actions),
                None => Ok(Met::Not { ask: tail }),
            },
            Landmark::End(end) if *end == tail => self.cut(tail, actions),
            Landmark::End(end) if *end < tail => Err(Refusal::Committed { tail }),
            Landmark::End(_) => Ok(Met::Not { ask: tail }),
            Landmark::Base(base) if base.first <= tail => Ok(Met::Not { ask: tail }),
            Landmark::Base(base) => match base.run.and_then(|run| Some((run, self.shared(&run)?))) {
                Some((run, mine)) => self.meet_run(&mine, &run, actions),
                None => self.begin_at(now, base, actions),
            },
        }
    }

    /// The own run of the same epoch, if it has a record in common: both are equal up to where the first of them ends.
    fn shared(&self, run: &Run) -> Option<Run> {
        let mine = self.within(self.writers.run_of(run.writer, self.next_offset)?);
        let overlap = mine.first_offset < run.next_offset && run.first_offset < mine.next_offset;
        overlap.then_some(mine)
    }

    fn meet_run(&mut self, mine: &Run, run: &Run, actions: &mut VecDeque<Action>) -> Result<Met, Refusal> {
        let parts = mine.next_offset.min(run.next_offset);
        let goes_on = mine.followed_by.is_some() && mine.followed_by == run.followed_by;
        if goes_on && mine.next_offset == run.next_offset && !planted(Bug::StaleLandmarkCuts) {
            return Ok(Met::Not { ask: parts });
        }
        self.cut(parts, actions)
    }

    fn cut(&mut self, first: Offset, actions: &mut VecDeque<Action>) -> Result<Met, Refusal> {
        if first < self.next_offset {
            self.check_cut(first)?;
            self.forget_from(first);
            actions.push_back(Action::Persist(Persist::Cut { first }));
            if planted(Bug::AcceptedFallsWithCut) {
                self.accepted = self.last_writer();
            }
        }
        Ok(Met::At(first))
    }

    /// Gives up the whole log for one that begins higher up.
    fn begin_at(
        &mut self,
        now: Duration,
        base: &Base,
        actions: &mut VecDeque<Action>,
    ) -> Result<Met, Refusal> {
        let Ok(mut history) = History::restore(now, self.limits, &base.history) else {
            // The bytes are a peer's: they may be anything.
            return Err(Refusal::Apart { tail: self.tail });
        };
        history.epochs.cut_to(base.first);
        history.producers.begin_log_at(base.first);
        self.writers = Epochs::new();
        self.waiting.clear();
        self.verified = None;
        (self.history, self.covered) = (Some(history), base.covered);
        (self.log_start, self.tail, self.next_offset) = (base.first, base.first, base.first);
        self.first = Some(base.first);
        actions.push_back(Action::Persist(Persist::Base(base.clone())));
        Ok(Met::At(base.first))
    }

    /// Takes note that this log equals that of the epoch's leader below `end`.
    pub(super) fn verify(&mut self, epoch: Epoch, end: Offset) {
        let known = self.verified.filter(|(of, _)| *of == epoch);
        let end = known.map_or(end, |(_, known)| known.max(end));
        self.verified = Some((epoch, end));
    }

    /// The end of what is here of the log of this epoch's leader, as far as that is known.
    pub(super) fn verified(&self, epoch: Epoch) -> Offset {
        match self.verified {
            _ if self.accepted == epoch || planted(Bug::UncomparedCommitted) => self.next_offset,
            Some((of, end)) if of == epoch => end,
            _ => self.tail,
        }
    }

    /// Takes note of the tail that an epoch's leader tells. The batches below may come later.
    pub(super) fn hear_tail(&mut self, epoch: Epoch, tail: Offset) {
        // Late words of an earlier leader change nothing.
        if self.heard.is_none_or(|known| known < (epoch, tail)) {
            self.heard = Some((epoch, tail));
        }
    }

    /// The greatest tail that this epoch's leader has told.
    pub(super) fn heard_tail(&self, epoch: Epoch) -> Option<Offset> {
        self.heard.filter(|(of, _)| *of == epoch).map(|(_, tail)| tail)
    }

    /// Takes note that everything below `tail` is committed, as far as it is here.
    pub(super) fn commit(&mut self, now: Duration, tail: Offset) -> bool {
        let tail = tail.min(self.next_offset);
        if tail <= self.tail {
            return false;
        }
        self.tail = tail;
        while let Some(batch) = self.waiting.front().filter(|batch| batch.next_offset() <= tail) {
            if let Some(history) = &mut self.history {
                note(history, self.covered, now, batch);
            }
            self.waiting.pop_front();
        }
        if let Some(history) = &mut self.history {
            history.producers.settle(tail);
        }
        true
    }

    /// The end of the batch that an offset lies in, if one that is not committed here spans it.
    pub(super) fn end_of_batch(&self, offset: Offset) -> Offset {
        let at = self
            .waiting
            .partition_point(|batch| batch.next_offset() <= offset);
        let spans = self.waiting.get(at).filter(|batch| batch.first_offset < offset);
        spans.map_or(offset, BatchFacts::next_offset)
    }

    /// Commits up to a new start: a record that is given up was committed, and its whole batch with it.
    fn commit_start(&mut self, now: Duration, log_start: Offset) {
        let mut waiting = self.waiting.iter();
        let batch = waiting.find(|batch| batch.first_offset < log_start && log_start < batch.next_offset());
        let whole = batch.filter(|_| !planted(Bug::TrimCommitsHalf));
        self.commit(now, whole.map_or(log_start, BatchFacts::next_offset));
    }

    /// Gives up what lies below `log_start`, all of which is committed.
    pub(super) fn trim(&mut self, now: Duration, log_start: Offset, actions: &mut VecDeque<Action>) {
        assert!(log_start <= self.next_offset, "what is given up was there");
        if log_start > self.log_start {
            self.commit_start(now, log_start);
            self.log_start = log_start;
            self.first = None;
            self.writers.trim(log_start);
            if let Some(history) = &mut self.history {
                history.epochs.trim(log_start);
            }
            actions.push_back(Action::Persist(Persist::Trim { log_start }));
        }
    }

    /// Hands out the history of the whole log, with what is not committed: a leader must know what it would write twice.
    pub(super) fn lend_history(&mut self, now: Duration) -> History {
        let mut history = self.history.take().expect("nobody has the history yet");
        history.producers.cut_to(self.next_offset);
        for batch in &self.waiting {
            note(&mut history, self.covered, now, batch);
        }
        history
    }

    /// Takes the history back from a leader, up to the tail. It may have been cut off there.
    pub(super) fn take_back(&mut self, history: History) {
        assert!(self.history.is_none(), "the history was lent");
        self.covered = self.covered.min(self.tail);
        self.history = Some(history);
    }

    /// The history of what is committed, unless a leader has it.
    pub(super) fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    pub(super) fn limits(&self) -> ProducerLimits {
        self.limits
    }

    fn raise_accepted(&mut self, writer: Epoch) {
        if !planted(Bug::CatchUpKeepsAccepted) {
            self.accepted = self.accepted.max(writer);
        }
        self.promised = self.promised.max(self.accepted);
    }

    fn check_cut(&self, first: Offset) -> Result<(), Refusal> {
        match first < self.tail {
            true => Err(Refusal::Committed { tail: self.tail }),
            false => Ok(()),
        }
    }

    fn forget_from(&mut self, first: Offset) {
        if first < self.next_offset {
            self.writers.cut_to(first);
            if let Some((_, end)) = &mut self.verified {
                *end = first.min(*end);
            }
            while self
                .waiting
                .back()
                .is_some_and(|batch| batch.first_offset >= first)
            {
                self.waiting.pop_back();
            }
            self.next_offset = first;
        }
        assert!(self.tail <= self.next_offset, "what is committed stays");
    }
}

/// The outcome of comparing with a landmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// The log is a prefix of the other one, and ends here.
    At(Offset),
    /// A landmark of another offset is needed.
    Not {
        /// The offset.
        ask: Offset,
    },
}

/// Takes note of what a batch means for the transaction of its producer, which was further when the history was written.
fn note_part(history: &mut History, batch: &BatchFacts) {
    let Some(stamp) = batch.producer.filter(|_| !planted(Bug::StableFromCovered)) else {
        return;
    };
    match batch.part {
        Part::Outside => {}
        Part::Inside => history.producers.note_opened(stamp, batch.first_offset),
        Part::Ends(_) => history.producers.note_ended(stamp, batch.first_offset),
    }
}

/// Takes note of a batch; of its producer only where the history does not know of it already.
fn note(history: &mut History, covered: Offset, now: Duration, batch: &BatchFacts) {
    let is_known = |stamp: &Stamp| history.producers.has(stamp.id);
    let known = batch.first_offset < covered && batch.producer.as_ref().is_none_or(is_known);
    let noted = match known {
        true => {
            note_part(history, batch);
            history.epochs.replay(batch.epoch, batch.first_offset)
        }
        false => history.replay(now, batch),
    };
    noted.expect("the epochs of a log rise, and so do those of its committed part");
}
