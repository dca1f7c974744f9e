//! Two shards with one order over a topic: records are answered and shown when all before them are durable, on whichever shard, and a restart goes on where
//! readers are.

mod seeds;

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::BufMut;
use planted::{Bug, with};
use protocol::order::{Cutter, Entry, Generation, Line, Recovered, recover};
use record::Position;
use storage::{BatchBytes, BatchMemory};

use super::*;

const TOPIC: TopicId = TopicId([7; 16]);
/// As many partitions on each shard: the first has those with an even index.
const PARTITIONS_EACH: i32 = 2;

fn id(index: i32) -> PartitionId {
    PartitionId { topic: TOPIC, index }
}

/// A partition of one of the shards.
fn of_shard(shard: usize, partition: i32) -> PartitionId {
    id(2 * partition + shard as i32)
}

fn strand(shard: usize) -> PartitionId {
    PartitionId {
        topic: TopicId([8; 16]),
        index: shard as i32,
    }
}

/// A batch of one record in memory of its own.
fn alone(value_bytes: usize) -> BatchBytes {
    let batch = batch(Compression::None, 0, value_bytes);
    let mut memory = BatchMemory::for_request(0, batch.len());
    memory.rest().put_slice(&batch);
    let (request, memory) = memory.share();
    memory.reclaim(request)
}

/// Two shards of one node, with a disk each.
struct Pair {
    disks: [SimulatedDisk; 2],
    shards: [Rc<Shard>; 2],
    recovered: Recovered,
    line: Arc<Line>,
    /// Shards that were told to look what is ordered, and have not yet.
    letters: Rc<RefCell<VecDeque<usize>>>,
}

impl Pair {
    async fn new() -> Pair {
        Pair::start([SimulatedDisk::new(), SimulatedDisk::new()]).await
    }

    /// Opens what is on the disks, and goes on with its order in the next generation.
    async fn start(disks: [SimulatedDisk; 2]) -> Pair {
        let shards = [0, 1].map(|shard: usize| {
            let partitions = (0..PARTITIONS_EACH).map(|partition| of_shard(shard, partition));
            let ordered = settings_of(&[("ropewalk.order", "total")]);
            let partitions = partitions.map(|id| (id, ordered));
            let all: Vec<_> = partitions.chain([(strand(shard), topic("fsync"))]).collect();
            shard_with(&disks[shard], &all)
        });
        let recovered = look(&shards).await;
        let open = recovered.open();
        let first = &shards[0];
        let generation = open.generation;
        first
            .stage_order(strand(0), &Entry::Open(open))
            .expect("the journal has room");
        let staged_before = first.store.borrow().staged_before();
        let line = Arc::new(Line::new(recovered.next, 2));
        let letters: Rc<RefCell<VecDeque<usize>>> = Rc::default();
        for (index, shard) in shards.iter().enumerate() {
            let letters = letters.clone();
            let order = Order {
                cutter: Cutter::new(line.clone(), index, generation),
                strand: strand(index),
                tell: Rc::new(move |_, tell| {
                    if let Tell::Ordered(shards) = tell {
                        letters.borrow_mut().extend(shards);
                    }
                }),
                is_full: false,
            };
            shard.open_order(TOPIC, order, |index| recovered.vector[index as usize]);
        }
        // Nothing else is flushed before.
        flush_once(first);
        assert!(first.store.borrow().is_durable(staged_before - 1));
        shards.iter().for_each(|shard| shard.start_serving());
        Pair {
            disks,
            shards,
            recovered,
            line,
            letters,
        }
    }

    /// The order, out of all that is durable.
    async fn look(&self) -> Recovered {
        look(&self.shards).await
    }

    /// Has a shard look that was told to, if there is one.
    fn deliver(&self) {
        let told = self.letters.borrow_mut().pop_front();
        if let Some(shard) = told {
            self.shards[shard].show_ordered(TOPIC);
        }
    }

    fn append(&self, shard: usize, partition: i32) -> AppendAnswer {
        append_as(&self.shards[shard], of_shard(shard, partition), 100, Acks::Quorum)
    }

    fn flush(&self) {
        self.shards.iter().for_each(Shard::start_flushing);
    }

    /// The end of what is shown of a partition, all of which is there.
    async fn tail(&self, shard: usize, partition: i32) -> i64 {
        let mut request = ReadRequest {
            partition: of_shard(shard, partition),
            from: Offset::ZERO,
            bytes_max: usize::MAX,
            epoch: None,
            from_any: false,
            near: None,
            ordered_until: None,
            committed_only: false,
        };
        loop {
            let read = self.shards[shard].read(request).await.expect("it is led here");
            let found = read.batches.iter().flat_map(|bytes| record::batches(bytes));
            let last = found.last();
            let end = last.map(|batch| batch.expect("it is sound").0.next_offset());
            if request.from == read.tail {
                return read.tail.0;
            }
            request.from = end.expect("something is found below the tail");
        }
    }

    /// The power fails, and the node starts again.
    async fn crash(self, seed: u64) -> Pair {
        drop(self.shards);
        Pair::start(self.disks.map(|disk| disk.crash(seed))).await
    }
}

async fn look(shards: &[Rc<Shard>; 2]) -> Recovered {
    let mut strands = Vec::new();
    for (index, shard) in shards.iter().enumerate() {
        strands.push(entries(shard, strand(index)).await);
    }
    let ends = (0..2 * PARTITIONS_EACH).map(|index| {
        let shard = &shards[index as usize % 2];
        let bounds = shard.store.borrow().bounds(id(index));
        bounds.expect("it is open").1
    });
    let ends: Vec<Offset> = ends.collect();
    let recovered = recover(&strands, &ends).expect("nothing contradicts itself");
    recovered.unwrap_or_else(|| Recovered {
        generation: Generation(0),
        next: Position(0),
        vector: vec![Offset::ZERO; ends.len()],
        cuts: Vec::new(),
    })
}

/// Flushes one frame of what is staged.
fn flush_once(shard: &Shard) {
    let flush = shard.store.borrow_mut().next_flush();
    let flush = flush.expect("something was staged");
    let outcome = flush.run();
    shard.apply_flush(flush, outcome);
}

async fn entries(shard: &Rc<Shard>, strand: PartitionId) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut take = |record: &record::Record| {
        let value = record.value.as_ref().ok_or("an entry has a value")?;
        entries.push(Entry::decode(value).map_err(|error| error.to_string())?);
        Ok(())
    };
    let replay = shard.replay(strand, &mut take).await;
    replay.expect("the strand can be read");
    entries
}

#[tokio::test]
async fn records_and_their_cut_are_one_flush() {
    let test = async {
        let pair = Pair::new().await;
        let answers = [pair.append(0, 0), pair.append(0, 1), pair.append(0, 0)];
        pair.shards[0].stage_cuts();
        flush_once(&pair.shards[0]);
        assert!(pair.shards[0].store.borrow_mut().next_flush().is_none());
        let mut offsets = Vec::new();
        for answer in answers {
            offsets.push(offset(answer).await);
        }
        assert_eq!(offsets, [0, 0, 1]);
        assert_eq!([pair.tail(0, 0).await, pair.tail(0, 1).await], [2, 1]);
        let entries = entries(&pair.shards[0], strand(0)).await;
        let Some(Entry::Cut(cut)) = entries.last() else {
            panic!("{entries:?} end with a cut")
        };
        let runs: Vec<_> = cut.runs.iter().map(|run| (run.partition, run.offsets)).collect();
        assert_eq!((cut.base, runs), (Position(0), vec![(0, 2), (2, 1)]));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_large_batch_and_its_cut_are_one_flush() {
    let test = async {
        let pair = Pair::new().await;
        let shard = &pair.shards[0];
        let mut answers = vec![pair.append(0, 0)];
        for partition in [0, 1] {
            let (request, answer) = AppendRequest::new(of_shard(0, partition), alone(5_000), Acks::Quorum);
            shard.append(request);
            answers.push(answer);
        }
        let mut places = Vec::new();
        for answer in answers {
            // A frame for each.
            flush_once(shard);
            let outcome = outcome(answer).await.expect("it is durable with its cut");
            places.push((outcome.first_offset.0, outcome.position));
        }
        let at = |position| Some(Position(position));
        assert_eq!(places, [(0, at(0)), (1, at(1)), (0, at(2))]);
        assert!(shard.store.borrow_mut().next_flush().is_none());
        let pair = pair.crash(1).await;
        assert_eq!(pair.recovered.next, Position(3));
        assert_eq!([pair.tail(0, 0).await, pair.tail(0, 1).await], [2, 1]);
    };
    LocalSet::new().run_until(test).await;
}

impl Pair {
    fn append_if(&self, shard: usize, partition: i32, conditions: Conditions) -> AppendAnswer {
        let batch = batch(Compression::None, 0, 100);
        let (request, answer) = AppendRequest::new(of_shard(shard, partition), batch, Acks::Quorum);
        self.shards[shard].append(request.only_if(conditions));
        answer
    }
}

fn at_tail(tail: u64) -> Conditions {
    Conditions {
        tail: Some(Position(tail)),
        offset: None,
    }
}

#[tokio::test]
async fn an_append_is_at_the_tail_or_not_at_all() {
    let test = async {
        let pair = Pair::new().await;
        pair.flush();
        let moved = |wanted, tail| {
            Err(AppendRefusal::TailMoved {
                wanted: Position(wanted),
                tail: Position(tail),
            })
        };
        assert_eq!(offset(pair.append_if(0, 0, at_tail(0))).await, 0);
        assert_eq!(outcome(pair.append_if(1, 0, at_tail(0))).await, moved(0, 1));
        assert_eq!(outcome(pair.append_if(1, 0, at_tail(2))).await, moved(2, 1));
        let appended = outcome(pair.append_if(1, 0, at_tail(1))).await;
        assert_eq!(appended.expect("it is the tail").position, Some(Position(1)));
        // Of two that are sent at the same time one is there: the other would be behind it.
        let both = [pair.append_if(0, 0, at_tail(2)), pair.append_if(0, 1, at_tail(2))];
        let [first, second] = both.map(outcome);
        assert_eq!(second.await, moved(2, 2));
        assert_eq!(first.await.expect("it was first").position, Some(Position(2)));
        // An append that waits for its position comes first.
        let before = pair.append(1, 1);
        assert_eq!(outcome(pair.append_if(1, 1, at_tail(3))).await, moved(3, 3));
        assert_eq!(
            outcome(before).await.expect("nothing is asked").position,
            Some(Position(3))
        );
        assert_eq!(
            [pair.tail(1, 0).await, pair.tail(0, 1).await],
            [1, 0],
            "nothing else is there"
        );
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn an_append_is_at_its_offset_or_not_at_all() {
    let test = async {
        let pair = Pair::new().await;
        pair.flush();
        let at = |offset| Conditions {
            tail: None,
            offset: Some(Offset(offset)),
        };
        assert_eq!(offset(pair.append_if(0, 0, at(0))).await, 0);
        let (wanted, next) = (Offset(0), Offset(1));
        let refused = outcome(pair.append_if(0, 0, at(0))).await;
        assert_eq!(refused, Err(AppendRefusal::OffsetMoved { wanted, next }));
        let both = Conditions {
            tail: Some(Position(1)),
            ..at(1)
        };
        assert_eq!(offset(pair.append_if(0, 0, both)).await, 1);
        assert_eq!(pair.tail(0, 0).await, 2);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_condition_asks_nothing_of_a_batch_that_is_there() {
    let test = async {
        let pair = Pair::new().await;
        pair.flush();
        pair.shards[0].set_next_producer_id(ProducerId(5));
        let send = |sequence, tail| {
            let mut builder = BatchBuilder::new(Compression::None).with_producer(4, 1, sequence);
            builder.append(0, None, Some(b"value"), &[]);
            let (request, answer) = AppendRequest::new(of_shard(0, 0), builder.build(), Acks::Quorum);
            pair.shards[0].append(request.only_if(at_tail(tail)));
            outcome(answer)
        };
        let first = send(0, 0).await.expect("it is the tail");
        assert_eq!(first.position, Some(Position(0)));
        let again = send(0, 0).await.expect("it is there");
        assert_eq!(again.first_offset, first.first_offset);
        send(1, 0)
            .await
            .expect_err("it is not there, and the tail is another one");
        send(1, 1).await.expect("nothing was taken note of");
    };
    LocalSet::new().run_until(test).await;
}

/// Says if both first batches of a producer are taken that it sends to a partition and to the twin: it counts them apart.
async fn both_names_are_taken() -> bool {
    let pair = Pair::new().await;
    pair.flush();
    pair.shards[0].set_next_producer_id(ProducerId(5));
    let mut taken = Vec::new();
    for is_of_twin in [false, true] {
        let mut builder = BatchBuilder::new(Compression::None).with_producer(4, 1, 0);
        builder.append(0, None, Some(b"value"), &[]);
        let (request, answer) = AppendRequest::new(of_shard(0, 0), builder.build(), Acks::Quorum);
        pair.shards[0].append(if is_of_twin { request.to_twin() } else { request });
        taken.push(
            outcome(answer)
                .await
                .expect("it is taken or was there")
                .first_offset
                .0,
        );
    }
    taken == [0, 1]
}

#[test]
fn sequences_of_the_twin_that_are_those_of_the_partition_are_found() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the system has threads");
        LocalSet::new().block_on(&runtime, both_names_are_taken())
    };
    assert!(run());
    assert!(
        !with(Bug::TwinSharesSequences, run),
        "the second is taken for the first"
    );
}

/// A record of the second shard, whose position is above one that the first has not flushed; whether it was shown before its turn.
async fn is_shown_early() -> bool {
    let pair = Pair::new().await;
    let first = pair.append(0, 0);
    pair.shards[0].stage_cuts();
    let mut second = pair.append(1, 0);
    pair.shards[1].start_flushing();
    let staged_before = loop {
        tokio::task::yield_now().await;
        let staged_before = pair.shards[1].store.borrow().staged_before();
        if staged_before > 0 && pair.shards[1].store.borrow().is_durable(staged_before - 1) {
            break staged_before;
        }
    };
    pair.shards[1]
        .until_flushed(staged_before)
        .await
        .expect("the disk works");
    let is_early = second.try_recv().is_ok() || pair.tail(1, 0).await > 0;
    if !is_early {
        pair.shards[0].start_flushing();
        assert_eq!(offset(first).await, 0);
        pair.deliver();
        assert_eq!(offset(second).await, 0, "the first shard has told the second one");
        assert_eq!([pair.tail(0, 0).await, pair.tail(1, 0).await], [1, 1]);
    }
    is_early
}

#[tokio::test]
async fn nobody_is_answered_or_shown_what_another_shard_could_still_lose() {
    LocalSet::new()
        .run_until(async { assert!(!is_shown_early().await) })
        .await;
}

#[test]
fn showing_what_is_not_ordered_is_found() {
    for bug in [Bug::UnorderedShown, Bug::ShownAtOwnFlush, Bug::FloorRaisedEarly] {
        let found = with(bug, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("the system has threads");
            LocalSet::new().block_on(&runtime, is_shown_early())
        });
        assert!(found, "{bug:?}");
    }
}

#[tokio::test]
async fn records_without_a_position_get_one_after_a_power_cut() {
    let test = async {
        let pair = Pair::new().await;
        pair.flush();
        // None waits for one of the other shard.
        for partition in [0, 1, 0] {
            offset(pair.append(0, partition)).await;
            offset(pair.append(1, partition)).await;
        }
        let pair = pair.crash(1).await;
        assert_eq!(pair.recovered.next, Position(6));
        assert_eq!(pair.recovered.vector, [2, 2, 1, 1].map(Offset));
        // Of the next two only the second is flushed, behind the first one's position.
        drop(pair.append(0, 0));
        pair.shards[0].stage_cuts();
        let mut second = pair.append(1, 1);
        pair.shards[1].stage_cuts();
        flush_once(&pair.shards[1]);
        assert!(second.try_recv().is_err(), "the first one is not flushed");

        let pair = pair.crash(1).await;
        assert_eq!(pair.recovered.next, Position(6), "behind the gap nothing counts");
        assert_eq!(pair.recovered.generation, Generation(2));
        assert_eq!(pair.tail(1, 1).await, 1, "it has no position yet");
        pair.flush();
        let is_shown = async {
            while pair.tail(1, 1).await < 2 {
                tokio::task::yield_now().await;
            }
        };
        let shown = timeout(PATIENCE, is_shown).await;
        shown.expect("it gets one though nobody appends");
        offset(pair.append(0, 0)).await;
        assert_eq!(offset(pair.append(1, 1)).await, 2);
        assert_eq!([pair.tail(0, 0).await, pair.tail(1, 1).await], [3, 3]);
        let pair = pair.crash(1).await;
        assert_eq!(pair.recovered.next, Position(9));
        assert_eq!(pair.recovered.vector, [3, 2, 1, 3].map(Offset));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_cut_that_finds_no_room_comes_when_there_is_some() {
    let test = async {
        let pair = Pair::new().await;
        let shard = &pair.shards[0];
        let mut answers = Vec::new();
        while shard.waiting.for_journal.borrow().is_empty() {
            answers.push(append_as(shard, of_shard(0, 0), 1_000, Acks::Quorum));
        }
        shard.start_background();
        pair.flush();
        for (expected, answer) in (0..).zip(answers) {
            assert_eq!(offset(answer).await, expected);
        }
    };
    LocalSet::new().run_until(test).await;
}
