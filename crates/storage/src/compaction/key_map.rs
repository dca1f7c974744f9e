//! The last offset of each key in the dirty part of a partition, in memory of a fixed size.
//!
//! Keys are kept as hashes of 16 bytes (`key_hash`), so that long keys take no more room than short ones. When the map is
//! full the pass reaches no further than what went in: it must never forget a key that it was shown.

use super::key_hash::{HashKey, KeyHash};

/// Memory that one key takes: its hash and its offset.
pub const KEY_BYTES: usize = size_of::<Slot>();
/// Of the slots at most this share is used: beyond that the way to a free one becomes long.
const LOAD: (usize, usize) = (4, 5);

/// The hash, and the offset + 1; zero is a free slot.
type Slot = [u64; 3];

pub(crate) struct KeyMap {
    /// Of no key.
    empty: KeyHash,
    slots: Vec<Slot>,
    used: usize,
}

impl KeyMap {
    /// Room for `keys` keys, within `bytes` of memory; always for a few.
    pub(crate) fn new(key: HashKey, bytes: usize, keys: u64) -> KeyMap {
        let wanted = usize::try_from(keys).unwrap_or(usize::MAX);
        let wanted = wanted.saturating_mul(LOAD.1) / LOAD.0 + 1;
        let slots = wanted.min(bytes / KEY_BYTES).max(8);
        KeyMap {
            empty: KeyHash::new(key),
            slots: vec![[0; 3]; slots],
            used: 0,
        }
    }

    /// The hash that a key is to be shown to, to ask for it here.
    pub(super) fn empty_hash(&self) -> &KeyHash {
        &self.empty
    }

    /// Notes that `key` has a record at `offset`, behind those noted before. False if there is no room for it.
    pub(super) fn put(&mut self, key: &KeyHash, offset: i64) -> bool {
        let hash = key.finish();
        let slot = self.slot_of(hash);
        if self.slots[slot][2] == 0 {
            if (self.used + 1) * LOAD.1 > self.slots.len() * LOAD.0 {
                return false;
            }
            self.used += 1;
        }
        let place = offset as u64 + 1;
        assert!(
            self.slots[slot][2] < place,
            "records are shown in the order of their offsets"
        );
        self.slots[slot] = [hash[0], hash[1], place];
        true
    }

    /// The last offset that was noted for `key`.
    pub(super) fn get(&self, key: &KeyHash) -> Option<i64> {
        let place = self.slots[self.slot_of(key.finish())][2];
        place.checked_sub(1).map(|offset| offset as i64)
    }

    /// The number of its keys.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// The slot with this hash, or the free one where it belongs. There is always a free one.
    fn slot_of(&self, [low, high]: [u64; 2]) -> usize {
        let count = self.slots.len();
        let mut at = ((u128::from(low) * count as u128) >> 64) as usize;
        loop {
            let [found_low, found_high, place] = self.slots[at];
            if place == 0 || (found_low == low && found_high == high) {
                return at;
            }
            at = if at + 1 == count { 0 } else { at + 1 };
        }
    }
}

#[cfg(test)]
impl KeyMap {
    /// The hash of a whole key.
    pub(super) fn hash(&self, key: &[u8]) -> KeyHash {
        let mut hash = self.empty.clone();
        record::KeyDigest::update(&mut hash, key);
        hash
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use platform::random::SeededRandom;

    use super::*;

    fn put(map: &mut KeyMap, key: &[u8], offset: i64) -> bool {
        let hash = map.hash(key);
        map.put(&hash, offset)
    }

    fn get(map: &KeyMap, key: &[u8]) -> Option<i64> {
        map.get(&map.hash(key))
    }

    #[test]
    fn it_says_what_a_plain_map_says() {
        let mut random = SeededRandom::new(4);
        let mut map = KeyMap::new([5, 6], 1 << 20, 3_000);
        let mut plain = BTreeMap::new();
        for offset in 0..20_000_i64 {
            let key = random.below(3_000).to_string();
            assert!(put(&mut map, key.as_bytes(), offset));
            plain.insert(key, offset);
        }
        assert_eq!(map.len(), plain.len());
        for number in 0..3_500 {
            let key = number.to_string();
            assert_eq!(get(&map, key.as_bytes()), plain.get(&key).copied());
        }
    }

    #[test]
    fn a_full_one_refuses_new_keys_and_takes_known_ones() {
        let mut map = KeyMap::new([5, 6], 100 * KEY_BYTES, u64::MAX);
        let taken = (0..1_000_i64)
            .take_while(|offset| put(&mut map, &offset.to_le_bytes(), *offset))
            .count();
        assert_eq!(taken, 80);
        assert!(put(&mut map, &7_i64.to_le_bytes(), 5_000));
        assert!(!put(&mut map, &80_i64.to_le_bytes(), 5_001));
        assert_eq!(get(&map, &7_i64.to_le_bytes()), Some(5_000));
        assert_eq!(get(&map, &80_i64.to_le_bytes()), None);
    }

    #[test]
    fn it_takes_no_more_memory_than_it_has_keys_for() {
        assert_eq!(KEY_BYTES, 24);
        assert_eq!(KeyMap::new([0, 0], 32 << 20, 10).slots.len(), 13);
        assert_eq!(
            KeyMap::new([0, 0], 32 << 20, u64::MAX).slots.len(),
            (32 << 20) / 24
        );
    }
}
