//! A batch unpacked step by step gives the records that it gives as a whole, and takes no memory that it has not told.

use super::*;
use crate::{BatchBuilder, records};

const COMPRESSIONS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];
const KIB: usize = 1 << 10;

fn batch(compression: Compression, lengths: &[usize]) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    for length in lengths {
        builder.append(1, Some(b"key"), Some(&vec![b'x'; *length]), &[(&b"h"[..], None)]);
    }
    builder.build()
}

/// All steps but pauses, taken in turns of `work_bytes`; and how many pauses there were.
fn steps(batch: &Bytes, from: i64, bytes_max: usize, work_bytes: usize) -> (Vec<Step>, usize) {
    let mut steps = RecordSteps::new(batch, &Limits::default()).expect("a sound beginning");
    let (mut taken, mut pauses) = (Vec::new(), 0);
    let mut left = work_bytes;
    loop {
        let step = steps
            .step(Offset(from), bytes_max, &mut left)
            .expect("sound records");
        match step {
            Step::End => return (taken, pauses),
            Step::Pause => {
                pauses += 1;
                left = work_bytes;
            }
            step => taken.push(step),
        }
    }
}

#[test]
fn records_are_the_same_however_small_the_turns_are() {
    for compression in COMPRESSIONS {
        let batch = batch(compression, &[3, 0, 100 * KIB, 70]);
        let whole = records(&batch, &Limits::default()).expect("sound");
        let whole: Vec<Step> = whole.map(|record| Step::Record(record.expect("sound"))).collect();
        for work_bytes in [1, 100, KIB, 1 << 20] {
            assert_eq!(steps(&batch, 0, usize::MAX, work_bytes).0, whole, "{compression}");
            assert_eq!(
                steps(&batch, 2, usize::MAX, work_bytes).0,
                whole[2..],
                "{compression}"
            );
        }
    }
}

#[test]
fn what_is_passed_and_what_is_gathered_takes_turns() {
    const TURN: usize = 64 * KIB;
    let batch = batch(Compression::Gzip, &[8 << 20, 4 << 20, 3]);
    for (from, records) in [(0, 3), (1, 2), (2, 1)] {
        let (taken, pauses) = steps(&batch, from, usize::MAX, TURN);
        assert_eq!(taken.len(), records);
        assert!(pauses >= (12 << 20) / TURN, "{pauses} pauses");
    }
}

#[test]
fn a_record_that_is_too_long_is_told_and_passed() {
    let batch = batch(Compression::Zstd, &[8, 1 << 20, 9]);
    let (taken, _) = steps(&batch, 0, KIB, 1 << 20);
    assert!(
        matches!(
            taken[..],
            [
                Step::Record(_),
                Step::TooLong {
                    offset: Offset(1),
                    bytes: 1_048_576..1_048_600
                },
                Step::Record(_)
            ]
        ),
        "{taken:?}"
    );
}

#[test]
fn memory_is_told_before_it_is_taken() {
    const WORK: usize = 64 * KIB;
    let long = 3 << 20;
    for (compression, window_max) in [
        (Compression::None, 0),
        (Compression::Gzip, 0),
        (Compression::Snappy, 64 * KIB),
        (Compression::Lz4, 128 * KIB),
        (Compression::Zstd, 8 << 20),
    ] {
        let batch = batch(compression, &[3, long]);
        let mut steps = RecordSteps::new(&batch, &Limits::default()).expect("sound");
        assert!(
            steps.memory_bytes(WORK) <= window_max.min(128 * KIB),
            "{compression}"
        );
        let mut work = WORK;
        let first = steps.step(Offset(1), usize::MAX, &mut work).expect("sound");
        if compression == Compression::None {
            assert!(matches!(first, Step::Record(_)), "its bytes are there");
            continue;
        }
        assert_eq!(first, Step::Pause, "{compression}");
        assert!(work > 0, "the pause is for the record's memory");
        let told = steps.memory_bytes(WORK);
        assert!(
            told >= long && told <= long + KIB + window_max,
            "{compression}: {told}"
        );
    }
}

#[test]
fn what_is_malformed_ends_it() {
    let sound = batch(Compression::Gzip, &[100 * KIB, 3]);
    // In the checksum of what is compressed, which stands at its end.
    let mut cut = sound.to_vec();
    let last = cut.len() - 6;
    cut[last] ^= 0xff;
    let cut = Bytes::from(cut);
    let mut steps = RecordSteps::new(&cut, &Limits::default()).expect("a sound beginning");
    let error = loop {
        let step = steps.step(Offset(0), usize::MAX, &mut (1 << 20));
        match step {
            Ok(Step::End) => panic!("the damage is not seen"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, BatchError::Decompress { .. }), "{error}");
    assert_eq!(steps.step(Offset(0), 1, &mut 1), Ok(Step::End));
    let limits = Limits::up_to(50 << 10);
    let mut steps = RecordSteps::new(&sound, &limits).expect("a sound beginning");
    let passed = steps.step(Offset(9), 1, &mut (1 << 20));
    assert!(
        matches!(passed, Err(BatchError::DecompressedTooLarge { .. })),
        "{passed:?}"
    );
}
