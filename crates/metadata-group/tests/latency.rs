//! How long a proposal takes on a real disk, in a group of one: the price of an election and of a commit there is the flush.
//!
//! `cargo test --profile tested -p metadata-group --test latency -- --ignored --nocapture`, with `METADATA_DIR` for the place.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use metadata_group::{
    Entry, EntryId, Group, GroupIdentity, Image, Member, Parts, Settings, Transport, Unusable,
};
use platform::clock::{Clock, SystemClock};
use platform::disk::{BLOCK_BYTES, Disk, RealDisk};
use platform::memory::AlignedBuffer;
use platform::random::Random;
use platform::work::Threads;
use record::{ClusterId, DirectoryId};
use tokio::task::LocalSet;

struct Nobody;

impl Transport for Nobody {
    fn send(&self, to: Member, _message: Bytes) {
        panic!("a group of one says nothing, and nothing to {to}");
    }
}

struct Nothing;

impl Image for Nothing {
    fn apply(&mut self, _entry: Entry) -> Result<(), Unusable> {
        Ok(())
    }

    fn snapshot(&self) -> Bytes {
        Bytes::new()
    }

    fn install(&mut self, _last: EntryId, _snapshot: Bytes) -> Result<(), Unusable> {
        Ok(())
    }
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    eprintln!("{what}: p50 {:?}, p99 {:?}, max {:?}", at(0.5), at(0.99), at(1.0));
}

#[test]
#[ignore = "measures a disk"]
fn latency_of_a_group_of_one() {
    let place = std::env::var("METADATA_DIR").unwrap_or_else(|_| String::from("."));
    let directory = tempfile::tempdir_in(place).expect("a directory");
    let disk = Arc::new(RealDisk::open(directory.path()).expect("a disk"));
    let clock = SystemClock::new();
    let raw = disk.create("raw".as_ref()).expect("a file");
    raw.fill_with_zeros(4 << 20).expect("room");
    let block = AlignedBuffer::zeroed(BLOCK_BYTES);
    let floor = (0..1000).map(|number| {
        let began = clock.monotonic();
        raw.write_durable(number * BLOCK_BYTES as u64, &block)
            .expect("a good disk");
        clock.monotonic() - began
    });
    show("a flush of a block", floor.collect());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let began = clock.monotonic();
        let identity = GroupIdentity {
            cluster: ClusterId([1; 16]),
            own: Member {
                node: 1,
                directory: DirectoryId([2; 16]),
            },
        };
        let parts = Parts {
            disk,
            work: Arc::new(Threads),
            random: Random::SYSTEM,
            transport: Rc::new(Nobody),
        };
        let group = Group::start(identity, parts, &Settings::default(), Box::new(Nothing))
            .await
            .expect("it starts");
        group.found().await.expect("it is new");
        group
            .propose(Bytes::from_static(b"first"))
            .await
            .expect("it leads");
        eprintln!(
            "from nothing to the first commit: {:?}",
            clock.monotonic() - began
        );
        let mut times = Vec::new();
        for _ in 0..3000 {
            let began = clock.monotonic();
            group.propose(Bytes::from(vec![7; 100])).await.expect("it leads");
            times.push(clock.monotonic() - began);
        }
        show("a proposal of 100 bytes", times);
        group.stop().await;
    });
}
