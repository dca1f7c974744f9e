//! Progress of a group: the offsets that it has committed, and the records behind them. Some partitions at a time, as a
//! group may have committed very many.

use std::collections::BTreeMap;
use std::ops::Bound;

use protocol::groups::{CommittedOffset, FetchedTopic, Name};
use record::Offset;
use serde::Serialize;

use crate::log_bounds::{LogBounds, bounds_of};
use crate::owner::find_partition;

use super::super::App;
use super::super::others;
use super::super::paging::Paging;
use super::super::problem::Problem;
use super::super::uri::{Query, bad_parameter};
use super::members::Member;

/// Bytes of clients' own words in one answer; one partition is told in any case.
const METADATA_BYTES_MAX: usize = 1 << 20;

/// A partition by its topic's name, in the order in which partitions are told.
type Place = (Name, i32);

/// The offsets that a group has committed of the partitions that it reads, or has read.
type Committed = BTreeMap<Place, Option<CommittedOffset>>;

/// The progress of a group in one partition.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Progress {
    topic: String,
    partition: i32,
    /// Nothing if nothing was committed.
    offset: Option<i64>,
    metadata: Option<String>,
    /// Nothing if the partition is gone, or its core does not tell.
    first_offset: Option<i64>,
    tail: Option<i64>,
    lag: Option<i64>,
}

impl Progress {
    fn of(
        (topic, partition): Place,
        committed: Option<CommittedOffset>,
        bounds: Option<LogBounds>,
    ) -> Progress {
        let offset = committed.as_ref().map(|committed| committed.offset.0);
        let tail = bounds.map(|bounds| bounds.tail.0);
        let lag = bounds
            .zip(offset)
            .map(|(bounds, offset)| bounds.behind(Offset(offset)));
        Progress {
            topic: topic.to_string(),
            partition,
            offset,
            metadata: committed.map(|committed| committed.metadata.to_string()),
            first_offset: bounds.map(|bounds| bounds.log_start.0),
            tail,
            lag,
        }
    }
}

/// Which partitions are wanted.
#[derive(Debug)]
pub(super) struct Page {
    limit: usize,
    after: Option<Place>,
}

impl Page {
    /// Reads `limit` and `after`, which is a partition as `next` names it.
    pub(super) fn read(query: &Query) -> Result<Page, Problem> {
        let Paging { limit, after } = Paging::read(query)?;
        let after = after.map(|after| {
            read_place(&after).ok_or_else(|| {
                let detail = format!("after must be TOPIC:PARTITION, as next is, not {after:?}");
                bad_parameter("after", detail)
            })
        });
        Ok(Page {
            limit,
            after: after.transpose()?,
        })
    }

    /// This page of all that a group has committed or has a member for, and the partition with which to go on.
    pub(super) async fn find(
        &self,
        app: &App,
        fetched: Vec<FetchedTopic>,
        members: &[Member],
    ) -> Result<(Vec<Progress>, Option<String>), Problem> {
        let (told, next) = self.cut(&all(fetched, members));
        let places: Vec<Place> = told.iter().map(|(place, _)| place.clone()).collect();
        let told = told.into_iter().zip(bounds_of_all(app, places).await?);
        let told = told.map(|((place, committed), bounds)| Progress::of(place, committed, bounds));
        Ok((told.collect(), next))
    }

    fn cut(&self, all: &Committed) -> (Vec<(Place, Option<CommittedOffset>)>, Option<String>) {
        let begin = self.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = all.range((begin, Bound::Unbounded)).peekable();
        let mut told: Vec<(Place, Option<CommittedOffset>)> = Vec::new();
        let mut bytes = 0;
        while let Some((place, committed)) = rest.peek() {
            bytes += committed.as_ref().map_or(0, |committed| committed.metadata.len());
            if told.len() == self.limit || (bytes > METADATA_BYTES_MAX && !told.is_empty()) {
                let last = told.last().map(|((topic, index), _)| format!("{topic}:{index}"));
                return (told, last);
            }
            told.push(((*place).clone(), (*committed).clone()));
            rest.next();
        }
        (told, None)
    }
}

/// The bounds of partitions, in order, whoever leads them.
async fn bounds_of_all(app: &App, places: Vec<Place>) -> Result<Vec<Option<LogBounds>>, Problem> {
    let asked = app.cores.ask_metadata(move |core| async move {
        let (found, leaders): (Vec<_>, Vec<_>) = core.with_metadata(|metadata| {
            let found = places.iter().map(|(topic, index)| {
                let found = find_partition(metadata, topic, *index);
                let leader = found.ok().and_then(|found| metadata.partition(found));
                (found, leader.map(|state| state.leader))
            });
            found.unzip()
        });
        (bounds_of(&core, found.into_iter()).await, leaders, places)
    });
    let (mut bounds, leaders, places) = asked.await?;
    let all = places.iter().zip(leaders).zip(&mut bounds);
    let mut untold: Vec<_> = all
        .filter_map(|(((topic, index), leader), bounds)| match (&bounds, leader) {
            (None, Some(leader)) => Some(((topic.to_string(), leader, *index), bounds)),
            _ => None,
        })
        .collect();
    let leaders = untold
        .iter()
        .map(|((topic, leader, _), _)| (topic.clone(), *leader));
    let told = others::bounds_of(&app.cores, leaders.collect()).await?;
    for (place, bounds) in &mut untold {
        **bounds = told.get(place).copied();
    }
    Ok(bounds)
}

/// A topic's name has no colon.
fn read_place(text: &str) -> Option<Place> {
    let (topic, index) = text.rsplit_once(':')?;
    let index = index.parse().ok().filter(|index| *index >= 0)?;
    Some((Name::from(topic), index))
}

fn all(fetched: Vec<FetchedTopic>, members: &[Member]) -> Committed {
    let mut all = Committed::new();
    let assigned = members.iter().flat_map(|member| &member.assignment).flatten();
    for topic in assigned {
        let name = Name::from(topic.topic.as_str());
        all.extend(
            topic
                .partitions
                .iter()
                .map(|index| ((Name::clone(&name), *index), None)),
        );
    }
    for topic in fetched {
        for partition in topic.partitions {
            let place = (Name::clone(&topic.topic), partition.index);
            // Nothing is kept from whoever does not ask for what is stable.
            all.insert(place, partition.committed.ok().flatten());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use protocol::groups::FetchedPartition;

    use super::*;

    fn fetched(metadata_bytes: usize, count: i32) -> Vec<FetchedTopic> {
        let partitions = (0..count).map(|index| FetchedPartition {
            index,
            committed: Ok(Some(CommittedOffset {
                offset: Offset(5),
                leader_epoch: None,
                metadata: "x".repeat(metadata_bytes).into(),
            })),
        });
        vec![FetchedTopic {
            topic: "t".into(),
            partitions: partitions.collect(),
        }]
    }

    fn page(limit: usize, after: Option<&str>, all: &Committed) -> (Vec<i32>, Option<String>) {
        let after = after.map(|after| read_place(after).expect("sound"));
        let (told, next) = Page { limit, after }.cut(all);
        (told.into_iter().map(|((_, index), _)| index).collect(), next)
    }

    #[test]
    fn partitions_go_by_number_and_pages_miss_none() {
        let all = all(fetched(0, 12), &[]);
        let next = |place: &str| Some(place.to_owned());
        assert_eq!(page(10, None, &all), ((0..10).collect(), next("t:9")));
        assert_eq!(page(10, Some("t:9"), &all), (vec![10, 11], None));
        assert_eq!(page(12, None, &all).1, None);
        assert_eq!(page(5, Some("u:0"), &all), (Vec::new(), None));
        for place in ["", "t", "t:", ":x", "t:-1", "t:99999999999"] {
            assert_eq!(read_place(place), None, "{place}");
        }
    }

    #[test]
    fn a_page_ends_where_clients_words_become_too_many() {
        let large = all(fetched(METADATA_BYTES_MAX / 2, 3), &[]);
        assert_eq!(page(10, None, &large), (vec![0, 1], Some("t:1".to_owned())));
        // One is told in any case.
        let huge = all(fetched(METADATA_BYTES_MAX + 1, 2), &[]);
        assert_eq!(page(10, None, &huge), (vec![0], Some("t:0".to_owned())));
        assert_eq!(page(10, Some("t:0"), &huge), (vec![1], None));
    }

    #[test]
    fn lag_is_known_where_both_ends_are_and_never_negative() {
        let committed = |offset| {
            Some(CommittedOffset {
                offset: Offset(offset),
                leader_epoch: None,
                metadata: "".into(),
            })
        };
        let bounds = Some(LogBounds {
            log_start: Offset(2),
            tail: Offset(9),
        });
        let lag = |committed, bounds| Progress::of(("t".into(), 0), committed, bounds).lag;
        assert_eq!(lag(committed(4), bounds), Some(5));
        assert_eq!(lag(committed(12), bounds), Some(0));
        assert_eq!(lag(None, bounds), None);
        assert_eq!(lag(committed(4), None), None);
    }
}
