//! The body of another node's answer, on its way to whoever has asked this one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Sleep, sleep};

use crate::seats::Seat;

use super::super::body::holding;
use super::super::connection::Connection;
use super::super::follow::stopping_event;
use super::super::limits::HttpLimits;

/// See the module.
pub(super) struct Passing {
    body: Incoming,
    connection: Connection,
    limits: HttpLimits,
    /// Of somebody who follows a partition.
    follows: Option<Follows>,
    /// Ends when so long nothing has come that the other node must be gone.
    silence: Pin<Box<Sleep>>,
    line: Option<OwnedSemaphorePermit>,
}

/// A follower's seat, and the stop of this node, of which a follower is told.
struct Follows {
    _seat: Seat,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// What was passed on last ends an event: another may follow.
    is_between: bool,
    is_over: bool,
}

/// A follower hears something at least every heartbeat; all else is under way.
fn patience(limits: &HttpLimits) -> Duration {
    2 * limits.heartbeat
}

impl Passing {
    pub(super) fn of(
        body: Incoming,
        connection: Connection,
        limits: HttpLimits,
        mut stopped: watch::Receiver<()>,
        seat: Option<Seat>,
    ) -> Passing {
        connection.set_follows(seat.is_some());
        let follows = seat.map(|seat| Follows {
            _seat: seat,
            stopped: Box::pin(async move { drop(stopped.changed().await) }),
            is_between: true,
            is_over: false,
        });
        Passing {
            body,
            connection,
            limits,
            follows,
            silence: Box::pin(sleep(patience(&limits))),
            line: None,
        }
    }

    /// The same, with the line that it comes on.
    pub(super) fn holding(mut self, line: OwnedSemaphorePermit) -> Passing {
        self.line = Some(line);
        self
    }

    /// A piece that its client has a time to take.
    fn timed(&mut self, piece: Bytes) -> Bytes {
        if let Some(follows) = &mut self.follows {
            follows.is_between = piece.ends_with(b"\n\n");
        }
        let deadline = Instant::now() + self.limits.taken_within(piece.len());
        holding(piece, self.connection.cut_at(deadline))
    }

    /// The last event of a follower whose node stops, and the end behind it.
    fn poll_stop(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        let Some(follows) = &mut self.follows else {
            return Poll::Pending;
        };
        if !follows.is_over {
            ready!(follows.stopped.as_mut().poll(context));
            follows.is_over = true;
            if !follows.is_between {
                // Who reads events takes no notice of one that is cut off.
                return Poll::Ready(None);
            }
            return Poll::Ready(Some(Frame::data(self.timed(stopping_event().into()))));
        }
        Poll::Ready(None)
    }
}

impl HttpBody for Passing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(end) = self.poll_stop(context) {
            return Poll::Ready(end.map(Ok));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            ready!(self.silence.as_mut().poll(context));
            return Poll::Ready(Some(Err("the other node has fallen silent".into())));
        };
        let deadline = Instant::now() + patience(&self.limits);
        self.silence.as_mut().reset(deadline);
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(BoxError::from)?;
            Ok(frame.map_data(|piece| self.timed(piece)))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if self.follows.is_some() {
            self.connection.set_follows(false);
        }
    }
}
