//! A partition that one node holds becomes one that several hold, and one that was given up comes back.

use protocol::replica::{Assignment, Configuration};

use super::*;

/// The epoch with this node as the only one that counts, and another one that is sent the log.
fn shared(epoch: i32) -> Assignment {
    let configuration = Configuration {
        replicas: vec![NodeId(1)],
        ack_quorum: 1,
    };
    Assignment {
        epoch: Epoch(epoch),
        leader: NodeId(1),
        earlier: vec![configuration.clone()],
        configuration,
        joining: vec![NodeId(2)],
        uncertain: Vec::new(),
    }
}

async fn until_led(shard: &Rc<Shard>, id: PartitionId) {
    let led = async {
        while shard.with_leader(id, |_| ()).is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, led).await.expect("its own promise is enough");
}

#[tokio::test]
async fn who_waits_for_a_batch_is_answered_when_its_partition_is_shared() {
    for id in [FLUSHED, MEMORY] {
        let test = async {
            let shard = unflushed_shard(&SimulatedDisk::new());
            let before = append_as(&shard, id, 100, Acks::Quorum);
            let first = append_as(&shard, id, 100, Acks::Leader);
            assert_eq!(shard.share(id), Ok(()));
            assert_eq!(shard.with_leader(id, |_| ()), Err(NotLed::NotLeader));
            // Twice is as good as once.
            assert_eq!(shard.share(id), Ok(()));
            assert_eq!(shard.assign(id, shared(1)), Ok(()));
            shard.start_replication();
            shard.start_examining();
            shard.start_flushing();
            assert_eq!([offset(before).await, offset(first).await], [0, 1]);
            until_led(&shard, id).await;
            let after = append_as(&shard, id, 100, Acks::Quorum);
            assert_eq!(offset(after).await, 2);
            let tail = shard.with_leader(id, |leader| (leader.epoch(), leader.tail()));
            assert_eq!(tail, Ok((Epoch(1), Offset(3))));
            let read = shard.read_batches(id, Offset(0), Offset(3), usize::MAX).await;
            let read = read.expect("it is there");
            let batches = read.iter().flat_map(|bytes| record::batches(bytes));
            assert_eq!(batches.count(), 3);
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test]
async fn a_partition_that_is_shared_is_found_again_by_the_next_start() {
    let test = async {
        let disk = SimulatedDisk::new();
        let shard = unflushed_shard(&disk);
        shard.start_examining();
        shard.start_flushing();
        offset(append(&shard, FLUSHED)).await;
        shard.share(FLUSHED).expect("it is here");
        shard.assign(FLUSHED, shared(1)).expect("it is here");
        until_led(&shard, FLUSHED).await;
        offset(append(&shard, FLUSHED)).await;
        drop(shard);
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let (_, recovered) = Store::open(disk, Random::SYSTEM, CONFIG).expect("it is sound");
        let found = recovered.partitions.iter().find(|found| found.id == FLUSHED);
        let found = found.expect("it was written to");
        assert_eq!((found.next, found.promised), (Offset(2), Some(Epoch(1))));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_was_given_up_comes_back_empty_and_only_when_its_files_are_forgotten() {
    let test = async {
        let shard = shard();
        shard.start_background();
        shard.start_replication();
        offset(append(&shard, FLUSHED)).await;
        shard.delete_partition(FLUSHED);
        shard
            .open_replica(FLUSHED, topic("fsync"), None)
            .expect("it is to be empty");
        assert_eq!(shard.assign(FLUSHED, shared(1)), Ok(()));
        assert_eq!(shard.share(FLUSHED), Ok(()));
        // Nothing of it is there yet, and clients look for a leader elsewhere.
        assert_eq!(shard.with_leader(FLUSHED, |_| ()), Err(NotLed::NotLeader));
        until_led(&shard, FLUSHED).await;
        assert_eq!(offset(append(&shard, FLUSHED)).await, 0);
        // Given up again before it could be opened, it is gone for good.
        shard.delete_partition(FLUSHED);
        shard
            .open_replica(FLUSHED, topic("fsync"), None)
            .expect("it is to be empty");
        shard.delete_partition(FLUSHED);
        assert_eq!(shard.with_leader(FLUSHED, |_| ()), Err(NotLed::UnknownPartition));
    };
    LocalSet::new().run_until(test).await;
}
