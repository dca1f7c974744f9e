//! Damaged segments are written anew, one at a time: sound chunks are copied, the others are lent.
//!
//! It rests after each step as long as that took, and steps aside while appends wait for room. A segment that cannot be written now is
//! tried again later; until then readers are lent what they need.

use std::rc::Rc;
use std::time::Duration;

use storage::{Damage, NotNow, Repair, RepairEnd, RepairStep, Rewrite};
use tokio::time::{sleep, timeout};

use crate::{Chore, Phase, Shard};

/// Before a segment is looked at again that is in use.
const USE_REST: Duration = Duration::from_millis(500);
/// Before one is tried again that nobody lends, or that the disk has no room for.
const FAILURE_REST: Duration = Duration::from_secs(30);
/// The pause while there is no room for appends.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(50);
/// Wished for at once where all of a segment is to be lent.
const LENT_BYTES: usize = 1 << 20;

/// The outcome of an attempt.
enum Mended {
    Done,
    Gone,
    InUse,
    Failed(String),
}

impl Shard {
    /// Writes damaged segments anew, until the node stops.
    pub(super) async fn mend_for_ever(self: Rc<Self>) {
        loop {
            match self.repairs.take(self.clock.monotonic()) {
                Ok(damage) => self.mend_one(damage).await,
                Err(Some(wait)) => {
                    let _ = timeout(wait, self.repairs.news.notified()).await;
                }
                Err(None) => self.repairs.news.notified().await,
            }
        }
    }

    async fn mend_one(&self, damage: Damage) {
        self.repairs.mending.set(Some(damage.mark()));
        let mended = self.mend(&damage).await;
        self.repairs.mending.set(None);
        let (id, mark) = (damage.partition(), damage.mark());
        let now = self.clock.monotonic();
        match mended {
            Mended::Done => {
                self.note_success(Chore::Repair);
                self.repairs.forget(&mark);
            }
            Mended::Gone => {
                tracing::info!(partition = %id, "a damaged segment is gone");
                self.repairs.forget(&mark);
            }
            Mended::InUse => self.repairs.put_back(damage, now + USE_REST),
            Mended::Failed(why) => {
                self.counters.repair.failures.add(1);
                self.note_failure(Chore::Repair, &format!("{id}: {why}"));
                self.repairs.put_back(damage, now + FAILURE_REST);
            }
        }
    }

    async fn mend(&self, damage: &Damage) -> Mended {
        let reserve = self.settings.disk_reserve_bytes;
        let begun = self.store.borrow_mut().begin_repair(damage, reserve);
        let mut repair = match begun {
            Ok(repair) => repair,
            Err(NotNow::Gone) => return Mended::Gone,
            Err(NotNow::InUse) => return Mended::InUse,
            Err(NotNow::Unrecorded) => {
                self.layout.want_all();
                self.background.notify_one();
                return Mended::InUse;
            }
            Err(NotNow::Unable) => return Mended::Failed(NotNow::Unable.to_string()),
        };
        loop {
            if self.phase.get() == Phase::Draining || self.store.borrow().dead().is_some() {
                return self.give_up(repair, Mended::InUse).await;
            }
            if self.appends_without_room() > 0 {
                sleep(NO_ROOM_PAUSE).await;
                continue;
            }
            let began = self.clock.monotonic();
            let run = move || {
                let step = repair.step();
                (repair, step)
            };
            let step;
            (repair, step) = self.threads.pool.run(run).await;
            match step {
                Ok(RepairStep::More) => sleep(self.clock.monotonic() - began).await,
                Ok(RepairStep::Wants(lost, from)) => {
                    if let Err(why) = self.lend_to(&mut repair, *lost, from).await {
                        return self.give_up(repair, Mended::Failed(why)).await;
                    }
                }
                Ok(RepairStep::Written(rewrite)) => return self.put_in_place(&repair, &rewrite),
                Ok(RepairStep::Sound) => return self.give_up(repair, Mended::Done).await,
                Ok(RepairStep::NoRoom(bytes)) => {
                    let why = format!("the disk has no room for {bytes} bytes beside its reserve");
                    return self.give_up(repair, Mended::Failed(why)).await;
                }
                Err(fault) => return self.give_up(repair, Mended::Failed(fault.to_string())).await,
            }
        }
    }

    async fn lend_to(&self, repair: &mut Repair, lost: Damage, from: record::Offset) -> Result<(), String> {
        let lent = self.borrow(&lost, from, lost.range().1, LENT_BYTES).await;
        let (first, next) = lost.range();
        self.note_damage(lost);
        let lent = lent.ok_or_else(|| format!("no replica lends offsets {first}..{next}"))?;
        repair.lend(lent)
    }

    fn put_in_place(&self, repair: &Repair, rewrite: &Rewrite) -> Mended {
        match self.store.borrow_mut().repaired(repair, rewrite) {
            RepairEnd::InPlace => {}
            RepairEnd::Gone => return Mended::Gone,
        }
        self.counters.repair.repairs.add(1);
        self.background.notify_one();
        let (first, next) = repair.range();
        tracing::info!(
            shard = self.index,
            partition = %repair.partition(),
            first = first.0,
            last = next.0 - 1,
            ranges = rewrite.ranges,
            "a damaged segment was written anew with what another replica has lent"
        );
        Mended::Done
    }

    /// Takes away what was written.
    async fn give_up(&self, repair: Repair, why: Mended) -> Mended {
        let abandoned = self.store.borrow_mut().end_repair(repair);
        self.threads.pool.run(move || abandoned.run()).await;
        why
    }
}
