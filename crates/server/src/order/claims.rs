//! Appends that depend on the tail, where several nodes can hold the topic: its position is promised before the append is staged.
//!
//! ```text
//!   append ──► leader of the lane: keeps silent ──► scribe, of this node: promises ──► staged at the offset that was told ──► committed ──► report ──► page
//! ```
//! The lane's leader and the scribe are on one node nearly always, for the controller has them so; elsewhere and while the order is without a scribe such
//! appends wait a while. One at a time of each topic: the next one finds the tail moved. Nothing here may end a claim whose append may have been staged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use protocol::order::{Claim, ClaimRefusal, LANE};
use record::{Epoch, Offset, PartitionId, Position, TopicId};
use shard::{AppendAnswer, AppendOutcome, AppendRefusal, AppendRequest, Conditions};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, sleep};

use crate::append_path::send_from_outside;
use crate::core::{Core, NodeFacts};

/// Before a scribe is asked again that is not settled.
const REST: Duration = Duration::from_millis(10);
/// An append is refused that has waited so long for one.
const PATIENCE: Duration = Duration::from_secs(2);

/// The topics with appends under way that depend on the tail.
#[derive(Default)]
pub(super) struct Claims(RefCell<BTreeMap<TopicId, Rc<Mutex<()>>>>);

impl Claims {
    fn of(&self, topic: TopicId) -> Rc<Mutex<()>> {
        let mut all = self.0.borrow_mut();
        all.retain(|_, line| Rc::strong_count(line) > 1);
        all.entry(topic).or_default().clone()
    }
}

/// Hands an append to its partition's core, with its conditions.
pub(crate) fn send_on_condition(
    facts: &NodeFacts,
    (request, answer): (AppendRequest, AppendAnswer),
    conditions: Conditions,
) -> AppendAnswer {
    let Some(tail) = conditions.tail.filter(|_| facts.is_member) else {
        send_from_outside(facts, request.only_if(conditions));
        return answer;
    };
    let (reply, outcome) = oneshot::channel();
    let core = facts.owner_of(request.partition());
    facts.mailboxes.send(core, move |core| {
        let core = core.clone();
        platform::turns::spawn(async move {
            let appended = core.append_at(request, answer, (tail, conditions.offset)).await;
            // A client that has gone does not wait any more.
            let _ = reply.send(appended);
        });
    });
    outcome
}

impl Core {
    /// On the core of a partition: appends to it if the first record gets this position, and this offset.
    async fn append_at(
        &self,
        request: AppendRequest,
        answer: AppendAnswer,
        (wanted, offset): (Position, Option<Offset>),
    ) -> Result<AppendOutcome, AppendRefusal> {
        let id = request.partition();
        if id.index != LANE {
            return Err(AppendRefusal::NotInLane);
        }
        let line = self.orders.claims.of(id.topic);
        let _turn = line.lock().await;
        let (epoch, first) = self.claim(id, wanted).await?;
        let shard = self.shard(self.facts.shard_of(id));
        if let Some(wanted) = offset.filter(|offset| *offset != first) {
            shard.end_claim(id);
            return Err(AppendRefusal::OffsetMoved { wanted, next: first });
        }
        let at = Conditions {
            tail: None,
            offset: Some(first),
        };
        // Nothing of the order goes on until it is staged: it does not wait for room.
        shard.append(request.only_if(at).in_epoch(Some(epoch)).at_once());
        let outcome = answer.await.unwrap_or(Err(AppendRefusal::Stopping));
        outcome.map_err(|refusal| {
            shard.end_claim(id);
            match refusal {
                AppendRefusal::OffsetMoved { .. } => AppendRefusal::TailMoved { wanted, tail: wanted },
                other => other,
            }
        })
    }

    /// Returns the epoch and the offset at which an append gets a position, if nothing else is appended before.
    async fn claim(&self, id: PartitionId, position: Position) -> Result<(Epoch, Offset), AppendRefusal> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.claim_once(id, position).await? {
                Some(place) => return Ok(place),
                None if until <= Instant::now() => return Err(AppendRefusal::OrderNotOpen),
                None => sleep(REST).await,
            }
        }
    }

    /// The same; `None` if the scribe is not settled, or not here.
    async fn claim_once(
        &self,
        id: PartitionId,
        position: Position,
    ) -> Result<Option<(Epoch, Offset)>, AppendRefusal> {
        let shard = self.shard(self.facts.shard_of(id));
        // In one turn: what the leader has reported before, it has reported to this scribe or to an earlier one.
        let (scribe, begun) = (self.scribe_of(id.topic), shard.begin_claim(id)?);
        let Some((epoch, first)) = begun else {
            return Ok(None);
        };
        let Some((_, scribe)) = scribe.filter(|(node, _)| *node == self.facts.node) else {
            shard.end_claim(id);
            return Ok(None);
        };
        let claim = Claim {
            scribe,
            epoch,
            first,
            position,
        };
        let topic = id.topic;
        let asked = self
            .facts
            .mailboxes
            .carry_out(self.facts.home_of(topic), move |core| async move {
                core.handle_claim(topic, &claim)
            });
        match asked.await.unwrap_or(Err(ClaimRefusal::Unsettled)) {
            Ok(()) => Ok(Some((epoch, first))),
            Err(refusal) => {
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
    }
}
