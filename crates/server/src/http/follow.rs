//! Following a partition by server-sent events (WHATWG HTML, section 9.2): records as they are committed, one event each,
//! whose id is the offset. A client that was interrupted goes on behind the last id it saw.
//!
//! A follower holds one piece of text at a time, until it is written. Who does not take it in time is cut off. When
//! following cannot go on, an event named `end` says why before the stream ends: records are never left out in silence.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use record::{Offset, PartitionId};
use serde_json::{Value, json};
use shard::{ReadRefusal, Watcher};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::budget::Room;
use crate::caller::Caller;
use crate::log_bounds::LogBounds;
use crate::seats::{Full, Seat};

use super::App;
use super::body::{busy, holding};
use super::connection::Connection;
use super::cores::{Isolation, Unread};
use super::media_type::MediaType;
use super::problem::{Kind, Problem};
use super::read::page::{Form, WORK_BYTES};
use super::read::{Failed, ISOLATION, Most, Start, isolation_of, read_page, room};
use super::refusal::out_of_range;
use super::uri::Query;

/// Bytes that are sent at a time, usually.
const PIECE_BYTES: usize = 64 << 10;
/// Sent when nothing else is: a line that says nothing, so that everybody in between sees that the stream lives.
const HEARTBEAT: &[u8] = b": heartbeat\n\n";
/// An interrupted client tries again after this many milliseconds.
const RETRY_MS: u32 = 1_000;
/// The header in which a client that was interrupted names the event that it saw last.
const LAST_EVENT_ID: &str = "last-event-id";

/// Begins to follow. What cannot be begun is refused as any request; later there are only events.
pub(super) async fn follow(
    app: Arc<App>,
    partition: PartitionId,
    query: Option<&str>,
    headers: &HeaderMap,
    (connection, caller): (Connection, Arc<Caller>),
) -> Result<Response, Problem> {
    let query = Query::read(query, &["offset", "timestamp_ms", ISOLATION])?;
    let isolation = isolation_of(&query)?;
    let start = match resumed(headers)? {
        Some(start) => start,
        None => Start::read(&query, Start::Latest)?,
    };
    let from = start.find(&app, partition, isolation).await?;
    let LogBounds { log_start, tail } = app.cores.bounds(partition).await?;
    if from < log_start || from > tail {
        return Err(out_of_range(from, log_start, tail));
    }
    let seat = find_seat(&app, &caller)?;
    let (pieces, body) = mpsc::channel(1);
    let follower = Follower {
        app,
        caller,
        partition,
        from,
        isolation,
        piece_bytes: PIECE_BYTES,
        pieces,
        connection,
    };
    tokio::spawn(follower.run(seat));
    let mut response = Response::new(Body::new(Events(body)));
    let headers = response.headers_mut();
    let media_type = HeaderValue::from_static(MediaType::EventStream.name());
    headers.insert(header::CONTENT_TYPE, media_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A place for one more follower.
pub(super) fn find_seat(app: &App, caller: &Caller) -> Result<Seat, Problem> {
    let limits = &app.limits.followers;
    let taken = app
        .followers
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take(caller.address(), limits);
    taken.map_err(|full| {
        let taken = match full {
            Full::All => format!("{} connections", limits.all),
            Full::Address => format!("{} connections from this address", limits.per_address),
        };
        busy(&format!(
            "{taken} follow partitions, which is the most: close some"
        ))
    })
}

/// Sent first. Its id is that of the event before the first one, though that is not sent: who began at the tail and is interrupted
/// before anything came must not begin at a later tail.
fn opening(from: Offset) -> String {
    format!("id: {}\nretry: {RETRY_MS}\n\n", from.0 - 1)
}

/// Where an interrupted client goes on: it says what it saw last, or -1 if it is to begin at the first offset of all.
fn resumed(headers: &HeaderMap) -> Result<Option<Start>, Problem> {
    let Some(id) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let offset = id.to_str().ok().and_then(|id| id.parse::<i64>().ok());
    let next = offset
        .filter(|offset| (-1..i64::MAX).contains(offset))
        .map(|offset| Offset(offset + 1));
    next.map(|next| Some(Start::At(next))).ok_or_else(|| {
        let detail = "Last-Event-ID must be the offset of the last event that was seen";
        Problem::new(Kind::MalformedHeader, detail).with("header", LAST_EVENT_ID)
    })
}

/// Why a stream ends, told as its last event.
#[derive(Debug)]
enum End {
    /// The client has gone, or is cut off: nobody to tell.
    Nobody,
    Trimmed(LogBounds),
    Deleted,
    Stopping,
    /// Something else, in words.
    Failed(String),
}

/// The last event of a node that stops.
pub(super) fn stopping_event() -> String {
    let told = End::Stopping.told().unwrap_or_default();
    format!("event: end\ndata: {told}\n\n")
}

impl End {
    fn told(&self) -> Option<Value> {
        match self {
            End::Nobody => None,
            End::Trimmed(LogBounds { log_start, tail }) => Some(json!({
                "reason": "trimmed",
                "first_offset": log_start.0,
                "tail": tail.0,
            })),
            End::Deleted => Some(json!({ "reason": "deleted" })),
            End::Stopping => Some(json!({ "reason": "stopping" })),
            End::Failed(why) => Some(json!({ "reason": "failed", "detail": why })),
        }
    }

    fn of(unread: Unread) -> End {
        match unread {
            Unread::Stopping(_) => End::Stopping,
            Unread::Refused(ReadRefusal::UnknownPartition) => End::Deleted,
            Unread::Refused(ReadRefusal::OutOfRange { log_start, tail, .. }) => {
                End::Trimmed(LogBounds { log_start, tail })
            }
            unread => End::Failed(unread.to_string()),
        }
    }
}

/// One client that follows one partition.
struct Follower {
    app: Arc<App>,
    caller: Arc<Caller>,
    partition: PartitionId,
    /// The next offset to be sent.
    from: Offset,
    isolation: Isolation,
    /// Bytes that the next piece may have.
    piece_bytes: usize,
    pieces: mpsc::Sender<Bytes>,
    connection: Connection,
}

impl Follower {
    async fn run(mut self, _seat: Seat) {
        let app = Arc::clone(&self.app);
        let _present = app.counters.follower();
        self.connection.set_follows(true);
        let end = match self.tell(opening(self.from)).await {
            Ok(()) => self.send_records().await,
            Err(end) => end,
        };
        if let Some(told) = end.told() {
            // A client that does not take this either is cut off, as any other.
            let _ = self.tell(format!("event: end\ndata: {told}\n\n")).await;
        }
        self.connection.set_follows(false);
    }

    /// Sends what is there, then what comes.
    async fn send_records(&mut self) -> End {
        let arrivals = Watcher::new(1);
        loop {
            let pieces = self.pieces.clone();
            let sent = tokio::select! {
                biased;
                sent = self.send_page() => sent,
                // Unpacking may take long, and is for nobody then.
                () = pieces.closed() => Err(End::Nobody),
            };
            let bounds = match sent {
                Ok(None) => continue,
                Ok(Some(bounds)) => bounds,
                Err(end) => return end,
            };
            self.app.cores.watch(self.partition, bounds.tail, &arrivals);
            if let Err(end) = self.wait(&arrivals).await {
                return end;
            }
        }
    }

    /// Sends the next records; if there are none, says where the partition stands.
    async fn send_page(&mut self) -> Result<Option<LogBounds>, End> {
        let no_memory = || End::Failed("there is no memory for answers".to_owned());
        let answers = &self.app.answers;
        let room = room(&self.app, &self.caller, PIECE_BYTES).await;
        let mut room = room.map_err(|_| no_memory())?;
        let text_bytes = match answers.resize(&mut room, self.piece_bytes + WORK_BYTES) {
            true => self.piece_bytes,
            false => PIECE_BYTES,
        };
        let most = Most {
            records: usize::MAX,
            read_bytes: PIECE_BYTES,
            text_bytes,
            isolation: self.isolation,
        };
        let read = read_page(
            &self.app,
            self.partition,
            self.from,
            most,
            Form::Events,
            &mut room,
        );
        let (page, bounds) = read.await.map_err(|failed| match failed {
            Failed::Unread(unread) => End::of(unread),
            Failed::Unpaged(unpaged) => End::Failed(unpaged.to_string()),
        })?;
        if page.next == self.from {
            return Ok(Some(bounds));
        }
        // A first record may be larger than a piece.
        if !answers.resize(&mut room, page.text.len()) {
            return Err(no_memory());
        }
        self.from = page.next;
        // All of a batch is unpacked for each piece of it. So the pieces of a large one grow, and are few.
        let bytes_max = self.app.cores.facts.config.limits.fetch_bytes;
        self.piece_bytes = match page.inside_batch {
            true => (2 * text_bytes).min(bytes_max).max(PIECE_BYTES),
            false => PIECE_BYTES,
        };
        if page.records > 0 {
            self.send(page.text, room).await?;
        }
        Ok(None)
    }

    /// Waits for records; meanwhile the client hears that the stream lives.
    async fn wait(&self, arrivals: &Watcher) -> Result<(), End> {
        let mut stopped = self.app.stopped.clone();
        loop {
            tokio::select! {
                biased;
                () = self.pieces.closed() => return Err(End::Nobody),
                _ = stopped.changed() => return Err(End::Stopping),
                () = arrivals.woken() => return Ok(()),
                () = sleep(self.app.limits.heartbeat) => self.tell(HEARTBEAT).await?,
            }
        }
    }

    /// Sends something that is too small to be counted.
    async fn tell(&self, text: impl Into<Vec<u8>>) -> Result<(), End> {
        self.send(text.into(), self.app.answers.no_room()).await
    }

    /// Hands a piece to the connection and waits until it is written.
    async fn send(&self, text: Vec<u8>, room: Room) -> Result<(), End> {
        let wait = self.app.limits.taken_within(text.len());
        // Nothing is ever sent: it is dropped with the piece.
        let (unwritten, written) = oneshot::channel::<()>();
        let piece = holding(text, (room, unwritten));
        let sent = async {
            match self.pieces.send(piece).await {
                Ok(()) => {
                    let _ = written.await;
                    Ok(())
                }
                Err(_) => Err(End::Nobody),
            }
        };
        match timeout(wait, sent).await {
            Ok(sent) => sent,
            Err(_) => {
                tracing::debug!(partition = %self.partition, from = %self.from, "a slow follower was cut off");
                self.connection.cut();
                Err(End::Nobody)
            }
        }
    }
}

/// The stream's body.
struct Events(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0
            .poll_recv(context)
            .map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
