//! Runs drawn from a seed: the same seed, the same steps.

use platform::random::SeededRandom;

use super::{Op, PARTITIONS, Replicate};

/// `count` steps drawn from a seed. Every third seed fills whole journal files with one partition's batches.
pub(in super::super) fn draw(seed: u64, count: usize) -> Vec<Op> {
    let mut random = SeededRandom::new(seed);
    let one = |random: &mut SeededRandom| match seed % 3 {
        0 => dominate(draw_one(random), random),
        _ => draw_one(random),
    };
    (0..count).map(|_| one(&mut random)).collect()
}

/// `count` steps in which the last partition fills journal files and gives all of it up again and again.
pub(in super::super) fn draw_returns(seed: u64, count: usize) -> Vec<Op> {
    let mut random = SeededRandom::new(seed);
    let last = PARTITIONS - 1;
    let one = |random: &mut SeededRandom| match random.below(100) {
        0..5 => draw_one(random),
        5..45 => Op::Append {
            partition: last,
            value_bytes: 7_500 + random.below(400) as u16,
        },
        45..70 => Op::Flush,
        70..94 => Op::Background,
        _ => Op::Trim {
            partition: last,
            eighths: 7 + random.below(2) as u8,
        },
    };
    (0..count).map(|_| one(&mut random)).collect()
}

/// Most appends go to the last partition, and nearly fill two blocks each.
fn dominate(op: Op, random: &mut SeededRandom) -> Op {
    match op {
        Op::Append { .. } if random.below(10) > 0 => Op::Append {
            partition: PARTITIONS - 1,
            value_bytes: 7_500 + random.below(400) as u16,
        },
        Op::Trim { eighths, .. } => Op::Trim {
            partition: PARTITIONS - 1,
            eighths,
        },
        other => other,
    }
}

/// As `draw`, with steps of compaction among them.
pub(in super::super) fn draw_compacting(seed: u64, count: usize) -> Vec<Op> {
    with_compaction(seed, draw(seed, count))
}

/// The same steps with some of compaction among them.
pub(in super::super) fn with_compaction(seed: u64, ops: Vec<Op>) -> Vec<Op> {
    let mut random = SeededRandom::new(seed ^ 0xc0);
    ops.into_iter()
        .flat_map(|op| {
            let steps = random.below(4) as usize;
            std::iter::once(op).chain(std::iter::repeat_n(Op::Compact, steps))
        })
        .collect()
}

/// The steps of `draw` or `draw_returns`, with those of replicas among them.
pub(in super::super) fn draw_replicated(seed: u64, count: usize) -> Vec<Op> {
    let ops = match seed.is_multiple_of(3) {
        true => draw_returns(seed, count),
        false => draw(seed, count),
    };
    let kind = |random: &mut SeededRandom| match random.below(12) {
        0..3 => Replicate::Hold,
        3..5 => Replicate::Cut,
        5..7 => Replicate::Accept,
        7 => Replicate::Promise,
        8..10 => Replicate::Copy,
        10 => Replicate::Begin,
        _ => Replicate::Witness,
    };
    with_replicas(seed, ops, kind)
}

/// The steps of `draw`, with those of replicas among them that get segments of other nodes and begin anew.
pub(in super::super) fn draw_importing(seed: u64, count: usize) -> Vec<Op> {
    let kind = |random: &mut SeededRandom| match random.below(12) {
        0..4 => Replicate::Import,
        4 => Replicate::Hold,
        5 => Replicate::Cut,
        6 => Replicate::Accept,
        7 => Replicate::Promise,
        8..10 => Replicate::Copy,
        _ => Replicate::BeginAnew,
    };
    with_replicas(seed, draw(seed, count), kind)
}

fn with_replicas(seed: u64, ops: Vec<Op>, kind: impl Fn(&mut SeededRandom) -> Replicate) -> Vec<Op> {
    let mut random = SeededRandom::new(seed ^ 0x7e);
    let replicate = |random: &mut SeededRandom| Op::Replicate {
        partition: random.below(u64::from(PARTITIONS)) as u8,
        what: kind(random),
        eighths: random.below(9) as u8,
    };
    ops.into_iter()
        .flat_map(|op| {
            let steps = random.below(5).saturating_sub(2) as usize;
            let replicated: Vec<Op> = (0..steps).map(|_| replicate(&mut random)).collect();
            std::iter::once(op).chain(replicated)
        })
        .collect()
}

fn draw_one(random: &mut SeededRandom) -> Op {
    // The first partition gets most; the last is nearly idle.
    let partition = random
        .below(u64::from(PARTITIONS))
        .min(random.below(u64::from(PARTITIONS))) as u8;
    match random.below(100) {
        0..40 => {
            let value_bytes = match random.below(10) {
                0 => 9_000,
                1..4 => 2_000 + random.below(3_000),
                _ => 10 + random.below(500),
            };
            Op::Append {
                partition,
                value_bytes: value_bytes as u16,
            }
        }
        40..62 => Op::Flush,
        62..93 => Op::Background,
        93..96 => Op::Trim {
            partition,
            eighths: random.below(9) as u8,
        },
        96 => Op::Close,
        97..98 => Op::Delete { partition },
        _ => Op::Restart,
    }
}
