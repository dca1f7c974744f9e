//! Consumer groups as an operator sees them: which there are, who is in them, how far they are, and putting them elsewhere.
//!
//! Every question about one group goes to its coordinator, found anew for each operation. Nothing here joins a group.

use std::collections::HashMap;

use kafka_wire::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_wire::offset_fetch::OffsetFetchRequestGroup;
use kafka_wire::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest, ErrorCode,
    FindCoordinatorRequest, ListGroupsRequest, OffsetCommitRequest, OffsetFetchRequest, Reader, Text,
    WireError,
};
use record::{Offset, TopicId};

use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::error::{ClientError, Result};

/// A committer that is in no group has this generation.
const NO_GENERATION: i32 = -1;
/// What one topic's entry takes at least in an assignment of the embedded consumer protocol.
const ASSIGNED_TOPIC_BYTES_MIN: usize = 6;

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// Its name.
    pub name: String,
    /// Where it stands, in Kafka's words: Empty, Stable and so on.
    pub state: String,
    /// Which protocol it speaks, classic or consumer; empty from brokers that do not tell.
    pub kind: String,
}

/// A group with its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its name.
    pub name: String,
    /// Where it stands, in Kafka's words.
    pub state: String,
    /// Which protocol it speaks: classic or consumer.
    pub kind: &'static str,
    /// How partitions are assigned.
    pub assignor: String,
    /// Its members.
    pub members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id.
    pub id: String,
    /// Its instance id, if it is a static member.
    pub instance: Option<String>,
    /// Its client's id.
    pub client_id: String,
    /// Its client's address.
    pub host: String,
    /// What it reads: topics and partitions.
    pub partitions: Vec<(String, i32)>,
}

/// How far a group is in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOffset {
    /// The topic.
    pub topic: String,
    /// The partition's index.
    pub partition: i32,
    /// Where the group goes on.
    pub offset: Offset,
}

impl Cluster {
    /// All groups of all brokers, by name.
    ///
    /// # Errors
    /// `Broker`, and what a connection meets.
    pub fn groups(&mut self) -> Result<Vec<GroupListing>> {
        let brokers = self.metadata(Some(&[]))?.brokers;
        let mut groups = Vec::new();
        for broker in brokers {
            let mut connection = Connection::connect(&broker.address, self.options())?;
            let patience = self.options().request_timeout;
            let response = self.retry(patience, |_| {
                let response = connection.call(&ListGroupsRequest::default())?;
                done("listing groups", response.error_code, None).map(|()| response)
            })?;
            groups.extend(response.groups.iter().map(|group| GroupListing {
                name: String::from(&group.group_id),
                state: String::from(&group.group_state),
                kind: String::from(&group.group_type),
            }));
        }
        groups.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(groups)
    }

    /// One group with its members.
    ///
    /// # Errors
    /// `Broker`, with `GroupIdNotFound` if there is no such group.
    pub fn group(&mut self, name: &str) -> Result<GroupDescription> {
        self.ask_coordinator(name, |connection| match describe_consumer(connection, name) {
            // One that speaks the other protocol; or the broker does not know this one.
            Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => {
                describe_classic(connection, name)
            }
            Err(ClientError::Versions { .. }) => describe_classic(connection, name),
            described => described,
        })
    }

    /// How far a group is, by topic and partition. A group that nobody knows has committed nothing.
    ///
    /// # Errors
    /// `Broker`.
    pub fn group_offsets(&mut self, name: &str) -> Result<Vec<GroupOffset>> {
        let names = self.topic_names()?;
        let request = OffsetFetchRequest {
            group_id: Text::from(name),
            topics: None,
            groups: vec![OffsetFetchRequestGroup {
                group_id: Text::from(name),
                topics: None,
                ..OffsetFetchRequestGroup::default()
            }],
            require_stable: false,
        };
        let response = self.ask_coordinator(name, |connection| {
            let response = connection.call(&request)?;
            let code = response
                .groups
                .first()
                .map_or(response.error_code, |group| group.error_code);
            done(format!("asking how far group {name} is"), code, None).map(|()| response)
        })?;
        let mut offsets = Vec::new();
        for topic in &response.topics {
            for partition in &topic.partitions {
                offsets.push((
                    String::from(&topic.name),
                    partition.partition_index,
                    partition.committed_offset,
                ));
            }
        }
        for topic in response.groups.iter().flat_map(|group| &group.topics) {
            let known = names.get(&topic.topic_id).filter(|_| topic.name.is_empty());
            let topic_name = known.cloned().unwrap_or_else(|| String::from(&topic.name));
            for partition in &topic.partitions {
                offsets.push((
                    topic_name.clone(),
                    partition.partition_index,
                    partition.committed_offset,
                ));
            }
        }
        offsets.sort();
        let committed = |(topic, partition, offset)| GroupOffset {
            topic,
            partition,
            offset: Offset(offset),
        };
        Ok(offsets
            .into_iter()
            .filter(|(_, _, offset)| *offset >= 0)
            .map(committed)
            .collect())
    }

    /// Puts a group without members elsewhere.
    ///
    /// # Errors
    /// `Broker`, with `UnknownMemberId` if the group has members; what was named before the one that failed may be done.
    pub fn set_group_offsets(&mut self, name: &str, offsets: &[GroupOffset]) -> Result<()> {
        let ids: HashMap<String, TopicId> = self
            .topic_names()?
            .into_iter()
            .map(|(id, name)| (name, id))
            .collect();
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
                    topic_id: ids.get(&wanted.topic).copied().unwrap_or_default(),
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
            let outcomes = response.topics.iter().flat_map(|topic| &topic.partitions);
            for outcome in outcomes {
                done(
                    format!("setting offsets of group {name}"),
                    outcome.error_code,
                    None,
                )?;
            }
            Ok(())
        })
    }

    /// Deletes a group without members, and what it has committed.
    ///
    /// # Errors
    /// `Broker`, with `NonEmptyGroup` or `GroupIdNotFound`.
    pub fn delete_group(&mut self, name: &str) -> Result<()> {
        let request = DeleteGroupsRequest {
            groups_names: vec![Text::from(name)],
        };
        let operation = format!("deleting group {name}");
        self.ask_coordinator(name, |connection| {
            let response = connection.call(&request)?;
            match response.results.first() {
                Some(result) => done(operation.as_str(), result.error_code, None),
                None => Err(ClientError::NotAnswered {
                    operation: operation.clone(),
                }),
            }
        })
    }

    fn topic_names(&mut self) -> Result<HashMap<TopicId, String>> {
        let topics = self.metadata(None)?.topics;
        Ok(topics.into_iter().map(|topic| (topic.id, topic.name)).collect())
    }

    /// Asks a group's coordinator; again while it is being found, or reads its log.
    fn ask_coordinator<T>(
        &mut self,
        group: &str,
        mut ask: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        let patience = self.options().request_timeout;
        self.retry(patience, |cluster| {
            let mut connection = cluster.connect_coordinator(group)?;
            ask(&mut connection)
        })
    }

    fn connect_coordinator(&mut self, group: &str) -> Result<Connection> {
        let request = FindCoordinatorRequest {
            key: Text::from(group),
            coordinator_keys: vec![Text::from(group)],
            ..FindCoordinatorRequest::default()
        };
        let response = self.call(&request)?;
        let operation = format!("finding the coordinator of group {group}");
        let found = match response.coordinators.first() {
            Some(found) => {
                done(operation, found.error_code, found.error_message.as_ref())?;
                (&found.host, found.port)
            }
            None => {
                done(operation, response.error_code, response.error_message.as_ref())?;
                (&response.host, response.port)
            }
        };
        Connection::connect(&format!("{}:{}", found.0, found.1), self.options())
    }
}

fn describe_consumer(connection: &mut Connection, name: &str) -> Result<GroupDescription> {
    let request = ConsumerGroupDescribeRequest {
        group_ids: vec![Text::from(name)],
        ..ConsumerGroupDescribeRequest::default()
    };
    let response = connection.call(&request)?;
    let operation = format!("describing group {name}");
    let Some(group) = response.groups.into_iter().next() else {
        return Err(ClientError::NotAnswered { operation });
    };
    done(operation, group.error_code, group.error_message.as_ref())?;
    let members = group.members.iter().map(|member| {
        let topics = member.assignment.topic_partitions.iter();
        let partitions = topics.flat_map(|topic| {
            let named = |index: &i32| (String::from(&topic.topic_name), *index);
            topic.partitions.iter().map(named).collect::<Vec<_>>()
        });
        GroupMember {
            id: String::from(&member.member_id),
            instance: member.instance_id.as_ref().map(String::from),
            client_id: String::from(&member.client_id),
            host: String::from(&member.client_host),
            partitions: partitions.collect(),
        }
    });
    Ok(GroupDescription {
        name: name.to_owned(),
        state: String::from(&group.group_state),
        kind: "consumer",
        assignor: String::from(&group.assignor_name),
        members: members.collect(),
    })
}

fn describe_classic(connection: &mut Connection, name: &str) -> Result<GroupDescription> {
    let request = DescribeGroupsRequest {
        groups: vec![Text::from(name)],
        ..DescribeGroupsRequest::default()
    };
    let response = connection.call(&request)?;
    let operation = format!("describing group {name}");
    let Some(group) = response.groups.into_iter().next() else {
        return Err(ClientError::NotAnswered { operation });
    };
    done(operation.as_str(), group.error_code, group.error_message.as_ref())?;
    // What brokers say of a group that is not there, before they got an error code for it (KIP-1043).
    if group.group_state.as_str() == "Dead" {
        return Err(ClientError::broker(
            operation,
            ErrorCode::GroupIdNotFound.code(),
            None,
        ));
    }
    let members = group.members.iter().map(|member| GroupMember {
        id: String::from(&member.member_id),
        instance: member.group_instance_id.as_ref().map(String::from),
        client_id: String::from(&member.client_id),
        host: String::from(&member.client_host),
        // Only consumers lay their assignments out like this; others read something else than partitions.
        partitions: read_assignment(&member.member_assignment).unwrap_or_default(),
    });
    Ok(GroupDescription {
        name: name.to_owned(),
        state: String::from(&group.group_state),
        kind: "classic",
        assignor: String::from(&group.protocol_data),
        members: members.collect(),
    })
}

/// The partitions of an assignment as the embedded consumer protocol lays it out: a version, topics with partitions, and
/// what the assignor keeps for itself.
fn read_assignment(bytes: &bytes::Bytes) -> std::result::Result<Vec<(String, i32)>, WireError> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = Reader::new(bytes.clone());
    reader.int16()?;
    let topics = reader.array(false, ASSIGNED_TOPIC_BYTES_MIN, |reader| {
        let topic = String::from(&reader.text(false)?);
        let partitions = reader.array(false, size_of::<i32>(), Reader::int32)?;
        Ok((topic, partitions))
    })?;
    let named = |(topic, partitions): (String, Vec<i32>)| {
        partitions
            .into_iter()
            .map(move |index| (topic.clone(), index))
            .collect::<Vec<_>>()
    };
    Ok(topics.into_iter().flat_map(named).collect())
}

fn done(operation: impl Into<String>, code: i16, message: Option<&Text>) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(ClientError::broker(operation, code, message.map(Text::as_str))),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn an_assignment_is_read_and_nonsense_is_not() {
        // Version 1; one topic "ab" with partitions 3 and 4; no user data.
        let mut bytes = vec![
            0, 1, 0, 0, 0, 1, 0, 2, b'a', b'b', 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4,
        ];
        bytes.extend((-1i32).to_be_bytes());
        let read = read_assignment(&Bytes::from(bytes.clone()));
        assert_eq!(read.expect("whole"), [("ab".to_owned(), 3), ("ab".to_owned(), 4)]);
        for length in 1..bytes.len() - 4 {
            let cut = Bytes::copy_from_slice(&bytes[..length]);
            assert!(read_assignment(&cut).is_err(), "{length} bytes");
        }
        assert_eq!(read_assignment(&Bytes::new()).expect("nothing yet"), []);
    }
}
