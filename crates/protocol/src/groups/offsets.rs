//! The committed offsets of one group: where each partition's reading goes on.
//!
//! Stands beside the group's members and outlives them. Only durable commits are in here; a commit that is under way
//! counts for nothing until the log has it.

mod commit;
mod commit_pending;
mod delete;
mod end;
mod expire;
mod fetch;
mod pendings;

use std::collections::BTreeMap;
use std::ops::Bound;

use record::TopicId;

use super::context::Context;
use super::contract::{Name, TopicPartition};
use super::records::{Change, OffsetValue, PendingValue, What};
use super::rounds::WORK_AT_ONCE;
use super::settings::OFFSET_RECORD_BYTES;
use crate::producers::ProducerId;

pub(crate) use pendings::Pendings;

/// See the module.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Offsets {
    topics: BTreeMap<Name, BTreeMap<i32, OffsetValue>>,
    count: usize,
    /// The bytes that they take, roughly.
    bytes: usize,
    /// Those that are committed in transactions that have not ended.
    pendings: Pendings,
}

/// Bytes that an offset takes beside the client's words.
const OFFSET_BYTES: usize = 128;

impl Offsets {
    /// Says that nothing is committed, nor pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.pendings.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes + self.pendings.held_bytes()
    }

    pub(crate) fn pendings(&self) -> &Pendings {
        &self.pendings
    }

    pub(crate) fn get(&self, topic: &str, index: i32) -> Option<&OffsetValue> {
        self.topics.get(topic)?.get(&index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TopicPartition, &OffsetValue)> + '_ {
        self.topics.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(|(index, value)| {
                let topic = Name::clone(topic);
                (TopicPartition { topic, index: *index }, value)
            })
        })
    }

    /// Those behind a partition, in order.
    pub(crate) fn after<'a>(
        &'a self,
        last: Option<&'a TopicPartition>,
    ) -> impl Iterator<Item = (&'a Name, i32, &'a OffsetValue)> + 'a {
        let begin = last.map_or(Bound::Unbounded, |last| Bound::Included(&last.topic));
        let topics = self.topics.range::<Name, _>((begin, Bound::Unbounded));
        topics.flat_map(move |(topic, partitions)| {
            let last = last.filter(|last| last.topic == *topic);
            let begin = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last.index));
            let behind = partitions.range((begin, Bound::Unbounded));
            behind.map(move |(index, value)| (topic, *index, value))
        })
    }

    /// The address of the client that made the group, if any of them says it.
    pub(crate) fn find_maker(&self) -> Option<&Name> {
        let committed = self.after(None).map(|(.., value)| value);
        let pending = self.pendings.iter().map(|(_, pending)| &pending.value.offset);
        committed.chain(pending).find_map(|value| value.maker.as_ref())
    }

    /// Every record that the log must hold for them. May also stand behind the records that made them, as a whole or in part, and
    /// changes nothing then.
    pub(crate) fn image(&self) -> impl Iterator<Item = What> + '_ {
        let pending = self.pendings.iter().map(|(partition, pending)| {
            What::Pending(pending.producer, partition.clone(), Some(pending.value.clone()))
        });
        let committed = self.iter().map(|(partition, value)| {
            let value = OffsetValue {
                is_copy: !self.pendings.of(&partition).is_empty(),
                ..value.clone()
            };
            What::Offset(partition, Some(value))
        });
        pending.chain(committed)
    }

    /// Takes a durable change of a pending offset.
    pub(crate) fn apply_pending(
        &mut self,
        producer: ProducerId,
        partition: TopicPartition,
        value: Option<PendingValue>,
    ) {
        self.pendings.apply(producer, partition, value);
    }

    /// Takes a durable change.
    pub(crate) fn apply(&mut self, partition: TopicPartition, value: Option<OffsetValue>) {
        if value.as_ref().is_none_or(|value| !value.is_copy) {
            self.pendings.see_offset(&partition, value.is_some());
        }
        match value {
            Some(mut value) => {
                value.is_copy = false;
                let partitions = self.topics.entry(partition.topic).or_default();
                self.bytes += bytes_of(&value);
                match partitions.insert(partition.index, value) {
                    Some(before) => self.bytes -= bytes_of(&before),
                    None => self.count += 1,
                }
            }
            None => {
                let Some(partitions) = self.topics.get_mut(&partition.topic) else {
                    return;
                };
                if let Some(before) = partitions.remove(&partition.index) {
                    self.count -= 1;
                    self.bytes -= bytes_of(&before);
                }
                if partitions.is_empty() {
                    self.topics.remove(&partition.topic);
                }
            }
        }
    }

    /// The changes that take away the offsets that `goes` names, and the pending ones that `pending_goes` does, as many as one
    /// batch takes.
    pub(crate) fn removals(
        &self,
        cx: &Context,
        group: &Name,
        mut goes: impl FnMut(&TopicPartition, &OffsetValue) -> bool,
        mut pending_goes: impl FnMut(&OffsetValue) -> bool,
    ) -> Removals {
        let mut removals = Removals::new(cx);
        for (partition, value) in self.iter() {
            if goes(&partition, value) && !removals.add(group, partition) {
                return removals;
            }
        }
        for (partition, pending) in self.pendings.iter() {
            if pending_goes(&pending.value.offset)
                && !removals.add_pending(group, pending.producer, partition.clone())
            {
                break;
            }
        }
        removals
    }

    /// Says whether any offset was committed for this very topic, or is pending.
    pub(crate) fn know_topic(&self, topic: &Name, id: TopicId) -> bool {
        let is_committed = self
            .topics
            .get(topic)
            .is_some_and(|partitions| partitions.values().any(|value| value.topic_id == id));
        is_committed || self.pendings.know_topic(topic, id)
    }
}

/// Offsets that are to go: as many as fit into one batch of the groups' log, and are taken away in one call. A large group has more
/// than that.
#[derive(Debug)]
pub(crate) struct Removals {
    pub(crate) changes: Vec<Change>,
    /// Others are to go as well, when these are gone.
    pub(crate) are_cut: bool,
    bytes_left: usize,
}

impl Removals {
    fn new(cx: &Context) -> Removals {
        Removals {
            changes: Vec::new(),
            are_cut: false,
            bytes_left: cx.settings.commit_bytes_max,
        }
    }

    /// Adds an offset if there is room, and the first one in any case. Says whether there was.
    fn add(&mut self, group: &Name, partition: TopicPartition) -> bool {
        let topic_bytes = partition.topic.len();
        self.add_what(group, What::Offset(partition, None), topic_bytes)
    }

    /// The same of a pending offset.
    fn add_pending(&mut self, group: &Name, producer: ProducerId, partition: TopicPartition) -> bool {
        let topic_bytes = partition.topic.len();
        self.add_what(group, What::Pending(producer, partition, None), topic_bytes)
    }

    fn add_what(&mut self, group: &Name, what: What, topic_bytes: usize) -> bool {
        let bytes = OFFSET_RECORD_BYTES + group.len() + topic_bytes;
        let has_room = bytes <= self.bytes_left && self.changes.len() < WORK_AT_ONCE;
        if !has_room && !self.changes.is_empty() {
            self.are_cut = true;
            return false;
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.changes.push(Change::of(group, what));
        true
    }
}

fn bytes_of(value: &OffsetValue) -> usize {
    OFFSET_BYTES + value.committed.metadata.len()
}
