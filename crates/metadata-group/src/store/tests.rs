//! What a store holds after crashes and damage.

use std::path::Path;
use std::sync::Arc;

use platform::disk::{BLOCK_BYTES, SimulatedDisk};
use platform::random::{Random, SeededRandom};
use platform::work::{Job, Queue, Work};
use record::{ClusterId, DirectoryId};
use tokio::task::LocalSet;

use super::*;
use crate::library::{LibraryEntry, Payload, Proposal, StoredMembers, Vote, library_id};
use crate::{GroupIdentity, Member, Settings};

/// Runs jobs where they are asked for.
struct AtOnce;

impl Queue for AtOnce {
    fn push(&self, job: Job) {
        job();
    }
}

impl Work for AtOnce {
    fn lane(&self, _name: String) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(AtOnce))
    }

    fn pool(&self) -> Arc<dyn Queue> {
        Arc::new(AtOnce)
    }
}

fn own(node: i32) -> Member {
    Member {
        node,
        directory: DirectoryId([3; 16]),
    }
}

async fn open_as(node: i32, disk: &SimulatedDisk) -> Result<Store, StoreError> {
    let identity = GroupIdentity {
        cluster: ClusterId([1; 16]),
        own: own(node),
    };
    let settings = Settings {
        file_bytes: 64 << 10,
        ..Settings::default()
    };
    let random = Random::seeded(SeededRandom::new(5));
    Store::open(identity, Arc::new(disk.clone()), &AtOnce, random, &settings).await
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), test);
}

fn entry(term: u64, index: u64) -> LibraryEntry {
    LibraryEntry {
        log_id: library_id(term, index),
        payload: Payload::Normal(Proposal(Bytes::from(vec![index as u8; 100]))),
    }
}

async fn append(store: &Store, term: u64, indexes: std::ops::Range<u64>) {
    for index in indexes {
        store
            .change_durably(Record::Entry(entry(term, index)))
            .await
            .expect("the disk is good");
    }
}

async fn open(disk: &SimulatedDisk) -> Store {
    open_as(1, disk).await.expect("what was written is there")
}

fn meta(term: u64, index: u64) -> SnapshotMeta {
    SnapshotMeta {
        last_log_id: Some(library_id(term, index)),
        last_membership: StoredMembers::default(),
    }
}

const LOG: &str = "metadata/log";

#[test]
fn all_that_was_durable_is_there_after_a_power_cut() {
    run(async {
        let disk = SimulatedDisk::new();
        let mut store = open(&disk).await;
        let vote = Vote::new(3, own(2));
        store.save_vote(&vote).await.expect("the disk is good");
        append(&store, 1, 0..300).await;
        store
            .truncate_after(Some(library_id(1, 249)))
            .await
            .expect("the disk is good");
        append(&store, 2, 250..260).await;
        store
            .save_snapshot(&meta(1, 99), Bytes::from_static(b"image"))
            .await
            .expect("the disk is good");
        store.purge(library_id(1, 99)).await.expect("the disk is good");
        for seed in 0..20 {
            let mut after = open(&disk.crash(seed)).await;
            assert_eq!(*after.0.log.borrow(), *store.0.log.borrow());
            assert_eq!(after.read_vote().await.expect("in memory"), Some(vote));
            let snapshot = after
                .read_snapshot()
                .await
                .expect("it is whole")
                .expect("it is there");
            assert_eq!(
                (snapshot.meta, &snapshot.snapshot[..]),
                (meta(1, 99), &b"image"[..])
            );
        }
    });
}

/// A bit of the log's file that a checksum covers, in one of its blocks.
fn bit_of_block(block: u64) -> u64 {
    8 * (block * BLOCK_BYTES as u64 + 20)
}

#[test]
fn a_torn_tail_is_cut_off_and_damage_before_it_is_told() {
    run(async {
        let disk = SimulatedDisk::new();
        append(&open(&disk).await, 1, 0..5).await;
        // The header, the frame that the file began with, and one for each entry.
        let torn = disk.crash(1);
        torn.flip_bit(Path::new(LOG), bit_of_block(6));
        assert_eq!(open(&torn).await.0.log.borrow().last(), Some(library_id(1, 3)));
        for block in 1..6 {
            let damaged = disk.crash(1);
            damaged.flip_bit(Path::new(LOG), bit_of_block(block));
            let refused = open_as(1, &damaged)
                .await
                .err()
                .expect("an entry that was durable is gone");
            assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
        }
    });
}

#[test]
fn another_members_files_are_refused() {
    run(async {
        let disk = SimulatedDisk::new();
        let store = open(&disk).await;
        append(&store, 1, 0..5).await;
        let refused = open_as(2, &disk).await.err().expect("it is node 1's");
        assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    });
}

#[test]
fn a_log_that_contradicts_an_installed_snapshot_is_given_up() {
    run(async {
        for (last_term, snapshot_at) in [(3, 50), (1, 3), (1, 4)] {
            let disk = SimulatedDisk::new();
            let store = open(&disk).await;
            append(&store, last_term, 0..5).await;
            let snapshot = meta(2, snapshot_at);
            store
                .save_snapshot(&snapshot, Bytes::new())
                .await
                .expect("the disk is good");
            // The crash comes before the log hears of it.
            let after = open(&disk.crash(1)).await;
            let log = after.0.log.borrow();
            assert_eq!(
                (log.last(), log.purged()),
                (snapshot.last_log_id, snapshot.last_log_id)
            );
        }
    });
}

#[test]
fn an_older_snapshot_does_not_replace_a_newer_one() {
    run(async {
        let disk = SimulatedDisk::new();
        let store = open(&disk).await;
        append(&store, 1, 0..9).await;
        for index in [6, 4] {
            store
                .save_snapshot(&meta(1, index), Bytes::new())
                .await
                .expect("the disk is good");
        }
        assert_eq!(store.snapshot_meta(), Some(meta(1, 6)));
    });
}
