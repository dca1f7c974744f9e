//! The body of another node's answer, on its way to whoever has asked this one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::seats::Seat;

use super::super::body::holding;
use super::super::connection::Connection;
use super::super::limits::HttpLimits;

/// See the module.
pub(super) struct Passing {
    body: Incoming,
    connection: Connection,
    limits: HttpLimits,
    /// Of somebody who follows a partition.
    seat: Option<Seat>,
    /// Ends when so long nothing has come that the other node must be gone.
    silence: Pin<Box<Sleep>>,
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
        seat: Option<Seat>,
    ) -> Passing {
        connection.set_follows(seat.is_some());
        Passing {
            body,
            connection,
            limits,
            seat,
            silence: Box::pin(sleep(patience(&limits))),
        }
    }

    /// A piece that its client has a time to take.
    fn timed(&self, piece: Bytes) -> Bytes {
        let deadline = Instant::now() + self.limits.taken_within(piece.len());
        holding(piece, self.connection.cut_at(deadline))
    }
}

impl HttpBody for Passing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
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
        if self.seat.is_some() {
            self.connection.set_follows(false);
        }
    }
}
