//! OffsetFetch: the durable offsets of a group, some or all. Changes nothing.

use std::collections::BTreeMap;

use super::super::contract::{FetchOffsets, FetchTopic, FetchedPartition, FetchedTopic, GroupError, Name};
use super::super::group::Group;
use super::super::topics::Topics;
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
        let holds = |topic: &str, value: &OffsetValue| {
            topics
                .named(topic)
                .is_none_or(|now| value.topic_id == now.id || value.topic_id.0 == [0; 16])
        };
        let Some(wanted) = wanted else {
            let mut all: BTreeMap<Name, Vec<FetchedPartition>> = BTreeMap::new();
            for (partition, value) in self
                .iter()
                .filter(|(partition, value)| holds(&partition.topic, value))
            {
                all.entry(partition.topic).or_default().push(FetchedPartition {
                    index: partition.index,
                    committed: Some(value.committed.clone()),
                });
            }
            return all
                .into_iter()
                .map(|(topic, partitions)| FetchedTopic { topic, partitions })
                .collect();
        };
        let fetch_one = |topic: &str, index: i32| FetchedPartition {
            index,
            committed: self
                .get(topic, index)
                .filter(|value| holds(topic, value))
                .map(|value| value.committed.clone()),
        };
        wanted
            .iter()
            .map(|wanted| FetchedTopic {
                topic: Name::clone(&wanted.topic),
                partitions: wanted
                    .partitions
                    .iter()
                    .map(|index| fetch_one(&wanted.topic, *index))
                    .collect(),
            })
            .collect()
    }
}
