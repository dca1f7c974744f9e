//! Which records stay. Pure.
//!
//! ```text
//!   log start        dirty from          until                    end of the segments
//!      | one record of each key | all in the map |  not looked at: all stay  |
//! ```
//! A record below `until` stays if it has a key and no later one of its key is in the map. A tombstone that stays goes all
//! the same once it has been there for its time: by then no older record of its key is left that could come back.

use planted::{Bug, planted};
use record::KeyedRecord;

use super::Cleaned;
use super::key_hash::KeyHash;
use super::key_map::KeyMap;

/// The fate of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Stays,
    /// It stays for now: a tombstone that was first seen by the pass with this number among those remembered.
    Tombstone(usize),
    /// A later record has its key.
    Superseded,
    /// It has no key, and so no place in a table: it was appended before its topic was compacted.
    Keyless,
    /// A tombstone whose time is over.
    Expired,
}

impl Verdict {
    pub(super) fn stays(self) -> bool {
        matches!(self, Verdict::Stays | Verdict::Tombstone(_))
    }
}

/// The rules by which the records of a pass are judged.
pub(super) struct Judge {
    pub(super) map: KeyMap,
    /// Records from here on are not in the map.
    pub(super) until: i64,
    pub(super) cleaned: Vec<Cleaned>,
    pub(super) delete_retention_ms: i64,
    pub(super) now_ms: i64,
}

impl Judge {
    pub(super) fn judge(&self, record: &KeyedRecord<KeyHash>) -> Verdict {
        let offset = record.offset.0;
        if offset >= self.until {
            return Verdict::Stays;
        }
        let Some(key) = &record.key else {
            return Verdict::Keyless;
        };
        let latest = self.map.get(key).unwrap_or(offset);
        if offset < latest || (planted(Bug::LatestRecordDropped) && offset == latest && offset % 3 == 0) {
            return Verdict::Superseded;
        }
        if !record.is_null {
            return Verdict::Stays;
        }
        let seen_by = self.cleaned.partition_point(|cleaned| cleaned.until <= offset);
        match self.cleaned.get(seen_by) {
            Some(cleaned) if self.is_over(cleaned) => Verdict::Expired,
            _ => Verdict::Tombstone(seen_by),
        }
    }

    fn is_over(&self, cleaned: &Cleaned) -> bool {
        tombstones_end(cleaned, self.delete_retention_ms) <= self.now_ms
    }
}

/// When the tombstones that a pass saw first may go.
pub(crate) fn tombstones_end(cleaned: &Cleaned, delete_retention_ms: i64) -> i64 {
    cleaned.at_ms.saturating_add(delete_retention_ms)
}

#[cfg(test)]
mod tests {
    use record::Offset;

    use super::*;

    fn judge() -> Judge {
        let mut map = KeyMap::new([1, 2], 1 << 16, 10);
        for (key, offset) in [("a", 20), ("b", 21), ("a", 25), ("gone", 27)] {
            let key = map.hash(key.as_bytes());
            assert!(map.put(&key, offset));
        }
        let cleaned = |until, at_ms| Cleaned {
            until,
            at_ms,
            tombstones: 1,
        };
        Judge {
            map,
            until: 30,
            cleaned: vec![cleaned(10, 1_000), cleaned(20, 5_000)],
            delete_retention_ms: 500,
            now_ms: 5_499,
        }
    }

    fn verdict(judge: &Judge, offset: i64, key: Option<&str>, is_null: bool) -> Verdict {
        judge.judge(&KeyedRecord {
            offset: Offset(offset),
            timestamp_ms: 0,
            key: key.map(|key| judge.map.hash(key.as_bytes())),
            is_null,
        })
    }

    #[test]
    fn the_latest_of_each_key_stays() {
        let judge = judge();
        let of = |offset, key| verdict(&judge, offset, Some(key), false);
        assert_eq!(of(20, "a"), Verdict::Superseded);
        assert_eq!(of(25, "a"), Verdict::Stays);
        assert_eq!(of(3, "b"), Verdict::Superseded);
        assert_eq!(of(21, "b"), Verdict::Stays);
        assert_eq!(of(4, "unknown"), Verdict::Stays);
        assert_eq!(of(5, "gone"), Verdict::Superseded);
    }

    #[test]
    fn what_the_map_does_not_reach_stays() {
        let judge = judge();
        assert_eq!(verdict(&judge, 30, Some("a"), false), Verdict::Stays);
        assert_eq!(verdict(&judge, 31, Some("gone"), true), Verdict::Stays);
        assert_eq!(verdict(&judge, 30, None, false), Verdict::Stays);
    }

    #[test]
    fn what_has_no_key_goes() {
        let judge = judge();
        assert_eq!(verdict(&judge, 7, None, false), Verdict::Keyless);
        assert_eq!(verdict(&judge, 29, None, true), Verdict::Keyless);
    }

    #[test]
    fn a_tombstone_stays_for_its_time_after_the_pass_that_saw_it_first() {
        let mut judge = judge();
        assert_eq!(verdict(&judge, 27, Some("gone"), true), Verdict::Tombstone(2));
        assert_eq!(verdict(&judge, 10, Some("other"), true), Verdict::Tombstone(1));
        assert_eq!(verdict(&judge, 9, Some("other"), true), Verdict::Expired);
        judge.now_ms = 5_500;
        assert_eq!(verdict(&judge, 10, Some("other"), true), Verdict::Expired);
        assert_eq!(verdict(&judge, 27, Some("gone"), true), Verdict::Tombstone(2));
        judge.delete_retention_ms = i64::MAX;
        assert_eq!(verdict(&judge, 9, Some("other"), true), Verdict::Tombstone(0));
    }
}
