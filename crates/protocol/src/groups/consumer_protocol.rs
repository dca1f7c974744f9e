//! Kafka's embedded consumer protocol: the metadata and assignments of consumers of the classic protocol.
//!
//! Read to know which topics a member wants, and to let both protocols meet in one group. Foreign bytes: whatever does not
//! fit is no subscription, never a panic.

use std::collections::BTreeMap;

use bytes::Bytes;
use record::PartitionId;

use super::Assignment;
use super::contract::Name;
use super::topics::Topics;
use crate::encoding::{Reader, Writer};

/// The protocol type of consumers, whose metadata and assignments can be read here.
pub const CONSUMER_TYPE: &str = "consumer";

/// A member's wishes, and the partitions that it says it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) topics: Vec<Name>,
    /// Partitions it has, by topic (from version 1 on).
    pub(crate) owned: Vec<(Name, Vec<i32>)>,
    pub(crate) rack: Option<Name>,
}

impl Subscription {
    /// Reads a subscription of any version; what newer ones append is passed over.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Subscription> {
        let mut bytes = Reader::new(bytes);
        let version = bytes.i16("version").ok()?;
        if version < 0 {
            return None;
        }
        let count = bytes.count("topics", 2).ok()?;
        let topics = (0..count)
            .map(|_| bytes.short_text("topic").ok())
            .collect::<Option<_>>()?;
        user_data(&mut bytes)?;
        let mut subscription = Subscription {
            topics,
            owned: Vec::new(),
            rack: None,
        };
        if version >= 1 {
            subscription.owned = read_partitions(&mut bytes)?;
        }
        if version >= 2 {
            bytes.i32("generation").ok()?;
        }
        if version >= 3 {
            subscription.rack = bytes.optional_short_text("rack").ok()?;
        }
        Some(subscription)
    }

    /// The partitions that the member says it has, of topics that are known here.
    pub(crate) fn owned_partitions(&self, topics: &Topics) -> Assignment {
        let mut owned = Assignment::default();
        for (name, indexes) in &self.owned {
            if let Some(topic) = topics.named(name) {
                owned.extend(indexes.iter().map(|index| PartitionId {
                    topic: topic.id,
                    index: *index,
                }));
            }
        }
        owned
    }
}

/// Bytes that an assignor adds for itself.
fn user_data<'a>(bytes: &mut Reader<'a>) -> Option<&'a [u8]> {
    match bytes.i32("user data").ok()? {
        -1 => Some(&[]),
        length => bytes.take_slice("user data", usize::try_from(length).ok()?).ok(),
    }
}

fn read_partitions(bytes: &mut Reader<'_>) -> Option<Vec<(Name, Vec<i32>)>> {
    let count = bytes.count("topics", 6).ok()?;
    let mut topics = Vec::with_capacity(count);
    for _ in 0..count {
        let topic = bytes.short_text("topic").ok()?;
        let count = bytes.count("partitions", 4).ok()?;
        let partitions = (0..count)
            .map(|_| bytes.i32("partition").ok())
            .collect::<Option<Vec<i32>>>()?;
        topics.push((topic, partitions));
    }
    Some(topics)
}

/// An assignment as a member of the classic protocol reads it, version 0. Topics that are gone are left out.
pub(crate) fn write_assignment(topics: &Topics, assignment: &Assignment) -> Bytes {
    let named: BTreeMap<&Name, _> = assignment
        .topics()
        .filter_map(|(id, indexes)| topics.with_id(id).map(|(name, _)| (name, indexes)))
        .collect();
    let mut bytes = Writer::open_record(0);
    bytes.count(named.len());
    for (name, indexes) in named {
        bytes.short_text(name);
        bytes.count(indexes.len());
        for index in indexes {
            bytes.i32(*index);
        }
    }
    // No user data.
    bytes.i32(-1);
    bytes.close()
}

/// The assignment that a leader of the classic protocol gave a consumer: topics by name, each with its partitions, as they stand there. No
/// bytes are no partitions; `None` if they are no assignment.
#[must_use]
pub fn named_assignment(bytes: &[u8]) -> Option<Vec<(Name, Vec<i32>)>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    read_named(&mut Reader::new(bytes))
}

fn read_named(bytes: &mut Reader<'_>) -> Option<Vec<(Name, Vec<i32>)>> {
    bytes.i16("version").ok().filter(|version| *version >= 0)?;
    read_partitions(bytes)
}

/// The partitions in an assignment that a leader of the classic protocol made, of topics that are known here. `None` also if
/// its assignor says more than that to the member: nobody else could go on with it.
pub(crate) fn read_assignment(topics: &Topics, bytes: &[u8]) -> Option<Assignment> {
    if bytes.is_empty() {
        return Some(Assignment::default());
    }
    let mut bytes = Reader::new(bytes);
    let owned = read_named(&mut bytes)?;
    if !user_data(&mut bytes)?.is_empty() {
        return None;
    }
    let subscription = Subscription {
        topics: Vec::new(),
        owned,
        rack: None,
    };
    Some(subscription.owned_partitions(topics))
}
