//! Single cases of recovery.

use record::{Offset, Position};

use super::super::*;

fn cut(generation: u32, base: u64, runs: &[(i32, u32)]) -> Entry {
    let runs = runs.iter().map(|(partition, offsets)| Run {
        partition: *partition,
        offsets: *offsets,
    });
    Entry::Cut(Cut {
        generation: Generation(generation),
        base: Position(base),
        ordered: Position(0),
        runs: runs.collect(),
    })
}

fn open(generation: u32, first: u64, vector: &[i64]) -> Entry {
    Entry::Open(Open {
        generation: Generation(generation),
        first: Position(first),
        vector: vector.iter().copied().map(Offset).collect(),
    })
}

/// The first position that was not shown, and the vector.
fn recovered(strands: &[Vec<Entry>], tails: &[i64]) -> (u64, Vec<i64>) {
    let tails: Vec<Offset> = tails.iter().copied().map(Offset).collect();
    let recovered = recover(strands, &tails).expect("they do not contradict each other");
    let recovered = recovered.expect("it was opened");
    let vector = recovered.vector.iter().map(|next| next.0);
    (recovered.next.0, vector.collect())
}

#[test]
fn cuts_count_as_long_as_they_touch() {
    let strands = [
        vec![
            open(1, 0, &[0, 0]),
            cut(1, 0, &[(0, 3)]),
            cut(1, 5, &[(0, 1), (0, 1)]),
        ],
        vec![cut(1, 3, &[(1, 2)]), cut(1, 9, &[(1, 1)])],
    ];
    // From 7 to 9 somebody's cut is missing.
    assert_eq!(recovered(&strands, &[8, 8]), (7, vec![5, 2]));
    assert_eq!(recovered(&strands[..1], &[8, 8]), (3, vec![3, 0]));
}

#[test]
fn cuts_on_pages_are_passed_over() {
    let strands = [
        vec![open(1, 0, &[0, 0]), cut(1, 0, &[(0, 3)]), cut(1, 5, &[(0, 1)])],
        vec![cut(1, 3, &[(1, 2)]), cut(1, 6, &[(1, 1)])],
        // The end of the pages.
        vec![open(1, 5, &[3, 2])],
    ];
    assert_eq!(recovered(&strands, &[8, 8]), (7, vec![4, 3]));
    // The strands were trimmed behind the pages.
    let trimmed = [
        strands[0][2..].to_vec(),
        strands[1][1..].to_vec(),
        strands[2].clone(),
    ];
    assert_eq!(recovered(&trimmed, &[8, 8]), (7, vec![4, 3]));
}

#[test]
fn cuts_of_an_earlier_generation_are_void() {
    let strands = [
        vec![
            open(1, 0, &[0, 0]),
            cut(1, 0, &[(0, 3)]),
            open(2, 3, &[3, 0]),
            cut(2, 3, &[(1, 1)]),
        ],
        vec![cut(1, 4, &[(1, 2)])],
    ];
    assert_eq!(recovered(&strands, &[9, 9]), (4, vec![3, 1]));
}

#[test]
fn a_cut_of_what_a_partition_does_not_have_ends_it_whole() {
    let strands = [vec![
        open(1, 0, &[0, 0]),
        cut(1, 0, &[(0, 1), (1, 3)]),
        cut(1, 4, &[(0, 1)]),
    ]];
    assert_eq!(recovered(&strands, &[9, 2]), (0, vec![0, 0]));
    assert_eq!(recovered(&strands, &[9, 3]), (5, vec![2, 3]));
}

#[test]
fn a_partition_that_came_later_begins_without_positions() {
    let strands = [vec![open(1, 2, &[2]), cut(1, 2, &[(1, 4)])]];
    assert_eq!(recovered(&strands, &[2, 9]), (6, vec![2, 4]));
}

#[test]
fn what_contradicts_itself_is_told_by_name() {
    let tails = [Offset(9), Offset(9)];
    assert_eq!(recover(&[], &tails), Ok(None), "it was never opened");
    assert_eq!(recover(&[vec![cut(1, 0, &[(0, 1)])]], &tails), Ok(None));
    let twice = [vec![
        open(1, 0, &[0, 0]),
        cut(1, 0, &[(0, 3)]),
        cut(1, 2, &[(1, 1)]),
    ]];
    let overlap = Contradiction::Overlap {
        generation: 1,
        base: 2,
    };
    assert_eq!(recover(&twice, &tails), Err(overlap));
    let strange = [vec![open(1, 0, &[0, 0]), cut(1, 0, &[(2, 1)])]];
    let unknown = Contradiction::UnknownPartition {
        partition: 2,
        partitions: 2,
    };
    assert_eq!(recover(&strange, &tails), Err(unknown));
    let uneven = Contradiction::Uneven {
        generation: 1,
        first: 5,
        offsets: 4,
    };
    assert_eq!(recover(&[vec![open(1, 5, &[4])]], &tails), Err(uneven));
}
