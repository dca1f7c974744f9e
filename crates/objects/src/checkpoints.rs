//! Checkpoints as records: the state in parts, one behind the other, for a record has bounds. A checkpoint is whole with its last part.
//!
//! Several processes may keep checkpoints at the same time, and any of them may die meanwhile. The one that counts is the whole one of the greatest position; nobody
//! may give up records from its first part on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The bytes of one part.
const PART_BYTES: usize = 512 << 10;

/// The key of a part's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    position: u64,
    parts: usize,
    part: usize,
}

/// A whole checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whole {
    /// The position that it stands for.
    pub(crate) position: u64,
    pub(crate) state: Vec<u8>,
    /// The offset of its first part.
    pub(crate) first: u64,
}

/// The parts of a state, each with the key of its record.
pub(crate) fn parts(position: u64, state: &[u8]) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
    let parts = state.len().div_ceil(PART_BYTES).max(1);
    (0..parts).map(move |part| {
        let key = Key {
            position,
            parts,
            part,
        };
        let key = serde_json::to_vec(&key).expect("numbers have a form in JSON");
        (
            key,
            &state[part * PART_BYTES..state.len().min((part + 1) * PART_BYTES)],
        )
    })
}

/// Puts the records of checkpoints together.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// Those that lack parts, by position and number of parts: how many they have, and these.
    open: BTreeMap<(u64, usize), (usize, Whole)>,
    best: Option<Whole>,
}

impl Gathering {
    /// Takes the record at an offset. Records of others are passed over.
    pub(crate) fn take(&mut self, offset: u64, key: &[u8], bytes: &[u8]) {
        let Ok(Key {
            position,
            parts,
            part,
        }) = serde_json::from_slice(key)
        else {
            return;
        };
        let of = (position, parts);
        if part == 0 {
            let begun = Whole {
                position,
                state: Vec::new(),
                first: offset,
            };
            self.open.insert(of, (0, begun));
        }
        let Some((count, whole)) = self.open.get_mut(&of).filter(|(count, _)| *count == part) else {
            return;
        };
        *count += 1;
        whole.state.extend_from_slice(bytes);
        if *count == parts {
            let (_, whole) = self.open.remove(&of).expect("it was found");
            if self
                .best
                .as_ref()
                .is_none_or(|best| best.position <= whole.position)
            {
                self.best = Some(whole);
            }
        }
    }

    /// The whole one of the greatest position.
    pub(crate) fn best(self) -> Option<Whole> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of a checkpoint of so many parts, each part of one letter.
    fn records(position: u64, letters: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let state: Vec<u8> = letters
            .iter()
            .flat_map(|letter| vec![*letter; PART_BYTES])
            .collect();
        parts(position, &state)
            .map(|(key, part)| (key, part.to_vec()))
            .collect()
    }

    /// The best of these records, as its position, its first offset and its letters.
    fn best(records: &[&(Vec<u8>, Vec<u8>)]) -> Option<(u64, u64, Vec<u8>)> {
        let mut gathering = Gathering::default();
        for (offset, (key, part)) in (0..).zip(records) {
            gathering.take(offset, key, part);
        }
        let whole = gathering.best()?;
        let letters = whole.state.chunks(PART_BYTES).map(|part| part[0]).collect();
        Some((whole.position, whole.first, letters))
    }

    #[test]
    fn the_whole_one_of_the_greatest_position_counts_whoever_is_in_between() {
        let (early, late) = (records(100, b"abc"), records(200, b"xy"));
        assert_eq!(best(&[]), None);
        assert_eq!(best(&[&early[0], &early[1]]), None, "it lacks a part");
        let mixed = [&early[0], &late[0], &early[1], &late[1], &early[2]];
        assert_eq!(
            best(&mixed),
            Some((200, 1, b"xy".to_vec())),
            "the other one ends later"
        );
        let cut_off = [&late[0], &early[0], &early[1], &early[2]];
        assert_eq!(
            best(&cut_off),
            Some((100, 1, b"abc".to_vec())),
            "the later one never ends"
        );
        let begun_anew = [&early[0], &early[1], &early[0], &early[1], &early[2]];
        assert_eq!(best(&begun_anew), Some((100, 2, b"abc".to_vec())));
        let beheaded = [&late[1], &early[0], &early[1], &early[2]];
        assert_eq!(best(&beheaded), Some((100, 1, b"abc".to_vec())));
        let other = (b"{}".to_vec(), Vec::new());
        assert_eq!(
            best(&[&late[0], &other, &late[1]]),
            Some((200, 0, b"xy".to_vec()))
        );
    }

    #[test]
    fn a_state_is_parted_and_put_together() {
        for bytes in [0, 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES] {
            let state: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
            let mut gathering = Gathering::default();
            for (offset, (key, part)) in (5..).zip(parts(9, &state)) {
                assert!(part.len() <= PART_BYTES);
                gathering.take(offset, &key, part);
            }
            let (position, first) = (9, 5);
            assert_eq!(
                gathering.best(),
                Some(Whole {
                    position,
                    state,
                    first
                })
            );
        }
    }
}
