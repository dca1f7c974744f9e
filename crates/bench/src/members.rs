//! A large consumer group, of the next-generation protocol (KIP-848) or of the classic one: how long it takes to settle, and
//! whom one more member disturbs.
//!
//! Members are heartbeats, not consumers: they take what they are given and give up what is taken at once, so that what is
//! measured is the coordinator. One thread speaks for all of them. Unless told otherwise they send heartbeats back to back:
//! that is the time the coordinator needs. Members of an application hear of a change with their next heartbeat only, so
//! with an interval it is the time that an application waits, in which two hops may take two intervals.

mod assignment;
mod classic;
mod consumer;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use anyhow::bail;
use client::wire::Text;
use client::{NewTopic, TopicId};
use serde::Serialize;

use self::classic::ClassicGroup;
use self::consumer::ConsumerGroup;
use crate::broker::Broker;
use crate::report::{Report, counted};

const REBALANCE_TIMEOUT_MS: i32 = 60_000;

/// How members speak with the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum GroupProtocol {
    /// The next generation (KIP-848): the coordinator assigns. All members share a connection.
    #[default]
    Consumer,
    /// Members join and synchronise, one of them assigns. Each has a connection.
    Classic,
}

/// The group.
#[derive(Debug, Clone, clap::Args)]
pub struct MembersOptions {
    /// Where to connect.
    #[command(flatten)]
    pub broker: Broker,
    /// Topic that the group reads; created if it does not exist
    #[arg(short, long, value_name = "NAME", default_value = "bench-members")]
    pub topic: String,
    /// The topic's partitions
    #[arg(short, long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(i32).range(1..))]
    pub partitions: i32,
    /// Members, before one more joins and one leaves
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub members: u32,
    /// The group
    #[arg(long, default_value = "bench-members")]
    pub group: String,
    /// How members speak with the coordinator
    #[arg(long, value_enum, default_value_t)]
    pub protocol: GroupProtocol,
    /// Seconds between two heartbeats of a member, as a rule 5 (classic 3); 0 sends them back to back
    #[arg(long, default_value_t = 0.0)]
    pub heartbeat_interval: f64,
    /// The longest that settling may take
    #[arg(long, default_value_t = 60.0)]
    pub seconds_max: f64,
    /// Report as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl MembersOptions {
    /// How long member `number` rests after its heartbeat: at first so that the members' heartbeats are spread evenly.
    fn rest(&self, number: u32, is_first: bool) -> Duration {
        let share = match is_first {
            true => f64::from(number.saturating_add(1).min(self.members)) / f64::from(self.members),
            false => 1.0,
        };
        Duration::from_secs_f64(self.heartbeat_interval * share)
    }

    fn check(&self) -> anyhow::Result<()> {
        // A session of a member that is silent for longer would end.
        if !(0.0..=30.0).contains(&self.heartbeat_interval) {
            bail!("--heartbeat-interval must be from 0 to 30 seconds");
        }
        if !self.seconds_max.is_finite() || self.seconds_max <= 0.0 {
            bail!("--seconds-max must be positive");
        }
        Ok(())
    }
}

/// How the group settled after something had happened to it.
#[derive(Debug, Clone, Serialize)]
pub struct Settled {
    /// What had happened.
    pub after: &'static str,
    /// Until every member had, and knew, what it is to have.
    pub seconds: f64,
    /// Answers to heartbeats, joins and the like that took, those included by which all were seen to be told nothing new.
    pub answers: u64,
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
    /// How the members spoke.
    pub protocol: GroupProtocol,
    /// Members at first.
    pub members: u32,
    /// Partitions of the topic.
    pub partitions: i32,
    /// Seconds between two heartbeats of a member; 0 is back to back.
    pub heartbeat_interval: f64,
    /// One by one.
    pub settled: Vec<Settled>,
}

/// The members of a group, whatever they speak.
trait Group {
    /// One more begins to join.
    fn join(&mut self, number: u32) -> anyhow::Result<()>;

    /// The one that joined first leaves. Answered when it has.
    fn leave_first(&mut self) -> anyhow::Result<()>;

    /// Lets members speak whose time has come, and tells `heard` of each answer; waits for a while if there are none.
    fn speak(&mut self, heard: &mut Heard) -> anyhow::Result<()>;

    fn size(&self) -> usize;

    /// Who has what.
    fn owned(&self) -> Vec<(Text, BTreeSet<i32>)>;

    /// Whether all members are in the same epoch, and none is on its way into another.
    fn agrees(&self) -> bool;
}

/// What members were told since something happened.
#[derive(Debug)]
struct Heard {
    answers: u64,
    /// Answers since the last one that told something new.
    quiet: usize,
    last_news: Instant,
}

impl Heard {
    fn answer(&mut self, is_news: bool) {
        self.answers += 1;
        match is_news {
            true => (self.quiet, self.last_news) = (0, Instant::now()),
            false => self.quiet += 1,
        }
    }
}

/// Has the members join, one more join, and one leave.
///
/// # Errors
/// It could not begin, a member was refused, or the group did not settle in time.
pub fn run(options: &MembersOptions) -> anyhow::Result<MembersReport> {
    options.check()?;
    let topic = prepare(options)?;
    let settled = match options.protocol {
        GroupProtocol::Consumer => measure(options, &mut ConsumerGroup::new(options, topic)?)?,
        GroupProtocol::Classic => measure(options, &mut ClassicGroup::new(options)?)?,
    };
    Ok(MembersReport {
        workload: "members",
        protocol: options.protocol,
        members: options.members,
        partitions: options.partitions,
        heartbeat_interval: options.heartbeat_interval,
        settled,
    })
}

/// Sees to it that the topic and the groups' topic are there.
fn prepare(options: &MembersOptions) -> anyhow::Result<TopicId> {
    let mut cluster = options.broker.cluster()?;
    let topic = NewTopic::new(&options.topic, options.partitions);
    let (found, _) = Broker::have_topic(&mut cluster, &topic)?;
    if found.partitions.len() != options.partitions as usize {
        bail!(
            "topic {} has {} partitions: use another or delete it",
            options.topic,
            found.partitions.len()
        );
    }
    cluster.group_offsets(&options.group)?;
    Ok(found.id)
}

fn measure(options: &MembersOptions, group: &mut impl Group) -> anyhow::Result<Vec<Settled>> {
    let settled = vec![
        settle(options, group, "all joined", |group| {
            (0..options.members).try_for_each(|number| group.join(number))
        })?,
        settle(options, group, "one more joined", |group| {
            group.join(options.members)
        })?,
        settle(options, group, "one left", |group| group.leave_first())?,
    ];
    while group.size() > 0 {
        group.leave_first()?;
    }
    Ok(settled)
}

/// Does what happens, then lets the members speak until nothing changes any more: each partition is somebody's, nobody was
/// told anything new for as many answers as there are members, and all are in the same epoch.
fn settle<G: Group>(
    options: &MembersOptions,
    group: &mut G,
    after: &'static str,
    happens: impl FnOnce(&mut G) -> anyhow::Result<()>,
) -> anyhow::Result<Settled> {
    let before = group.owned();
    let began = Instant::now();
    let mut heard = Heard {
        answers: 0,
        quiet: 0,
        last_news: began,
    };
    happens(group)?;
    loop {
        group.speak(&mut heard)?;
        if heard.quiet >= group.size() && group.agrees() {
            let now = group.owned();
            let owned: usize = now.iter().map(|(_, owned)| owned.len()).sum();
            if owned == options.partitions as usize {
                return Ok(Settled::between(&before, &now, after, began, &heard));
            }
        }
        if began.elapsed().as_secs_f64() > options.seconds_max {
            bail!("the group has not settled in {} s", options.seconds_max);
        }
    }
}

impl Settled {
    fn between(
        before: &[(Text, BTreeSet<i32>)],
        now: &[(Text, BTreeSet<i32>)],
        after: &'static str,
        began: Instant,
        heard: &Heard,
    ) -> Settled {
        let had: HashMap<&str, &BTreeSet<i32>> =
            before.iter().map(|(id, owned)| (id.as_str(), owned)).collect();
        let had = |id: &Text| had.get(id.as_str()).copied();
        let changed = now.iter().filter(|(id, owned)| had(id) != Some(owned));
        let moved = now.iter().map(|(id, owned)| match had(id) {
            Some(before) => owned.difference(before).count(),
            None => owned.len(),
        });
        let seconds = heard.last_news.duration_since(began).as_secs_f64();
        Settled {
            after,
            seconds: (seconds * 1000.0).round() / 1000.0,
            answers: heard.answers,
            members_changed: changed.count(),
            partitions_moved: moved.sum(),
        }
    }
}

impl Report for MembersReport {
    fn text(&self) -> String {
        let protocol = match self.protocol {
            GroupProtocol::Consumer => "consumer protocol",
            GroupProtocol::Classic => "classic protocol",
        };
        let heartbeats = match self.heartbeat_interval > 0.0 {
            true => format!("a heartbeat every {} s", self.heartbeat_interval),
            false => "heartbeats back to back".to_owned(),
        };
        let mut text = format!(
            "members      {}, {}, {protocol}, {heartbeats}\n",
            counted(self.members, "member"),
            counted(self.partitions as u64, "partition")
        );
        for settled in &self.settled {
            text += &format!(
                "{:<16} settled in {} s with {}; {} changed, {} moved\n",
                settled.after,
                settled.seconds,
                counted(settled.answers, "answer"),
                counted(settled.members_changed as u64, "member"),
                counted(settled.partitions_moved as u64, "partition")
            );
        }
        text
    }
}
