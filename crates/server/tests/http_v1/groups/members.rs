//! Members of groups, by both of Kafka's protocols, over the wire.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_wire::{
    ConsumerGroupHeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, Text,
};
use record::TopicId;

use crate::support::groups::{commit_request, join_request, patiently, sync_request};
use crate::support::{TestNode, Wire};

/// The assignment that the leader of a classic group gives out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Assignment {
    /// Partitions of a topic, as consumers write them.
    Of(&'static str, &'static [i32]),
    /// Whatever.
    Bytes(&'static [u8]),
}

impl Assignment {
    fn bytes(self) -> Bytes {
        let (topic, partitions) = match self {
            Assignment::Bytes(bytes) => return Bytes::from_static(bytes),
            Assignment::Of(topic, partitions) => (topic, partitions),
        };
        let mut bytes = subscription(topic);
        bytes.truncate(bytes.len() - 4);
        bytes.put_i32(partitions.len() as i32);
        for index in partitions {
            bytes.put_i32(*index);
        }
        bytes.put_i32(-1);
        bytes.freeze()
    }
}

/// A wish for a topic, version 0, without user data.
fn subscription(topic: &str) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    bytes.put_i32(1);
    bytes.put_i16(topic.len() as i16);
    bytes.put_slice(topic.as_bytes());
    bytes.put_i32(-1);
    bytes
}

/// The only member of a classic group.
pub(super) struct ClassicMember {
    wire: Wire,
    group: Text,
    id: Text,
    generation: i32,
}

impl ClassicMember {
    /// Joins, and gives itself an assignment.
    pub(super) fn join(
        node: &TestNode,
        group: &str,
        protocol_type: &str,
        assignment: Assignment,
    ) -> ClassicMember {
        let mut wire = node.connect();
        let first = join(&mut wire, group, protocol_type, &Text::EMPTY);
        let joined = join(&mut wire, group, protocol_type, &first.member_id);
        assert_eq!(joined.error_code, 0, "{joined:?}");
        let sync = sync_request(
            (group, &joined.member_id, joined.generation_id),
            assignment.bytes(),
        );
        assert_eq!(wire.call(3, &sync).error_code, 0);
        ClassicMember {
            wire,
            group: Text::from(group),
            id: joined.member_id,
            generation: joined.generation_id,
        }
    }

    pub(super) fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Commits with the note "so far".
    pub(super) fn commit(&mut self, topic: &str, index: i32, offset: i64) {
        let committer = (self.group.as_str(), self.id.as_str(), self.generation);
        let commit = commit_request(committer, (topic, TopicId::default()), &[(index, offset)]);
        let answer = self.wire.call(8, &commit);
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    }

    pub(super) fn leave(&mut self) {
        let leave = LeaveGroupRequest {
            group_id: self.group.clone(),
            member_id: self.id.clone(),
            ..LeaveGroupRequest::default()
        };
        assert_eq!(self.wire.call(1, &leave).error_code, 0);
    }
}

fn join(wire: &mut Wire, group: &str, protocol_type: &str, member: &Text) -> JoinGroupResponse {
    let request = JoinGroupRequest {
        protocol_type: Text::from(protocol_type),
        ..join_request(group, member, subscription("orders").freeze())
    };
    patiently(|| wire.call(5, &request), |answer| answer.error_code)
}

/// The only member of a group by the consumer protocol.
pub(super) struct ConsumerMember {
    wire: Wire,
    heartbeat: ConsumerGroupHeartbeatRequest,
}

impl ConsumerMember {
    /// Joins, and gets all partitions of the topic.
    pub(super) fn join(node: &TestNode, group: &str, member: &str, topic: &str) -> ConsumerMember {
        let mut wire = node.connect();
        let heartbeat = ConsumerGroupHeartbeatRequest {
            group_id: Text::from(group),
            member_id: Text::from(member),
            member_epoch: 0,
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: Some(vec![Text::from(topic)]),
            topic_partitions: Some(Vec::new()),
            ..ConsumerGroupHeartbeatRequest::default()
        };
        let joined = patiently(|| wire.call(1, &heartbeat), |answer| answer.error_code);
        assert_eq!(joined.error_code, 0, "{joined:?}");
        ConsumerMember { wire, heartbeat }
    }

    pub(super) fn leave(&mut self) {
        self.heartbeat.member_epoch = -1;
        assert_eq!(self.wire.call(1, &self.heartbeat).error_code, 0);
    }
}
