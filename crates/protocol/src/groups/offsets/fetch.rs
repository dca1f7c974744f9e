//! OffsetFetch: the durable offsets of a group, some or all. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use planted::{Bug, planted};

use super::super::contract::{
    FetchOffsets, FetchTopic, FetchedPartition, FetchedTopic, GroupError, Name, TopicPartition,
};
use super::super::group::Group;
use super::super::topics::{Topic, Topics};
use super::{OffsetValue, Offsets};

impl Group {
    pub(crate) fn fetch_offsets(
        &self,
        topics: &Topics,
        request: &FetchOffsets,
    ) -> Result<Vec<FetchedTopic>, GroupError> {
        if let Some((member, epoch)) = &request.member {
            self.check_fetcher(member, *epoch)?;
        }
        let offsets = &self.offsets;
        Ok(offsets.fetch(topics, request.topics.as_deref(), request.require_stable))
    }
}

impl Offsets {
    /// The offsets of these partitions, or of all. An offset of a topic that was made anew since is none. Where one is pending,
    /// it is told only to who does not `require_stable`.
    pub(crate) fn fetch(
        &self,
        topics: &Topics,
        wanted: Option<&[FetchTopic]>,
        require_stable: bool,
    ) -> Vec<FetchedTopic> {
        let Some(wanted) = wanted else {
            return self.fetch_all(topics, require_stable);
        };
        let fetch_topic = |wanted: &FetchTopic| {
            let now = topics.named(&wanted.topic);
            let partitions = wanted.partitions.iter();
            let fetched = partitions.map(|index| self.fetch_one(&wanted.topic, *index, now, require_stable));
            FetchedTopic {
                topic: Name::clone(&wanted.topic),
                partitions: fetched.collect(),
            }
        };
        wanted.iter().map(fetch_topic).collect()
    }

    fn fetch_all(&self, topics: &Topics, require_stable: bool) -> Vec<FetchedTopic> {
        let mut all: BTreeMap<&Name, BTreeSet<i32>> = BTreeMap::new();
        for (topic, known) in &self.topics {
            all.entry(topic).or_default().extend(known.keys());
        }
        for partition in self.pendings.partitions() {
            all.entry(&partition.topic).or_default().insert(partition.index);
        }
        let all = all.into_iter().map(|(topic, indexes)| {
            let now = topics.named(topic);
            let indexes = indexes.into_iter();
            let fetched = indexes.map(|index| self.fetch_one(topic, index, now, require_stable));
            FetchedTopic {
                topic: Name::clone(topic),
                partitions: fetched.filter(|found| found.committed != Ok(None)).collect(),
            }
        });
        all.filter(|topic| !topic.partitions.is_empty()).collect()
    }

    fn fetch_one(
        &self,
        topic: &Name,
        index: i32,
        now: Option<Topic>,
        require_stable: bool,
    ) -> FetchedPartition {
        let partition = TopicPartition {
            topic: Name::clone(topic),
            index,
        };
        let pending = self.pendings.of(&partition).iter();
        let mut pending = pending.map(|pending| &pending.value.offset);
        let last_pending = pending.rfind(|offset| is_of(offset, now));
        let committed = self.get(topic, index).filter(|value| is_of(value, now));
        let shown = match last_pending {
            Some(_) if require_stable && !planted(Bug::StableIgnored) => Err(GroupError::UnstableOffset),
            Some(pending) if planted(Bug::PendingShown) => Ok(Some(pending)),
            _ => Ok(committed),
        };
        FetchedPartition {
            index,
            committed: shown.map(|value| value.map(|value| value.committed.clone())),
        }
    }
}

/// Says whether an offset is of the topic that has its name now.
fn is_of(value: &OffsetValue, now: Option<Topic>) -> bool {
    now.is_none_or(|now| value.topic_id == now.id || value.topic_id.0 == [0; 16])
}
