//! The lag of consumer groups, looked up on a thread of its own.
//!
//! All nodes are asked, and one that is away holds the answer up for as long as patience lasts. That must not hold up the looks at
//! the watched node, above all not while a node is lost.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use client::{Cluster, GroupOffset, OffsetQuery};

use super::observer::connect;
use crate::remote::Remote;

/// The time that a look waits for the answer to its own question.
const WAIT: Duration = Duration::from_secs(1);
/// Groups that are shown: those furthest behind.
const GROUPS_MAX: usize = 50;
/// Groups that are asked about at once: many in one answer, and none so large that the node has to hold much for it.
const GROUPS_PER_QUESTION: usize = 1_000;

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

/// Asks for the lag, one question at a time.
pub(super) struct LagWatch {
    ask: SyncSender<()>,
    answers: Receiver<Lag>,
    /// A question is not answered yet.
    is_asked: bool,
    last: Lag,
}

impl LagWatch {
    /// Starts the thread; it ends when nobody asks it any more.
    pub(super) fn start(remote: Remote) -> Result<LagWatch> {
        let (ask, questions) = sync_channel(1);
        let (give, answers) = sync_channel(1);
        let look_up = move || {
            let mut cluster = None;
            while let Ok(()) = questions.recv() {
                if give.send(look_up(&remote, &mut cluster)).is_err() {
                    return;
                }
            }
        };
        let started = thread::Builder::new().name("lag".to_owned()).spawn(look_up);
        started.context("the thread \"lag\" could not be started")?;
        Ok(LagWatch {
            ask,
            answers,
            is_asked: false,
            last: Lag {
                error: Some("not all nodes have answered yet".to_owned()),
                ..Lag::default()
            },
        })
    }

    /// The lag now; the last one known if the answer takes long.
    pub(super) fn look(&mut self) -> Lag {
        // An answer to an earlier look is old, but while it does not come there is no use in waiting once more.
        self.take(Duration::ZERO);
        if !self.is_asked {
            self.is_asked = self.ask.send(()).is_ok();
            self.take(WAIT);
        }
        self.last.clone()
    }

    fn take(&mut self, wait: Duration) {
        if let Ok(lag) = self.answers.recv_timeout(wait) {
            self.last = lag;
            self.is_asked = false;
        }
    }
}

/// That the lag is not known is no reason to tell nothing of the rest. After an error the next lookup connects anew.
fn look_up(remote: &Remote, cluster: &mut Option<Cluster>) -> Lag {
    let connected = cluster.take().map_or_else(|| connect(remote), Ok);
    let looked = connected.and_then(|mut connected| {
        let lag = lag_of(&mut connected)?;
        *cluster = Some(connected);
        Ok(lag)
    });
    looked.unwrap_or_else(|error| Lag {
        error: Some(error.to_string()),
        ..Lag::default()
    })
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
    use client::{ApiKey, ConnectionOptions, Offset};

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

    #[test]
    fn a_look_waits_for_its_own_question_only() {
        let (ask, questions) = sync_channel(1);
        let (give, answers) = sync_channel(1);
        let mut watch = LagWatch {
            ask,
            answers,
            is_asked: false,
            last: Lag::default(),
        };
        assert_eq!(watch.look().left_out, 0);
        assert!(watch.is_asked);
        let began = std::time::Instant::now();
        watch.look();
        assert!(began.elapsed() < WAIT / 2, "it does not wait again");
        questions.try_recv().expect("it was asked");
        questions.try_recv().expect_err("once");
        let answer = Lag {
            left_out: 3,
            ..Lag::default()
        };
        give.send(answer).expect("it listens");
        assert_eq!(watch.look().left_out, 3);
        assert_eq!(watch.look().left_out, 3, "the last one known");
        questions.try_recv().expect("it was asked again");
    }
}
