//! Says where a group is to go on: finds the offsets that are meant, and commits them as somebody who is no member.
//!
//! Everything is found before anything is committed. What was committed before is told, so that it can be put back.

mod wanted;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use futures_util::future::join_all;
use protocol::groups::{
    CommitOffsets, CommitPartition, CommittedOffset, FetchTopic, GroupError, Name, OffsetCommitter,
    PartitionOutcome, TopicPartition,
};
use record::{Offset, PartitionId};
use serde::Serialize;
use serde_json::json;
use shard::{ReadRefusal, Shard};
use tokio::time::timeout;

use crate::caller::Caller;
use crate::log_bounds::LogBounds;
use crate::mailbox::Stopping;
use crate::owner::ask_owners;

use super::super::App;
use super::super::body::write_json;
use super::super::connection::Connection;
use super::super::cores::{Isolation, Unread};
use super::super::in_order::cut_at;
use super::super::json_body::{Items, take_json};
use super::super::others::Other;
use super::super::problem::{Kind, Problem};
use super::super::read::Start;
use super::super::uri::Query;
use super::coordinator::{self, GroupRefusal};
use super::in_time;
use wanted::{Cut, Entries, Entry, Wanted, sort};

/// Bounds of one request: in bytes, and in partitions.
const BODY_BYTES_MAX: usize = 1 << 20;
const OFFSETS_MAX: usize = 10_000;
/// In place of an epoch, from somebody who is no member.
const NO_MEMBER: i32 = -1;

/// A partition in which a group is put elsewhere.
#[derive(Debug, Serialize)]
struct Move {
    topic: String,
    partition: i32,
    /// The offset that was committed before, if one was.
    before: Option<i64>,
    offset: i64,
    #[serde(skip)]
    id: PartitionId,
}

/// The offsets that were set, or would be.
#[derive(Debug, Serialize)]
struct Moves {
    dry_run: bool,
    offsets: Vec<Move>,
}

/// Answers `PATCH /v1/groups/{group}/offsets`.
pub(in super::super) async fn set_offsets(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Extension(connection): Extension<Connection>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Result<Response, Problem> {
    if let Some(other) = app.cores.coordinator_elsewhere(&name, request.headers()).await? {
        return app.hand_on(&other, request).await;
    }
    let dry_run = Query::read(request.uri().query(), &["dry_run"])?.switch("dry_run")?;
    let (Items(entries), _room) =
        take_json::<Items<Entry, OFFSETS_MAX>>(&app, &caller, request, BODY_BYTES_MAX).await?;
    let entries = sort(entries)?;
    let group = Name::from(name);
    // Nothing has been changed when this ends: it must not use up the time in which a change may be on its way.
    let wait = app.limits.request_wait;
    let found = timeout(wait, find_all(&app, &group, entries)).await;
    let offsets = found.map_err(|_| {
        let detail = format!("the offsets were not found within {wait:?}; nothing was set");
        Problem::new(Kind::Unavailable, detail)
    })??;
    let moves = Moves { dry_run, offsets };
    // First the answer and its room: what is committed must not be refused for want of them.
    let answer = write_json(&app, &moves)?;
    if !dry_run {
        commit(&app, &group, &moves.offsets, &caller).await?;
    }
    Ok(answer.send(&app, &connection))
}

/// The same, whatever names the places.
async fn find_all(app: &App, group: &Name, entries: Entries) -> Result<Vec<Move>, Problem> {
    let cuts = match entries {
        Entries::Places(wanted) => return find_moves(app, group, wanted).await,
        Entries::Cuts(cuts) => cuts,
    };
    let mut moves = Vec::new();
    for (entry, cut) in cuts.into_iter().enumerate() {
        let told = |problem: Problem| problem.with("entry", entry);
        let wanted = partitions_at(app, cut).await.map_err(told)?;
        if moves.len() + wanted.len() > OFFSETS_MAX {
            let detail = format!("the topics have more than {OFFSETS_MAX} partitions together");
            return Err(told(Problem::new(Kind::MalformedBody, detail)));
        }
        moves.extend(find_moves(app, group, wanted).await.map_err(told)?);
    }
    Ok(moves)
}

/// All partitions of a topic, each at the cut.
async fn partitions_at(app: &App, cut: Cut) -> Result<Vec<Wanted>, Problem> {
    let topic = app.cores.topic(&cut.topic).await?;
    let (_, vector) = cut_at(app, &topic, Some(cut.position)).await?;
    let wanted = (0..).zip(vector).map(|(partition, offset)| Wanted {
        topic: cut.topic.clone(),
        partition,
        start: Start::At(offset),
        may_be_gone: true,
    });
    Ok(wanted.collect())
}

/// The offsets to be committed, and those committed now.
async fn find_moves(app: &App, group: &Name, wanted: Vec<Wanted>) -> Result<Vec<Move>, Problem> {
    let named = wanted
        .iter()
        .map(|wanted| (wanted.topic.clone(), wanted.partition))
        .collect();
    let ids = app.cores.partitions(named).await?;
    check_without_members(app, group).await?;
    let before = committed(app, group, &wanted).await?;
    let offsets = find_offsets(app, &wanted, &ids).await?;
    let found = wanted.into_iter().zip(ids).zip(before.into_iter().zip(offsets));
    let moves = found.map(|((wanted, id), (before, offset))| Move {
        topic: wanted.topic,
        partition: wanted.partition,
        before,
        offset: offset.0,
        id,
    });
    Ok(moves.collect())
}

/// The coordinator refuses as well, and has the last word; a rehearsal does not come that far. A group that is not there may be
/// told where to begin.
async fn check_without_members(app: &App, group: &Name) -> Result<(), Problem> {
    match coordinator::describe(app, group).await {
        Err(GroupRefusal::Group(GroupError::GroupNotFound { .. })) => Ok(()),
        Err(refusal) => Err(refusal.into()),
        Ok(described) => match described.member_count() {
            0 => Ok(()),
            members => Err(GroupError::NonEmptyGroup { members }.into()),
        },
    }
}

/// The offsets that a group has committed of partitions, in order.
async fn committed(app: &App, group: &Name, wanted: &[Wanted]) -> Result<Vec<Option<i64>>, Problem> {
    let each = wanted.iter().map(|wanted| FetchTopic {
        topic: Name::from(wanted.topic.as_str()),
        partitions: vec![wanted.partition],
    });
    let fetched = match coordinator::fetch_offsets(app, group, Some(each.collect())).await {
        // There are no groups at all.
        Err(GroupRefusal::Group(GroupError::GroupNotFound { .. })) => return Ok(vec![None; wanted.len()]),
        fetched => fetched?,
    };
    let partitions = fetched.iter().flat_map(|topic| &topic.partitions);
    let offsets = partitions.map(|partition| {
        let committed = partition.committed.as_ref().ok()?.as_ref();
        committed.map(|committed| committed.offset.0)
    });
    Ok(offsets.collect())
}

/// The offsets that are meant, in order, whoever leads the partitions.
async fn find_offsets(app: &App, wanted: &[Wanted], ids: &[PartitionId]) -> Result<Vec<Offset>, Problem> {
    let leaders = app.cores.leaders_elsewhere(ids.to_vec()).await?;
    let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
    for (entry, leader) in leaders.into_iter().enumerate() {
        match leader.map_err(|problem| problem.with("entry", entry))? {
            None => here.push(entry),
            Some(leader) => elsewhere.push((entry, leader)),
        }
    }
    let starts = here
        .iter()
        .map(|entry| (ids[*entry], (wanted[*entry].start, wanted[*entry].may_be_gone)))
        .collect();
    let found_here = find_offsets_here(app, starts).await?;
    let found_elsewhere = find_offsets_elsewhere(app, wanted, elsewhere).await;
    let found: BTreeMap<usize, Result<Offset, Problem>> =
        here.into_iter().zip(found_here).chain(found_elsewhere).collect();
    let offsets = found.into_iter();
    offsets
        .map(|(entry, found)| found.map_err(|problem| problem.with("entry", entry)))
        .collect()
}

/// The offsets that are meant in partitions that other nodes lead, by entry.
async fn find_offsets_elsewhere(
    app: &App,
    wanted: &[Wanted],
    entries: Vec<(usize, Other)>,
) -> Vec<(usize, Result<Offset, Problem>)> {
    let asked = entries.into_iter().map(|(entry, leader)| async move {
        let Wanted {
            topic,
            partition,
            start,
            ..
        } = &wanted[entry];
        let start = app.cores.start_elsewhere(&leader, topic, *partition, *start);
        (entry, start.await)
    });
    join_all(asked).await
}

/// The offsets that are meant in partitions that this node leads, in order.
async fn find_offsets_here(
    app: &App,
    starts: Vec<(PartitionId, (Start, bool))>,
) -> Result<Vec<Result<Offset, Problem>>, Problem> {
    let asked = app.cores.ask_metadata(move |core| async move {
        let questions = starts.into_iter().map(Ok);
        let find = |shard: Rc<Shard>, id, (start, may_be_gone)| async move {
            Ok(find_offset(&shard, id, start, may_be_gone).await)
        };
        ask_owners(&core, &None, questions, find).await
    });
    let offsets = asked.await?.map(|found| {
        // No refusal but this one comes from the way there.
        let found = found.map_err(|_| Problem::from(Stopping))?;
        found.map_err(|refusal| Unread::from(refusal).into())
    });
    Ok(offsets.collect())
}

/// On the core that owns the partition: what is meant, if it is there.
async fn find_offset(
    shard: &Rc<Shard>,
    id: PartitionId,
    start: Start,
    may_be_gone: bool,
) -> Result<Offset, ReadRefusal> {
    let wanted = start.find_here(shard, id, Isolation::Uncommitted).await?;
    let LogBounds { log_start, tail } = LogBounds::of(shard, id)?;
    let wanted = if may_be_gone {
        wanted.max(log_start)
    } else {
        wanted
    };
    match (log_start..=tail).contains(&wanted) {
        true => Ok(wanted),
        false => Err(ReadRefusal::OutOfRange {
            wanted,
            log_start,
            tail,
        }),
    }
}

/// Commits all of them; durable on return.
async fn commit(app: &App, group: &Name, moves: &[Move], caller: &Caller) -> Result<(), Problem> {
    let partitions = moves.iter().map(|one| CommitPartition {
        partition: TopicPartition {
            topic: Name::from(one.topic.as_str()),
            index: one.partition,
        },
        topic_id: one.id.topic,
        committed: CommittedOffset {
            offset: Offset(one.offset),
            leader_epoch: None,
            metadata: Name::default(),
        },
    });
    let commit = CommitOffsets {
        group: Name::clone(group),
        client_host: caller.shown_host(),
        committer: OffsetCommitter {
            member: Name::default(),
            instance: None,
            generation_or_epoch: NO_MEMBER,
            knows_epochs: true,
        },
        partitions: partitions.collect(),
    };
    let outcomes = in_time(app, coordinator::commit_offsets(app, commit)).await??;
    check_outcomes(moves, outcomes)
}

/// The problem of the first that was refused, with those that are set.
fn check_outcomes(moves: &[Move], outcomes: Vec<PartitionOutcome>) -> Result<(), Problem> {
    let mut set: Vec<&Move> = Vec::with_capacity(moves.len());
    let mut refused: Option<(&Move, GroupError)> = None;
    for (one, done) in moves.iter().zip(outcomes) {
        match done.outcome {
            Ok(()) => set.push(one),
            Err(error) => refused = refused.or(Some((one, error))),
        }
    }
    match refused {
        None => Ok(()),
        // Others may be set all the same: the client is told which.
        Some((one, error)) => Err(Problem::from(error)
            .with("topic", one.topic.as_str())
            .with("partition", one.partition)
            .with("set", json!(set))),
    }
}

#[cfg(test)]
mod tests {
    use record::TopicId;

    use super::*;

    #[test]
    fn a_part_that_is_refused_does_not_hide_the_part_that_is_set() {
        let moves = [0, 1].map(|partition| Move {
            topic: "t".to_owned(),
            partition,
            before: None,
            offset: 7,
            id: PartitionId {
                topic: TopicId::default(),
                index: partition,
            },
        });
        let outcomes = |second: Result<(), GroupError>| {
            let outcomes = [Ok(()), second].into_iter().zip(&moves);
            let told = outcomes.map(|(outcome, one)| PartitionOutcome {
                partition: TopicPartition {
                    topic: "t".into(),
                    index: one.partition,
                },
                outcome,
            });
            told.collect::<Vec<_>>()
        };
        assert!(check_outcomes(&moves, outcomes(Ok(()))).is_ok());
        let full = GroupError::LimitReached {
            what: "partitions with offsets in a group",
            max: 1,
        };
        let problem = check_outcomes(&moves, outcomes(Err(full))).expect_err("one is refused");
        let problem = problem.json();
        assert_eq!(problem["type"], "urn:ropewalk:problem:invalid-group");
        assert_eq!(
            (&problem["topic"], &problem["partition"]),
            (&"t".into(), &1.into())
        );
        let set = json!([{ "topic": "t", "partition": 0, "before": null, "offset": 7 }]);
        assert_eq!(problem["set"], set);
    }
}
