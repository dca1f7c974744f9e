//! Reads: committed records of a partition from an offset on, as JSON or as lines of JSON; waits at the tail if asked to.
//! A client that accepts events follows the partition instead (`follow`).
//!
//! A read that waits holds neither room nor records, as a Fetch.

pub(super) mod page;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use record::{Offset, PartitionId};
use shard::{ReadRefusal, Shard, Watcher};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::api::list_offsets::offset_since;
use crate::budget::Room;
use crate::caller::Caller;
use crate::log_bounds::LogBounds;

use super::App;
use super::body::{HeldBody, answers_full};
use super::connection::Connection;
use super::cores::{Isolation, Unread};
use super::follow;
use super::media_type::MediaType;
use super::problem::{Kind, Problem};
use super::uri::{Query, bad_parameter};
use page::{Form, Memory, Page, Unpaged, make_page};

/// The forms that records can be given in.
pub(super) const PRODUCES: &[MediaType] = &[MediaType::Json, MediaType::JsonLines, MediaType::EventStream];
/// Records in one answer, unless asked otherwise, and the most.
pub(super) const RECORDS: usize = 1_000;
pub(super) const RECORDS_MAX: usize = 100_000;
/// Bytes in one answer, unless asked otherwise.
pub(super) const BYTES: usize = 1 << 20;
/// The time that finding the first offset and room for the answer may take.
pub(super) const ROOM_WAIT: Duration = Duration::from_secs(5);

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// At the log start.
    Earliest,
    /// At the end of what is read: the tail, or the first open transaction.
    Latest,
    At(Offset),
    /// At the first record with this timestamp or a later one, else at that end.
    Since(i64),
}

impl Start {
    /// Reads `offset` and `timestamp_ms`.
    pub(super) fn read(query: &Query, unless_said: Start) -> Result<Start, Problem> {
        let since = query.number("timestamp_ms", 0..=i64::MAX)?.map(Start::Since);
        let at = match query.get("offset") {
            None => None,
            Some("earliest") => Some(Start::Earliest),
            Some("latest") => Some(Start::Latest),
            Some(text) => match text.parse::<i64>().ok().filter(|offset| *offset >= 0) {
                Some(offset) => Some(Start::At(Offset(offset))),
                None => {
                    let detail = format!("offset must be a whole number, earliest or latest, not {text:?}");
                    return Err(bad_parameter("offset", detail));
                }
            },
        };
        match (at, since) {
            (Some(_), Some(_)) => {
                let detail = "give offset or timestamp_ms, not both".to_owned();
                Err(bad_parameter("timestamp_ms", detail))
            }
            (at, since) => Ok(at.or(since).unwrap_or(unless_said)),
        }
    }

    /// The offset that is meant now.
    pub(super) async fn find(
        self,
        app: &App,
        partition: PartitionId,
        isolation: Isolation,
    ) -> Result<Offset, Unread> {
        if let Start::At(offset) = self {
            return Ok(offset);
        }
        let find = move |shard: Rc<Shard>| async move { self.find_here(&shard, partition, isolation).await };
        Ok(app.cores.ask_owner(partition, find).await??)
    }

    /// The same on the core that owns the partition.
    pub(super) async fn find_here(
        self,
        shard: &Rc<Shard>,
        partition: PartitionId,
        isolation: Isolation,
    ) -> Result<Offset, ReadRefusal> {
        if matches!(self, Start::Latest | Start::Since(_)) {
            shard.until_lease(partition).await?;
        }
        let end = || match isolation {
            Isolation::Committed => Ok(shard.shown_stable(partition)?),
            Isolation::Uncommitted => Ok(shard.shown_tail(partition)?),
        };
        match self {
            Start::At(offset) => Ok(offset),
            Start::Earliest => Ok(LogBounds::of(shard, partition)?.log_start),
            Start::Latest => end(),
            Start::Since(timestamp_ms) => match offset_since(shard, partition, timestamp_ms).await? {
                Some(offset) => Ok(offset),
                None => end(),
            },
        }
    }
}

/// The start of a read, the bounds of its answer, and the time to wait for the first record.
#[derive(Debug, Clone, Copy)]
struct Asked {
    start: Start,
    records: usize,
    bytes: usize,
    wait: Duration,
    isolation: Isolation,
}

/// The name of the parameter that says which transactions' records are read.
pub(super) const ISOLATION: &str = "isolation";

/// Reads that parameter: committed ones unless it says otherwise.
pub(super) fn isolation_of(query: &Query) -> Result<Isolation, Problem> {
    match query.get(ISOLATION) {
        None | Some("committed") => Ok(Isolation::Committed),
        Some("uncommitted") => Ok(Isolation::Uncommitted),
        Some(text) => {
            let detail = format!("isolation must be committed or uncommitted, not {text:?}");
            Err(bad_parameter(ISOLATION, detail))
        }
    }
}

impl Asked {
    fn read(app: &App, query: &Query) -> Result<Asked, Problem> {
        let bytes_max = app.cores.facts.config.limits.fetch_bytes;
        let wait_max = app.limits.read_wait_max.as_millis() as u64;
        Ok(Asked {
            start: Start::read(query, Start::Earliest)?,
            records: query.number("limit", 1..=RECORDS_MAX)?.unwrap_or(RECORDS),
            bytes: query
                .number("bytes", 1..=bytes_max)?
                .unwrap_or(BYTES.min(bytes_max)),
            wait: Duration::from_millis(query.number("wait_ms", 0..=wait_max)?.unwrap_or(0)),
            isolation: isolation_of(query)?,
        })
    }
}

/// Answers `GET …/records`.
pub(super) async fn from_partition(
    State(app): State<Arc<App>>,
    Path((topic, partition)): Path<(String, String)>,
    Extension(media_type): Extension<MediaType>,
    Extension(connection): Extension<Connection>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Result<Response, Problem> {
    let place = app.cores.topic(&topic).await;
    let place = place.and_then(|topic| topic.partition(&partition));
    let partition = place.map_err(|problem| problem.told_to(request.headers()))?;
    if let Some(leader) = app.cores.leader_elsewhere(partition, request.headers()).await? {
        return app.hand_on(&leader, request).await;
    }
    let query = request.uri().query();
    if media_type == MediaType::EventStream {
        return follow::follow(app, partition, query, request.headers(), (connection, caller)).await;
    }
    let query = Query::read(
        query,
        &["offset", "timestamp_ms", "limit", "bytes", "wait_ms", ISOLATION],
    )?;
    let asked = Asked::read(&app, &query)?;
    let form = match media_type {
        MediaType::JsonLines => Form::Lines,
        _ => Form::Array,
    };
    let (page, bounds, room) = find(&app, partition, asked, form, &caller).await?;
    Ok(respond(&app, media_type, page, bounds, room, &connection))
}

/// The records that are there, or those that come first while there is time.
async fn find(
    app: &Arc<App>,
    partition: PartitionId,
    asked: Asked,
    form: Form,
    caller: &Caller,
) -> Result<(Page, LogBounds, Room), Problem> {
    let deadline = Instant::now() + asked.wait;
    let mut from = asked.start.find(app, partition, asked.isolation).await?;
    let arrivals = Watcher::new(1);
    let mut stopped = app.stopped.clone();
    loop {
        let mut room = room(app, caller, asked.bytes).await?;
        let most = Most {
            records: asked.records,
            read_bytes: asked.bytes,
            text_bytes: asked.bytes,
            isolation: asked.isolation,
        };
        let (page, bounds) = match read_page(app, partition, from, most, form, &mut room).await {
            // Retention was faster than we were.
            Err(Failed::Unread(Unread::Refused(ReadRefusal::OutOfRange { log_start, .. })))
                if asked.start == Start::Earliest && from < log_start =>
            {
                from = log_start;
                continue;
            }
            read => read?,
        };
        if page.records > 0 || Instant::now() >= deadline || stopped.has_changed().is_err() {
            // A first record may be larger than all that was asked for.
            if !app.answers.resize(&mut room, page.text.len()) {
                return Err(answers_full());
            }
            return Ok((page, bounds, room));
        }
        drop(room);
        if page.next > from {
            from = page.next;
            continue;
        }
        app.cores.watch(partition, bounds.tail, &arrivals);
        tokio::select! {
            biased;
            () = arrivals.woken() => {}
            () = sleep_until(deadline) => {}
            _ = stopped.changed() => {}
        }
    }
}

/// Waits for room for a page of so many bytes, and for the work on it.
pub(super) async fn room(app: &App, caller: &Caller, bytes: usize) -> Result<Room, Problem> {
    let room = app
        .answers
        .room_of(Some(caller.address()), bytes + page::WORK_BYTES);
    timeout_at(Instant::now() + ROOM_WAIT, room)
        .await
        .map_err(|_| answers_full())
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error(transparent)]
    Unpaged(#[from] Unpaged),
}

impl From<Failed> for Problem {
    fn from(failed: Failed) -> Problem {
        match failed {
            Failed::Unread(unread) => unread.into(),
            Failed::Unpaged(unpaged) => unpaged.into(),
        }
    }
}

/// The most that a page is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub(super) records: usize,
    /// Of batches that are read; the first may be larger.
    pub(super) read_bytes: usize,
    /// Of text; the first record may be larger.
    pub(super) text_bytes: usize,
    pub(super) isolation: Isolation,
}

/// Reads what is there at `from`: at least one record, if there is any. `room` is that of `room`, and grows if it has to.
pub(super) async fn read_page(
    app: &App,
    partition: PartitionId,
    from: Offset,
    most: Most,
    form: Form,
    room: &mut Room,
) -> Result<(Page, LogBounds), Failed> {
    let found = app
        .cores
        .read(
            partition,
            from,
            most.read_bytes,
            Instant::now() + ROOM_WAIT,
            most.isolation,
        )
        .await?;
    let bounds = found.bounds;
    let limits = page::Limits {
        records_max: most.records,
        bytes_max: most.text_bytes,
        record_bytes_max: app.cores.facts.config.limits.fetch_bytes,
        decompression: record::Limits::up_to(app.cores.facts.config.limits.decompressed_bytes as u64),
    };
    let memory = Memory {
        budget: &app.answers,
        room,
        text_before: 0,
    };
    let pool = &app.cores.facts.pool;
    Ok((make_page(pool, found, from, form, limits, memory).await?, bounds))
}

fn respond(
    app: &App,
    media_type: MediaType,
    page: Page,
    bounds: LogBounds,
    room: Room,
    connection: &Connection,
) -> Response {
    let next = page.next;
    let text = page.finish(bounds);
    let mut response = Response::new(HeldBody::hold(text, room, connection, &app.limits));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type.name()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    tell(headers, "ropewalk-next-offset", next);
    tell(headers, "ropewalk-first-offset", bounds.log_start);
    tell(headers, "ropewalk-tail", bounds.tail);
    response
}

fn tell(headers: &mut HeaderMap, name: &'static str, offset: Offset) {
    headers.insert(name, HeaderValue::from(offset.0));
}

/// The problem of a record that no answer holds.
impl From<Unpaged> for Problem {
    fn from(unpaged: Unpaged) -> Problem {
        let detail = unpaged.to_string();
        match unpaged {
            Unpaged::NoRoom => answers_full(),
            Unpaged::TooLarge { offset, bytes, .. } | Unpaged::TooMuch { offset, bytes, .. } => {
                Problem::new(Kind::RecordTooLarge, detail)
                    .with("offset", offset.0)
                    .with("bytes", bytes)
            }
            Unpaged::Damaged { .. } => Problem::new(Kind::StorageFault, detail),
        }
    }
}
