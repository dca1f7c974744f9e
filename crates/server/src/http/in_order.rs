//! Reads of a topic with one order: its records by their positions, and the cut at a position.
//!
//! ```text
//!   position ──► home: places ──► one read of each partition, all at once ──► records, place after place
//! ```
//! A place is a few offsets of one partition that have positions one behind the other. Records that were trimmed or compacted away are left out, as where a
//! partition is read by offset.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use protocol::order::Place;
use record::{Offset, PartitionId, Position};
use serde_json::json;
use shard::{ReadRefusal, Watch, Watcher};
use tokio::time::{Instant, sleep_until};

use crate::budget::Room;
use crate::caller::Caller;
use crate::core::Core;
use crate::order::{Cursor, Home, Unfound, clip, extents, share_of};

use super::App;
use super::body::{HeldBody, answers_full};
use super::connection::Connection;
use super::cores::{Found, KnownTopic, Unread};
use super::media_type::MediaType;
use super::others::Other;
use super::problem::{Kind, Problem};
use super::read::page::{Form, Limits, Memory, make_page_of};
use super::read::{BYTES, Failed, RECORDS, RECORDS_MAX, ROOM_WAIT, room};
use super::uri::{Query, bad_parameter};

/// The forms that records can be given in.
pub(super) const PRODUCES: &[MediaType] = &[MediaType::Json, MediaType::JsonLines];

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    At(Position),
    /// Behind all that is ordered.
    Latest,
}

impl Start {
    fn read(query: &Query, unless_said: Start) -> Result<Start, Problem> {
        match query.get("position") {
            None => Ok(unless_said),
            Some("earliest") => Ok(Start::At(Position(0))),
            Some("latest") => Ok(Start::Latest),
            Some(text) => match text.parse::<i64>().ok().and_then(|at| u64::try_from(at).ok()) {
                Some(position) => Ok(Start::At(Position(position))),
                None => {
                    let detail = format!("position must be a whole number, earliest or latest, not {text:?}");
                    Err(bad_parameter("position", detail))
                }
            },
        }
    }
}

/// Records as text, one place after the other.
struct Told {
    text: Vec<u8>,
    records: usize,
    /// Where the next read begins.
    next: Position,
    /// The first position that is not ordered.
    ordered: Position,
}

/// Answers `GET /v1/topics/{topic}/records`.
pub(super) async fn records(
    State(app): State<Arc<App>>,
    Path(topic): Path<String>,
    Extension(media_type): Extension<MediaType>,
    Extension(connection): Extension<Connection>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let topic = app.cores.topic(&topic).await;
    let topic = topic.map_err(|problem| problem.told_to(headers))?;
    if let Some(keeper) = keeper_elsewhere(&app, &topic, headers).await? {
        return app.hand_on(&keeper, request).await;
    }
    let query = Query::read(request.uri().query(), &["position", "limit", "bytes", "wait_ms"])?;
    let bytes_max = app.cores.facts.config.limits.fetch_bytes;
    let wait_max = app.limits.read_wait_max.as_millis() as u64;
    let wait = Duration::from_millis(query.number("wait_ms", 0..=wait_max)?.unwrap_or(0));
    let start = Start::read(&query, Start::At(Position(0)))?;
    let most = Most {
        records: query.number("limit", 1..=RECORDS_MAX)?.unwrap_or(RECORDS),
        bytes: query
            .number("bytes", 1..=bytes_max)?
            .unwrap_or(BYTES.min(bytes_max)),
    };
    let form = match media_type {
        MediaType::JsonLines => Form::Lines,
        _ => Form::Array,
    };
    let (told, room) = find(&app, &topic, start, most, form, (&caller, wait)).await?;
    Ok(respond(&app, media_type, told, room, &connection))
}

/// The most that an answer has.
#[derive(Debug, Clone, Copy)]
struct Most {
    records: usize,
    /// Of text; the first record may be larger.
    bytes: usize,
}

/// The records that are there, or those that come first while there is time.
async fn find(
    app: &Arc<App>,
    topic: &KnownTopic,
    start: Start,
    most: Most,
    form: Form,
    (caller, wait): (&Caller, Duration),
) -> Result<(Told, Room), Problem> {
    let deadline = Instant::now() + wait;
    let arrivals = Watcher::new(1);
    let mut stopped = app.stopped.clone();
    let mut from = match start {
        Start::At(position) => position,
        Start::Latest => cut_at(app, topic, None).await?.0,
    };
    loop {
        let mut room = room(app, caller, most.bytes).await?;
        let told = read(app, topic, from, most, form, &mut room).await?;
        if told.records > 0 || Instant::now() >= deadline || stopped.has_changed().is_err() {
            // A first record may be larger than all that was asked for.
            if !app.answers.resize(&mut room, told.text.len()) {
                return Err(answers_full());
            }
            return Ok((told, room));
        }
        drop(room);
        if told.next > from {
            from = told.next;
            continue;
        }
        watch(app, topic, from, &arrivals).await?;
        tokio::select! {
            biased;
            () = arrivals.woken() => {}
            () = sleep_until(deadline) => {}
            _ = stopped.changed() => {}
        }
    }
}

/// Has a reader woken as soon as more is ordered than is below a position.
async fn watch(app: &App, topic: &KnownTopic, seen: Position, reader: &Arc<Watcher>) -> Result<(), Problem> {
    let (twin, reader) = (app.cores.facts.twin_of(topic.id), reader.clone());
    let seen = Offset(i64::try_from(seen.0).unwrap_or(i64::MAX));
    let watch = move |home: Rc<Home>, _| async move {
        home.watch(&Watch::lone(twin, seen), &reader);
        Ok::<(), Unfound>(())
    };
    ask_home(app, topic, watch).await
}

/// The node that keeps a topic's order, if that is another and the request has not come from one.
///
/// # Errors
/// That one cannot be asked now.
pub(super) async fn keeper_elsewhere(
    app: &App,
    topic: &KnownTopic,
    headers: &HeaderMap,
) -> Result<Option<Other>, Problem> {
    app.cores
        .leader_elsewhere(app.cores.facts.pages_of(topic.id), headers)
        .await
}

/// Asks the home of a topic's order.
pub(super) async fn ask_home<T, E, F>(
    app: &App,
    topic: &KnownTopic,
    ask: impl FnOnce(Rc<Home>, Rc<Core>) -> F + Send + 'static,
) -> Result<T, Problem>
where
    T: Send + 'static,
    E: Into<Problem> + Send + 'static,
    F: Future<Output = Result<T, E>> + 'static,
{
    let id = topic.id;
    let home = app.cores.facts.home_of(id);
    let found = app.cores.ask(home, move |core| async move {
        match core.home(id) {
            Some(home) => Ok(ask(home, core).await),
            None => Err(core
                .with_metadata(|metadata| metadata.topic(id).is_some_and(|topic| topic.settings.is_ordered))),
        }
    });
    match found.await? {
        Ok(found) => found.map_err(Into::into),
        Err(is_ordered) => Err(no_order(topic, is_ordered)),
    }
}

fn no_order(topic: &KnownTopic, is_ordered: bool) -> Problem {
    let name = &topic.name;
    match is_ordered {
        true => Problem::new(
            Kind::Unavailable,
            format!("the order of topic {name} is not open on this node now; another one may keep it, or its log tells why"),
        ),
        false => Problem::new(
            Kind::NoOrder,
            format!("the records of topic {name} have no positions: set ropewalk.order=total"),
        ),
    }
    .with("topic", name.as_ref())
}

impl From<Unfound> for Problem {
    fn from(unfound: Unfound) -> Problem {
        match unfound {
            Unfound::Fault(_) => Problem::new(Kind::StorageFault, unfound.to_string()),
            Unfound::Elsewhere => Problem::new(Kind::Unavailable, unfound.to_string()),
            Unfound::Stopping(stopping) => stopping.into(),
        }
    }
}

/// Of each partition the first offset that has no position below this one, or below all that is ordered.
pub(super) async fn cut_at(
    app: &App,
    topic: &KnownTopic,
    position: Option<Position>,
) -> Result<(Position, Vec<Offset>), Problem> {
    let found = ask_home(app, topic, move |home, core| async move {
        let wanted = match position {
            Some(position) => position,
            None => home.ordered(&core).await?,
        };
        let vector = home.vector_at(&core, wanted).await?;
        Ok::<_, Unfound>((wanted, vector, home.ordered(&core).await?))
    });
    let (position, vector, ordered) = found.await?;
    let mut vector = vector.ok_or_else(|| out_of_range(position, ordered))?;
    // A partition that has no record yet has none below any position.
    vector.resize(vector.len().max(topic.partition_count as usize), Offset::ZERO);
    Ok((position, vector))
}

pub(super) fn out_of_range(position: Position, ordered: Position) -> Problem {
    let detail = format!(
        "no record has position {} yet; the topic can be read up to {}",
        position.0, ordered.0
    );
    Problem::new(Kind::PositionOutOfRange, detail).with("ordered", ordered.0)
}

/// Reads what is there at `from`: at least one record, if there is any. `room` is that of `room`, and grows if it has to.
async fn read(
    app: &App,
    topic: &KnownTopic,
    from: Position,
    most: Most,
    form: Form,
    room: &mut Room,
) -> Result<Told, Problem> {
    let count = most.records as u64;
    let ask = move |home: Rc<Home>, core| async move { home.places(&core, from, count).await };
    let mut found = ask_home(app, topic, ask).await?;
    if from > found.ordered {
        return Err(out_of_range(from, found.ordered));
    }
    let mut told = Told {
        text: Vec::new(),
        records: 0,
        next: from,
        ordered: found.ordered,
    };
    let mut partitions =
        read_partitions(app, topic, (&mut found.places, &found.log_starts), most.bytes).await?;
    for mut place in found.places {
        let partition = partitions
            .get_mut(&place.partition)
            .expect("each partition of a place was read");
        let taken = partition.cursor.take(&mut place);
        let Some(found) = partition.found.as_ref().filter(|_| !taken.batches.is_empty()) else {
            if !taken.is_complete {
                break;
            }
            told.next = place.end();
            continue;
        };
        let limits = Limits {
            records_max: most.records - told.records,
            bytes_max: most.bytes.saturating_sub(told.text.len()),
            record_bytes_max: app.cores.facts.config.limits.fetch_bytes,
            decompression: record::Limits::up_to(app.cores.facts.config.limits.decompressed_bytes as u64),
        };
        if told.records > 0 && limits.bytes_max == 0 {
            break;
        }
        let memory = Memory {
            budget: &app.answers,
            room,
            text_before: told.text.len(),
        };
        let found = found.part(taken.batches);
        let page = make_page_of(&app.cores.facts.pool, found, place, form, limits, memory).await;
        let page = match page {
            // It comes with the next answer, alone.
            Err(_) if told.records > 0 => break,
            page => page.map_err(Failed::from)?,
        };
        let is_too_long = told.records > 0 && page.text.len() > limits.bytes_max;
        if is_too_long {
            break;
        }
        if form == Form::Array && told.records > 0 && page.records > 0 {
            told.text.push(b',');
        }
        told.text.extend_from_slice(&page.text);
        told.records += page.records;
        // Where nothing more was found in what was read, the next read goes on.
        let next = if taken.is_complete && page.has_all {
            place.next
        } else {
            page.next
        };
        told.next = place.position_of(next);
        if next < place.next || told.records >= most.records {
            break;
        }
    }
    Ok(told)
}

/// A read of one partition. Its bytes count as held until it is dropped.
struct PartitionRead {
    found: Option<Found>,
    cursor: Cursor,
}

/// Reads each partition once, all at the same time, for all of its places.
async fn read_partitions(
    app: &App,
    topic: &KnownTopic,
    (places, log_starts): (&mut Vec<Place>, &BTreeMap<i32, Offset>),
    bytes: usize,
) -> Result<BTreeMap<i32, PartitionRead>, Problem> {
    let mut extents = extents(places, bytes);
    clip(&mut extents, log_starts);
    let share = share_of(bytes, extents.len());
    let reads = extents.into_iter().map(|(index, (first, next))| {
        let partition = PartitionId {
            topic: topic.id,
            index,
        };
        async move { Ok((index, read_partition(app, partition, (first, next), share).await?)) }
    });
    join_all(reads).await.into_iter().collect()
}

async fn read_partition(
    app: &App,
    partition: PartitionId,
    (mut first, next): (Offset, Offset),
    bytes: usize,
) -> Result<PartitionRead, Failed> {
    if next <= first {
        return Ok(PartitionRead {
            found: None,
            cursor: Cursor::gone(first),
        });
    }
    let deadline = Instant::now() + ROOM_WAIT;
    loop {
        let read = app
            .cores
            .read_named(partition, first, bytes, deadline, (Some(next), false));
        match read.await {
            Err(Unread::Refused(ReadRefusal::OutOfRange { log_start, .. })) if first < log_start => {
                if next <= log_start {
                    return Ok(PartitionRead {
                        found: None,
                        cursor: Cursor::gone(log_start),
                    });
                }
                first = log_start;
            }
            found => {
                let found = found?;
                let cursor = Cursor::of(&found.batches, found.bounds.log_start, next);
                return Ok(PartitionRead {
                    found: Some(found),
                    cursor,
                });
            }
        }
    }
}

fn respond(app: &App, media_type: MediaType, told: Told, room: Room, connection: &Connection) -> Response {
    let (next, ordered) = (told.next, told.ordered);
    let mut text = told.text;
    if media_type != MediaType::JsonLines {
        let tail = format!("],\"next_position\":{},\"ordered\":{}}}", next.0, ordered.0);
        text.reserve_exact(tail.len() + 16);
        text.splice(..0, *b"{\"records\":[");
        text.extend_from_slice(tail.as_bytes());
    }
    let mut response = Response::new(HeldBody::hold(text, room, connection, &app.limits));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type.name()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    tell(headers, "ropewalk-next-position", next);
    tell(headers, "ropewalk-ordered", ordered);
    response
}

fn tell(headers: &mut HeaderMap, name: &'static str, position: Position) {
    headers.insert(name, HeaderValue::from(position.0));
}

/// Answers `GET /v1/topics/{topic}/cut`.
pub(super) async fn cut(
    State(app): State<Arc<App>>,
    Path(topic): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let topic = app.cores.topic(&topic).await;
    let topic = topic.map_err(|problem| problem.told_to(request.headers()))?;
    if let Some(keeper) = keeper_elsewhere(&app, &topic, request.headers()).await? {
        return app.hand_on(&keeper, request).await;
    }
    let query = Query::read(request.uri().query(), &["position"])?;
    let wanted = match Start::read(&query, Start::Latest)? {
        Start::At(position) => Some(position),
        Start::Latest => None,
    };
    let (position, vector) = cut_at(&app, &topic, wanted).await?;
    let offsets: Vec<i64> = vector.iter().map(|offset| offset.0).collect();
    Ok(Json(json!({ "position": position.0, "offsets": offsets })).into_response())
}
