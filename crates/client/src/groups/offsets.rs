//! Offsets of groups, and changes of them.

use std::collections::{BTreeMap, HashMap};

use kafka_wire::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_wire::offset_delete::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_wire::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchResponseGroup};
use kafka_wire::{
    ApiKey, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, OffsetFetchResponse, Text,
};
use record::{Offset, TopicId};

use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::error::{Result, succeeded};

/// From this version on one question is about several groups.
const FIRST_WITH_SEVERAL: i16 = 8;
/// A committer that is in no group has this generation.
const NO_GENERATION: i32 = -1;

/// The progress of a group in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOffset {
    /// The topic.
    pub topic: String,
    /// The partition's index.
    pub partition: i32,
    /// Where the group goes on.
    pub offset: Offset,
}

/// A coordinator's answer about one partition. Older ones name the topic, newer ones tell its id.
struct Committed {
    topic: Text,
    topic_id: TopicId,
    partition: i32,
    /// Negative if there is none.
    offset: i64,
}

/// Coordinators' answers, by group.
type CommittedOfGroups = HashMap<String, Vec<Committed>>;

impl Cluster {
    /// The progress of a group, by topic and partition. A group that nobody knows has committed nothing.
    ///
    /// # Errors
    /// `Broker`.
    pub fn group_offsets(&mut self, name: &str) -> Result<Vec<GroupOffset>> {
        let mut offsets = self.offsets_of_groups(&[name])?;
        Ok(offsets.remove(name).unwrap_or_default())
    }

    /// The same of several groups, by group: one question to each coordinator.
    ///
    /// # Errors
    /// `Broker`.
    pub fn offsets_of_groups(&mut self, names: &[&str]) -> Result<HashMap<String, Vec<GroupOffset>>> {
        let patience = self.options().request_timeout;
        let committed = self.retry(patience, |cluster| cluster.committed(names))?;
        let has_no_name = |found: &Committed| found.topic.is_empty();
        let topics = match committed.values().flatten().any(has_no_name) {
            true => self.topic_names()?,
            false => HashMap::new(),
        };
        let offset = |found: Committed| {
            let topic = match found.topic.is_empty() {
                // A topic that is gone has no name any more.
                true => topics.get(&found.topic_id)?.clone(),
                false => String::from(&found.topic),
            };
            (found.offset >= 0).then_some(GroupOffset {
                topic,
                partition: found.partition,
                offset: Offset(found.offset),
            })
        };
        let sorted = |(name, committed): (String, Vec<Committed>)| {
            let mut offsets: Vec<GroupOffset> = committed.into_iter().filter_map(offset).collect();
            offsets.sort_by(|one, other| (&one.topic, one.partition).cmp(&(&other.topic, other.partition)));
            (name, offsets)
        };
        Ok(committed.into_iter().map(sorted).collect())
    }

    /// Puts a group without members elsewhere.
    ///
    /// # Errors
    /// `Broker`, with `UnknownMemberId` if the group has members; others than the one that is named may be set.
    pub fn set_group_offsets(&mut self, name: &str, offsets: &[GroupOffset]) -> Result<()> {
        let names = self.topic_names()?;
        let ids: HashMap<&str, TopicId> = names.iter().map(|(id, name)| (name.as_str(), *id)).collect();
        let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
        for wanted in offsets {
            let partition = OffsetCommitRequestPartition {
                partition_index: wanted.partition,
                committed_offset: wanted.offset.0,
                ..OffsetCommitRequestPartition::default()
            };
            match topics
                .iter_mut()
                .find(|topic| topic.name == wanted.topic.as_str())
            {
                Some(topic) => topic.partitions.push(partition),
                None => topics.push(OffsetCommitRequestTopic {
                    name: Text::from(wanted.topic.as_str()),
                    topic_id: ids.get(wanted.topic.as_str()).copied().unwrap_or_default(),
                    partitions: vec![partition],
                }),
            }
        }
        let request = OffsetCommitRequest {
            group_id: Text::from(name),
            generation_id_or_member_epoch: NO_GENERATION,
            topics,
            ..OffsetCommitRequest::default()
        };
        self.ask_coordinator(name, |connection| {
            let response = connection.call(&request)?;
            let mut outcomes: HashMap<(&str, i32), i16> = HashMap::new();
            for topic in &response.topics {
                // Newer answers have the id alone.
                let name = match topic.name.is_empty() {
                    true => names.get(&topic.topic_id).map_or("", String::as_str),
                    false => topic.name.as_str(),
                };
                let of_topic = topic.partitions.iter();
                outcomes
                    .extend(of_topic.map(|outcome| ((name, outcome.partition_index), outcome.error_code)));
            }
            offsets.iter().try_for_each(|wanted| {
                let (topic, partition) = (wanted.topic.as_str(), wanted.partition);
                let operation =
                    format!("setting the offset of group {name} in partition {partition} of topic {topic}");
                let outcome = outcomes.get(&(topic, partition));
                succeeded(operation, outcome.map(|code| (*code, None)))
            })
        })
    }

    /// Forgets what a group has committed in these partitions, by topic.
    ///
    /// # Errors
    /// `Broker`, with `GroupSubscribedToTopic` if a member reads the topic; others than the one that is named may be forgotten.
    pub fn forget_group_offsets(
        &mut self,
        name: &str,
        partitions: &BTreeMap<String, Vec<i32>>,
    ) -> Result<()> {
        let topics = partitions
            .iter()
            .map(|(topic, partitions)| OffsetDeleteRequestTopic {
                name: Text::from(topic.as_str()),
                partitions: partitions
                    .iter()
                    .map(|partition_index| OffsetDeleteRequestPartition {
                        partition_index: *partition_index,
                    })
                    .collect(),
            });
        let request = OffsetDeleteRequest {
            group_id: Text::from(name),
            topics: topics.collect(),
        };
        self.ask_coordinator(name, |connection| {
            let response = connection.call(&request)?;
            let operation = format!("forgetting offsets of group {name}");
            succeeded(operation, Some((response.error_code, None)))?;
            let mut outcomes = response.topics.iter().flat_map(|topic| {
                let of_topic = topic.partitions.iter();
                of_topic.map(|outcome| (&topic.name, outcome.partition_index, outcome.error_code))
            });
            outcomes.try_for_each(|(topic, partition, code)| {
                let operation = format!(
                    "forgetting the offset of group {name} in partition {partition} of topic {topic}"
                );
                succeeded(operation, Some((code, None)))
            })
        })
    }

    fn topic_names(&mut self) -> Result<HashMap<TopicId, String>> {
        let topics = self.metadata(None)?.topics;
        Ok(topics.into_iter().map(|topic| (topic.id, topic.name)).collect())
    }

    /// The offsets that groups have committed, as their coordinators tell them.
    fn committed(&mut self, names: &[&str]) -> Result<CommittedOfGroups> {
        let mut committed = CommittedOfGroups::new();
        for (coordinator, names) in self.coordinators(names)? {
            committed.extend(self.ask_at(&coordinator, |connection| ask_committed(connection, &names))?);
        }
        Ok(committed)
    }
}

/// Asks the coordinator of all these groups.
fn ask_committed(connection: &mut Connection, names: &[&str]) -> Result<CommittedOfGroups> {
    let version = connection.version_of(ApiKey::OffsetFetch)?;
    let at_once = if version < FIRST_WITH_SEVERAL {
        1
    } else {
        usize::MAX
    };
    let mut committed = CommittedOfGroups::new();
    for names in names.chunks(at_once) {
        let response = connection.call(&fetch_request(names))?;
        let mut answers: HashMap<String, (i16, Vec<Committed>)> = match version < FIRST_WITH_SEVERAL {
            true => HashMap::from([(names[0].to_owned(), of_first(&response))]),
            false => response.groups.iter().map(of_group).collect(),
        };
        for name in names {
            let answer = answers.remove(*name);
            let outcome = answer.as_ref().map(|(code, _)| (*code, None));
            succeeded(format!("asking how far group {name} is"), outcome)?;
            committed.extend(answer.map(|(_, found)| ((*name).to_owned(), found)));
        }
    }
    Ok(committed)
}

/// For everything that these groups have committed. Older brokers hear of the first group only.
fn fetch_request(names: &[&str]) -> OffsetFetchRequest {
    let all_of = |name: &&str| OffsetFetchRequestGroup {
        group_id: Text::from(*name),
        topics: None,
        ..OffsetFetchRequestGroup::default()
    };
    OffsetFetchRequest {
        group_id: Text::from(names[0]),
        topics: None,
        groups: names.iter().map(all_of).collect(),
        require_stable: false,
    }
}

/// The answer of newer brokers about each group.
fn of_group(group: &OffsetFetchResponseGroup) -> (String, (i16, Vec<Committed>)) {
    let of_topics = group.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| Committed {
            topic: topic.name.clone(),
            topic_id: topic.topic_id,
            partition: partition.partition_index,
            offset: partition.committed_offset,
        })
    });
    (
        String::from(&group.group_id),
        (group.error_code, of_topics.collect()),
    )
}

/// The answer of older brokers about the only group that they were asked about.
fn of_first(response: &OffsetFetchResponse) -> (i16, Vec<Committed>) {
    let of_topics = response.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| Committed {
            topic: topic.name.clone(),
            topic_id: TopicId::default(),
            partition: partition.partition_index,
            offset: partition.committed_offset,
        })
    });
    (response.error_code, of_topics.collect())
}
