//! One client connection: frames in, answers out (`write`), in the order of the requests.
//!
//! Requests are started as they come and answered as they finish, but never out of order. Memory comes before reading:
//! a large frame is read only when the core's budget has room for it, and nobody keeps such room for a trickle while others
//! wait; a connection has a bounded number of requests and bytes under way, and whoever is too slow is cut off. Nothing a
//! client sends ends anything but its own connection.
//! A connection that wants partitions of one other core only moves there: that saves two hops between threads.

mod arriving;
mod frames;
mod in_flight;
mod pieces;
mod timing;
mod write;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use kafka_wire::{Text, WireError, Writer};
use platform::net::{Detached, Stream};
use platform::slices::{Origin, work_for};
use platform::turns::{self, TURN_BYTES};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use crate::api;
use crate::budget::SILENCE_MAX;
use crate::caller::Caller;
use crate::core::Core;
use crate::fetch_session::FetchSession;
use crate::seats::Seat;

use frames::Frames;
use in_flight::{Cost, InFlight};
use write::{Queued, write_answers};

/// The time that the last answers of a connection that sends no more may take.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(30);
/// The same while the node stops, in tenths of `shutdown.deadline`: the rest is for what is made durable after them.
const LAST_ANSWERS_TENTHS: u32 = 9;
/// A connection moves after so many partitions in a row, all of one other core.
const MOVE_AFTER: u32 = 32;

/// A client's name of itself is kept between its requests up to this length: connections that are idle take little memory.
const KEPT_ID_BYTES_MAX: usize = 256;

/// Why a connection ended, other than by the client's wish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("a request of {size} bytes was announced, the most is {size_max} (limits.request_bytes)")]
    RequestTooLarge { size: i64, size_max: usize },
    #[error("the request is malformed: {0}")]
    Malformed(#[from] WireError),
    #[error("a request did not arrive whole within {0:?}")]
    TooSlow(Duration),
    #[error("too little of a large request came within {SILENCE_MAX:?}, and others wait for its memory")]
    Silent,
    #[error("idle for {0:?}")]
    Idle(Duration),
    #[error("an answer was not taken in time: {taken_bytes} of {total_bytes} bytes in {elapsed:?}")]
    AnswerNotTaken {
        taken_bytes: usize,
        total_bytes: usize,
        elapsed: Duration,
    },
    #[error("an append whose producer wants no answer was refused (Kafka's error {code})")]
    RefusedUnanswered { code: i16 },
    #[error("the last answers were not taken within {0:?}")]
    LastAnswersNotTaken(Duration),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A client at a core's door: new, or sent on by another core.
pub(crate) struct Arrival {
    pub(crate) stream: Detached,
    pub(crate) caller: Arc<Caller>,
    /// Bytes of its next request that were read already.
    pub(crate) rest: BytesMut,
    /// Its fetch session.
    pub(crate) session: Option<FetchSession>,
    /// A whole request of it has come before.
    pub(crate) has_asked: bool,
    /// Its place among the connections that the node allows.
    pub(crate) seat: Seat,
    /// Closed when the node drains.
    pub(crate) draining: Arc<Semaphore>,
}

/// The state that the handlers of one connection share.
pub(crate) struct Connection {
    /// The client, as it named itself last.
    caller: RefCell<Arc<Caller>>,
    /// Answers are encoded here, one at a time.
    pub(crate) writer: RefCell<Writer>,
    /// The connection's fetch session; ends with it.
    pub(crate) session: Cell<i32>,
    /// The core whose partitions were wanted lately, and how often in a row.
    streak: Cell<(usize, u32)>,
    /// Ends when a request that takes several turns to begin is begun.
    beginning: Cell<Option<oneshot::Receiver<()>>>,
}

impl Connection {
    /// The client, as it names itself in a request: nearly always in all of them alike.
    pub(crate) fn caller(&self, client_id: Option<&Text>) -> Arc<Caller> {
        let mut last = self.caller.borrow_mut();
        let client_id = client_id.map_or("", Text::as_str);
        if *last.client_id == *client_id {
            return last.clone();
        }
        let caller = Arc::new(last.named(client_id));
        if client_id.len() <= KEPT_ID_BYTES_MAX {
            *last = caller.clone();
        }
        caller
    }

    fn address(&self) -> IpAddr {
        self.caller.borrow().address()
    }

    /// Takes note that a request wanted a partition of `core`.
    pub(crate) fn note_owner(&self, core: usize) {
        let (last, times) = self.streak.get();
        self.streak.set(if last == core {
            (core, times.saturating_add(1))
        } else {
            (core, 1)
        });
    }

    /// Holds the next request back until the other end of this is dropped: the one before it is not begun yet.
    pub(crate) fn hold_back(&self, beginning: oneshot::Receiver<()>) {
        self.beginning.set(Some(beginning));
    }

    async fn until_begun(&self) {
        if let Some(beginning) = self.beginning.take() {
            let _ = beginning.await;
        }
    }

    /// Where the connection should live, if it wants partitions of one other core only.
    fn wants_to_move(&self, here: usize) -> Option<usize> {
        let (core, times) = self.streak.get();
        (core != here && times >= MOVE_AFTER).then_some(core)
    }
}

/// Why no more requests are read here.
enum ReadEnd {
    /// The client sends no more, or the node drains.
    Done,
    /// The connection goes on at another core.
    MoveTo(usize),
}

/// Serves a connection until it ends or moves to the core that owns what it wants.
pub(crate) async fn serve(core: Rc<Core>, arrival: Arrival) {
    let Arrival {
        stream,
        caller,
        rest,
        session,
        has_asked,
        seat,
        draining,
    } = arrival;
    let session = session.map_or(0, |session| {
        core.sessions.borrow_mut().adopt(session, Instant::now())
    });
    let connection = Rc::new(Connection {
        caller: RefCell::new(caller),
        writer: RefCell::new(Writer::new()),
        session: Cell::new(session),
        streak: Cell::new((core.index, 0)),
        beginning: Cell::new(None),
    });
    core.counters.connections.set(core.counters.connections.get() + 1);
    let ended = converse(&core, &connection, stream, rest, has_asked, &draining).await;
    core.counters.connections.set(core.counters.connections.get() - 1);
    let session = core.sessions.borrow_mut().take(connection.session.get());
    let caller = connection.caller.borrow().clone();
    match ended {
        Ok(None) => {}
        Ok(Some((target, stream, rest))) => {
            core.counters.connections_moved.add(1);
            let arrival = Arrival {
                stream,
                caller,
                rest,
                session,
                has_asked: true,
                seat,
                draining,
            };
            core.facts.mailboxes.send(target, |core| welcome(core, arrival));
        }
        Err(error) => {
            if matches!(
                error,
                ConnectionError::Malformed(_) | ConnectionError::RequestTooLarge { .. }
            ) {
                core.counters.malformed_requests.add(1);
            }
            if matches!(
                error,
                ConnectionError::AnswerNotTaken { .. } | ConnectionError::LastAnswersNotTaken(_)
            ) {
                core.counters.connections_cut_off.add(1);
            }
            tracing::debug!(%caller, %error, "a connection was closed");
        }
    }
}

/// Starts to serve a connection on the core that calls.
pub(crate) fn welcome(core: &Rc<Core>, arrival: Arrival) {
    turns::spawn(serve(core.clone(), arrival));
}

/// Reads and answers until the client is done; or gives the stream back, with what was read of the next request, to go on
/// at another core.
async fn converse(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    stream: Detached,
    rest: BytesMut,
    has_asked: bool,
    draining: &Semaphore,
) -> Result<Option<(usize, Detached, BytesMut)>, ConnectionError> {
    let stream = stream.attach()?;
    stream.set_nodelay()?;
    let (input, output) = stream.split();
    let limits = &core.facts.config.limits;
    let (queue, answers) = mpsc::channel(limits.in_flight_requests_per_connection.max(1));
    let mut frames = Frames::new(core.clone(), connection.address(), input, rest, has_asked);
    // The queue ends with the reading, and the writing with the queue: whoever sends no more is still answered.
    let reading = async {
        tokio::select! {
            biased;
            // Closed when the node drains.
            _ = draining.acquire() => Ok(ReadEnd::Done),
            read = read_requests(core, connection, &mut frames, queue) => read,
        }
    };
    let writing = write_answers(core, output, answers);
    tokio::pin!(writing);
    let end = tokio::select! {
        biased;
        read = reading => read?,
        written = &mut writing => return written.map(|_| None),
    };
    let ReadEnd::MoveTo(target) = end else {
        // Nobody may be there any more to take the answers: not for ever.
        let patience = match draining.is_closed() {
            true => LAST_ANSWERS_MAX.min(core.facts.config.shutdown.deadline * LAST_ANSWERS_TENTHS / 10),
            false => LAST_ANSWERS_MAX,
        };
        let written = timeout(patience, writing).await;
        return written
            .unwrap_or(Err(ConnectionError::LastAnswersNotTaken(patience)))
            .map(|_| None);
    };
    let output = writing.await?;
    let stream = Stream::join(frames.input, output);
    Ok(Some((target, stream.detach()?, frames.buffer)))
}

/// Reads and starts requests, in order, until the client is done or the connection should move.
async fn read_requests(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    frames: &mut Frames,
    queue: mpsc::Sender<Queued>,
) -> Result<ReadEnd, ConnectionError> {
    let bytes_max = core.facts.config.limits.in_flight_bytes_per_connection;
    let in_flight = InFlight::new(Some(connection.address()), bytes_max);
    let mut begun_bytes = 0;
    while let Some(received) = frames.next(&in_flight).await? {
        let request = &received.request;
        let size = request.len();
        let cost = Cost {
            size,
            memory_bytes: api::memory_bytes(request, size)
                + api::memory_bytes_of_session(core, connection, request),
            may_wait: api::may_wait(request),
        };
        let mut permits = in_flight.admit(&core.requests, cost, received.room).await;
        // A place in the queue first: what is started must be answered.
        let Ok(place) = queue.reserve().await else {
            return Ok(ReadEnd::Done);
        };
        core.counters.requests.add(1);
        let origin = Origin {
            client: connection.address(),
            since: core.idle_poll.note_request(),
        };
        let room = &mut permits.room;
        let start = async {
            api::start(core, connection, received.request, received.memory, room)?
                .answer()
                .await
        };
        let answer = work_for(Some(origin), start).await?;
        place.send(Queued {
            answer,
            origin,
            permits,
        });
        connection.until_begun().await;
        if let Some(target) = connection.wants_to_move(core.index) {
            return Ok(ReadEnd::MoveTo(target));
        }
        // A client that appends much at once sends on and on.
        begun_bytes += size;
        if begun_bytes >= TURN_BYTES || turns::is_spent() {
            begun_bytes = 0;
            yield_now().await;
        }
    }
    Ok(ReadEnd::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Listener;

    #[test]
    fn a_client_is_called_as_it_names_itself_in_each_request() {
        let unnamed = Arc::new(Caller::at(([10, 0, 0, 1], 7).into(), Listener::Kafka));
        let connection = Connection {
            caller: RefCell::new(unnamed.clone()),
            writer: RefCell::new(Writer::new()),
            session: Cell::new(0),
            streak: Cell::new((0, 0)),
            beginning: Cell::new(None),
        };
        let caller = |name: Option<&str>| connection.caller(name.map(Text::from).as_ref());
        assert_eq!(caller(None), unnamed);
        let named = caller(Some("a"));
        assert_eq!((&*named.client_id, named.peer), ("a", unnamed.peer));
        assert!(Arc::ptr_eq(&named, &caller(Some("a"))), "it is made once");
        assert_eq!(&*caller(Some("b")).client_id, "b");
        let long = "c".repeat(KEPT_ID_BYTES_MAX + 1);
        assert_eq!(*caller(Some(&long)).client_id, *long);
        assert_eq!(
            &*connection.caller.borrow().client_id,
            "b",
            "a long name is not kept"
        );
        assert_eq!(&*caller(None).client_id, "");
    }
}
