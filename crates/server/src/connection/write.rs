//! The answers of one connection on their way out, in the order of their requests.
//!
//! An answer's memory is counted from the moment it is ready until it is written, and a client that takes too little is cut
//! off: sooner while that memory is scarce. An answer never waits for memory here; what asks for it is the reading.

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use futures_util::future::{Either, LocalBoxFuture, select};
use kafka_wire::Frame;
use platform::net::WriteHalf;
use platform::slices::{Origin, work_for};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::answer_budget::{AnswerBudget, Held};
use crate::api::{Answer, AnswerKind, Answered};
use crate::core::Core;

use super::ConnectionError;
use super::in_flight::Permits;
use super::timing::AnswerTimer;

/// Slices handed to the kernel at a time.
const SLICES_MAX: usize = 64;
/// A client that takes nothing for this long is cut off: its answers hold memory that others need.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same while the memory of answers is scarce. The kernel takes more only when a good part of its own buffer is free, so
/// that a client at the least rate allowed seems to take nothing for so long.
const PATIENCE_WHEN_SCARCE: Duration = Duration::from_secs(20);
/// Bytes of an answer that a client must take on average, after that patience.
const TAKEN_BYTES_PER_SECOND_MIN: u64 = 64 << 10;
/// Answers that are ready at the same time go out together, up to so many bytes: a flush that makes several appends of a
/// connection durable costs the node one write then, and the client one wake-up.
const TOGETHER_BYTES: usize = 16 << 10;
/// The interval at which a write that does not get on looks whether it should go on.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// An answer under way.
pub(super) struct Queued {
    pub(super) answer: Answer,
    /// The request that it answers.
    pub(super) origin: Origin,
    pub(super) permits: Permits,
}

impl Queued {
    /// The answer, counted as soon as it is there.
    async fn ready(self, answers: Rc<AnswerBudget>) -> Ready {
        let (frame, kind, end) = match work_for(Some(self.origin), self.answer).await {
            Ok(Some(Answered { frame, kind })) => (Some(frame), kind, None),
            Ok(None) => (None, AnswerKind::Other, None),
            Err(end) => (None, AnswerKind::Other, Some(end)),
        };
        let held = frame.as_ref().map(|frame| answers.hold(frame.total_bytes));
        Ready {
            frame,
            kind,
            end,
            received_at: self.origin.since,
            _held: held,
            _permits: self.permits,
            others: Vec::new(),
        }
    }
}

/// An answer that is being worked on.
type Working = LocalBoxFuture<'static, Ready>;

/// An answer that is ready, if one is wanted, and the memory that it and its request hold.
struct Ready {
    frame: Option<Frame>,
    kind: AnswerKind,
    /// Why nothing comes behind it.
    end: Option<ConnectionError>,
    received_at: Duration,
    _held: Option<Held>,
    _permits: Permits,
    /// Those whose frames are part of this one's.
    others: Vec<Ready>,
}

impl Ready {
    fn bytes(&self) -> usize {
        self.frame.as_ref().map_or(0, |frame| frame.total_bytes)
    }

    /// Has the answer behind this one go out with it.
    fn add(&mut self, mut next: Ready) {
        match (&mut self.frame, next.frame.take()) {
            (Some(frame), Some(more)) => {
                frame.total_bytes += more.total_bytes;
                frame.chunks.extend(more.chunks);
            }
            (frame @ None, more) => *frame = more,
            (Some(_), None) => {}
        }
        self.end = next.end.take();
        self.others.push(next);
    }
}

/// Writes answers in the order of their requests. While one is written the next one is worked on, never more: a client
/// that takes nothing makes this node hold two answers, or one and a handful of small ones.
pub(super) async fn write_answers(
    core: &Rc<Core>,
    mut output: WriteHalf,
    mut answers: mpsc::Receiver<Queued>,
) -> Result<WriteHalf, ConnectionError> {
    let budget = &core.answers;
    let mut timer = AnswerTimer::default();
    let mut ahead: Option<Working> = None;
    loop {
        let mut ready = match ahead.take() {
            Some(ready) => ready.await,
            None => match answers.recv().await {
                Some(queued) => queued.ready(budget.clone()).await,
                None => return Ok(output),
            },
        };
        ahead = gather(&mut ready, || {
            let queued = answers.try_recv().ok()?;
            Some(queued.ready(budget.clone()).boxed_local())
        });
        let end = ready.end.take().map_or(Ok(()), Err);
        let Some(frame) = ready.frame.take() else {
            end?;
            continue;
        };
        core.counters.sent_bytes.add(frame.total_bytes as u64);
        let writing = write_frame(&mut output, frame, budget);
        ahead = match ahead {
            None => {
                writing.await?;
                None
            }
            Some(next) => write_and_work_on(writing, next).await?,
        };
        let answered_at = core.idle_poll.note_answer();
        for answer in std::iter::once(&ready).chain(&ready.others) {
            timer.note(&core.counters, answer.kind, answer.received_at, answered_at);
        }
        end?;
    }
}

/// Adds to an answer those behind it that are ready by now and small; gives back the next one, which goes out later. Behind
/// one that ends the connection nothing comes.
fn gather(ready: &mut Ready, mut next: impl FnMut() -> Option<Working>) -> Option<Working> {
    loop {
        if ready.end.is_some() {
            return None;
        }
        let mut working = next()?;
        // Before a large answer is on its way, nothing is done for the one behind it.
        if ready.bytes() >= TOGETHER_BYTES {
            return Some(working);
        }
        match (&mut working).now_or_never() {
            None => return Some(working),
            Some(behind) if ready.bytes() + behind.bytes() <= TOGETHER_BYTES => ready.add(behind),
            Some(behind) => return Some(std::future::ready(behind).boxed_local()),
        }
    }
}

/// Does both, until the writing is done.
async fn write_and_work_on(
    writing: impl Future<Output = Result<(), ConnectionError>>,
    next: Working,
) -> Result<Option<Working>, ConnectionError> {
    tokio::pin!(writing);
    match select(writing, next).await {
        Either::Left((written, next)) => written.map(|()| Some(next)),
        Either::Right((ready, writing)) => {
            writing.await?;
            Ok(Some(std::future::ready(ready).boxed_local()))
        }
    }
}

async fn write_frame(
    output: &mut (impl AsyncWrite + Unpin),
    frame: Frame,
    answers: &AnswerBudget,
) -> Result<(), ConnectionError> {
    let mut pace = Pace::new(Instant::now(), frame.total_bytes);
    let mut chunks = frame.chunks;
    let mut first = 0;
    while first < chunks.len() {
        let slices: Vec<IoSlice<'_>> = chunks[first..]
            .iter()
            .take(SLICES_MAX)
            .map(|chunk| IoSlice::new(chunk))
            .collect();
        let mut written = loop {
            match timeout(LOOK_INTERVAL, output.write_vectored(&slices)).await {
                Ok(written) => break written?,
                Err(_) => pace.check(Instant::now(), patience(answers))?,
            }
        };
        if written == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero).into());
        }
        pace.took(Instant::now(), written);
        while first < chunks.len() && written >= chunks[first].len() {
            written -= chunks[first].len();
            // Written chunks give their memory back at once.
            chunks[first] = Bytes::new();
            first += 1;
        }
        if first < chunks.len() {
            chunks[first].advance(written);
            // A client that takes a byte now and then never lets a write wait for long.
            pace.check(Instant::now(), patience(answers))?;
        }
    }
    Ok(())
}

fn patience(answers: &AnswerBudget) -> Duration {
    if answers.is_scarce() {
        PATIENCE_WHEN_SCARCE
    } else {
        PATIENCE
    }
}

/// The pace at which a client takes one answer.
struct Pace {
    started: Instant,
    /// When it took something last.
    took_last: Instant,
    taken_bytes: usize,
    total_bytes: usize,
}

impl Pace {
    fn new(now: Instant, total_bytes: usize) -> Pace {
        Pace {
            started: now,
            took_last: now,
            taken_bytes: 0,
            total_bytes,
        }
    }

    fn took(&mut self, now: Instant, bytes: usize) {
        self.took_last = now;
        self.taken_bytes += bytes;
    }

    /// When the client is to be cut off if it takes nothing more. Never later than `patience` after the start, and the time
    /// that the whole answer takes at the least rate.
    fn deadline(&self, patience: Duration) -> Instant {
        let earned_ms = self.taken_bytes as u64 * 1_000 / TAKEN_BYTES_PER_SECOND_MIN;
        let earned = self.started + Duration::from_millis(earned_ms);
        earned.min(self.took_last) + patience
    }

    fn check(&self, now: Instant, patience: Duration) -> Result<(), ConnectionError> {
        if now < self.deadline(patience) {
            return Ok(());
        }
        Err(ConnectionError::AnswerNotTaken {
            taken_bytes: self.taken_bytes,
            total_bytes: self.total_bytes,
            elapsed: now - self.started,
        })
    }
}

#[cfg(test)]
mod tests;
