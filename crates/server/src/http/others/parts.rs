//! Parts of this node's answers that other nodes tell: the bounds of partitions, places in them, groups.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Uri;
use futures_util::future::join_all;
use protocol::leader::NodeId;
use record::Offset;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::log_bounds::LogBounds;

use super::super::cores::Cores;
use super::super::problem::Problem;
use super::super::read::Start;
use super::super::refusal::out_of_range;
use super::Other;

/// A topic, and the node that leads some partition of it.
pub(in super::super) type TopicLeader = (String, NodeId);

/// The bounds that leaders tell, by topic, leader and partition.
pub(in super::super) type Told = BTreeMap<(String, NodeId, i32), LogBounds>;

/// The bounds of partitions that other nodes lead, as these tell them. There are none of a node that does not answer.
///
/// # Errors
/// This node is stopping.
pub(in super::super) async fn bounds_of(
    cores: &Cores,
    leaders: BTreeSet<TopicLeader>,
) -> Result<Told, Problem> {
    let own = cores.facts.node;
    let others = cores.ask_metadata(move |core| async move {
        let others = leaders.into_iter().filter(|(_, node)| *node != own);
        let found = others.filter_map(|(topic, node)| Some((topic, Other::of(&core, node)?)));
        found.collect::<Vec<_>>()
    });
    let others = others.await?;
    let asked = others.into_iter().map(|(topic, other)| async move {
        let path = format!("/v1/topics/{topic}");
        let told: Option<TopicTold> = cores.ask_other(&other, &path).await.ok();
        let partitions = told.into_iter().flat_map(|told| told.partitions);
        let bounds = partitions.filter_map(|partition| {
            let (index, bounds) = partition.bounds()?;
            Some(((topic.clone(), other.node(), index), bounds))
        });
        bounds.collect::<Vec<_>>()
    });
    Ok(join_all(asked).await.into_iter().flatten().collect())
}

impl Cores {
    /// The offset that is meant in a partition that another node leads, if it is there.
    ///
    /// # Errors
    /// It is not, or the leader does not answer.
    pub(in super::super) async fn start_elsewhere(
        &self,
        leader: &Other,
        topic: &str,
        partition: i32,
        start: Start,
    ) -> Result<Offset, Problem> {
        let from = match start {
            Start::Since(timestamp_ms) => format!("timestamp_ms={timestamp_ms}"),
            // It has no records, and so the bounds alone.
            Start::Earliest | Start::Latest | Start::At(_) => "offset=latest".to_owned(),
        };
        let path = format!("/v1/topics/{topic}/partitions/{partition}/records?{from}&limit=1&bytes=1");
        let told: PageTold = self.ask_other(leader, &path).await?;
        let (log_start, tail) = (Offset(told.first_offset), Offset(told.tail));
        match start {
            Start::Since(_) => {
                let first = told.records.first();
                Ok(first.map_or(tail, |record| Offset(record.offset)))
            }
            Start::Earliest => Ok(log_start),
            Start::Latest => Ok(tail),
            Start::At(offset) if (log_start..=tail).contains(&offset) => Ok(offset),
            Start::At(offset) => Err(out_of_range(offset, log_start, tail)),
        }
    }

    /// The same page of a list that another node has a part of.
    ///
    /// # Errors
    /// It does not answer in time, or refuses.
    pub(in super::super) async fn page_elsewhere<T: DeserializeOwned + Send + 'static>(
        &self,
        other: &Other,
        uri: &Uri,
    ) -> Result<T, Problem> {
        let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str());
        self.ask_other(other, path_and_query).await
    }
}

/// Another node's page of records, as far as it matters here.
#[derive(Deserialize)]
struct PageTold {
    records: Vec<RecordTold>,
    first_offset: i64,
    tail: i64,
}

#[derive(Deserialize)]
struct RecordTold {
    offset: i64,
}

/// The description of a topic by another node, as far as it matters here.
#[derive(Deserialize)]
struct TopicTold {
    partitions: Vec<PartitionTold>,
}

#[derive(Deserialize)]
struct PartitionTold {
    partition: i32,
    first_offset: Option<i64>,
    tail: Option<i64>,
}

impl PartitionTold {
    /// Its bounds, which are told by the node that leads it.
    fn bounds(&self) -> Option<(i32, LogBounds)> {
        let bounds = LogBounds {
            log_start: Offset(self.first_offset?),
            tail: Offset(self.tail?),
        };
        Some((self.partition, bounds))
    }
}
