//! Commits offsets: many groups, several connections, each with commits in flight, until a time is over.
//!
//! Whoever commits is in no group, as tools do it: what is measured is the coordinator's log, not membership.

use std::collections::VecDeque;
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail};
use client::wire::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use client::wire::{OffsetCommitRequest, OffsetCommitResponse, Text};
use client::{Connection, ErrorCode, NewTopic, TopicId};
use serde::Serialize;

use crate::broker::Broker;
use crate::floor::Beside;
use crate::latency::{Latency, LatencyRecorder};
use crate::report::{Report, per_s};
use crate::usage::{Meter, Usage};

/// About the bytes of a commit of one offset.
const COMMIT_BYTES: usize = 128;
/// A committer that is in no group has this generation.
const NO_GENERATION: i32 = -1;

/// What to commit, and how.
#[derive(Debug, Clone, clap::Args)]
pub struct CommitOptions {
    /// Where to connect.
    #[command(flatten)]
    pub broker: Broker,
    /// Topic whose offsets are committed; created with one partition if it does not exist
    #[arg(short, long, value_name = "NAME", default_value = "bench")]
    pub topic: String,
    /// Groups that commit in turn, named bench-0, bench-1 and so on
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub groups: u32,
    /// Connections, each with a thread
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,
    /// Commits of one connection that may wait for their acknowledgement at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight: u32,
    /// How long to commit; each group commits at least once
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// The server's process, to report what it used; may be repeated
    #[arg(long = "server-pid", value_name = "PID")]
    pub server_pids: Vec<u32>,
    /// Report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct CommitReport {
    /// Always "commit".
    pub workload: &'static str,
    /// Groups that committed.
    pub groups: u32,
    /// Connections.
    pub connections: u32,
    /// Commits in flight of each connection.
    pub in_flight: u32,
    /// From the first commit sent to the last answered.
    pub seconds: f64,
    /// Commits acknowledged, of one offset each.
    pub commits: u64,
    /// The same a second.
    pub commits_per_s: f64,
    /// Latencies of commits.
    #[serde(flatten)]
    pub latency: Latency,
    /// What it cost.
    #[serde(flatten)]
    pub usage: Usage,
    /// Times that the machine alone takes for one commit.
    #[serde(flatten)]
    pub floor: Beside,
}

/// Commits as `options` say and reports.
///
/// # Errors
/// It could not begin, or a commit was refused.
pub fn run(options: &CommitOptions) -> anyhow::Result<CommitReport> {
    if !options.seconds.is_finite() || options.seconds < 0.0 {
        bail!("--seconds must not be negative");
    }
    let mut cluster = options.broker.cluster()?;
    let (topic, _) = Broker::have_topic(&mut cluster, &NewTopic::new(&options.topic, 1))?;
    // Makes the groups' topic, if there is none yet.
    cluster.group_offsets("bench-0")?;
    let floor = Beside::measure(&mut cluster, COMMIT_BYTES);
    let meter = Meter::start(&options.server_pids)?;
    let began = Instant::now();
    let commits = thread::scope(|scope| {
        let committers: Vec<_> = (0..options.connections)
            .map(|number| scope.spawn(move || commit(options, topic.id, number, began)))
            .collect();
        committers
            .into_iter()
            .map(|committer| committer.join().expect("a committer does not panic"))
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let latencies = LatencyRecorder::merged(commits.iter());
    Ok(CommitReport {
        workload: "commit",
        groups: options.groups,
        connections: options.connections,
        in_flight: options.in_flight,
        seconds: (seconds * 1000.0).round() / 1000.0,
        commits: latencies.count(),
        commits_per_s: per_s(latencies.count() as f64, seconds),
        latency: latencies.summary(),
        usage: meter.stop()?,
        floor,
    })
}

/// One connection's commits: every group in turn whose number is this connection's, modulo their count.
fn commit(
    options: &CommitOptions,
    topic: TopicId,
    number: u32,
    began: Instant,
) -> anyhow::Result<LatencyRecorder> {
    let mut connection = options.broker.connection()?;
    let groups: Vec<Text> = (number..options.groups)
        .step_by(options.connections as usize)
        .map(|group| Text::from(format!("bench-{group}").as_str()))
        .collect();
    let mut latencies = LatencyRecorder::new();
    let mut sent_at = VecDeque::new();
    for (turn, group) in groups.iter().cycle().enumerate() {
        if turn >= groups.len() && began.elapsed().as_secs_f64() >= options.seconds {
            break;
        }
        if sent_at.len() >= options.in_flight as usize {
            receive(&mut connection, &mut sent_at, &mut latencies)?;
        }
        let offset = i64::try_from(turn).context("a commit's number fits an offset")?;
        connection.send(&request(&options.topic, topic, group, offset))?;
        sent_at.push_back(Instant::now());
    }
    while !sent_at.is_empty() {
        receive(&mut connection, &mut sent_at, &mut latencies)?;
    }
    Ok(latencies)
}

fn receive(
    connection: &mut Connection,
    sent_at: &mut VecDeque<Instant>,
    latencies: &mut LatencyRecorder,
) -> anyhow::Result<()> {
    let response: OffsetCommitResponse = connection.receive::<OffsetCommitRequest>()?;
    let sent = sent_at.pop_front().expect("an answer has a request");
    let outcomes = response.topics.iter().flat_map(|topic| &topic.partitions);
    for outcome in outcomes {
        if outcome.error_code != 0 {
            bail!(
                "a commit was refused: {:?}",
                ErrorCode::from_code(outcome.error_code)
            );
        }
    }
    latencies.record(sent.elapsed());
    Ok(())
}

fn request(name: &str, topic: TopicId, group: &Text, offset: i64) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition {
        partition_index: 0,
        committed_offset: offset,
        ..OffsetCommitRequestPartition::default()
    };
    OffsetCommitRequest {
        group_id: group.clone(),
        generation_id_or_member_epoch: NO_GENERATION,
        topics: vec![OffsetCommitRequestTopic {
            name: Text::from(name),
            topic_id: topic,
            partitions: vec![partition],
        }],
        ..OffsetCommitRequest::default()
    }
}

impl Report for CommitReport {}
