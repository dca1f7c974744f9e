//! Replicas lend each other what one of them has lost: only what is committed goes out, and only what was lost is taken.

use protocol::peer::{RangeAnswer, RangeWish, facts_of};
use protocol::replica::{Assignment, Configuration, Prompt};
use storage::Damage;
use tokio::task::yield_now;

use super::*;
use crate::RangeLetter;

const OTHER: NodeId = NodeId(2);
/// Batches of each of two epochs.
const BATCHES: i64 = 40;

/// The epoch in which this node follows another one.
fn followed() -> Assignment {
    let configuration = Configuration {
        replicas: vec![OTHER, NodeId(1)],
        ack_quorum: 2,
    };
    Assignment {
        epoch: Epoch(7),
        leader: OTHER,
        earlier: vec![configuration.clone()],
        configuration,
        joining: Vec::new(),
        uncertain: Vec::new(),
    }
}

/// A shard with a replica of records of two epochs, some of which are in a segment; and all of its bytes.
async fn replica(disk: &SimulatedDisk) -> (Rc<Shard>, Bytes) {
    let shard = unflushed_shard(disk);
    shard.start_examining();
    shard.start_flushing();
    shard.start_background();
    for epoch in [3, 5] {
        shard.open_epoch(FLUSHED, Epoch(epoch)).expect("it is led here");
        for _ in 0..BATCHES {
            offset(append(&shard, FLUSHED)).await;
        }
    }
    shard.configure_partition(FLUSHED, settings_of(&[("segment.bytes", "1048576")]));
    let laid_out = async {
        while shard
            .store
            .borrow_mut()
            .begin_scrub(FLUSHED, Offset(BATCHES))
            .is_none()
        {
            offset(append(&shard, FLUSHED)).await;
        }
    };
    timeout(PATIENCE, laid_out).await.expect("it is laid out");
    // A round that is under way writes behind what the segment is known to have.
    let at_rest = async {
        while shard.store.borrow().is_laying_out() || shard.store.borrow().checkpoint_is_due() {
            yield_now().await;
        }
    };
    timeout(PATIENCE, at_rest).await.expect("a round ends");
    let (_, next) = shard.store.borrow().bounds(FLUSHED).expect("it is here");
    let all = shard.read_batches(FLUSHED, Offset(0), next, usize::MAX).await;
    let all = all.expect("it is sound").concat().into();
    shard.share(FLUSHED).expect("it is here");
    shard.assign(FLUSHED, followed()).expect("it is shared");
    shard.handle_link(OTHER, LINKED).await;
    (shard, all)
}

/// Has the leader send a batch that it has not committed.
async fn append_uncommitted(shard: &Rc<Shard>, first: Offset) {
    let mut batch = batch(Compression::None, shard.clock.wall_ms(), 100).to_vec();
    record::set_base_offset(&mut batch, first);
    record::set_leader_epoch(&mut batch, Epoch(7));
    let batch = Bytes::from(batch);
    let prompt = Prompt::Append {
        epoch: Epoch(7),
        writer_before: Epoch(5),
        batches: facts_of(&batch).expect("it is sound"),
    };
    let letter = Letter::new(FLUSHED, Message::Prompt(prompt, vec![batch]));
    shard.deliver(OTHER, letter);
    let end = || shard.store.borrow().bounds(FLUSHED).map(|(_, next)| next);
    assert_eq!(end(), Some(first.advance(1)), "it was taken");
}

/// Damages the first segment, and finds that.
fn damage(shard: &Shard, disk: &SimulatedDisk, of_index: bool) -> Damage {
    let mut segments = disk.paths();
    let directory = FLUSHED.to_string();
    segments.retain(|path| {
        path.to_string_lossy().contains(&directory) && path.extension().is_some_and(|end| end == "segment")
    });
    let bytes = disk.file_length(&segments[0]).expect("it is there");
    let byte = if of_index { bytes - 60 } else { 500 };
    disk.flip_bit(&segments[0], 8 * byte);
    let mut scrub = shard
        .store
        .borrow_mut()
        .begin_scrub(FLUSHED, Offset(0))
        .expect("it is there");
    let damage = loop {
        let mut scrubbed = scrub.step();
        if let Some(damage) = scrubbed.damages.pop() {
            break damage;
        }
        assert!(!scrubbed.is_over, "a bit has turned");
    };
    assert_eq!(damage.is_of_index(), of_index);
    damage
}

/// Those batches that hold some of these offsets.
fn range(all: &Bytes, first: Offset, next: Offset) -> Bytes {
    let batches = record::batches(all).map(|batch| batch.expect("whole"));
    let wanted = batches.filter(|(header, _)| header.next_offset() > first && header.base_offset < next);
    wanted.map(|(_, bytes)| bytes).collect::<Vec<_>>().concat().into()
}

async fn next_letter(shard: &Shard) -> (NodeId, RangeLetter) {
    loop {
        if let Some(letter) = shard.take_range_letters().pop() {
            return letter;
        }
        yield_now().await;
    }
}

/// The part that is taken of answers which `answer` makes of wishes.
async fn borrowed(shard: &Rc<Shard>, damage: &Damage, answer: impl Fn(&RangeWish) -> Bytes) -> Option<Bytes> {
    let (first, next) = damage.range();
    let asked = shard.borrow_range(damage, first, next);
    tokio::pin!(asked);
    loop {
        tokio::select! {
            biased;
            lent = &mut asked => return lent,
            (to, letter) = next_letter(shard) => {
                let RangeLetter::Wish(wish) = letter else { panic!("it wishes for something") };
                assert_eq!((to, wish.partition), (OTHER, FLUSHED));
                assert!(wish.first >= first && wish.next <= next);
                let batches = answer(&wish);
                let RangeWish { partition, number, .. } = wish;
                let answer = RangeAnswer { partition, number, batches };
                // Neither of these was asked.
                let nothing = RangeAnswer { batches: Bytes::new(), ..answer.clone() };
                shard.handle_range_answer(NodeId(9), nothing.clone());
                shard.handle_range_answer(OTHER, RangeAnswer { partition: MEMORY, ..nothing });
                shard.handle_range_answer(OTHER, answer);
            }
        }
    }
}

#[tokio::test]
async fn only_what_was_lost_is_taken() {
    let test = async {
        for of_index in [false, true] {
            let disk = SimulatedDisk::new();
            let (shard, all) = replica(&disk).await;
            let damage = damage(&shard, &disk, of_index);
            let lend = |wish: &RangeWish| range(&all, wish.first, wish.next);
            let changed = |change: fn(&mut Vec<u8>)| {
                move |wish: &RangeWish| {
                    let mut lent = lend(wish).to_vec();
                    change(&mut lent);
                    Bytes::from(lent)
                }
            };
            assert_eq!(borrowed(&shard, &damage, |_| Bytes::new()).await, None);
            let of_another_epoch = changed(|lent| record::set_leader_epoch(lent, Epoch(4)));
            assert_eq!(
                borrowed(&shard, &damage, of_another_epoch).await,
                None,
                "epoch 4 wrote nothing"
            );
            let elsewhere = changed(|lent| record::set_base_offset(lent, Offset(1)));
            assert_eq!(borrowed(&shard, &damage, elsewhere).await, None);
            let turned = changed(|lent| lent[100] ^= 1);
            assert_eq!(borrowed(&shard, &damage, turned).await, None);
            let (first, next) = damage.range();
            let lent = borrowed(&shard, &damage, lend)
                .await
                .expect("it is what was lost");
            assert_eq!(lent, range(&all, first, next));
            // With the connection the wish is lost, and nobody else could lend.
            let (shard_lost, lost) = (shard.clone(), async {
                next_letter(&shard).await;
                shard.handle_link_lost(OTHER, true).await;
            });
            let (lent, ()) = tokio::join!(shard_lost.borrow_range(&damage, first, next), lost);
            assert_eq!(lent, None);
        }
    };
    LocalSet::new()
        .run_until(timeout(PATIENCE, test))
        .await
        .expect("nothing is stuck");
}

#[tokio::test]
async fn only_what_is_committed_and_kept_is_lent() {
    let test = async {
        let disk = SimulatedDisk::new();
        let (shard, all) = replica(&disk).await;
        let (_, next) = shard.store.borrow().bounds(FLUSHED).expect("it is here");
        append_uncommitted(&shard, next).await;
        let wish = RangeWish {
            partition: FLUSHED,
            number: 9,
            first: Offset(3),
            next: Offset(i64::MAX),
            bytes_max: u32::MAX,
        };
        let asked = async |wish: RangeWish| {
            shard.handle_range_wish(OTHER, wish);
            match next_letter(&shard).await {
                (OTHER, RangeLetter::Answer(answer, _room)) => {
                    assert_eq!((answer.partition, answer.number), (wish.partition, 9));
                    answer.batches
                }
                other => panic!("an answer goes to who wished: {other:?}"),
            }
        };
        assert_eq!(asked(wish).await, range(&all, Offset(3), next));
        let few = RangeWish { bytes_max: 1, ..wish };
        assert_eq!(
            asked(few).await,
            range(&all, Offset(3), Offset(4)),
            "one whole batch"
        );
        let some = RangeWish {
            next: Offset(5),
            ..wish
        };
        assert_eq!(asked(some).await, range(&all, Offset(3), Offset(5)));
        let nothing = [
            RangeWish { first: next, ..wish },
            RangeWish {
                partition: MEMORY,
                first: Offset(0),
                ..wish
            },
        ];
        for wish in nothing {
            assert!(asked(wish).await.is_empty(), "{wish:?}");
        }
        // A wish for too much at once is refused.
        for _ in 0..40 {
            shard.handle_range_wish(OTHER, wish);
        }
        let refused = shard.take_range_letters();
        assert_eq!(refused.len(), 8);
        for (_, letter) in refused {
            assert!(matches!(letter, RangeLetter::Answer(answer, _) if answer.batches.is_empty()));
        }
    };
    LocalSet::new()
        .run_until(timeout(PATIENCE, test))
        .await
        .expect("nothing is stuck");
}
