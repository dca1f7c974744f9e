//! Clients that take an answer fast enough, and those that are cut off, and when. Time stands still but for what is waited for.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{pending, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use kafka_wire::Frame;
use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep};

use super::{
    PATIENCE, PATIENCE_WHEN_SCARCE, Pace, Ready, TAKEN_BYTES_PER_SECOND_MIN, TOGETHER_BYTES, Working, gather,
    write_frame,
};
use crate::answer_budget::AnswerBudget;
use crate::api::AnswerKind;
use crate::budget::Budget;
use crate::connection::ConnectionError;
use crate::connection::in_flight::{Cost, InFlight};

const MIB: usize = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);
/// Bytes that fit between the writer and the reader.
const PIPE_BYTES: usize = 1 << 10;

/// An answer of several chunks.
fn frame(total_bytes: usize) -> Frame {
    let chunk = Bytes::from(vec![7; total_bytes / 8]);
    Frame {
        chunks: vec![chunk; 8],
        total_bytes,
        ..Frame::default()
    }
}

/// Takes up to `bytes` every `interval`, for ever.
async fn take(mut input: DuplexStream, interval: Duration, bytes: usize) -> Infallible {
    let mut buffer = vec![0; bytes];
    loop {
        sleep(interval).await;
        let taken = input.read(&mut buffer).await.expect("a pipe does not fail");
        assert!(taken > 0, "the writer is there");
    }
}

/// Writes a frame to a client that takes `bytes` every `interval`: what became of it, and how long it took.
async fn written(
    answers: &AnswerBudget,
    total_bytes: usize,
    interval: Duration,
    bytes: usize,
) -> (Result<(), ConnectionError>, Duration) {
    let (mut output, input) = duplex(PIPE_BYTES);
    let started = Instant::now();
    tokio::select! {
        biased;
        outcome = write_frame(&mut output, frame(total_bytes), answers) => (outcome, started.elapsed()),
        never = take(input, interval, bytes) => match never {},
    }
}

fn is_cut_off(outcome: &Result<(), ConnectionError>) -> bool {
    matches!(outcome, Err(ConnectionError::AnswerNotTaken { .. }))
}

#[tokio::test(start_paused = true)]
async fn who_takes_everything_gets_everything() {
    let answers = AnswerBudget::new(MIB);
    let (outcome, _) = written(&answers, MIB, Duration::from_millis(1), PIPE_BYTES).await;
    assert!(outcome.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_takes_nothing_is_cut_off_and_sooner_when_memory_is_scarce() {
    let answers = AnswerBudget::new(MIB);
    let (outcome, took) = written(&answers, MIB, 1_000 * SECOND, 1).await;
    assert!(is_cut_off(&outcome));
    assert!((PATIENCE..=PATIENCE + SECOND).contains(&took), "{took:?}");
    let _held = answers.hold(MIB);
    let (outcome, took) = written(&answers, MIB, 1_000 * SECOND, 1).await;
    assert!(is_cut_off(&outcome));
    assert!(
        (PATIENCE_WHEN_SCARCE..=PATIENCE_WHEN_SCARCE + SECOND).contains(&took),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_byte_now_and_then_buys_no_time() {
    let answers = AnswerBudget::new(MIB);
    for interval in [SECOND / 100, SECOND, 29 * SECOND] {
        let (outcome, took) = written(&answers, MIB, interval, 1).await;
        assert!(is_cut_off(&outcome), "every {interval:?}");
        assert!(took <= PATIENCE + 2 * SECOND, "every {interval:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn memory_that_becomes_scarce_ends_patience_at_once() {
    let answers = AnswerBudget::new(MIB);
    let scarcity = async {
        sleep(PATIENCE_WHEN_SCARCE + 5 * SECOND).await;
        let _held = answers.hold(MIB);
        sleep(1_000 * SECOND).await;
    };
    tokio::select! {
        biased;
        (outcome, took) = written(&answers, MIB, 100 * SECOND, 1) => {
            assert!(is_cut_off(&outcome));
            assert!(took <= PATIENCE_WHEN_SCARCE + 7 * SECOND, "{took:?}");
        }
        () = scarcity => panic!("the client is waited for"),
    }
}

#[test]
fn a_whole_answer_has_a_bounded_time() {
    let (start, rate) = (Instant::now(), TAKEN_BYTES_PER_SECOND_MIN as usize);
    let mut pace = Pace::new(start, 100 * rate);
    assert_eq!(pace.deadline(PATIENCE), start + PATIENCE);
    // Fast at first: what was taken is worth time later, but a pause is a pause.
    pace.took(start + SECOND, 50 * rate);
    assert_eq!(pace.deadline(PATIENCE), start + SECOND + PATIENCE);
    // At the least rate for the rest.
    for second in 2..=50 {
        pace.took(start + second * SECOND, rate);
        assert_eq!(pace.deadline(PATIENCE), start + second * SECOND + PATIENCE);
    }
    // Then a byte a second: what was earned is used up.
    for second in 51..=400 {
        pace.took(start + second * SECOND, 1);
    }
    let last = pace.deadline(PATIENCE);
    assert_eq!(last, start + PATIENCE + Duration::from_millis(99_005));
    assert!(pace.check(last - SECOND, PATIENCE).is_ok());
    let cut_off = pace.check(last, PATIENCE);
    assert!(is_cut_off(&cut_off));
}

/// An answer of `bytes` times its number; none of it if `bytes` is zero.
fn answer(number: u8, bytes: usize) -> Ready {
    let cost = Cost {
        size: 1,
        memory_bytes: 1,
        may_wait: false,
    };
    let permits = InFlight::new(None, 1)
        .admit(&Budget::new(1), cost, None)
        .now_or_never();
    let frame = Frame {
        chunks: vec![Bytes::from(vec![number; bytes])],
        total_bytes: bytes,
        ..Frame::default()
    };
    Ready {
        frame: (bytes > 0).then_some(frame),
        kind: AnswerKind::Other,
        end: None,
        received_at: Duration::ZERO,
        _held: None,
        _permits: permits.expect("nothing else is under way"),
        others: Vec::new(),
    }
}

/// The bytes that go out with the first answer, and the number of answers behind it that were begun.
fn gathered(first: Ready, behind: Vec<Working>) -> (Vec<u8>, Option<Working>, usize) {
    let (mut first, mut behind) = (first, VecDeque::from(behind));
    let next = gather(&mut first, || behind.pop_front());
    let frame = first.frame.take();
    let chunks = frame.map_or_else(Vec::new, |frame| frame.chunks);
    (chunks.concat(), next, behind.len())
}

fn done(answer: Ready) -> Working {
    ready(answer).boxed_local()
}

#[test]
fn what_is_ready_goes_out_together_and_in_order_up_to_the_first_that_is_not() {
    let behind = vec![
        done(answer(2, 2)),
        done(answer(0, 0)),
        done(answer(3, 1)),
        pending().boxed_local(),
        done(answer(4, 1)),
    ];
    let (sent, next, left) = gathered(answer(1, 3), behind);
    assert_eq!(sent, [1, 1, 1, 2, 2, 3]);
    assert!(next.expect("it is worked on").now_or_never().is_none());
    assert_eq!(left, 1, "what is behind an answer that is not ready waits for it");
    let (sent, next, _) = gathered(answer(0, 0), vec![done(answer(1, 1)), done(answer(0, 0))]);
    assert_eq!(sent, [1], "an append that wants no answer stops none");
    assert!(next.is_none());
}

#[test]
fn nothing_comes_behind_an_answer_that_ends_the_connection() {
    let mut last = answer(0, 0);
    last.end = Some(ConnectionError::RefusedUnanswered { code: 3 });
    let mut behind = VecDeque::from([done(answer(2, 2)), done(last), done(answer(3, 1))]);
    let mut first = answer(1, 1);
    let next = gather(&mut first, || behind.pop_front());
    assert!(next.is_none() && first.end.is_some());
    assert_eq!(first.bytes(), 3, "what came before goes out");
    assert_eq!(behind.len(), 1);
}

#[test]
fn large_answers_go_out_alone() {
    let behind = || {
        vec![
            done(answer(2, TOGETHER_BYTES - 3)),
            done(answer(3, 9)),
            done(answer(4, 1)),
        ]
    };
    let (sent, next, left) = gathered(answer(1, 3), behind());
    assert_eq!((sent.len(), left), (TOGETHER_BYTES, 1));
    let next = next.expect("there was no room for it").now_or_never();
    assert_eq!(next.expect("it was ready").bytes(), 9);
    let began = std::rc::Rc::new(std::cell::Cell::new(false));
    let told = began.clone();
    let behind = async move {
        told.set(true);
        answer(2, 1)
    };
    let (sent, next, _) = gathered(answer(1, TOGETHER_BYTES), vec![behind.boxed_local()]);
    assert_eq!(sent.len(), TOGETHER_BYTES);
    assert!(
        next.is_some() && !began.get(),
        "a large answer does not wait for what is behind it"
    );
}
