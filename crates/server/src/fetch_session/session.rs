//! One consumer's session: the partitions that it has named, each with what it was told of it last.
//!
//! Stored for long: so it keeps no names that its topics cannot have, and knows what it takes of its core's memory.

use std::collections::{BTreeMap, btree_map::Entry};
use std::net::IpAddr;

use indexmap::IndexMap;
use kafka_wire::fetch::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_wire::{ErrorCode, Text};
use platform::slices::Slices;
use protocol::metadata::TOPIC_NAME_BYTES_MAX;
use record::TopicId;
use tokio::time::Instant;

use super::shares::SessionRoom;

/// Partitions that are listed before others have their turn.
pub(super) const LISTED_IN_ONE_TURN: usize = 2_000;
/// Partitions that one session keeps at most, whether they exist or not.
pub(super) const PARTITIONS_MAX: usize = 10_000;

/// Bytes that a session takes beside its partitions.
pub(super) const SESSION_BYTES: usize = size_of::<FetchSession>() + 128;
/// Bytes that each partition takes beside its topic's name: in the list, which may be half empty, in the table of places,
/// likewise, with a hash and an index for each, and for the name's allocation.
pub(super) const PARTITION_BYTES: usize =
    2 * size_of::<Wanted>() + 2 * (size_of::<((TopicKey, i32), usize)>() + 16) + 48;

/// A topic as the request names it: by its name, from version 13 on by its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopicKey {
    pub(crate) name: Text,
    pub(crate) id: TopicId,
}

/// One partition, as a fetch wants it.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) topic: TopicKey,
    pub(crate) partition: FetchPartition,
    /// (tail, log start), as the session told its consumer last. `None` before the first answer, and after an error: the next
    /// answer is news then.
    pub(crate) told: Option<(i64, i64, i64)>,
}

/// One partition, as an answer tells of it.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) topic: TopicKey,
    pub(crate) partition: i32,
    /// (tail, log start); `None` with an error.
    pub(crate) stands: Option<(i64, i64, i64)>,
    /// Says whether the answer brings records of it.
    pub(crate) brings_records: bool,
}

/// One consumer's session.
#[derive(Debug)]
pub(crate) struct FetchSession {
    pub(super) id: i32,
    pub(super) address: IpAddr,
    pub(super) used_at: Instant,
    /// Bytes that it takes of its core's memory.
    pub(super) bytes: usize,
    epoch: i32,
    /// Says whether its topics are named by their ids.
    names_ids: bool,
    pub(super) wanted: Vec<Wanted>,
    places: IndexMap<(TopicKey, i32), usize>,
    /// Where the next answer begins: behind the last partition that brought records. Else those that always have some would
    /// fill every answer, and the others never come.
    begin: usize,
}

impl FetchSession {
    /// The room that a session of these partitions takes; none if no session keeps them.
    pub(super) fn room_for(wanted: &[Wanted]) -> Option<SessionRoom> {
        let is_kept = !wanted.is_empty() && wanted.len() <= PARTITIONS_MAX && !wanted.iter().any(is_overlong);
        is_kept.then(|| SessionRoom {
            sessions: 1,
            bytes: SESSION_BYTES + wanted.iter().map(bytes_of).sum::<usize>(),
        })
    }

    /// Begins with these partitions.
    pub(super) fn new(
        id: i32,
        address: IpAddr,
        names_ids: bool,
        wanted: &[Wanted],
        now: Instant,
    ) -> FetchSession {
        let mut session = FetchSession {
            id,
            address,
            used_at: now,
            bytes: SESSION_BYTES,
            epoch: 1,
            names_ids,
            wanted: Vec::with_capacity(wanted.len()),
            places: IndexMap::with_capacity(wanted.len()),
            begin: 0,
        };
        for wanted in wanted {
            session.put(wanted.clone());
        }
        session
    }

    /// Takes the next step of its consumer, which says in which state it is.
    ///
    /// # Errors
    /// It is in another state, or names its topics in the other way.
    pub(super) fn step(&mut self, epoch: i32, names_ids: bool, now: Instant) -> Result<(), ErrorCode> {
        if self.epoch != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if self.names_ids != names_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        self.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        self.used_at = now;
        Ok(())
    }

    /// All of its partitions, in the order of the next answer.
    pub(super) fn in_order(&self) -> Vec<Wanted> {
        let (before, rest) = self.wanted.split_at(self.begin.min(self.wanted.len()));
        [rest, before].concat()
    }

    /// Notes what its consumer was told of a partition.
    pub(super) fn note(&mut self, told: Told) {
        let Some(place) = self.places.get(&(told.topic, told.partition)) else {
            return;
        };
        self.wanted[*place].told = told.stands;
        if told.brings_records {
            self.begin = place + 1;
        }
    }

    pub(super) fn room(&self) -> SessionRoom {
        SessionRoom {
            sessions: 1,
            bytes: self.bytes,
        }
    }

    /// Takes over what a request changes; false if that is more than a session keeps.
    pub(super) fn update(&mut self, forgotten: &[ForgottenTopic], wanted: Vec<Wanted>) -> bool {
        for topic in forgotten {
            let key = TopicKey {
                name: topic.topic.clone(),
                id: topic.topic_id,
            };
            topic
                .partitions
                .iter()
                .for_each(|index| self.forget(&key, *index));
        }
        wanted.into_iter().all(|wanted| self.put(wanted))
    }

    /// Adds or changes a partition; false if the session has no place for it.
    fn put(&mut self, wanted: Wanted) -> bool {
        let key = (wanted.topic.clone(), wanted.partition.partition);
        if let Some(place) = self.places.get(&key) {
            self.wanted[*place].partition = wanted.partition;
            return true;
        }
        if self.wanted.len() >= PARTITIONS_MAX || is_overlong(&wanted) {
            return false;
        }
        self.bytes += bytes_of(&wanted);
        // Stored for long: the names must not keep the request's whole frame alive. Neighbours are mostly of one topic.
        let topic = match self.wanted.last() {
            Some(last) if last.topic == wanted.topic => last.topic.clone(),
            _ => TopicKey {
                name: wanted.topic.name.detached(),
                id: wanted.topic.id,
            },
        };
        self.places
            .insert((topic.clone(), wanted.partition.partition), self.wanted.len());
        self.wanted.push(Wanted { topic, ..wanted });
        true
    }

    fn forget(&mut self, topic: &TopicKey, index: i32) {
        let Some(place) = self.places.swap_remove(&(topic.clone(), index)) else {
            return;
        };
        let forgotten = self.wanted.swap_remove(place);
        self.bytes -= bytes_of(&forgotten);
        if let Some(moved) = self.wanted.get(place) {
            self.places
                .insert((moved.topic.clone(), moved.partition.partition), place);
        }
    }
}

/// Bytes that a partition takes of a session's memory.
fn bytes_of(wanted: &Wanted) -> usize {
    PARTITION_BYTES + wanted.topic.name.as_bytes().len()
}

/// No topic has such a name.
fn is_overlong(wanted: &Wanted) -> bool {
    wanted.topic.name.as_bytes().len() > TOPIC_NAME_BYTES_MAX
}

/// The partitions that a request names, each once: of what it says of one several times the last holds, as in Kafka.
pub(crate) async fn list(topics: Vec<FetchTopic>) -> Vec<Wanted> {
    let mut slices = Slices::of(LISTED_IN_ONE_TURN);
    let count = topics.iter().map(|topic| topic.partitions.len()).sum();
    let mut wanted: Vec<Wanted> = Vec::with_capacity(count);
    // A hash table of so many is made anew as it grows, or touched all over from the first on, all in one turn.
    let mut places: BTreeMap<TopicKey, BTreeMap<i32, usize>> = BTreeMap::new();
    for topic in topics {
        let key = TopicKey {
            name: topic.topic,
            id: topic.topic_id,
        };
        let places = places.entry(key.clone()).or_default();
        for partition in topic.partitions {
            match places.entry(partition.partition) {
                Entry::Occupied(place) => wanted[*place.get()].partition = partition,
                Entry::Vacant(place) => {
                    place.insert(wanted.len());
                    wanted.push(Wanted {
                        topic: key.clone(),
                        partition,
                        told: None,
                    });
                }
            }
            slices.did(1).await;
        }
        slices.did(1).await;
    }
    wanted
}
