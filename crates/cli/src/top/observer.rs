//! Looks at a node again and again: its metrics, how fast it answers, and how far its consumer groups are behind.
//!
//! It only asks. How fast the node answers is measured from here, with the smallest question of Kafka's protocol.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::{Cluster, ConnectionOptions, OffsetQuery};

use super::exposition::Exposition;
use super::scrape::{ScrapeError, scrape};
use crate::remote::Remote;
use crate::time::now_ms;

/// Between two questions that measure how fast the node answers.
const QUESTION_PERIOD: Duration = Duration::from_millis(20);
/// How long the node may take for a question.
const PATIENCE: Duration = Duration::from_secs(10);
/// Groups whose lag is looked up each time: each costs some questions.
const GROUPS_MAX: usize = 50;

/// A node at one moment.
pub(super) struct Observation {
    pub(super) at: Instant,
    /// The same in milliseconds since 1970.
    pub(super) time_ms: i64,
    pub(super) metrics: Exposition,
    /// How long answers took since the last observation.
    pub(super) answers: Vec<Duration>,
    pub(super) lag: Lag,
}

/// How far groups are behind.
#[derive(Debug, Clone, Default)]
pub(super) struct Lag {
    pub(super) groups: Vec<GroupLag>,
    /// Groups that were not looked at.
    pub(super) left_out: usize,
    /// Why it is not known.
    pub(super) error: Option<String>,
}

/// How far one group is behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupLag {
    pub(super) name: String,
    pub(super) state: String,
    /// Records between what is committed and the tails.
    pub(super) records: i64,
}

pub(super) struct Observer {
    http: String,
    remote: Remote,
    /// `None` until there is one, and after it failed.
    cluster: Option<Cluster>,
}

impl Observer {
    pub(super) fn new(http: &str, remote: &Remote) -> Observer {
        Observer {
            http: http.to_owned(),
            remote: remote.clone(),
            cluster: None,
        }
    }

    /// Asks small questions until `deadline`, then looks at everything.
    pub(super) fn observe(&mut self, deadline: Instant) -> Result<Observation> {
        let answers = self.ask_until(deadline);
        let text = scrape(&self.http)?;
        let at = Instant::now();
        let metrics = Exposition::parse(&text).map_err(|what| ScrapeError::Strange {
            address: self.http.clone(),
            what,
        })?;
        Ok(Observation {
            at,
            time_ms: now_ms(),
            metrics,
            answers,
            lag: self.lag(),
        })
    }

    fn ask_until(&mut self, deadline: Instant) -> Vec<Duration> {
        let mut answers = Vec::new();
        loop {
            let asked = Instant::now();
            if asked >= deadline {
                return answers;
            }
            if let Some(cluster) = &mut self.cluster {
                match cluster.metadata(Some(&[])) {
                    Ok(_) => answers.push(asked.elapsed()),
                    Err(_) => self.cluster = None,
                }
            }
            thread::sleep(QUESTION_PERIOD.min(deadline.saturating_duration_since(Instant::now())));
        }
    }

    /// That the lag is not known is no reason to tell nothing of the rest.
    fn lag(&mut self) -> Lag {
        match self.try_lag() {
            Ok(lag) => lag,
            Err(error) => {
                self.cluster = None;
                Lag {
                    error: Some(error.to_string()),
                    ..Lag::default()
                }
            }
        }
    }

    fn try_lag(&mut self) -> Result<Lag> {
        let mut cluster = match self.cluster.take() {
            Some(cluster) => cluster,
            None => self.remote.connect_with(ConnectionOptions {
                connect_timeout: PATIENCE,
                request_timeout: PATIENCE,
                ..ConnectionOptions::default()
            })?,
        };
        let lag = lag_of(&mut cluster);
        self.cluster = Some(cluster);
        lag
    }
}

fn lag_of(cluster: &mut Cluster) -> Result<Lag> {
    let listed = cluster.groups()?;
    let mut lag = Lag {
        left_out: listed.len().saturating_sub(GROUPS_MAX),
        ..Lag::default()
    };
    let mut tails = BTreeMap::new();
    for group in listed.into_iter().take(GROUPS_MAX) {
        let mut records = 0;
        for found in cluster.group_offsets(&group.name)? {
            if !tails.contains_key(&found.topic) {
                tails.insert(found.topic.clone(), tails_of(cluster, &found.topic)?);
            }
            // A topic that was deleted has no tail any more.
            if let Some(tail) = tails[&found.topic].get(&found.partition) {
                records += tail.saturating_sub(found.offset.0).max(0);
            }
        }
        lag.groups.push(GroupLag {
            name: group.name,
            state: group.state,
            records,
        });
    }
    lag.groups
        .sort_by(|one, other| (other.records, &one.name).cmp(&(one.records, &other.name)));
    Ok(lag)
}

/// The tail of each partition of a topic; none if it is gone.
fn tails_of(cluster: &mut Cluster, topic: &str) -> Result<BTreeMap<i32, i64>> {
    let topic = match cluster.topic(topic) {
        Ok(topic) => topic,
        Err(error) if error.code() == Some(client::ErrorCode::UnknownTopicOrPartition) => {
            return Ok(BTreeMap::new());
        }
        Err(error) => return Err(error.into()),
    };
    let offsets = cluster.offsets(&topic, OffsetQuery::Latest)?;
    let known = offsets
        .into_iter()
        .filter_map(|(index, tail)| Some((index, tail?.0)));
    Ok(known.collect())
}
