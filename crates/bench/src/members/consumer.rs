//! Members of the next-generation protocol: a heartbeat says what a member has, its answer what it is to have.

use std::collections::BTreeSet;
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail};
use client::wire::consumer_group_heartbeat::{Assignment, TopicPartitions};
use client::wire::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, Text};
use client::{Connection, ErrorCode, TopicId};

use super::{Group, Heard, MembersOptions, REBALANCE_TIMEOUT_MS};

/// Heartbeats under way on the one connection.
const IN_FLIGHT: usize = 64;

#[derive(Debug)]
struct Member {
    number: u32,
    id: Text,
    epoch: i32,
    owns: BTreeSet<i32>,
    /// What it owns has changed since it last said so.
    tells: bool,
    /// When it speaks next, if it has nothing to tell.
    due: Instant,
}

/// The group's members, on one connection.
#[derive(Debug)]
pub(super) struct ConsumerGroup<'a> {
    options: &'a MembersOptions,
    topic: TopicId,
    connection: Connection,
    members: Vec<Member>,
}

impl<'a> ConsumerGroup<'a> {
    /// A group of nobody.
    pub(super) fn new(options: &'a MembersOptions, topic: TopicId) -> anyhow::Result<ConsumerGroup<'a>> {
        Ok(ConsumerGroup {
            options,
            topic,
            connection: options.broker.connection()?,
            members: Vec::new(),
        })
    }

    fn heartbeat(&self, member: &Member) -> ConsumerGroupHeartbeatRequest {
        let joins = member.epoch == 0;
        let owned = TopicPartitions {
            topic_id: self.topic,
            partitions: member.owns.iter().copied().collect(),
        };
        ConsumerGroupHeartbeatRequest {
            group_id: Text::from(self.options.group.as_str()),
            member_id: member.id.clone(),
            member_epoch: member.epoch,
            rebalance_timeout_ms: if joins { REBALANCE_TIMEOUT_MS } else { -1 },
            subscribed_topic_names: joins.then(|| vec![Text::from(self.options.topic.as_str())]),
            topic_partitions: member.tells.then(|| match member.owns.is_empty() {
                true => Vec::new(),
                false => vec![owned],
            }),
            ..ConsumerGroupHeartbeatRequest::default()
        }
    }
}

impl Group for ConsumerGroup<'_> {
    fn join(&mut self, number: u32) -> anyhow::Result<()> {
        self.members.push(Member {
            number,
            id: Text::from(format!("{}-{number}", self.options.group).as_str()),
            epoch: 0,
            owns: BTreeSet::new(),
            tells: true,
            due: Instant::now(),
        });
        Ok(())
    }

    fn leave_first(&mut self) -> anyhow::Result<()> {
        let mut leaving = self.members.remove(0);
        leaving.epoch = -1;
        let request = self.heartbeat(&leaving);
        let response = self.connection.call(&request)?;
        check(&response)
    }

    fn speak(&mut self, heard: &mut Heard) -> anyhow::Result<()> {
        let now = Instant::now();
        let is_due = |member: &Member| member.tells || member.due <= now;
        let due: Vec<usize> = (0..self.members.len())
            .filter(|index| is_due(&self.members[*index]))
            .collect();
        if due.is_empty() {
            let next = self.members.iter().map(|member| member.due).min();
            thread::sleep(next.unwrap_or(now).saturating_duration_since(now));
        }
        let mut next = 0;
        for (answered, index) in due.iter().copied().enumerate() {
            while next < due.len() && next < answered + IN_FLIGHT {
                let request = self.heartbeat(&self.members[due[next]]);
                self.connection.send(&request)?;
                next += 1;
            }
            let response = self.connection.receive::<ConsumerGroupHeartbeatRequest>()?;
            let member = &mut self.members[index];
            check(&response).with_context(|| format!("member {}", member.id))?;
            let rest = self.options.rest(member.number, member.epoch == 0);
            heard.answer(member.take(&response));
            member.due = Instant::now() + rest;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn owned(&self) -> Vec<(Text, BTreeSet<i32>)> {
        let members = self.members.iter();
        members
            .map(|member| (member.id.clone(), member.owns.clone()))
            .collect()
    }

    fn agrees(&self) -> bool {
        let epochs: BTreeSet<i32> = self.members.iter().map(|member| member.epoch).collect();
        epochs.len() == 1
    }
}

impl Member {
    /// Takes what it is told; whether that was new. A partition that is taken is given up before the next heartbeat.
    fn take(&mut self, response: &ConsumerGroupHeartbeatResponse) -> bool {
        let is_new_epoch = self.epoch != response.member_epoch;
        self.epoch = response.member_epoch;
        self.tells = false;
        let Some(Assignment { topic_partitions, .. }) = &response.assignment else {
            return is_new_epoch;
        };
        let given: BTreeSet<i32> = topic_partitions
            .iter()
            .flat_map(|topic| topic.partitions.iter().copied())
            .collect();
        let is_new = given != self.owns;
        if is_new {
            self.owns = given;
            self.tells = true;
        }
        is_new || is_new_epoch
    }
}

fn check(response: &ConsumerGroupHeartbeatResponse) -> anyhow::Result<()> {
    match response.error_code {
        0 => Ok(()),
        code => bail!("a heartbeat was refused: {:?}", ErrorCode::from_code(code)),
    }
}
