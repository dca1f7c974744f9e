//! The log in memory, and the records by which it changes. Reading its file is making the same changes again.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes};

use crate::codec::{Malformed, Reader, entry_bytes, put_entry, put_id, put_vote};
use crate::identity::LibraryId;
use crate::library::{LibraryEntry, Vote};

/// A change of the log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    /// The node's vote from here on.
    Vote(Vote),
    /// One more entry behind the last.
    Entry(LibraryEntry),
    /// Gives up the entries from `next` on.
    Truncate { next: u64 },
    /// Gives up the entries up to this one, which is committed and in a snapshot. If the log ends before it, or contradicts it, it gives up all.
    Purge(LibraryId),
}

const VOTE: u8 = 1;
const ENTRY: u8 = 2;
const TRUNCATE: u8 = 3;
const PURGE: u8 = 4;

impl Record {
    pub(crate) fn put(&self, to: &mut Vec<u8>) {
        match self {
            Record::Vote(vote) => {
                to.put_u8(VOTE);
                put_vote(to, vote);
            }
            Record::Entry(entry) => {
                to.put_u8(ENTRY);
                put_entry(to, entry);
            }
            Record::Truncate { next } => {
                to.put_u8(TRUNCATE);
                to.put_u64_le(*next);
            }
            Record::Purge(last) => {
                to.put_u8(PURGE);
                put_id(to, last);
            }
        }
    }

    /// How many bytes `put` puts at most.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Record::Entry(entry) => 1 + entry_bytes(entry),
            Record::Vote(_) | Record::Truncate { .. } | Record::Purge(_) => 30,
        }
    }

    /// The records of a frame's body.
    pub(crate) fn read_all(body: Bytes) -> Result<Vec<Record>, Malformed> {
        let mut from = Reader::new(body);
        let mut records = Vec::new();
        while !from.is_empty() {
            records.push(match from.u8()? {
                VOTE => Record::Vote(from.vote()?),
                ENTRY => Record::Entry(from.entry()?),
                TRUNCATE => Record::Truncate { next: from.u64()? },
                PURGE => Record::Purge(from.id()?),
                _ => return Err(Malformed("a record of a kind that is not known here")),
            });
        }
        Ok(records)
    }
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Log {
    vote: Option<Vote>,
    /// The last entry that was given up at the front.
    purged: Option<LibraryId>,
    entries: VecDeque<LibraryEntry>,
    entries_bytes: usize,
}

impl Log {
    pub(crate) fn vote(&self) -> Option<Vote> {
        self.vote
    }

    pub(crate) fn purged(&self) -> Option<LibraryId> {
        self.purged
    }

    /// The last entry, or the last that was given up if none is there.
    pub(crate) fn last(&self) -> Option<LibraryId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }

    /// The identity of the entry at an index that is there, or was given up last.
    pub(crate) fn id_at(&self, index: u64) -> Option<LibraryId> {
        let purged = self.purged.filter(|id| id.index == index);
        purged.or_else(|| {
            self.from(index)
                .next()
                .map(|entry| entry.log_id)
                .filter(|id| id.index == index)
        })
    }

    fn first(&self) -> u64 {
        self.purged.map_or(0, |id| id.index + 1)
    }

    fn next(&self) -> u64 {
        self.first() + self.entries.len() as u64
    }

    /// The entries from an index on.
    pub(crate) fn from(&self, index: u64) -> impl Iterator<Item = &LibraryEntry> {
        let skipped = index.saturating_sub(self.first()).min(self.entries.len() as u64);
        self.entries.range(skipped as usize..)
    }

    /// Makes a change. If it cannot be, the log is as it was.
    pub(crate) fn apply(&mut self, record: Record) -> Result<(), Malformed> {
        match record {
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Entry(entry) => {
                if entry.log_id.index != self.next() {
                    return Err(Malformed("an entry does not follow the one before it"));
                }
                if self
                    .last()
                    .is_some_and(|last| last.leader_id > entry.log_id.leader_id)
                {
                    return Err(Malformed("an entry's term is less than the one before"));
                }
                self.entries_bytes += entry_bytes(&entry);
                self.entries.push_back(entry);
            }
            Record::Truncate { next } => {
                if next < self.first() {
                    return Err(Malformed("entries are cut off that a snapshot has"));
                }
                while self.next() > next {
                    self.drop(VecDeque::pop_back);
                }
            }
            Record::Purge(last) => self.purge(last)?,
        }
        Ok(())
    }

    fn purge(&mut self, last: LibraryId) -> Result<(), Malformed> {
        if self.purged.is_some_and(|purged| purged.index > last.index) {
            return Err(Malformed("entries are given up that were already"));
        }
        if self.id_at(last.index) != Some(last) {
            self.entries.clear();
            self.entries_bytes = 0;
        }
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.log_id.index <= last.index)
        {
            self.drop(VecDeque::pop_front);
        }
        self.purged = Some(last);
        Ok(())
    }

    fn drop(&mut self, pop: impl FnOnce(&mut VecDeque<LibraryEntry>) -> Option<LibraryEntry>) {
        let dropped = pop(&mut self.entries).expect("there is one more than is to be left");
        self.entries_bytes -= entry_bytes(&dropped);
    }

    /// The records that make this log of an empty one.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        let vote = self.vote.map(Record::Vote);
        let purged = self.purged.map(Record::Purge);
        let entries = self.entries.iter().cloned().map(Record::Entry);
        vote.into_iter().chain(purged).chain(entries)
    }

    /// How many bytes those take at most.
    pub(crate) fn bytes(&self) -> usize {
        self.entries_bytes + self.entries.len() + 64
    }
}
