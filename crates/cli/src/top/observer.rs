//! Looks at a node again and again: its metrics, how fast it answers, and how far its consumer groups are behind.
//!
//! It only asks. How fast the node answers is measured from here, with the smallest question of Kafka's protocol.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::{Cluster, ConnectionOptions, GroupOffset, OffsetQuery};

use super::exposition::Exposition;
use super::scrape::{ScrapeError, cluster_of, scrape};
use crate::remote::Remote;
use crate::time::now_ms;

/// Between two questions that measure how fast the node answers.
const QUESTION_PERIOD: Duration = Duration::from_millis(20);
/// The time that the node may take for a question.
const PATIENCE: Duration = Duration::from_secs(10);
/// Groups that are shown: those furthest behind.
const GROUPS_MAX: usize = 50;
/// Groups that are asked about at once: many in one answer, and none so large that the node has to hold much for it.
const GROUPS_PER_QUESTION: usize = 1_000;

/// A node at one moment.
pub(super) struct Observation {
    pub(super) at: Instant,
    /// The same in milliseconds since 1970.
    pub(super) time_ms: i64,
    pub(super) metrics: Exposition,
    /// The times of answers since the last observation.
    pub(super) answers: Vec<Duration>,
    pub(super) lag: Lag,
}

/// The lags of groups.
#[derive(Debug, Clone, Default)]
pub(super) struct Lag {
    /// Those furthest behind, in this order.
    pub(super) groups: Vec<GroupLag>,
    /// Groups that are no further behind than these.
    pub(super) left_out: usize,
    /// Why it is not known.
    pub(super) error: Option<String>,
}

/// The lag of one group.
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

    /// Refuses to watch two nodes of two clusters as if they were one. If either does not answer, the next look tells.
    pub(super) fn check_is_one(&mut self) -> Result<(), ScrapeError> {
        let Ok(http) = cluster_of(&self.http) else {
            return Ok(());
        };
        let metadata = self.connected().and_then(|mut cluster| {
            let metadata = cluster.metadata(Some(&[]))?;
            self.cluster = Some(cluster);
            Ok(metadata)
        });
        match metadata.ok().and_then(|metadata| metadata.cluster_id) {
            Some(kafka) if kafka != http => Err(ScrapeError::Other {
                address: self.http.clone(),
                http,
                bootstrap: self.remote.bootstrap().to_owned(),
                kafka,
            }),
            _ => Ok(()),
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

    fn connected(&mut self) -> Result<Cluster> {
        match self.cluster.take() {
            Some(cluster) => Ok(cluster),
            None => self.remote.connect_with(ConnectionOptions {
                connect_timeout: PATIENCE,
                request_timeout: PATIENCE,
                ..ConnectionOptions::default()
            }),
        }
    }

    fn try_lag(&mut self) -> Result<Lag> {
        let mut cluster = self.connected()?;
        let lag = lag_of(&mut cluster);
        self.cluster = Some(cluster);
        lag
    }
}

/// Asks for many groups at once; only topics with what they have committed are asked about each.
fn lag_of(cluster: &mut Cluster) -> Result<Lag> {
    let listed = cluster.groups()?;
    let names: Vec<&str> = listed.iter().map(|group| group.name.as_str()).collect();
    let mut offsets: HashMap<String, Vec<GroupOffset>> = HashMap::new();
    for names in names.chunks(GROUPS_PER_QUESTION) {
        offsets.extend(cluster.offsets_of_groups(names)?);
    }
    let topics: BTreeSet<&str> = offsets
        .values()
        .flatten()
        .map(|found| found.topic.as_str())
        .collect();
    let tails = tails_of(cluster, topics)?;
    let behind = |found: &GroupOffset| {
        // A topic that was deleted has no tail any more.
        let tail = tails.get(&found.topic)?.get(&found.partition)?;
        Some(tail.saturating_sub(found.offset.0).max(0))
    };
    let mut groups: Vec<GroupLag> = Vec::with_capacity(listed.len());
    for group in listed {
        let found = offsets.get(&group.name).into_iter().flatten();
        groups.push(GroupLag {
            records: found.filter_map(behind).sum(),
            name: group.name,
            state: group.state,
        });
    }
    // Which are furthest behind is known only when all were looked at.
    groups.sort_by(|one, other| (other.records, &one.name).cmp(&(one.records, &other.name)));
    let left_out = groups.len().saturating_sub(GROUPS_MAX);
    groups.truncate(GROUPS_MAX);
    Ok(Lag {
        groups,
        left_out,
        error: None,
    })
}

/// The tail of each partition, by topic. Topics that are gone are left out.
fn tails_of(cluster: &mut Cluster, topics: BTreeSet<&str>) -> Result<BTreeMap<String, BTreeMap<i32, i64>>> {
    let names: Vec<&str> = topics.into_iter().collect();
    let mut tails = BTreeMap::new();
    for topic in cluster.metadata(Some(&names))?.topics {
        let offsets = cluster.offsets_of_led(&topic, OffsetQuery::Latest)?;
        let known = offsets
            .into_iter()
            .filter_map(|(index, tail)| Some((index, tail?.0)));
        tails.insert(topic.name, known.collect());
    }
    Ok(tails)
}

#[cfg(test)]
mod tests {
    use client::fake_broker::FakeBroker;
    use client::{ApiKey, Offset};

    use super::*;

    /// A broker with topics of five records each.
    fn with_records(topics: &[&str]) -> (FakeBroker, Cluster) {
        let broker = FakeBroker::start();
        for topic in topics {
            broker.create_topic(topic, 1);
            broker.append(topic, 0, 5);
        }
        let cluster = Cluster::connect(&broker.address(), ConnectionOptions::default());
        (broker, cluster.expect("it listens"))
    }

    #[test]
    fn a_look_asks_as_little_for_many_groups_as_for_one() {
        let (broker, mut cluster) = with_records(&["orders", "payments"]);
        for group in 0..i64::try_from(GROUPS_MAX).expect("few") + 2 {
            let name = format!("group-{group:02}");
            broker.commit(&name, "orders", 0, Offset(group % 5));
            broker.commit(&name, "payments", 0, Offset(4));
        }
        let apis = [
            ApiKey::Metadata,
            ApiKey::ListGroups,
            ApiKey::FindCoordinator,
            ApiKey::OffsetFetch,
            ApiKey::ListOffsets,
            ApiKey::ApiVersions,
        ];
        let asked = || apis.map(|api| broker.requests(api));
        lag_of(&mut cluster).expect("an answer");
        let before = asked();
        let lag = lag_of(&mut cluster).expect("an answer");
        assert_eq!((lag.groups.len(), lag.left_out), (GROUPS_MAX, 2));
        assert_eq!(
            (lag.groups[0].name.as_str(), lag.groups[0].records),
            ("group-00", 6)
        );
        let after = asked();
        let grown: Vec<u64> = after
            .iter()
            .zip(before)
            .map(|(after, before)| after - before)
            .collect();
        // The brokers, the names of topics, who leads their partitions; a tail for each topic; and no new connection.
        assert_eq!(grown, [3, 1, 1, 1, 2, 0]);
    }

    #[test]
    fn of_all_groups_those_furthest_behind_are_kept() {
        let (broker, mut cluster) = with_records(&["orders"]);
        for group in 0..GROUPS_PER_QUESTION {
            broker.commit(&format!("group-{group:04}"), "orders", 0, Offset(5));
        }
        broker.commit("the-last-by-name", "orders", 0, Offset(1));
        let lag = lag_of(&mut cluster).expect("an answer");
        let left_out = GROUPS_PER_QUESTION + 1 - GROUPS_MAX;
        assert_eq!((lag.groups.len(), lag.left_out), (GROUPS_MAX, left_out));
        assert_eq!(
            (lag.groups[0].name.as_str(), lag.groups[0].records),
            ("the-last-by-name", 4)
        );
        assert_eq!(broker.requests(ApiKey::OffsetFetch), 2);
    }

    #[test]
    fn no_groups_have_no_coordinator_to_be_asked() {
        let (broker, mut cluster) = with_records(&[]);
        assert!(lag_of(&mut cluster).expect("an answer").groups.is_empty());
        // Finding one would have the broker make the topic that groups are kept in.
        assert_eq!(broker.requests(ApiKey::FindCoordinator), 0);
    }
}
