//! The way of an append: a batch is built on the caller's thread, numbered and staged under the lock, and durable when the
//! flush that carries it has returned.
//!
//! A refused append has left no trace. One that finds no room has the background make some and waits for it; only if that
//! fails is it refused, so a full disk is an answer and never a wait without end.

use std::ops::Range;

use bytes::Bytes;
use protocol::metadata::METADATA_PARTITION;
use protocol::metadata::topic_config::TimestampType;
use protocol::{Admission, Checked};
use record::{BatchBuilder, Compression, Offset, PartitionId, RECORD_OVERHEAD_BYTES_MAX};
use storage::{BatchBytes, Reserve, StageError};

use crate::engine::{Engine, Guard, Phase, State};

/// A record to be appended. Plain bytes and text are a record with this value and no key; a pair is a key and a value.
///
/// ```
/// use ropewalk::{Logs, NewRecord};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let temporary = tempfile::tempdir()?;
/// let logs = Logs::open(temporary.path().join("users"))?;
/// let users = logs.log("users")?;
/// users.append("no key")?;
/// users.append(NewRecord::keyed("ann", "1"))?;
/// users.append_batch([NewRecord::keyed("bob", "2"), NewRecord::tombstone("ann")])?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewRecord<'a> {
    /// Its key; `None` and an empty key are two things.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` says that the key's last value is gone (a tombstone).
    pub value: Option<&'a [u8]>,
}

impl<'a> NewRecord<'a> {
    /// A record with a key and a value.
    ///
    /// ```
    /// # use ropewalk::NewRecord;
    /// let record = NewRecord::keyed("ann", &[1_u8, 2]);
    /// assert_eq!((record.key, record.value), (Some(&b"ann"[..]), Some(&[1, 2][..])));
    /// ```
    pub fn keyed<K, V>(key: &'a K, value: &'a V) -> NewRecord<'a>
    where
        K: AsRef<[u8]> + ?Sized,
        V: AsRef<[u8]> + ?Sized,
    {
        NewRecord {
            key: Some(key.as_ref()),
            value: Some(value.as_ref()),
        }
    }

    /// A record with a key and no value: it says that the key's last value is gone.
    ///
    /// ```
    /// # use ropewalk::NewRecord;
    /// let record = NewRecord::tombstone("ann");
    /// assert_eq!((record.key, record.value), (Some(&b"ann"[..]), None));
    /// ```
    pub fn tombstone<K: AsRef<[u8]> + ?Sized>(key: &'a K) -> NewRecord<'a> {
        NewRecord {
            key: Some(key.as_ref()),
            value: None,
        }
    }
}

impl<'a> From<&'a [u8]> for NewRecord<'a> {
    fn from(value: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            key: None,
            value: Some(value),
        }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for NewRecord<'a> {
    fn from(value: &'a [u8; N]) -> NewRecord<'a> {
        NewRecord::from(&value[..])
    }
}

impl<'a> From<&'a Vec<u8>> for NewRecord<'a> {
    fn from(value: &'a Vec<u8>) -> NewRecord<'a> {
        NewRecord::from(&value[..])
    }
}

impl<'a> From<&'a Bytes> for NewRecord<'a> {
    fn from(value: &'a Bytes) -> NewRecord<'a> {
        NewRecord::from(&value[..])
    }
}

impl<'a> From<&'a str> for NewRecord<'a> {
    fn from(value: &'a str) -> NewRecord<'a> {
        NewRecord::from(value.as_bytes())
    }
}

impl<'a> From<&'a String> for NewRecord<'a> {
    fn from(value: &'a String) -> NewRecord<'a> {
        NewRecord::from(value.as_bytes())
    }
}

impl<'a> From<(&'a [u8], &'a [u8])> for NewRecord<'a> {
    /// A record of a key and a value.
    ///
    /// ```
    /// # use ropewalk::NewRecord;
    /// let (key, value) = (vec![1_u8], String::from("one"));
    /// let record = NewRecord::from((&key[..], value.as_bytes()));
    /// assert_eq!(record, NewRecord::keyed(&key, &value));
    /// ```
    fn from((key, value): (&'a [u8], &'a [u8])) -> NewRecord<'a> {
        NewRecord::keyed(key, value)
    }
}

/// Reasons for which nothing was appended. After `Dead` alone the batch may be in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// A batch has at least one record. Fix the caller.
    #[error("there is no record to append")]
    Empty,
    /// A node made the log a compacted topic, of which each key's last record stays: a record without a key would stay for ever.
    /// Give it one.
    #[error("the record at place {place} of the batch has no key; the log is compacted (cleanup.policy)")]
    WithoutKey {
        /// The record's place in the batch, counted from 0.
        place: usize,
    },
    /// The batch is larger than the log allows. Append less at a time.
    #[error("a batch of {bytes} bytes or more cannot be appended; this log takes {bytes_max}")]
    TooLarge {
        /// Its size in bytes up to the record that was too much.
        bytes: usize,
        /// The largest batch that the log allows, in bytes.
        bytes_max: usize,
    },
    /// There is no room, and none can be made. Free some space or trim, and try again; stored records can be read.
    #[error("there is no room to append: {reason}; free some space or trim")]
    NoRoom {
        /// The reason, a sentence.
        reason: String,
    },
    /// A flush failed: batches that waited for it may be there or not, and the next opening finds out. Or a thread of the library
    /// has ended, which is our mistake. Close, mend the disk, open again.
    #[error("nothing can be appended until the directory is opened again: {reason}")]
    Dead {
        /// The reason, a sentence.
        reason: String,
    },
    /// The logs were closed.
    #[error("the logs are closed")]
    Closed,
}

impl AppendError {
    pub(crate) fn dead(reason: impl Into<String>) -> AppendError {
        AppendError::Dead {
            reason: reason.into(),
        }
    }
}

/// A batch that was built and not numbered.
pub(crate) struct Built {
    pub(crate) bytes: Bytes,
    pub(crate) record_count: i32,
    pub(crate) now_ms: i64,
}

/// A batch in the journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Staged {
    pub(crate) first: Offset,
    pub(crate) next: Offset,
    pub(crate) frame: u64,
}

/// The rules of a log for the batches that it takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The largest batch.
    pub(crate) batch_bytes_max: usize,
    /// Only records with keys.
    pub(crate) only_keyed: bool,
}

/// Builds a batch of `records` at `now_ms`.
///
/// # Errors
/// `Empty`; `WithoutKey`; `TooLarge` before more is gathered than the log takes.
pub(crate) fn build<'a>(
    records: impl IntoIterator<Item = NewRecord<'a>>,
    now_ms: i64,
    rules: &Rules,
) -> Result<Built, AppendError> {
    let bytes_max = rules.batch_bytes_max;
    let mut builder = BatchBuilder::new(Compression::None);
    for (place, NewRecord { key, value }) in records.into_iter().enumerate() {
        if rules.only_keyed && key.is_none() {
            return Err(AppendError::WithoutKey { place });
        }
        let content = [key, value].map(|field| field.map_or(0, <[u8]>::len));
        let bytes = content
            .into_iter()
            .fold(builder.length_bytes(), usize::saturating_add)
            .saturating_add(RECORD_OVERHEAD_BYTES_MAX);
        if bytes > bytes_max {
            return Err(AppendError::TooLarge { bytes, bytes_max });
        }
        builder.append(now_ms, key, value, &[]);
    }
    if builder.is_empty() {
        return Err(AppendError::Empty);
    }
    let record_count = builder.record_count();
    Ok(Built {
        bytes: builder.build(),
        record_count,
        now_ms,
    })
}

impl Engine {
    /// Appends a batch; durable on return.
    pub(crate) fn append(&self, id: PartitionId, built: &Built) -> Result<Range<Offset>, AppendError> {
        let (state, staged) = self.stage_with_room(self.state(), Reserve::Keep, &mut |state| {
            state.stage(id, built, Reserve::Keep)
        })?;
        let state = self.until_durable(state, staged.frame);
        drop(state.map_err(AppendError::dead)?);
        Ok(staged.first..staged.next)
    }

    /// Has `stage` put something into the journal, behind the commands that this opening has to journal first. If there is no
    /// room, has some made.
    ///
    /// # Errors
    /// `stage`'s own; `NoRoom` when the background has tried to make room and could not; `Closed`, `Dead`.
    pub(crate) fn stage_with_room<'a, T>(
        &'a self,
        mut state: Guard<'a>,
        reserve: Reserve,
        stage: &mut dyn FnMut(&mut State) -> Result<T, StageError>,
    ) -> Result<(Guard<'a>, T), AppendError> {
        let mut asked = None;
        loop {
            if state.phase != Phase::Open {
                return Err(AppendError::Closed);
            }
            let short = match reserve {
                Reserve::Keep => state.background.short_of_space,
                // Entries that make room may be put into the journal while the disk is short of space.
                Reserve::UseHalf | Reserve::Use => None,
            };
            if short.is_none() {
                match state.stage_start(self).and_then(|()| stage(&mut state)) {
                    Ok(staged) => return Ok((state, staged)),
                    Err(StageError::Full) => {}
                    Err(StageError::Dead(reason)) => return Err(AppendError::Dead { reason }),
                    Err(StageError::TooLarge { bytes, file_bytes }) => {
                        return Err(AppendError::TooLarge {
                            bytes,
                            bytes_max: usize::try_from(file_bytes).unwrap_or(usize::MAX),
                        });
                    }
                }
            }
            state = self.wait_for_room(state, short.is_some(), &mut asked)?;
        }
    }

    /// Waits for a pass of the background that begins from now on, or for room before its end.
    fn wait_for_room<'a>(
        &'a self,
        mut state: Guard<'a>,
        is_short: bool,
        asked: &mut Option<u64>,
    ) -> Result<Guard<'a>, AppendError> {
        if state.background.is_gone {
            let reason = "the thread that makes room has ended by a panic".to_owned();
            return Err(AppendError::Dead { reason });
        }
        let awaited = *asked.get_or_insert_with(|| state.background.begun + 1);
        if state.background.ended >= awaited {
            let trouble = state.background.trouble.clone();
            let free_bytes = state.background.short_of_space.filter(|_| is_short);
            if let Some(reason) = trouble.or_else(|| free_bytes.map(|free_bytes| self.shortage(free_bytes))) {
                return Err(AppendError::NoRoom { reason });
            }
            // It made room, and others took it.
            *asked = None;
            return Ok(state);
        }
        state.background.room_wanted = true;
        self.ask_background(&mut state);
        Ok(self.wait(&self.room, state))
    }

    fn shortage(&self, free_bytes: u64) -> String {
        let reserve = self.settings.disk_reserve_bytes;
        format!("the disk has {free_bytes} bytes left, and {reserve} are kept in reserve")
    }
}

impl State {
    /// Numbers a batch and puts it into the journal.
    pub(crate) fn stage(
        &mut self,
        id: PartitionId,
        built: &Built,
        reserve: Reserve,
    ) -> Result<Staged, StageError> {
        let dead = self.store.dead().map(str::to_owned);
        let partition = self.partitions.get_mut(&id).expect("the partition was opened");
        let append = protocol::Append {
            record_count: built.record_count,
            max_timestamp_ms: built.now_ms,
            producer: None,
            inside: None,
        };
        let numbered = match partition.leader.check_append(&append, &Admission::NOBODY) {
            Ok(Checked::New(numbered)) => numbered,
            Ok(Checked::Unverified | Checked::Duplicate(_)) => {
                unreachable!("a batch of no producer is nobody's duplicate")
            }
            // The journal is dead and the epoch sealed; or, after 2^63 records, the log has no offsets left.
            Err(error) => return Err(StageError::Dead(dead.unwrap_or_else(|| error.to_string()))),
        };
        let by_append = partition.settings.timestamp_type == TimestampType::LogAppendTime;
        self.store.append(
            id,
            &storage::Append {
                epoch: numbered.epoch,
                first: numbered.first_offset,
                next: numbered.next_offset,
                max_timestamp_ms: built.now_ms,
                append_time_ms: by_append.then_some(built.now_ms),
                producer_id: None,
                aborts: None,
                reserve,
            },
            &mut BatchBytes::from(built.bytes.clone()),
        )?;
        // Only a producer's stamp would need the time.
        let appended = partition
            .leader
            .handle_append(std::time::Duration::ZERO, numbered);
        self.assert_same_log(id);
        Ok(Staged {
            first: appended.first_offset,
            next: appended.next_offset,
            frame: self.store.staged_before() - 1,
        })
    }

    /// Puts the commands of this opening into the journal, once: in the frame of the entry that follows, or an earlier one.
    fn stage_start(&mut self, engine: &Engine) -> Result<(), StageError> {
        if self.start.is_empty() {
            return Ok(());
        }
        let start = crate::names::as_batch(&self.start, engine.clock.wall_ms());
        self.stage(METADATA_PARTITION, &start, Reserve::Use)?;
        self.start.clear();
        Ok(())
    }
}
