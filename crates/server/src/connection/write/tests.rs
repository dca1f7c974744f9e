//! Who takes an answer fast enough, and who is cut off when. Time stands still but for what is waited for.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::Frame;
use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep};

use super::{PATIENCE, PATIENCE_WHEN_SCARCE, Pace, TAKEN_BYTES_PER_SECOND_MIN, write_frame};
use crate::answer_budget::AnswerBudget;
use crate::connection::ConnectionError;

const MIB: usize = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);
/// What lies between the writer and the reader.
const PIPE_BYTES: usize = 1 << 10;

/// An answer of several chunks.
fn frame(total_bytes: usize) -> Frame {
    let chunk = Bytes::from(vec![7; total_bytes / 8]);
    Frame {
        chunks: vec![chunk; 8],
        total_bytes,
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
        outcome = write_frame(&mut output, frame(total_bytes), answers) => (outcome, started.elapsed()),
        never = take(input, interval, bytes) => match never {},
    }
}

fn is_cut_off(outcome: &Result<(), ConnectionError>) -> bool {
    matches!(outcome, Err(ConnectionError::Stalled { .. }))
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
