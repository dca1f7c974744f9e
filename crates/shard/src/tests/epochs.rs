//! Epochs that are opened while a shard runs.

use protocol::leader::TrimError;

use super::*;

const NEXT: Epoch = Epoch(1);

fn epoch(shard: &Shard) -> Epoch {
    shard.with_leader(FLUSHED, Leader::epoch).expect("it is open")
}

#[tokio::test]
async fn producers_that_wait_are_answered_in_the_next_epoch() {
    let test = async {
        let shard = unflushed_shard(&SimulatedDisk::new());
        let mut before = append(&shard, FLUSHED);
        assert_eq!(shard.open_epoch(FLUSHED, NEXT), Ok(()));
        assert_eq!(epoch(&shard), NEXT);
        assert_eq!(shard.with_leader(FLUSHED, Leader::tail), Ok(Offset(0)));
        assert!(before.try_recv().is_err(), "it is not flushed yet");
        let after = append(&shard, FLUSHED);
        shard.start_flushing();
        assert_eq!([offset(before).await, offset(after).await], [0, 1]);
        let written = shard.with_leader(FLUSHED, |leader| {
            [0, 1].map(|offset| leader.epochs().at(Offset(offset)))
        });
        assert_eq!(written, Ok([Some(Epoch(0)), Some(NEXT)]));
        let read = shard
            .read_batches(FLUSHED, Offset(0), Offset(2), usize::MAX)
            .await;
        let epochs = read.expect("it is there");
        let epochs = epochs.iter().flat_map(|bytes| record::batches(bytes));
        let epochs = epochs.map(|batch| batch.expect("it is sound").0.leader_epoch);
        assert_eq!(epochs.collect::<Vec<_>>(), [Epoch(0), NEXT]);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn readers_of_an_epoch_that_is_over_are_woken_and_told_so() {
    let shard = unflushed_shard(&SimulatedDisk::new());
    let reader = Watcher::new(1);
    shard.watch(&[Watch::lone(FLUSHED, Offset(0))], &reader);
    assert_eq!(shard.open_epoch(FLUSHED, NEXT), Ok(()));
    let woken = timeout(PATIENCE, reader.woken()).await;
    woken.expect("it is woken");
    assert_eq!(
        shard.check_epoch(FLUSHED, Some(Epoch(0))),
        Err(ReadRefusal::FencedEpoch {
            wanted: Epoch(0),
            current: NEXT
        })
    );
}

#[tokio::test]
async fn no_epoch_brings_a_dead_journal_back() {
    let test = async {
        let disk = SimulatedDisk::new();
        let shard = unflushed_shard(&disk);
        let lost = append(&shard, FLUSHED);
        disk.fail_when(|_| {
            Some(FaultKind::Error {
                errno: INPUT_OUTPUT_ERROR,
                applied: Applied::Nothing,
            })
        });
        shard.start_flushing();
        assert!(matches!(outcome(lost).await, Err(AppendRefusal::FlushFailed(_))));
        assert_eq!(shard.open_epoch(FLUSHED, NEXT), Ok(()));
        let trim = shard.with_leader(FLUSHED, |leader| leader.check_trim(Offset(0)));
        assert_eq!(trim, Ok(Err(TrimError::Sealed { epoch: NEXT })));
        assert!(matches!(
            outcome(append(&shard, FLUSHED)).await,
            Err(AppendRefusal::JournalDead(_))
        ));
    };
    LocalSet::new().run_until(test).await;
}

#[test]
fn an_epoch_of_a_partition_that_is_not_here_is_nobodys() {
    let shard = unflushed_shard(&SimulatedDisk::new());
    let other = PartitionId { index: 9, ..FLUSHED };
    assert_eq!(shard.open_epoch(other, NEXT), Err(NotLed::UnknownPartition));
}
