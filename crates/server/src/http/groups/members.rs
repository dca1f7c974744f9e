//! The members of a group, as they are told: who each is, and what it is to read.
//!
//! Members of the classic protocol get bytes that their leader wrote. Those of consumers are read, if they can be; nothing
//! else is believed of them.

use protocol::groups::{
    CONSUMER_TYPE, DescribedClassic, DescribedClassicMember, DescribedConsumer, DescribedConsumerMember,
    Name, named_assignment,
};
use serde::Serialize;

/// Members in one answer. `member_count` says how many there are.
const MEMBERS_MAX: usize = 1_000;
/// Topics and partitions in the assignments of one answer, all members together.
const ASSIGNED_MAX: usize = 100_000;

/// A member.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Member {
    id: String,
    instance: Option<String>,
    client_id: String,
    host: String,
    /// Nothing if it cannot be read, or is too long to be told.
    pub(super) assignment: Option<Vec<Assigned>>,
}

/// Partitions of one topic.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Assigned {
    pub(super) topic: String,
    pub(super) partitions: Vec<i32>,
}

/// The first members of a group by the classic protocol.
pub(super) fn of_classic(group: &DescribedClassic) -> Vec<Member> {
    let are_consumers = group.protocol_type.as_deref() == Some(CONSUMER_TYPE);
    let mut allowance = Allowance { left: ASSIGNED_MAX };
    let told = |member: &DescribedClassicMember| Member {
        id: member.member.to_string(),
        instance: member.instance.as_ref().map(Name::to_string),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        assignment: Some(&member.assignment)
            .filter(|_| are_consumers)
            .and_then(|bytes| read_assignment(bytes))
            .and_then(|assignment| allowance.take(assignment)),
    };
    group.members.iter().take(MEMBERS_MAX).map(told).collect()
}

/// The first members of a group by the consumer protocol.
pub(super) fn of_consumer(group: &DescribedConsumer) -> Vec<Member> {
    let mut allowance = Allowance { left: ASSIGNED_MAX };
    let told = |member: &DescribedConsumerMember| {
        let assignment = member.assignment.iter().map(|topic| Assigned {
            topic: topic.topic.to_string(),
            partitions: topic.partitions.clone(),
        });
        Member {
            id: member.member.to_string(),
            instance: member.instance.as_ref().map(Name::to_string),
            client_id: member.client_id.to_string(),
            host: member.client_host.to_string(),
            assignment: allowance.take(assignment.collect()),
        }
    };
    group.members.iter().take(MEMBERS_MAX).map(told).collect()
}

/// The assignment that a leader gave a member; nothing if it is none, or names a partition that no topic can have.
fn read_assignment(bytes: &[u8]) -> Option<Vec<Assigned>> {
    let topics = named_assignment(bytes)?.into_iter();
    let assigned = topics.map(|(topic, partitions)| {
        let is_sound = partitions.iter().all(|index| *index >= 0);
        is_sound.then(|| Assigned {
            topic: topic.to_string(),
            partitions,
        })
    });
    assigned.collect()
}

/// The bytes of assignments that may still be told.
struct Allowance {
    left: usize,
}

impl Allowance {
    fn take(&mut self, assignment: Vec<Assigned>) -> Option<Vec<Assigned>> {
        let wanted: usize = assignment.iter().map(|topic| 1 + topic.partitions.len()).sum();
        self.left = self.left.checked_sub(wanted)?;
        Some(assignment)
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, Bytes, BytesMut};
    use protocol::groups::GroupState;

    use super::*;

    fn bytes_of(topic: &str, partitions: &[i32]) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_i16(1);
        bytes.put_i32(1);
        bytes.put_i16(topic.len() as i16);
        bytes.put_slice(topic.as_bytes());
        bytes.put_i32(partitions.len() as i32);
        for index in partitions {
            bytes.put_i32(*index);
        }
        bytes.put_i32(-1);
        bytes.freeze()
    }

    fn group(protocol_type: &str, assignments: &[Bytes]) -> Vec<Member> {
        let members = assignments.iter().map(|assignment| DescribedClassicMember {
            member: "m".into(),
            instance: None,
            client_id: "c".into(),
            client_host: "/h".into(),
            metadata: Bytes::new(),
            assignment: assignment.clone(),
        });
        of_classic(&DescribedClassic {
            state: GroupState::Stable,
            protocol_type: Some(protocol_type.into()),
            protocol: None,
            generation: 1,
            members: members.collect(),
        })
    }

    fn assignment(protocol_type: &str, bytes: Bytes) -> Option<Vec<Assigned>> {
        group(protocol_type, &[bytes]).remove(0).assignment
    }

    #[test]
    fn assignments_of_consumers_are_read_and_nothing_else_is() {
        let sound = bytes_of("orders", &[0, 7]);
        let expected = Assigned {
            topic: "orders".to_owned(),
            partitions: vec![0, 7],
        };
        assert_eq!(assignment("consumer", sound.clone()), Some(vec![expected]));
        assert_eq!(assignment("consumer", Bytes::new()), Some(Vec::new()));
        assert_eq!(assignment("connect", sound.clone()), None);
        assert_eq!(assignment("consumer", bytes_of("orders", &[0, -7])), None);
        // Every way to end too early, and counts that no bytes follow.
        for end in 1..sound.len() - 4 {
            assert_eq!(assignment("consumer", sound.slice(..end)), None, "{end} bytes");
        }
        let endless = Bytes::from_static(&[0, 1, 0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(assignment("consumer", endless), None);
        let backwards = Bytes::from_static(&[0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(assignment("consumer", backwards), None);
        let no_text = bytes_of("\u{e9}", &[0]);
        let mut broken = no_text.to_vec();
        broken[8] = 0xff;
        assert_eq!(assignment("consumer", broken.into()), None);
    }

    #[test]
    fn an_answer_tells_so_many_members_and_so_much_of_what_they_have() {
        let all: Vec<i32> = (0..60_000).collect();
        let (large, small) = (bytes_of("t", &all), bytes_of("t", &[1]));
        let told = group("consumer", &[large.clone(), large, small]);
        let lengths = told.iter().map(|member| {
            let assigned = member.assignment.as_ref()?;
            Some(assigned[0].partitions.len())
        });
        assert_eq!(lengths.collect::<Vec<_>>(), [Some(60_000), None, Some(1)]);
        let many = vec![Bytes::new(); MEMBERS_MAX + 1];
        assert_eq!(group("consumer", &many).len(), MEMBERS_MAX);
    }
}
