//! The way of claims: from the leader of a topic's lane, where appends wait that depend on the tail (`shard/claims.rs`), to the scribe of its order.
//!
//! Both are on one node nearly always, for the controller has them so; elsewhere, and while the order is without a scribe, such appends wait a while. Of each topic one claim
//! is carried at a time: whoever waits behind it finds the tail moved.

use std::rc::Rc;
use std::time::Duration;

use protocol::order::{Claim, ClaimRefusal};
use record::{Offset, PartitionId, Position};
use shard::{AppendRefusal, Claimed, Shard};
use tokio::time::{Instant, sleep};

use crate::core::Core;

/// Before a scribe is asked again that is not settled, or a leader whose last append is not ordered.
const REST: Duration = Duration::from_millis(10);
/// Those that wait are refused when the first of them has waited so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// Carries the claims of a shard, until the node stops.
pub(crate) async fn carry_claims(core: Rc<Core>, shard: Rc<Shard>) {
    loop {
        shard.until_claims().await;
        for id in shard.claiming() {
            if core.orders.claiming.borrow_mut().insert(id) {
                platform::turns::spawn(core.clone().carry_claims_of(shard.clone(), id));
            }
        }
    }
}

impl Core {
    /// Carries the claims of a partition, until none waits there.
    async fn carry_claims_of(self: Rc<Self>, shard: Rc<Shard>, id: PartitionId) {
        let mut until = Instant::now() + PATIENCE;
        // The append that was promised its position just now: the next one waits until that is ordered, once.
        let mut staged: Option<Offset> = None;
        while let Some(position) = shard.next_claim(id) {
            match self.carry_claim(&shard, id, position).await {
                Ok(Some(claimed)) => {
                    shard.append_claimed(id, position);
                    staged = Some(claimed.first);
                }
                Ok(None) if until <= Instant::now() => {
                    shard.refuse_claims(id, &AppendRefusal::OrderNotOpen);
                }
                Ok(None) => {
                    match staged.take() {
                        Some(first) => shard.until_shown(id, first, REST).await,
                        None => sleep(REST).await,
                    }
                    continue;
                }
                Err(refusal) => shard.refuse_claim(id, position, refusal),
            }
            until = Instant::now() + PATIENCE;
        }
        self.orders.claiming.borrow_mut().remove(&id);
    }

    /// Returns the place of an append whose position is promised; `None` if the scribe is not settled, or an append before it is not ordered: ask again.
    async fn carry_claim(
        &self,
        shard: &Rc<Shard>,
        id: PartitionId,
        position: Position,
    ) -> Result<Option<Claimed>, AppendRefusal> {
        // In one turn: what the leader has reported before, it has reported to this scribe or to an earlier one.
        let scribe = self
            .scribe_of(id.topic)
            .filter(|(node, _)| *node == self.facts.node);
        let Some((_, scribe)) = scribe.filter(|_| shard.has_lease(id).is_ok_and(|is_held| is_held)) else {
            return Ok(None);
        };
        let Some(claimed) = shard.begin_claim(id)? else {
            return Ok(None);
        };
        let claim = Claim {
            scribe,
            epoch: claimed.epoch,
            first: claimed.first,
            position,
        };
        let topic = id.topic;
        let asked = self
            .facts
            .mailboxes
            .carry_out(self.facts.home_of(topic), move |core| async move {
                core.handle_claim(topic, &claim)
            });
        let refusal = match asked.await.unwrap_or(Err(ClaimRefusal::Unsettled)) {
            Ok(()) => return Ok(Some(claimed)),
            Err(refusal) => refusal,
        };
        shard.end_claim(id);
        match refusal {
            ClaimRefusal::Unsettled => Ok(None),
            ClaimRefusal::TailMoved { tail } => Err(AppendRefusal::TailMoved {
                wanted: position,
                tail,
            }),
        }
    }
}
