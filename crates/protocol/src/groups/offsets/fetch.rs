//! OffsetFetch: the durable offsets of a group, some or all. Changes nothing.

use super::super::contract::{FetchOffsets, FetchTopic, FetchedPartition, FetchedTopic, GroupError, Name};
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
        Ok(self.offsets.fetch(topics, request.topics.as_deref()))
    }
}

impl Offsets {
    /// The offsets of these partitions, or of all. An offset of a topic that was made anew since is none.
    pub(crate) fn fetch(&self, topics: &Topics, wanted: Option<&[FetchTopic]>) -> Vec<FetchedTopic> {
        let held = |topic: &Name, partitions: Vec<FetchedPartition>| FetchedTopic {
            topic: Name::clone(topic),
            partitions,
        };
        let Some(wanted) = wanted else {
            let all = self.topics.iter().map(|(topic, known)| {
                let now = topics.named(topic);
                let committed = known.iter().filter(|(_, value)| is_of(value, now));
                held(
                    topic,
                    committed
                        .map(|(index, value)| fetched(*index, Some(value)))
                        .collect(),
                )
            });
            return all.filter(|topic| !topic.partitions.is_empty()).collect();
        };
        let fetch_topic = |wanted: &FetchTopic| {
            let (known, now) = (self.topics.get(&wanted.topic), topics.named(&wanted.topic));
            let committed = |index: &i32| {
                let value = known?.get(index)?;
                is_of(value, now).then_some(value)
            };
            let partitions = wanted.partitions.iter();
            held(
                &wanted.topic,
                partitions
                    .map(|index| fetched(*index, committed(index)))
                    .collect(),
            )
        };
        wanted.iter().map(fetch_topic).collect()
    }
}

/// Says whether an offset is of the topic that has its name now.
fn is_of(value: &OffsetValue, now: Option<Topic>) -> bool {
    now.is_none_or(|now| value.topic_id == now.id || value.topic_id.0 == [0; 16])
}

fn fetched(index: i32, value: Option<&OffsetValue>) -> FetchedPartition {
    FetchedPartition {
        index,
        committed: value.map(|value| value.committed.clone()),
    }
}
