//! How far a figure may move and still be noise, what the machine itself moved, and how much is worse by chance all the same.
//!
//! ```text
//! band = factor × how far the medians may be apart with the ranges still meeting + what systems that did not change moved
//! ```

use std::collections::BTreeMap;

use super::Pair;
use crate::report::measured::Measured;

/// For up to so many repetitions: the ranges of two equals with three each are apart in one pair of ten, and such a range says
/// nearly nothing. From five on the least and the most are left out, so that of five it says as little as of three.
const FACTORS: [(usize, f64); 5] = [(1, 2.0), (2, 5.4), (3, 2.1), (4, 1.5), (5, 3.4)];

/// For more than that.
const FACTOR: f64 = 1.6;

/// With these factors, of figures that are equal no larger part is worse by chance (normal noise of any size; a test draws it).
const WORSE_BY_CHANCE: f64 = 0.011;

/// What is worse than its band's end by more than this factor is not so by chance.
const FAR: f64 = 1.25;

/// How far the median may move and still be noise.
pub(super) fn band(pair: &Pair, drift: Option<f64>) -> f64 {
    let (before, after) = (&pair.before, &pair.after);
    let factor = factor(before.runs).max(factor(after.runs));
    // Whether up or down: half as much is as far as twice as much.
    let drifted = drift.map_or(0.0, |times| times.max(1.0 / times) - 1.0);
    factor * noise(before, after) + drifted * before.median.abs()
}

fn factor(runs: usize) -> f64 {
    let known = FACTORS.iter().find(|(up_to, _)| runs <= *up_to);
    known.map_or(FACTOR, |(_, factor)| *factor)
}

/// How far the median may move with the ranges still meeting.
fn noise(before: &Measured, after: &Measured) -> f64 {
    let (least, most) = before.range();
    let (later_least, later_most) = after.range();
    if after.median >= before.median {
        (most - before.median) + (after.median - later_least)
    } else {
        (before.median - least) + (later_most - after.median)
    }
}

/// Whether what left its band left it by far.
pub(super) fn is_far(before: f64, after: f64, band: f64) -> bool {
    match after > before {
        true => after > FAR * (before + band),
        false => after * FAR < before - band,
    }
}

/// How many times what they were the figures of systems that did not change are, in the middle, by metric.
pub(super) fn drift<'a>(pairs: impl Iterator<Item = &'a Pair>) -> BTreeMap<String, f64> {
    let mut moved: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for pair in pairs.filter(|pair| pair.can_be_judged()) {
        let times = pair.after.median / pair.before.median;
        if times.is_finite() && times > 0.0 {
            moved.entry(pair.metric.clone()).or_default().push(times);
        }
    }
    let middle = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let moved = moved.into_iter();
    moved.map(|(metric, times)| (metric, middle(times))).collect()
}

/// About how many of so many figures are worse by chance.
pub(super) fn by_chance(figures: usize) -> f64 {
    figures as f64 * WORSE_BY_CHANCE
}

/// How many hardly ever are; with room, since the figures of one run move together and chance brings several at a time.
pub(super) fn by_chance_at_most(figures: usize) -> usize {
    let expected = by_chance(figures);
    (expected + 3.0 * expected.sqrt()) as usize
}
