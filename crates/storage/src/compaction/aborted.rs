//! The aborted transactions of a partition, as a pass asks for them: their records go, whatever their keys, and supersede nothing.

use std::collections::BTreeMap;

use record::BatchHeader;

use crate::segment::AbortedRange;

#[derive(Debug, Default)]
pub(crate) struct AbortedBatches {
    /// First offset and marker of each producer's, in order.
    of_producers: BTreeMap<i64, Vec<(i64, i64)>>,
    /// All, in the order of their markers.
    ranges: Vec<AbortedRange>,
}

impl AbortedBatches {
    pub(crate) fn new(mut ranges: Vec<AbortedRange>) -> AbortedBatches {
        ranges.sort_unstable_by_key(|range| range.marker);
        let mut of_producers: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
        for range in &ranges {
            let of_one = of_producers.entry(range.producer_id).or_default();
            of_one.push((range.first, range.marker));
        }
        AbortedBatches { of_producers, ranges }
    }

    /// Says whether a batch is part of an aborted transaction. Markers are not.
    pub(super) fn have(&self, header: &BatchHeader) -> bool {
        let attributes = header.attributes;
        if self.ranges.is_empty() || !attributes.is_transactional() || attributes.is_control() {
            return false;
        }
        let Some(of_one) = self.of_producers.get(&header.producer_id) else {
            return false;
        };
        // A producer's transactions follow each other.
        let ended = of_one.partition_point(|(_, marker)| *marker < header.base_offset.0);
        of_one
            .get(ended)
            .is_some_and(|(first, _)| *first <= header.base_offset.0)
    }

    /// Those whose markers are among these offsets.
    pub(super) fn ended_in(&self, first: i64, next: i64) -> Vec<AbortedRange> {
        let from = self.ranges.partition_point(|range| range.marker < first);
        let until = self.ranges.partition_point(|range| range.marker < next);
        self.ranges[from..until].to_vec()
    }
}
