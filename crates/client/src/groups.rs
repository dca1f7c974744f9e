//! Consumer groups as an operator sees them: which there are, who is in them, and deleting them. How far they are is in
//! `offsets`.
//!
//! Every question about one group goes to its coordinator, found anew for each operation. Nothing here joins a group.

mod coordinators;
mod offsets;

use kafka_wire::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest, ErrorCode, ListGroupsRequest,
    Reader, Text, WireError,
};

pub use self::offsets::GroupOffset;
use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::error::{ClientError, Result, succeeded};

/// Bytes that one topic's entry takes at least in an assignment of the embedded consumer protocol.
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
    /// The way in which partitions are assigned.
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
    /// The topics and partitions that it reads.
    pub partitions: Vec<(String, i32)>,
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
            let patience = self.options().request_timeout;
            let response = self.retry(patience, |cluster| {
                cluster.ask_at(&broker.address, |connection| {
                    let response = connection.call(&ListGroupsRequest::default())?;
                    succeeded("listing groups", Some((response.error_code, None))).map(|()| response)
                })
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

    /// Deletes a group without members, and what it has committed.
    ///
    /// # Errors
    /// `Broker`, with `NonEmptyGroup` or `GroupIdNotFound`. A group that is not there after an attempt whose outcome is not
    /// known is taken as deleted.
    pub fn delete_group(&mut self, name: &str) -> Result<()> {
        let request = DeleteGroupsRequest {
            groups_names: vec![Text::from(name)],
        };
        let mut may_be_done = false;
        self.ask_coordinator(name, |connection| {
            let answer = connection.call(&request);
            let response = answer.inspect_err(|_| may_be_done = true)?;
            let result = response.results.first();
            let outcome = result.map(|result| (result.error_code, None));
            match succeeded(format!("deleting group {name}"), outcome) {
                Err(error) if may_be_done && error.code() == Some(ErrorCode::GroupIdNotFound) => Ok(()),
                deleted => deleted,
            }
        })
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
    succeeded(operation, Some((group.error_code, group.error_message.as_ref())))?;
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
    let outcome = (group.error_code, group.error_message.as_ref());
    succeeded(operation.as_str(), Some(outcome))?;
    // Brokers said this of a group that is not there before they got an error code for it (KIP-1043).
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
