//! Tests of what is remembered of passes.

use super::*;

fn cleaned(until: i64, at_ms: i64, tombstones: u64) -> Cleaned {
    Cleaned {
        until,
        at_ms,
        tombstones,
    }
}

#[test]
fn passes_are_told_apart_as_long_as_their_tombstones_are_there() {
    let first = remember(&[], &[3], 100, 1_000);
    assert_eq!(first, [cleaned(100, 1_000, 3)]);
    let second = remember(&first, &[2, 5], 180, 2_000);
    assert_eq!(second, [cleaned(100, 1_000, 2), cleaned(180, 2_000, 5)]);
    // The first one's are gone: what lies before 100 is as if the second had seen it first.
    let third = remember(&second, &[0, 5, 0], 250, 3_000);
    assert_eq!(third, [cleaned(180, 2_000, 5), cleaned(250, 3_000, 0)]);
    // A pass that only removed tombstones reached no further.
    assert_eq!(remember(&third, &[0, 0, 0], 250, 9_000), [cleaned(250, 3_000, 0)]);
}

#[test]
fn a_pass_that_ends_sooner_leaves_the_later_tombstones_their_time() {
    let earlier = [cleaned(100, 1_000, 2), cleaned(180, 2_000, 5)];
    // Up to 120 it saw one of the five.
    let remembered = remember(&earlier, &[0, 1, 0], 120, 9_000);
    assert_eq!(remembered, [cleaned(180, 2_000, 5)]);
}

#[test]
fn the_list_stays_short_and_no_tombstone_goes_sooner_for_it() {
    let mut all = Vec::new();
    for pass in 1..=CLEANED_MAX as i64 + 50 {
        let mut tombstones: Vec<u64> = all.iter().map(|cleaned: &Cleaned| cleaned.tombstones).collect();
        tombstones.push(1);
        all = remember(&all, &tombstones, pass * 10, pass * 1_000);
    }
    assert_eq!(all.len(), CLEANED_MAX);
    assert_eq!(all[0], cleaned(510, 51_000, 51));
}
