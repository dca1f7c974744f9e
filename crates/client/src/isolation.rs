//! The records of transactions that a reader gets.

use kafka_wire::ErrorCode;
use kafka_wire::fetch::PartitionData;
use record::{CommittedBatches, Offset};

use crate::offsets::OffsetQuery;

/// The records of transactions that are read (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Those of transactions that were committed, and all that are outside of any. Reading ends before the first transaction that is open.
    #[default]
    Committed,
    /// Those of open and of aborted transactions, too.
    Uncommitted,
}

impl Isolation {
    /// The number that stands for it on the wire.
    pub(crate) fn level(self) -> i8 {
        match self {
            Isolation::Uncommitted => 0,
            Isolation::Committed => 1,
        }
    }

    /// The question for where reading ends now.
    #[must_use]
    pub fn latest(self) -> OffsetQuery {
        match self {
            Isolation::Uncommitted => OffsetQuery::Latest,
            Isolation::Committed => OffsetQuery::LatestCommitted,
        }
    }

    /// The first offset that readers do not see, by a partition's answer.
    pub(crate) fn tail(self, answer: &PartitionData) -> Offset {
        debug_assert_eq!(answer.error_code, ErrorCode::None.code(), "it was answered");
        match self {
            // A broker that has no transactions may leave it out.
            Isolation::Committed if answer.last_stable_offset >= 0 => Offset(answer.last_stable_offset),
            _ => Offset(answer.high_watermark),
        }
    }

    /// Tells which batches of a partition's answer count. `None`: all that are not of control records.
    pub(crate) fn of_answer(self, answer: &PartitionData) -> Option<CommittedBatches> {
        let aborted = || answer.aborted_transactions.iter().flatten();
        let is_wanted = self == Isolation::Committed;
        is_wanted
            .then(|| CommittedBatches::new(aborted().map(|one| (one.producer_id, Offset(one.first_offset)))))
    }
}

#[cfg(test)]
mod tests {
    use kafka_wire::Text;
    use kafka_wire::fetch::AbortedTransaction;
    use record::{BatchBuilder, Compression, Marker, set_base_offset};

    use super::*;
    use crate::consumer::ConsumerOptions;
    use crate::position::{Position, fetch_request};

    fn batch(offset: i64, producer: i64, is_inside: bool) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Compression::None).with_producer(producer, 0, 0);
        builder.set_transactional(is_inside);
        builder.append(0, None, Some(b"value"), &[]);
        placed(offset, &builder.build())
    }

    fn marker(offset: i64, producer_id: i64, commit: bool) -> Vec<u8> {
        let marker = Marker {
            producer_id,
            producer_epoch: 0,
            commit,
            coordinator_epoch: 0,
            first: None,
        };
        placed(offset, &marker.build(0))
    }

    fn placed(offset: i64, batch: &[u8]) -> Vec<u8> {
        let mut batch = batch.to_vec();
        set_base_offset(&mut batch, Offset(offset));
        batch
    }

    /// Producer 1 aborts what it has at 0 and commits what it has at 4; producer 3 has something open at 6, which only one reader is sent.
    fn answer(isolation: Isolation) -> PartitionData {
        let mut log = vec![
            batch(0, 1, true),
            batch(1, 2, false),
            marker(2, 1, false),
            batch(3, 1, false),
            batch(4, 1, true),
            marker(5, 1, true),
        ];
        if isolation == Isolation::Uncommitted {
            log.push(batch(6, 3, true));
        }
        let aborted = AbortedTransaction {
            producer_id: 1,
            first_offset: 0,
        };
        PartitionData {
            high_watermark: 7,
            last_stable_offset: 6,
            aborted_transactions: (isolation == Isolation::Committed).then(|| vec![aborted]),
            records: bytes::Bytes::from(log.concat()).into(),
            ..PartitionData::default()
        }
    }

    /// The offsets of the records that a reader gets, where it goes on, and the end that it sees.
    fn read(isolation: Isolation) -> (Vec<i64>, i64, i64) {
        let options = ConsumerOptions {
            isolation,
            ..ConsumerOptions::default()
        };
        let mut position = Position::new(Text::from("t"), 0, Offset::ZERO);
        let request = fetch_request(record::TopicId::default(), &[&position], &options);
        assert_eq!(request.isolation_level, isolation.level());
        let fetched = position
            .read_answer(Some(&answer(isolation)), &options)
            .expect("sound");
        let offsets = fetched.records().map(|record| record.expect("sound").offset.0);
        (offsets.collect(), fetched.next_offset().0, fetched.tail().0)
    }

    #[test]
    fn readers_get_committed_records_unless_they_want_all() {
        assert_eq!(ConsumerOptions::default().isolation, Isolation::Committed);
        assert_eq!(read(Isolation::Committed), (vec![1, 3, 4], 6, 6));
        assert_eq!(read(Isolation::Uncommitted), (vec![0, 1, 3, 4, 6], 7, 7));
    }

    #[test]
    fn a_broker_without_transactions_has_one_end() {
        let told = PartitionData {
            high_watermark: 7,
            last_stable_offset: -1,
            ..PartitionData::default()
        };
        assert_eq!(Isolation::Committed.tail(&told), Offset(7));
    }
}
