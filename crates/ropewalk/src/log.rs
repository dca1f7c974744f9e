//! One log of a directory: append to it, read it, follow it, trim it. A handle is a few words; clone it for each thread.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use record::{Offset, PartitionId, Record};
use storage::{Reserve, StageError};

use crate::append::{AppendError, NewRecord, Rules, build};
use crate::cursor::{Cursor, ReadError};
use crate::engine::{Phase, State};
use crate::logs::Owner;

/// Reasons for which nothing was trimmed. After [`AppendError::Dead`] alone the log may be trimmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrimError {
    /// Only committed records can be given up.
    #[error("the log cannot be trimmed to offset {wanted}: its committed records end at {tail}")]
    OutOfRange {
        /// The first offset that was to stay.
        wanted: Offset,
        /// The offset after the last committed record.
        tail: Offset,
    },
    /// The trim could not be journaled.
    #[error(transparent)]
    Refused(#[from] AppendError),
}

/// A log. Its records have offsets 0, 1, 2 and so on, in the order in which they were appended.
///
/// # Panics
/// As [`Logs`](crate::Logs).
#[derive(Clone)]
pub struct Log {
    pub(crate) owner: Arc<Owner>,
    id: PartitionId,
    name: Arc<str>,
    rules: Rules,
}

impl Log {
    pub(crate) fn new(owner: Arc<Owner>, id: PartitionId, name: &str, rules: Rules) -> Log {
        Log {
            owner,
            id,
            name: name.into(),
            rules,
        }
    }

    /// The name of the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends one record and returns its offset when it is durable: flushed to the disk. Appends of other threads ride in the
    /// same flush. It waits while the journal has no room and some can be made.
    ///
    /// # Errors
    /// See [`AppendError`]. But for `Dead`, nothing was appended.
    pub fn append<'a>(&self, record: impl Into<NewRecord<'a>>) -> Result<Offset, AppendError> {
        self.append_batch([record]).map(|offsets| offsets.start)
    }

    /// Appends records that follow each other, in one batch: after a crash all are there, or none. Returns the offset of the
    /// first and the one after the last when they are durable.
    ///
    /// # Errors
    /// As `append`.
    pub fn append_batch<'a, R: Into<NewRecord<'a>>>(
        &self,
        records: impl IntoIterator<Item = R>,
    ) -> Result<Range<Offset>, AppendError> {
        let engine = &self.owner.engine;
        let records = records.into_iter().map(Into::into);
        let built = build(records, engine.clock.wall_ms(), &self.rules)?;
        engine.append(self.id, &built)
    }

    /// The offsets of the committed records that are kept: from the first one to the one after the last.
    pub fn bounds(&self) -> Range<Offset> {
        let state = self.owner.engine.state();
        let leader = &state.partition(self.id).leader;
        leader.log_start()..leader.tail()
    }

    /// The first offset that is kept.
    pub fn start(&self) -> Offset {
        self.bounds().start
    }

    /// The offset after the last committed record.
    pub fn tail(&self) -> Offset {
        self.bounds().end
    }

    /// The committed records from `from` on, up to the tail as it is now. The reader holds the directory open as a `Log` does.
    ///
    /// # Errors
    /// `OutOfRange` if `from` was trimmed or lies behind the tail. The records come with errors of their own.
    pub fn read(&self, from: Offset) -> Result<Reader, ReadError> {
        let until = self.place(from)?;
        Ok(Reader {
            cursor: Cursor::new(self.id, from),
            log: self.clone(),
            until,
            failed: false,
        })
    }

    /// The committed records from `from` on, and those that are still to come: the iterator waits for them, and ends when the
    /// logs are closed.
    ///
    /// Holds the directory open as a `Log` does: end it, or call [`Logs::close`](crate::Logs::close). If the logs are closed
    /// before everything committed was taken, the last item is [`ReadError::Closed`]. After [`AppendError::Dead`] nothing more
    /// comes; only closing ends the wait.
    ///
    /// # Errors
    /// As `read`.
    pub fn follow(&self, from: Offset) -> Result<Follower, ReadError> {
        self.place(from)?;
        Ok(Follower {
            cursor: Cursor::new(self.id, from),
            log: self.clone(),
            failed: false,
        })
    }

    /// Checks that a reader can begin at `from`; returns the tail.
    fn place(&self, from: Offset) -> Result<Offset, ReadError> {
        let Range { start, end } = self.bounds();
        match start <= from && from <= end {
            true => Ok(end),
            false => Err(ReadError::OutOfRange {
                wanted: from,
                log_start: start,
                tail: end,
            }),
        }
    }

    /// Gives up all records before `before`, for ever; durable on return. Their space is freed in the background, a segment at a
    /// time. Returns the first offset that is kept now: a greater one, if the log was trimmed further already.
    ///
    /// # Errors
    /// See [`TrimError`]. Nothing has changed then, but for `Dead`.
    pub fn trim(&self, before: Offset) -> Result<Offset, TrimError> {
        let engine = &self.owner.engine;
        let state = engine.state();
        let leader = &state.partition(self.id).leader;
        match leader.check_trim(before) {
            Err(protocol::TrimError::OutOfRange { tail, .. }) => {
                return Err(TrimError::OutOfRange { wanted: before, tail });
            }
            // Nothing is left to give up, and so nothing to journal. But the flush of the trim that gave it up may be under way.
            Ok(start) if start == leader.log_start() => {
                drop(engine.until_all_durable(state).map_err(AppendError::dead)?);
                return Ok(start);
            }
            // A leader is sealed when the journal has died: staging says why.
            Ok(_) | Err(protocol::TrimError::Sealed { .. }) => {}
        }
        let stage = &mut |state: &mut State| state.stage_trim(self.id, before);
        let (state, (start, frame)) = engine.stage_with_room(state, Reserve::Use, stage)?;
        let mut state = engine.until_durable(state, frame).map_err(AppendError::dead)?;
        engine.ask_background(&mut state);
        Ok(start)
    }
}

impl State {
    /// Puts a trim into the journal and has the leader give the prefix up. Returns the first offset that is kept, and the frame.
    fn stage_trim(&mut self, id: PartitionId, before: Offset) -> Result<(Offset, u64), StageError> {
        let dead = self.store.dead().map(str::to_owned);
        let partition = self.partitions.get_mut(&id).expect("the partition was opened");
        // Checked again: others may have trimmed further while this one waited for room, or the epoch was sealed.
        let checked = partition.leader.check_trim(before);
        let start = checked.map_err(|error| StageError::Dead(dead.unwrap_or_else(|| error.to_string())))?;
        let frame = self.store.trim(id, start)?;
        partition.leader.handle_trim(start);
        self.assert_same_log(id);
        Ok((start, frame))
    }
}

#[cfg(test)]
impl Log {
    /// The offset after the last record that was staged.
    pub(crate) fn next_staged(&self) -> Offset {
        self.owner.engine.state().partition(self.id).leader.next_offset()
    }

    /// Appends a batch as it is, of one record.
    pub(crate) fn append_built(&self, batch: bytes::Bytes) -> Result<Range<Offset>, AppendError> {
        let built = crate::append::Built {
            bytes: batch,
            record_count: 1,
            now_ms: 0,
        };
        self.owner.engine.append(self.id, &built)
    }

    /// The epoch that this opening appends in.
    pub(crate) fn epoch(&self) -> record::Epoch {
        self.owner.engine.state().partition(self.id).leader.epoch()
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Log").field("name", &self.name).finish()
    }
}

/// Records of a log up to its tail at the time of [`Log::read`], which makes it. Ends after the first error.
#[derive(Debug)]
pub struct Reader {
    log: Log,
    cursor: Cursor,
    until: Offset,
    failed: bool,
}

impl Iterator for Reader {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let taken = self.cursor.take(&self.log.owner.engine, self.until);
        self.failed = taken.is_err();
        taken.transpose()
    }
}

/// Records of a log as they are committed. Made by [`Log::follow`]. As an iterator it waits for each, and ends after the first
/// error.
#[derive(Debug)]
pub struct Follower {
    log: Log,
    cursor: Cursor,
    failed: bool,
}

/// The outcome of a wait for a record.
enum Waited {
    /// There are records before this tail.
    Until(Offset),
    TimedOut,
    /// Nothing more will come.
    Closed,
}

impl Follower {
    /// The next record, waited for as long as `timeout`; `None` if there was none by then: ask again.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use ropewalk::{Log, ReadError};
    ///
    /// fn print_until_closed(log: &Log) -> Result<(), ReadError> {
    ///     let mut follower = log.follow(log.start())?;
    ///     loop {
    ///         match follower.next_timeout(Duration::from_millis(100)) {
    ///             Ok(Some(record)) => println!("{:?}", record.value),
    ///             Ok(None) => println!("nothing came; other work could be done"),
    ///             Err(ReadError::Closed) => return Ok(()),
    ///             Err(error) => return Err(error),
    ///         }
    ///     }
    /// }
    /// # let temporary = tempfile::tempdir().expect("there is room");
    /// # let logs = ropewalk::Logs::open(temporary.path().join("logs")).expect("there is room");
    /// # let log = logs.log("orders").expect("there is room");
    /// # logs.close();
    /// # assert!(print_until_closed(&log).is_ok());
    /// ```
    ///
    /// # Errors
    /// `Closed` once the logs are closed. After any other error the next call tries the same place again: damaged or trimmed
    /// records are found so each time, and never passed over.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Record>, ReadError> {
        let engine = &self.log.owner.engine;
        let deadline = engine.clock.monotonic().saturating_add(timeout);
        loop {
            let tail = match self.until_tail_moves(Some(deadline)) {
                Waited::Until(tail) => tail,
                Waited::TimedOut => return Ok(None),
                Waited::Closed => return Err(ReadError::Closed),
            };
            // None where compaction has left nothing up to the tail: then there is more to wait for.
            if let Some(record) = self.take_before(tail)? {
                return Ok(Some(record));
            }
        }
    }

    fn take_before(&mut self, tail: Offset) -> Result<Option<Record>, ReadError> {
        self.cursor.take(&self.log.owner.engine, tail)
    }

    /// Waits until there is a record to take. `deadline` is a monotonic time.
    fn until_tail_moves(&self, deadline: Option<Duration>) -> Waited {
        let engine = &self.log.owner.engine;
        let mut state = engine.state();
        loop {
            let tail = state.partition(self.log.id).leader.tail();
            if self.cursor.next() < tail {
                return Waited::Until(tail);
            }
            if state.phase == Phase::Closed {
                return Waited::Closed;
            }
            let left = deadline.map(|deadline| deadline.saturating_sub(engine.clock.monotonic()));
            if left.is_some_and(|left| left.is_zero()) {
                return Waited::TimedOut;
            }
            state.followers += 1;
            state = match left {
                None => engine.wait(&engine.tail_moved, state),
                Some(left) => engine.wait_for(&engine.tail_moved, state, left).0,
            };
            state.followers -= 1;
        }
    }
}

impl Iterator for Follower {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        loop {
            let Waited::Until(tail) = self.until_tail_moves(None) else {
                return None;
            };
            let taken = self.take_before(tail);
            self.failed = taken.is_err();
            // None where compaction has left nothing up to the tail: then there is more to wait for.
            if let Some(taken) = taken.transpose() {
                return Some(taken);
            }
        }
    }
}
