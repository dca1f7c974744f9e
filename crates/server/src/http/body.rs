//! Bodies, in and out. In: read within a limit, a time and the budget. Out: bytes that hold their room in the budget until
//! the last of them is written, and that have the connection cut if that takes too long.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use crate::budget::{NoRoom, Room};
use crate::caller::Caller;

use super::App;
use super::connection::Connection;
use super::limits::HttpLimits;
use super::media_type::MediaType;
use super::problem::{Kind, Problem};

/// Bytes that a body, or an answer, may have without asking for room: too few to matter, too frequent to ask.
const FREE_BYTES: usize = 64 << 10;
/// Bytes of an answer that are given to its connection at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Refuses a body that announces more than it may have, before anything of it is read.
///
/// # Errors
/// It does.
pub(super) fn check_announced(body: &Body, bytes_max: usize) -> Result<(), Problem> {
    match body.size_hint().lower() > bytes_max as u64 {
        true => Err(too_large(bytes_max)),
        false => Ok(()),
    }
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("a body may have {bytes_max} bytes here");
    Problem::new(Kind::BodyTooLarge, detail).with("bytes_max", bytes_max)
}

/// Reads the whole body of a request.
///
/// # Errors
/// It is too large, too slow, not whole, or there is no room for it now.
pub(super) async fn read(
    app: &App,
    caller: &Caller,
    request: Request,
    bytes_max: usize,
) -> Result<(Bytes, Room), Problem> {
    check_announced(request.body(), bytes_max)?;
    let wait = app.limits.body_wait;
    let slow = || {
        Problem::new(
            Kind::BodyTooSlow,
            format!("the body did not come within {wait:?}"),
        )
    };
    timeout(wait, collect(app, caller, request, bytes_max))
        .await
        .unwrap_or_else(|_| Err(slow()))
}

async fn collect(
    app: &App,
    caller: &Caller,
    request: Request,
    bytes_max: usize,
) -> Result<(Bytes, Room), Problem> {
    let mut room = app.bodies.claim(Some(caller.address()), 0);
    let mut read = BytesMut::new();
    let mut pieces = request.into_body().into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            Problem::new(Kind::MalformedBody, format!("the body ends too early: {error}"))
        })?;
        let bytes = read.len() + piece.len();
        if bytes > bytes_max {
            return Err(too_large(bytes_max));
        }
        // Bytes that come more slowly than others hold no more than what came.
        if bytes > FREE_BYTES {
            resize_room(app, &mut room, bytes)?;
        }
        read.extend_from_slice(&piece);
    }
    Ok((read.freeze(), room))
}

/// Makes the room of a body one for `bytes`. The bodies from one address share half of all room; but one body alone may take more.
///
/// # Errors
/// There is no room for it now.
pub(super) fn resize_room(app: &App, room: &mut Room, bytes: usize) -> Result<(), Problem> {
    let share = app.cores.facts.config.limits.in_flight_bytes_per_core / 2;
    room.resize_within(bytes, share.max(bytes))
        .map_err(|no_room| match no_room {
            NoRoom::Taken => busy(&format!("bodies of other requests take all of {IN_FLIGHT}")),
            NoRoom::Share => busy(&format!(
                "bodies from this address take {share} bytes together, half of {IN_FLIGHT}"
            )),
        })
}

/// The room of bodies, by its config.
const IN_FLIGHT: &str = "limits.in_flight_bytes_per_core (the node's configuration can raise it)";
/// Why there is no room for an answer.
pub(super) const ANSWERS_FULL: &str = "answers that are not taken yet take all of limits.answer_bytes_per_core (the node's configuration can raise it)";

/// The problem of an answer for which there is no room.
pub(super) fn answers_full() -> Problem {
    busy(ANSWERS_FULL)
}

/// An answer that is written but not sent, and the room that it takes.
pub(super) struct Written {
    text: Vec<u8>,
    room: Room,
}

impl Written {
    /// The answer on its way. From now on its client has a time to take it.
    pub(super) fn send(self, app: &App, connection: &Connection) -> Response {
        let mut response = Response::new(HeldBody::hold(self.text, self.room, connection, &app.limits));
        let media_type = HeaderValue::from_static(MediaType::Json.name());
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
        response
    }
}

/// Writes an answer in JSON that is as long as what it tells of.
///
/// # Errors
/// There is no room for it now. What is small needs none.
pub(super) fn write_json(app: &App, answer: &impl Serialize) -> Result<Written, Problem> {
    let text = serde_json::to_vec(answer)
        .map_err(|error| Problem::new(Kind::Internal, format!("the answer cannot be written: {error}")))?;
    let mut room = app.answers.no_room();
    if text.len() > FREE_BYTES && !app.answers.resize(&mut room, text.len()) {
        return Err(answers_full());
    }
    Ok(Written { text, room })
}

/// The same, on its way at once. It may be long, so it is not written on the thread that answers health.
///
/// # Errors
/// As `write_json`.
pub(super) async fn held_json(
    app: &Arc<App>,
    connection: &Connection,
    answer: impl Serialize + Send + 'static,
) -> Result<Response, Problem> {
    let writer = Arc::clone(app);
    let written = app.cores.facts.pool.run(move || write_json(&writer, &answer));
    Ok(written.await?.send(app, connection))
}

/// The problem of a node that has too much to do.
pub(super) fn busy(why: &str) -> Problem {
    Problem::new(Kind::Busy, format!("{why}; try again"))
}

/// A text and what has to last as long as it does.
struct Held<B, T> {
    text: B,
    _with: T,
}

impl<B: AsRef<[u8]>, T> AsRef<[u8]> for Held<B, T> {
    fn as_ref(&self) -> &[u8] {
        self.text.as_ref()
    }
}

/// A text that keeps `with` until the last piece of it is written or thrown away: all pieces share the text's memory, and
/// hyper lets go of a body before it has written what came of it.
pub(super) fn holding<B, T>(text: B, with: T) -> Bytes
where
    B: AsRef<[u8]> + Send + 'static,
    T: Send + 'static,
{
    Bytes::from_owner(Held { text, _with: with })
}

/// An answer on its way to a client, piece by piece.
pub(super) struct HeldBody {
    rest: Bytes,
}

impl HeldBody {
    /// The body of an answer on `line`, which is cut if the answer is not taken in time.
    pub(super) fn hold(text: Vec<u8>, room: Room, connection: &Connection, limits: &HttpLimits) -> Body {
        let overdue = connection.cut_at(Instant::now() + limits.taken_within(text.len()));
        Body::new(HeldBody {
            rest: holding(text, (room, overdue)),
        })
    }
}

impl hyper::body::Body for HeldBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::super::tests::app_with;
    use super::*;
    use crate::budget::Budget;
    use crate::caller::Listener;

    #[tokio::test(start_paused = true)]
    async fn the_last_piece_keeps_the_room_and_the_deadline_of_its_answer() {
        let (budget, limits) = (Budget::new(1 << 20), HttpLimits::default());
        let connection = Connection::new(Arc::default());
        let all = budget.room(1 << 20).await;
        let text = vec![0; PIECE_BYTES + 1];
        let mut pieces = HeldBody::hold(text, all, &connection, &limits).into_data_stream();
        let first = pieces.next().await.expect("a piece").expect("nothing fails");
        let last = pieces.next().await.expect("a piece").expect("nothing fails");
        assert_eq!((first.len(), last.len()), (PIECE_BYTES, 1));
        assert!(pieces.next().await.is_none());
        drop((pieces, first));
        let is_free = || budget.resize(&mut budget.no_room(), 1);
        assert!(!is_free(), "the last piece keeps the memory of all of them");
        timeout(2 * limits.taken_wait, connection.until_cut())
            .await
            .expect("the connection is cut");
        drop(last);
        assert!(is_free());
    }

    /// A body of `bytes`, of which nothing more comes.
    fn stuck(bytes: usize) -> Request {
        let came =
            futures_util::stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from(vec![0; bytes]))]);
        Request::new(Body::from_stream(came.chain(futures_util::stream::pending())))
    }

    #[test]
    fn one_address_has_half_of_the_room_for_bodies() {
        const ROOM: usize = 1 << 20;
        let (_stop, stopped) = tokio::sync::watch::channel(());
        let app = app_with(0, HttpLimits::default(), stopped, |config| {
            config.limits.in_flight_bytes_per_core = ROOM;
        });
        let [one, other] = [1, 2].map(|address| Caller::at(([127, 0, 0, address], 7).into(), Listener::Http));
        let begin = |caller, bytes| Box::pin(collect(&app, caller, stuck(bytes), ROOM));
        let mut first = begin(&one, ROOM / 2);
        assert!(first.as_mut().now_or_never().is_none(), "it waits for the rest");
        let refused = begin(&one, FREE_BYTES + 1).now_or_never();
        let Some(Err(problem)) = refused else {
            panic!("its address has all that it may have");
        };
        assert!(
            format!("{problem:?}").contains("bodies from this address"),
            "{problem:?}"
        );
        assert!(begin(&one, FREE_BYTES).now_or_never().is_none(), "it is small");
        assert!(
            begin(&other, ROOM / 2).now_or_never().is_none(),
            "another address has as much"
        );
        drop(first);
        assert!(
            begin(&one, ROOM).now_or_never().is_none(),
            "one alone may take more"
        );
    }
}
