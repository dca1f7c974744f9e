//! A large consumer group of the next-generation protocol (KIP-848): how long it takes to settle, and whom one more member
//! disturbs.
//!
//! Members are heartbeats, not consumers: they take what they are given and give up what is taken at once, so that what is
//! measured is the coordinator. One thread speaks for all of them.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use client::wire::consumer_group_heartbeat::{Assignment, TopicPartitions};
use client::wire::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, Text};
use client::{Cluster, Connection, ConnectionOptions, ErrorCode, NewTopic, TopicId};
use serde::Serialize;

/// How long a topic may take to be there.
const PATIENCE: Duration = Duration::from_secs(30);
/// Heartbeats under way on the one connection.
const IN_FLIGHT: usize = 64;
const REBALANCE_TIMEOUT_MS: i32 = 60_000;

/// The group.
#[derive(Debug, Clone, clap::Args)]
pub struct MembersOptions {
    /// The broker that coordinates the group, host:port
    #[arg(long, default_value = "127.0.0.1:9092")]
    pub bootstrap: String,
    /// Topic that the group reads; created if it does not exist
    #[arg(long, default_value = "bench-members")]
    pub topic: String,
    /// The topic's partitions
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(i32).range(1..))]
    pub partitions: i32,
    /// Members, before one more joins and one leaves
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub members: u32,
    /// The group
    #[arg(long, default_value = "bench-members")]
    pub group: String,
    /// The longest that settling may take
    #[arg(long, default_value_t = 60.0)]
    pub seconds_max: f64,
    /// Report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How the group settled after something had happened to it.
#[derive(Debug, Clone, Serialize)]
pub struct Settled {
    /// What had happened.
    pub after: &'static str,
    /// Until every member had, and knew, what it is to have.
    pub seconds: f64,
    /// Heartbeats that took.
    pub heartbeats: u64,
    /// Members that were given another assignment than they had.
    pub members_changed: usize,
    /// Partitions that went from one member to another.
    pub partitions_moved: usize,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct MembersReport {
    /// Always "members".
    pub workload: &'static str,
    /// Members at first.
    pub members: u32,
    /// Partitions of the topic.
    pub partitions: i32,
    /// One by one.
    pub settled: Vec<Settled>,
}

#[derive(Debug)]
struct Member {
    id: Text,
    epoch: i32,
    owns: BTreeSet<i32>,
    /// What it owns has changed since it last said so.
    tells: bool,
}

struct Group<'a> {
    options: &'a MembersOptions,
    topic: TopicId,
    connection: Connection,
    members: Vec<Member>,
    heartbeats: u64,
}

/// Has the members join, one more join, and one leave.
///
/// # Errors
/// It could not begin, a member was refused, or the group did not settle in time.
pub fn run(options: &MembersOptions) -> anyhow::Result<MembersReport> {
    let mut cluster = Cluster::connect(&options.bootstrap, ConnectionOptions::default())?;
    match cluster.create_topic(&NewTopic::new(&options.topic, options.partitions)) {
        Err(error) if error.code() == Some(ErrorCode::TopicAlreadyExists) => {}
        made => made?,
    }
    let found = cluster.wait_topic(&options.topic, PATIENCE)?;
    if found.partitions.len() != options.partitions as usize {
        bail!(
            "topic {} has {} partitions: use another or delete it",
            options.topic,
            found.partitions.len()
        );
    }
    // Makes the groups' topic, if there is none yet.
    cluster.group_offsets(&options.group)?;
    let mut group = Group {
        options,
        topic: found.id,
        connection: Connection::connect(&options.bootstrap, &ConnectionOptions::default())?,
        members: Vec::new(),
        heartbeats: 0,
    };
    let mut settled = Vec::new();
    settled.push(group.settle("all joined", |group| {
        (0..options.members).try_for_each(|number| group.join(number))
    })?);
    settled.push(group.settle("one more joined", |group| group.join(options.members))?);
    settled.push(group.settle("one left", Group::leave_first)?);
    while !group.members.is_empty() {
        group.leave_first()?;
    }
    Ok(MembersReport {
        workload: "members",
        members: options.members,
        partitions: options.partitions,
        settled,
    })
}

impl Group<'_> {
    fn join(&mut self, number: u32) -> anyhow::Result<()> {
        self.members.push(Member {
            id: Text::from(format!("{}-{number}", self.options.group).as_str()),
            epoch: 0,
            owns: BTreeSet::new(),
            tells: true,
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

    /// Does what happens, then lets all members speak in turn until nothing changes any more: each partition is somebody's,
    /// nobody was given anything new in a whole round, and all are in the same epoch.
    fn settle(
        &mut self,
        after: &'static str,
        happens: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<Settled> {
        let before: Vec<(Text, BTreeSet<i32>)> = self
            .members
            .iter()
            .map(|member| (member.id.clone(), member.owns.clone()))
            .collect();
        let heartbeats_before = self.heartbeats;
        let began = Instant::now();
        happens(self)?;
        while !(self.round()? && self.is_settled()) {
            if began.elapsed().as_secs_f64() > self.options.seconds_max {
                bail!("the group has not settled in {} s", self.options.seconds_max);
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        let had = |id: &Text| {
            before
                .iter()
                .find(|(known, _)| known == id)
                .map(|(_, owned)| owned)
        };
        let changed = self
            .members
            .iter()
            .filter(|member| had(&member.id).is_none_or(|owned| *owned != member.owns));
        let moved = self.members.iter().map(|member| match had(&member.id) {
            Some(owned) => member.owns.difference(owned).count(),
            None => member.owns.len(),
        });
        Ok(Settled {
            after,
            seconds: (seconds * 1000.0).round() / 1000.0,
            heartbeats: self.heartbeats - heartbeats_before,
            members_changed: changed.count(),
            partitions_moved: moved.sum(),
        })
    }

    fn is_settled(&self) -> bool {
        let owned: usize = self.members.iter().map(|member| member.owns.len()).sum();
        let epochs: BTreeSet<i32> = self.members.iter().map(|member| member.epoch).collect();
        owned == self.options.partitions as usize && epochs.len() == 1
    }

    /// One heartbeat of every member; whether nobody was told anything new.
    fn round(&mut self) -> anyhow::Result<bool> {
        let mut quiet = true;
        let mut next = 0;
        for answered in 0..self.members.len() {
            while next < self.members.len() && next < answered + IN_FLIGHT {
                let request = self.heartbeat(&self.members[next]);
                self.connection.send(&request)?;
                next += 1;
            }
            let response = self.connection.receive::<ConsumerGroupHeartbeatRequest>()?;
            self.heartbeats += 1;
            check(&response).with_context(|| format!("member {}", self.members[answered].id))?;
            quiet &= !self.members[answered].take(&response);
        }
        Ok(quiet)
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

impl MembersReport {
    /// The report as `--json` asks: one JSON object on one line, or text.
    ///
    /// # Panics
    /// Never: a report is plain data.
    #[must_use]
    pub fn render(&self, json: bool) -> String {
        if json {
            serde_json::to_string(self).expect("a report is plain data")
        } else {
            self.to_string()
        }
    }
}

impl fmt::Display for MembersReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "members      {} of {} partitions",
            self.members, self.partitions
        )?;
        for settled in &self.settled {
            writeln!(
                f,
                "{:<16} settled in {} s with {} heartbeats; {} members changed, {} partitions moved",
                settled.after,
                settled.seconds,
                settled.heartbeats,
                settled.members_changed,
                settled.partitions_moved
            )?;
        }
        Ok(())
    }
}
