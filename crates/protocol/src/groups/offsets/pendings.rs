//! The pending offsets of one group: committed in transactions that have not ended.
//!
//! Only what the log has is in here. The order in which commits of one partition stand in the log decides: a plain commit
//! overtakes what was pending before it, and that stays, without effect, until its transaction ends. Otherwise its record would
//! stand in the log for ever, and come to life again when the offset that overtook it is gone.

use std::collections::{BTreeMap, BTreeSet};

use record::TopicId;

use super::super::contract::{Name, TopicPartition};
use super::super::records::PendingValue;
use crate::producers::ProducerId;

/// Bytes that a pending offset takes beside the client's words, here and where its producer is known.
const PENDING_BYTES: usize = 384;

/// See the module.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Pendings {
    /// In the order in which they were committed. The overtaken ones are the first.
    partitions: BTreeMap<TopicPartition, Vec<Pending>>,
    by_producer: BTreeSet<(ProducerId, TopicPartition)>,
    bytes: usize,
}

/// The pending offset that a producer has of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) producer: ProducerId,
    pub(crate) value: PendingValue,
}

impl Pendings {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_producer.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_producer.len()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn has(&self, producer: ProducerId) -> bool {
        self.of_producer(producer).next().is_some()
    }

    /// The partitions of which a producer has pending offsets.
    pub(crate) fn of_producer(&self, producer: ProducerId) -> impl Iterator<Item = &TopicPartition> + '_ {
        let first = TopicPartition {
            topic: Name::default(),
            index: i32::MIN,
        };
        let partitions = self.by_producer.range((producer, first)..);
        partitions
            .take_while(move |(of, _)| *of == producer)
            .map(|(_, partition)| partition)
    }

    /// The pending offsets of a partition, in the order of the log.
    pub(crate) fn of(&self, partition: &TopicPartition) -> &[Pending] {
        self.partitions.get(partition).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn get(&self, producer: ProducerId, partition: &TopicPartition) -> Option<&Pending> {
        self.of(partition)
            .iter()
            .find(|pending| pending.producer == producer)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &Pending)> + '_ {
        self.partitions
            .iter()
            .flat_map(|(partition, all)| all.iter().map(move |pending| (partition, pending)))
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = &TopicPartition> + '_ {
        self.partitions.keys()
    }

    /// Takes a durable change.
    pub(crate) fn apply(
        &mut self,
        producer: ProducerId,
        partition: TopicPartition,
        value: Option<PendingValue>,
    ) {
        let Some(value) = value else {
            self.remove(producer, &partition);
            return;
        };
        if self.take_copy(producer, &partition, &value) {
            return;
        }
        self.remove(producer, &partition);
        self.bytes += bytes_of(&value);
        self.by_producer.insert((producer, partition.clone()));
        let all = self.partitions.entry(partition).or_default();
        all.push(Pending { producer, value });
    }

    /// Takes what is pending already, written anew: it keeps its place among the others. Says whether it was that.
    fn take_copy(&mut self, producer: ProducerId, partition: &TopicPartition, value: &PendingValue) -> bool {
        let all = self.partitions.get_mut(partition).into_iter().flatten();
        let mut known = all.filter(|pending| pending.producer == producer);
        match known.next() {
            Some(known) if known.value.offset == value.offset => {
                known.value = value.clone();
                true
            }
            _ => false,
        }
    }

    fn remove(&mut self, producer: ProducerId, partition: &TopicPartition) {
        let Some(all) = self.partitions.get_mut(partition) else {
            return;
        };
        let Some(at) = all.iter().position(|pending| pending.producer == producer) else {
            return;
        };
        self.bytes -= bytes_of(&all.remove(at).value);
        if all.is_empty() {
            self.partitions.remove(partition);
        }
        let was_there = self.by_producer.remove(&(producer, partition.clone()));
        assert!(was_there, "each is found by its producer");
    }

    /// The partition's offset is committed, or taken away: then nothing stands behind what is pending.
    pub(super) fn see_offset(&mut self, partition: &TopicPartition, is_there: bool) {
        if let Some(all) = self.partitions.get_mut(partition) {
            all.iter_mut()
                .for_each(|pending| pending.value.is_overtaken = is_there);
        }
    }

    pub(super) fn know_topic(&self, topic: &Name, id: TopicId) -> bool {
        let first = TopicPartition {
            topic: Name::clone(topic),
            index: i32::MIN,
        };
        let of_topic = self.partitions.range(first..);
        of_topic
            .take_while(|(partition, _)| partition.topic == *topic)
            .any(|(_, all)| all.iter().any(|pending| pending.value.offset.topic_id == id))
    }
}

fn bytes_of(value: &PendingValue) -> usize {
    PENDING_BYTES + value.offset.committed.metadata.len()
}
