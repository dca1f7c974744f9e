//! The heart of a shard: staged batches are flushed, flushed ones are committed, and where a flush fails the shard steps down.
//!
//! It goes on from `append.rs`, which stages a batch and leaves its producer waiting. Read downwards: `flush_for_ever` takes all
//! that was staged meanwhile as one frame, `apply_flush` tells each leader of the frame how far it is durable, and the leader's
//! commit answers producers and wakes readers (`Partition::act`). Nothing here may acknowledge what is not durable, and no flush
//! that failed is ever tried again.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use planted::{Bug, planted};
use platform::turns;
use protocol::Durability;
use record::{Offset, PartitionId};
use storage::{Flush, Store};
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::background::run;
use super::{AppendRefusal, Partition, Phase, Role, Shard};

/// Time for which appends that no producer waits for are gathered before a flush (`ropewalk.durability=memory`).
const MEMORY_FLUSH_DELAY: Duration = Duration::from_millis(5);
/// Bytes from which on nothing is gained by gathering more: the disk would only rest meanwhile.
pub(super) const MEMORY_GATHERED_BYTES_MAX: usize = 1 << 20;

/// A flush of at most this size may run on the core, as long as flushes usually take at most this long: a core that
/// blocks makes its clients wait, and saves them two hand-overs between threads.
const CORE_FLUSH_BYTES_MAX: usize = 128 << 10;
/// Turns of the core's tasks in which letters reach their connections: one for whoever carries them, one for whoever writes.
const TURNS_OF_LETTERS: usize = 2;
/// See `CORE_FLUSH_BYTES_MAX`.
pub(super) const CORE_FLUSH_TIME_MAX: Duration = Duration::from_micros(300);

/// The occasions of flushes, and the end of each.
pub(super) struct Flushing {
    /// Something was staged that somebody waits for, or there is room again.
    staged: Notify,
    /// Something was staged whose producer does not wait for the flush.
    staged_in_memory: Notify,
    /// Appends that waited for room were to be tried again, and their turn was spent before all of them were.
    turn_was_spent: Notify,
    /// A flush has ended.
    flushed: Notify,
    /// The time that a flush took lately, smoothed.
    usual: Cell<Duration>,
    /// The number of frames staged at the last look for a quiet journal.
    looked_before: Cell<u64>,
}

impl Default for Flushing {
    fn default() -> Flushing {
        Flushing {
            staged: Notify::new(),
            staged_in_memory: Notify::new(),
            turn_was_spent: Notify::new(),
            flushed: Notify::new(),
            // Unknown is slow: the first flush does not run on the core.
            usual: Cell::new(CORE_FLUSH_TIME_MAX * 2),
            looked_before: Cell::new(0),
        }
    }
}

impl Flushing {
    /// Has the staged batches flushed at once.
    pub(super) fn want(&self) {
        self.staged.notify_one();
    }

    /// Has the staged batches flushed together with those of the next moment.
    pub(super) fn want_soon(&self) {
        self.staged_in_memory.notify_one();
    }

    /// Has appends that wait for room tried again in another turn.
    pub(super) fn want_another_turn(&self) {
        self.turn_was_spent.notify_one();
    }
}

impl Shard {
    /// Starts a task that flushes, on the core that calls. It runs as long as the core's runtime does.
    pub fn start_flushing(self: &Rc<Self>) {
        turns::spawn(self.clone().flush_for_ever());
    }

    /// Flushes what is staged, one frame after the other; what arrives meanwhile rides in the next.
    async fn flush_for_ever(self: Rc<Self>) {
        let mut wanted_before = 0;
        loop {
            let awaited = self.until_flush_is_wanted().await;
            // After a start a cut may be all that there is to flush.
            self.stage_cuts();
            let wanted = self.store.borrow().staged_before();
            assert!(wanted_before <= wanted, "frames are never taken back");
            wanted_before = wanted;
            while wanted > 0 && !self.store.borrow().is_durable(wanted - 1) {
                self.stage_cuts();
                // None once the journal is dead: what is staged is never flushed.
                let next = self.store.borrow_mut().next_flush();
                let Some(flush) = next else { break };
                if self.send_unsent() {
                    // They leave before a flush keeps this core busy: followers flush meanwhile.
                    for _ in 0..TURNS_OF_LETTERS {
                        yield_now().await;
                    }
                }
                let (flush, result) = self.run_flush(flush, awaited).await;
                self.apply_flush(flush, result);
                if turns::is_spent() {
                    yield_now().await;
                }
            }
        }
    }

    /// Waits until there is something to flush; says if a producer waits for it.
    async fn until_flush_is_wanted(&self) -> bool {
        let gathered = async {
            self.flushing.staged_in_memory.notified().await;
            tokio::time::sleep(MEMORY_FLUSH_DELAY).await;
        };
        tokio::select! {
            biased;
            () = self.flushing.staged.notified() => true,
            () = gathered => false,
            () = self.flushing.turn_was_spent.notified() => {
                yield_now().await;
                self.append_waiting();
                true
            }
        }
    }

    /// Runs a flush where it is over sooner: on the core itself while that costs less than two hand-overs between
    /// threads, else in the flushes' lane.
    async fn run_flush(&self, flush: Flush, awaited: bool) -> (Flush, io::Result<()>) {
        let bytes = flush.total_bytes();
        let on_core = self.settings.flush_on_core
            && awaited
            && bytes <= CORE_FLUSH_BYTES_MAX
            && self.flushing.usual.get() <= CORE_FLUSH_TIME_MAX;
        let began = self.clock.monotonic();
        let outcome = match on_core {
            true => {
                let result = flush.run();
                (flush, result)
            }
            false => run(&self.threads.flushing, flush, Flush::run).await,
        };
        let took = self.clock.monotonic() - began;
        self.flushing
            .usual
            .set((self.flushing.usual.get() * 7 + took) / 8);
        self.counters.flush_latency.record(took);
        self.counters.flushed_bytes.add(bytes as u64);
        outcome
    }

    /// Takes a flush's outcome: commits what became durable, or steps down; then appends that waited for room have a turn.
    pub(super) fn apply_flush(&self, flush: Flush, result: io::Result<()>) {
        let result = if planted(Bug::FlushErrorIgnored) {
            Ok(())
        } else {
            result
        };
        let outcome = self.store.borrow_mut().flushed(flush, result);
        match outcome {
            Ok(durable) => self.commit(durable),
            Err(error) => self.step_down(&error.to_string()),
        }
        self.append_waiting();
        self.flushing.flushed.notify_waiters();
        self.file_is_wanted.notify_one();
        self.background.notify_one();
    }

    /// Tells the leaders how far their partitions are durable, and the store what they commit.
    fn commit(&self, durable: impl IntoIterator<Item = (PartitionId, Offset)>) {
        let mut store = self.store.borrow_mut();
        assert!(store.dead().is_none(), "a dead journal commits nothing");
        self.waiting
            .unflushed
            .borrow_mut()
            .settle(|frame| store.is_durable(frame));
        let mut partitions = self.partitions.borrow_mut();
        let mut strands = Vec::new();
        for (id, next_offset) in durable {
            // A partition may have been deleted while its last batch was on its way: nothing of it holds layout up.
            let Some(partition) = partitions.get_mut(&id) else {
                store.commit_to(id, next_offset);
                continue;
            };
            self.commit_one(&mut store, id, partition, next_offset);
            if let Some(topic) = partition.strand_of {
                strands.push((topic, partition.tail()));
            }
        }
        drop((store, partitions));
        self.commit_strands(&strands);
        self.note_flushed();
    }

    fn commit_one(&self, store: &mut Store, id: PartitionId, partition: &mut Partition, next_offset: Offset) {
        // Where there are other replicas, this node's own word is among those that its leader waits for.
        let Role::Lone(leader) = &mut partition.role else {
            return;
        };
        let (durable_before, tail_before) = (leader.durable_here(), leader.tail());
        leader
            .handle_durable(self.settings.node, next_offset)
            .expect("the journal flushes only what this leader appended");
        let (durable, tail) = (leader.durable_here(), leader.tail());
        assert!(
            durable_before.max(next_offset) <= durable,
            "the leader knows what the journal flushed, and what is durable stays so"
        );
        assert!(tail_before <= tail, "the tail never moves back");
        assert!(
            tail == tail_before || leader.durability() == Durability::Memory || tail <= durable,
            "with a replica set of one nothing is committed before it is durable here"
        );
        assert_eq!(
            store.bounds(id),
            Some((leader.log_start(), leader.next_offset())),
            "leader and store know the same log"
        );
        store.commit_to(id, tail);
        partition.act();
    }

    /// Steps down after a failed flush: appends that were not acknowledged are of unknown outcome, and none is accepted any more.
    fn step_down(&self, reason: &str) {
        tracing::error!(
            shard = self.index,
            reason,
            "the journal is dead; this node accepts no appends to it any more"
        );
        self.counters.faults.add(1);
        self.end_orders(reason);
        let failed = AppendRefusal::FlushFailed(reason.to_string());
        let mut has_members = false;
        let mut partitions = self.partitions.borrow_mut();
        let mut all: Vec<_> = partitions.iter_mut().collect();
        // So that everybody is told in one order.
        all.sort_unstable_by_key(|(id, _)| **id);
        for (_, partition) in all {
            partition.refuse_waiting(&failed);
            match &mut partition.role {
                Role::Lone(leader) => drop(leader.handle_seal()),
                Role::Member(member) => {
                    member.give_up();
                    has_members = true;
                }
            }
            partition.act();
            assert!(
                !partition.has_waiting_producers(),
                "a shard that steps down acknowledges nothing any more"
            );
        }
        drop(partitions);
        if has_members {
            self.note_dead();
        }
        self.refuse_waiting(&AppendRefusal::JournalDead(reason.to_string()));
        assert!(
            self.refuses().is_some(),
            "a journal whose flush failed takes nothing any more"
        );
    }

    /// Returns when the frames before this one are durable.
    ///
    /// # Errors
    /// `FlushFailed`: nobody knows what of them is on the disk.
    pub(super) async fn until_flushed(&self, before: u64) -> Result<(), AppendRefusal> {
        loop {
            // Listened for from here on: a flush that ends after the look is heard.
            let flushed = self.flushing.flushed.notified();
            {
                let store = self.store.borrow();
                if before == 0 || store.is_durable(before - 1) {
                    return Ok(());
                }
                if let Some(reason) = store.dead() {
                    return Err(AppendRefusal::FlushFailed(reason.to_string()));
                }
            }
            flushed.await;
        }
    }

    /// Closes the journal with an empty frame if nothing came into it since the last call, and all in it is durable. To be called
    /// about once a second.
    pub fn close_quiet_journal(&self) {
        let mut store = self.store.borrow_mut();
        let staged_before = store.staged_before();
        let is_quiet = self.flushing.looked_before.replace(staged_before) == staged_before;
        let is_flushed = staged_before > 0 && store.is_durable(staged_before - 1);
        if is_quiet && is_flushed && store.stage_closing_frame() {
            self.flushing.want();
        }
    }

    /// Puts a closing frame behind what is durable.
    async fn close_journal(&self) {
        let staged_before = {
            let mut store = self.store.borrow_mut();
            if !store.stage_closing_frame() {
                return;
            }
            store.staged_before()
        };
        self.flushing.want();
        // Should it fail, the records before it are durable all the same.
        let _ = self.until_flushed(staged_before).await;
    }

    /// Refuses appends from now on, and returns when everything staged is durable, or never will be because a flush failed.
    pub async fn drain(&self) {
        self.phase.set(Phase::Draining);
        self.refuse_waiting(&AppendRefusal::Stopping);
        self.flushing.want();
        let staged_before = self.store.borrow().staged_before();
        // After a flush that failed nothing more becomes durable.
        if self.until_flushed(staged_before).await.is_ok() {
            self.close_journal().await;
        }
        assert_eq!(
            self.appends_without_room(),
            0,
            "waiting producers were told, and none waits anew while the node stops"
        );
        // The core's threads are waited for.
        self.store.borrow().hurry_preparation();
    }
}
