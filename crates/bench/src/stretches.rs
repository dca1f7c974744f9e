//! What readers of a topic read: each partition from its first record to where it ended when the run began, shared out.

use anyhow::Result;
use client::{Cluster, Offset, OffsetQuery, Stretch};

/// All partitions of a topic, each of at most `records_max` records from its first on.
pub(crate) fn find(cluster: &mut Cluster, topic: &str, records_max: Option<u64>) -> Result<Vec<Stretch>> {
    let topic = cluster.topic(topic)?;
    let first = cluster.offsets(&topic, OffsetQuery::Earliest)?;
    let end = cluster.offsets(&topic, OffsetQuery::Latest)?;
    let pairs = first.into_iter().zip(end);
    Ok(pairs
        .map(|((partition, first), (_, end))| {
            let first = first.unwrap_or(Offset::ZERO);
            let last = records_max.map(|records| i64::try_from(records).unwrap_or(i64::MAX / 2));
            let end = end.unwrap_or(Offset::ZERO);
            Stretch {
                partition,
                first,
                end: last.map_or(end, |records| end.min(first.advance(records))),
            }
        })
        .collect())
}

/// What each consumer reads: up to as many as there are stretches share them out, more than that read them over again.
pub(crate) fn share_out(stretches: &[Stretch], consumers: u32) -> Vec<Vec<Stretch>> {
    let (shards, consumers) = (stretches.len(), consumers as usize);
    let share = |consumer| {
        if consumers > shards {
            return vec![stretches[consumer % shards]];
        }
        stretches
            .iter()
            .copied()
            .skip(consumer)
            .step_by(consumers)
            .collect()
    };
    (0..consumers).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_share_partitions_or_read_them_over_again() {
        let stretches: Vec<Stretch> = (0..3)
            .map(|partition| Stretch {
                partition,
                first: Offset(0),
                end: Offset(9),
            })
            .collect();
        let read = |consumers| -> Vec<Vec<i32>> {
            share_out(&stretches, consumers)
                .iter()
                .map(|share| share.iter().map(|stretch| stretch.partition).collect())
                .collect()
        };
        assert_eq!(read(1), [vec![0, 1, 2]]);
        assert_eq!(read(2), [vec![0, 2], vec![1]]);
        assert_eq!(read(3), [vec![0], vec![1], vec![2]]);
        assert_eq!(read(4), [vec![0], vec![1], vec![2], vec![0]]);
    }
}
