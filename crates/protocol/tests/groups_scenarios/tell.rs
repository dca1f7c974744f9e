//! From answers and records to the lines of a script; what a client learns from its answers.

use bytes::Buf;
use protocol::groups::{
    Answer, Assignment, FetchedTopic, GroupError, Joined, Name, NamedPartitions, PartitionOutcome,
    StoredRecord,
};

use super::Stage;

impl Stage {
    pub(super) fn learn(&mut self, who: &str, group: &str, answer: &Answer) {
        let client = self
            .clients
            .entry((who.to_string(), group.to_string()))
            .or_default();
        match answer {
            Answer::Join(Ok(joined)) => {
                client.member = Name::clone(&joined.member);
                client.generation = joined.generation;
            }
            Answer::Join(Err(GroupError::MemberIdRequired { member })) => client.member = Name::clone(member),
            Answer::ConsumerHeartbeat(Ok(heard)) => {
                client.member = Name::clone(&heard.member);
                client.generation = heard.epoch;
                if let Some(assignment) = &heard.assignment {
                    client.assigned = assignment.clone();
                }
            }
            _ => return,
        }
        let member = Name::clone(&client.member);
        if !self.names.contains_key(&member) {
            let earlier = self
                .names
                .values()
                .filter(|name| name.split('/').next() == Some(who))
                .count();
            let name = match earlier {
                0 => who.to_string(),
                count => format!("{who}/{}", count + 1),
            };
            self.names.insert(member, name);
        }
    }

    /// People's names instead of members' ids.
    fn named(&self, text: &str) -> String {
        self.names
            .iter()
            .fold(text.to_string(), |text, (id, name)| text.replace(&**id, name))
    }

    pub(super) fn tell(&self, answer: &Answer) -> String {
        let line =
            match answer {
                Answer::Join(Ok(joined)) => joined_line(joined),
                Answer::Sync(Ok(synced)) => format!("gets {}", assignment_text(&synced.assignment)),
                Answer::Heartbeat(Ok(())) | Answer::DeleteGroup(Ok(())) | Answer::EndTransaction(Ok(())) => {
                    "ok".into()
                }
                Answer::Leave(Ok(left)) => list(left.iter().map(|one| {
                    let name = one.instance.as_ref().unwrap_or(&one.member);
                    format!("{name} {}", outcome(&one.outcome, "left"))
                })),
                Answer::CommitOffsets(Ok(outcomes))
                | Answer::CommitPending(Ok(outcomes))
                | Answer::DeleteOffsets(Ok(outcomes)) => partition_lines(outcomes),
                Answer::FetchOffsets(Ok(topics)) => fetched_line(topics),
                Answer::ConsumerHeartbeat(Ok(heard)) => {
                    let mut line = format!("at epoch {}", heard.epoch);
                    if let Some(assignment) = &heard.assignment {
                        line += &format!(", has {}", self.partitions(assignment));
                    }
                    line
                }
                Answer::DescribeClassic(Ok(group)) => {
                    let members =
                        list(group.members.iter().map(|member| {
                            format!("{}({})", member.member, assignment_text(&member.assignment))
                        }));
                    format!(
                        "{} type={} protocol={} members: {members}",
                        group.state.name(),
                        optional(group.protocol_type.as_ref()),
                        optional(group.protocol.as_ref()),
                    )
                }
                Answer::DescribeConsumer(Ok(group)) => {
                    let members = list(group.members.iter().map(|member| {
                        format!(
                            "{}@{} has {} is to have {}{}",
                            member.member,
                            member.epoch,
                            named_partitions(&member.assignment),
                            named_partitions(&member.target),
                            if member.is_classic { " (classic)" } else { "" },
                        )
                    }));
                    format!(
                        "{} epoch={} target={} {}: {members}",
                        group.state.name(),
                        group.epoch,
                        group.target_epoch,
                        group.assignor,
                    )
                }
                Answer::List(Ok(listed)) => list(listed.groups.iter().map(|group| {
                    format!(
                        "{} {} {} {}",
                        group.group,
                        group.group_type.name(),
                        group.state.name(),
                        group.protocol_type
                    )
                })),
                Answer::Join(Err(error))
                | Answer::Sync(Err(error))
                | Answer::Heartbeat(Err(error))
                | Answer::Leave(Err(error))
                | Answer::CommitOffsets(Err(error))
                | Answer::CommitPending(Err(error))
                | Answer::EndTransaction(Err(error))
                | Answer::FetchOffsets(Err(error))
                | Answer::DeleteOffsets(Err(error))
                | Answer::ConsumerHeartbeat(Err(error))
                | Answer::DescribeClassic(Err(error))
                | Answer::DescribeConsumer(Err(error))
                | Answer::List(Err(error))
                | Answer::DeleteGroup(Err(error)) => format!("error: {error}"),
            };
        self.named(&line)
    }

    fn partitions(&self, assignment: &Assignment) -> String {
        list(assignment.iter().map(|partition| {
            let topic = self.topics.iter().find(|(_, (id, _))| *id == partition.topic);
            let name = topic.map_or("?", |(name, _)| name);
            format!("{name}/{}", partition.index)
        }))
    }

    /// What is stored, by the types of the records' keys.
    pub(super) fn stores(&self, records: &[StoredRecord]) -> String {
        let lines = records.iter().map(|record| {
            let kind = match record.key[1] {
                1 => "offset",
                2 => "classic-group",
                3 => "group-epoch",
                5 => "member",
                6 => "target-epoch",
                7 => "target",
                8 => "current",
                100 => "pending",
                other => panic!("no such record: {other}"),
            };
            let sign = if record.value.is_some() { "" } else { "-" };
            format!("{sign}{kind}")
        });
        format!("stores {}", list(lines))
    }
}

fn joined_line(joined: &Joined) -> String {
    let mut line = format!(
        "in generation {} of {}, leader {}",
        joined.generation,
        optional(joined.protocol.as_ref()),
        joined.leader
    );
    if !joined.members.is_empty() {
        let members = list(joined.members.iter().map(|member| member.member.to_string()));
        line += &format!(", members: {members}");
    }
    if joined.skip_assignment {
        line += ", not to assign";
    }
    line
}

fn partition_lines(outcomes: &[PartitionOutcome]) -> String {
    list(outcomes.iter().map(|one| {
        let (topic, index) = (&one.partition.topic, one.partition.index);
        format!("{topic}/{index} {}", outcome(&one.outcome, "ok"))
    }))
}

fn fetched_line(topics: &[FetchedTopic]) -> String {
    list(topics.iter().flat_map(|topic| {
        topic
            .partitions
            .iter()
            .map(|partition| match &partition.committed {
                Err(error) => format!("{}/{} error: {error}", topic.topic, partition.index),
                Ok(None) => format!("{}/{} nothing", topic.topic, partition.index),
                Ok(Some(committed)) => {
                    let mut line = format!("{}/{}={}", topic.topic, partition.index, committed.offset);
                    if let Some(epoch) = committed.leader_epoch {
                        line += &format!(" leader-epoch={epoch}");
                    }
                    if !committed.metadata.is_empty() {
                        line += &format!(" note={}", committed.metadata);
                    }
                    line
                }
            })
    }))
}

fn named_partitions(topics: &[NamedPartitions]) -> String {
    list(topics.iter().flat_map(|topic| {
        topic
            .partitions
            .iter()
            .map(|index| format!("{}/{index}", topic.topic))
    }))
}

fn outcome(outcome: &Result<(), GroupError>, done: &str) -> String {
    match outcome {
        Ok(()) => done.into(),
        Err(error) => format!("error: {error}"),
    }
}

fn optional(name: Option<&Name>) -> String {
    name.map_or_else(|| "-".into(), ToString::to_string)
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        "nothing".into()
    } else {
        items.join(", ")
    }
}

/// Texts as they are; assignments of the embedded consumer protocol as `topic/0+1`.
fn assignment_text(bytes: &[u8]) -> String {
    if bytes.first() != Some(&0) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut left = &bytes[2..];
    let mut topics = Vec::new();
    for _ in 0..left.get_i32() {
        let length = usize::try_from(left.get_i16()).expect("a length");
        let topic = String::from_utf8_lossy(&left[..length]).into_owned();
        left.advance(length);
        let indexes: Vec<String> = (0..left.get_i32()).map(|_| left.get_i32().to_string()).collect();
        topics.push(format!("{topic}/{}", indexes.join("+")));
    }
    list(topics.into_iter())
}
