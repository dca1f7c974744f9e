//! The book of a budget: who holds room, who waits for more, and who gets what becomes free. It knows no clock and no task.
//!
//! The invariant: *the claims can always be met one after the other.* A claim says at its beginning how much it may come to
//! hold, and gets more room only if all that it still misses is free at that moment, though it takes but a part. It can then be
//! met whatever becomes of the others, and give everything back; after that the book is as it was before. So claims that each
//! hold some and want more never wait for each other: the one that misses least finds what it misses, or will as soon as those
//! end that miss nothing. Nobody has to be cut off for that.
//!
//! A claim that holds some already goes before those that hold nothing. Among newcomers, the address that holds least goes
//! first, and of its claims those that miss little. So a large claim may be overtaken again and again. Therefore, once in
//! `TURN_EVERY`, the claim that has waited longest has `TURN_LASTS` to itself, in which no newcomer goes before it. Nobody
//! makes the others wait for longer.
//!
//! An address that holds an eighth of all room gets nothing of the last eighth for a new claim, and the turn of its claim goes before its
//! own claims alone. Answers that nobody takes keep the room of their requests for long: other addresses need not wait for that. Claims
//! that have begun to hold some are met all the same, so this leaves room where many small ones come, and none beside a few huge ones.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use indexmap::IndexMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A claim no larger than this part of what is free is met at once: those that come first cannot leave the others nothing.
const SHARE: usize = 16;
/// The last part of all room goes to no new claim of an address that holds as much already.
const LEFT_TO_OTHERS: usize = 8;
/// Once in this time, the claim that has waited longest goes before all newcomers for as long as `TURN_LASTS`.
const TURN_EVERY: Duration = Duration::from_secs(5);
pub(super) const TURN_LASTS: Duration = Duration::from_secs(1);

/// The address that a claim is made for, or `None` for the node's own. The payers share alike.
pub(super) type Payer = Option<IpAddr>;

/// Why a claim cannot have more at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// Less is free than it misses.
    Taken,
    /// Its payer would hold more than a payer may.
    Share,
}

/// A claim's name.
pub(super) type ClaimId = u64;

/// See the module.
pub(super) struct Ledger {
    bytes_max: usize,
    free_bytes: usize,
    next_claim: ClaimId,
    next_wait: u64,
    claims: IndexMap<ClaimId, Claim>,
    /// All that wait, in the order of their asking.
    waiting: BTreeMap<u64, ClaimId>,
    /// Those of them that hold some already, by what they miss.
    growing: BTreeSet<(usize, ClaimId)>,
    payers: IndexMap<Payer, Account>,
    /// The payers that have newcomers, by what they hold.
    lines: BTreeSet<(usize, Payer)>,
    /// When the longest wait was last given its turn.
    turn_at: Option<Instant>,
}

/// A claim: the bytes that it may come to hold, and those that it holds.
struct Claim {
    payer: Payer,
    need_bytes: usize,
    held_bytes: usize,
    waiting: Option<Wait>,
}

impl Claim {
    fn missing(&self) -> usize {
        self.need_bytes - self.held_bytes
    }
}

struct Wait {
    number: u64,
    since: Instant,
    to_bytes: usize,
    told: oneshot::Sender<()>,
}

/// The claims of one payer: the bytes that they hold together, and those of them that wait and hold nothing yet. Small ones go
/// first, and those of about the same size in the order of their asking.
#[derive(Default)]
struct Account {
    claims: usize,
    held_bytes: usize,
    newcomers: BTreeMap<(u32, u64), ClaimId>,
}

fn place_in_line(need_bytes: usize, wait: u64) -> (u32, u64) {
    (need_bytes.checked_ilog2().unwrap_or(0), wait)
}

impl Ledger {
    pub(super) fn new(bytes_max: usize) -> Ledger {
        let bytes_max = bytes_max.max(1);
        Ledger {
            bytes_max,
            free_bytes: bytes_max,
            next_claim: 0,
            next_wait: 0,
            claims: IndexMap::new(),
            waiting: BTreeMap::new(),
            growing: BTreeSet::new(),
            payers: IndexMap::new(),
            lines: BTreeSet::new(),
            turn_at: None,
        }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes_max - self.free_bytes
    }

    /// Says whether somebody waits.
    pub(super) fn is_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Begins a claim that may come to hold so much, or all there is if that is less. It holds nothing yet.
    pub(super) fn begin(&mut self, payer: Payer, need_bytes: usize) -> ClaimId {
        let id = self.next_claim;
        self.next_claim += 1;
        let claim = Claim {
            payer,
            need_bytes: need_bytes.min(self.bytes_max),
            held_bytes: 0,
            waiting: None,
        };
        self.claims.insert(id, claim);
        self.payers.entry(payer).or_default().claims += 1;
        id
    }

    /// Bytes that a claim holds.
    pub(super) fn held_by(&self, id: ClaimId) -> usize {
        self.claim(id).held_bytes
    }

    /// Bytes of its need that a claim misses.
    pub(super) fn missing(&self, id: ClaimId) -> usize {
        self.claim(id).missing()
    }

    /// Meets a new claim whole if it is small beside what is free and nobody waits.
    pub(super) fn meet_small(&mut self, id: ClaimId) -> bool {
        let claim = self.claim(id);
        let (to_bytes, missing) = (claim.need_bytes, claim.missing());
        let is_small = !self.is_wanted() && missing <= self.free_for(id) / SHARE;
        if is_small {
            self.hold(id, to_bytes);
        }
        is_small
    }

    /// Gives a claim room up to `to_bytes`, of its need at most. If it has to wait for that, tells when it has it.
    pub(super) fn grow(
        &mut self,
        id: ClaimId,
        to_bytes: usize,
        now: Instant,
    ) -> Option<oneshot::Receiver<()>> {
        let claim = self.claim(id);
        assert!(claim.waiting.is_none(), "a claim waits once");
        let to_bytes = to_bytes.min(claim.need_bytes);
        if to_bytes <= claim.held_bytes {
            return None;
        }
        if !self.is_wanted() && claim.missing() <= self.free_for(id) {
            self.hold(id, to_bytes);
            return None;
        }
        let (told, tells) = oneshot::channel();
        self.queue(id, to_bytes, now, told);
        self.serve(now);
        self.claim(id).waiting.is_some().then_some(tells)
    }

    /// Makes a claim one for `bytes`: gives back what it holds beyond that, or takes the rest if it is free now. Of what it takes
    /// no payer may come to hold more than `payer_bytes_max`.
    pub(super) fn resize(
        &mut self,
        id: ClaimId,
        bytes: usize,
        payer_bytes_max: usize,
        now: Instant,
    ) -> Result<(), NoRoom> {
        let bytes = bytes.min(self.bytes_max);
        let claim = self.claim(id);
        let more = bytes.saturating_sub(claim.held_bytes);
        let payers = self.payers[&claim.payer].held_bytes;
        if more > 0 && payers + more > payer_bytes_max {
            return Err(NoRoom::Share);
        }
        if more > self.free_bytes {
            return Err(NoRoom::Taken);
        }
        self.claim_mut(id).need_bytes = bytes;
        self.hold(id, bytes);
        self.serve(now);
        Ok(())
    }

    /// Has a claim wait no more.
    pub(super) fn give_up(&mut self, id: ClaimId, now: Instant) {
        if self.unqueue(id).is_some() {
            self.serve(now);
        }
    }

    /// Ends a claim: what it holds is free.
    pub(super) fn end(&mut self, id: ClaimId, now: Instant) {
        self.unqueue(id);
        self.hold(id, 0);
        let claim = self.claims.swap_remove(&id).expect("a claim ends once");
        let account = self.payers.get_mut(&claim.payer).expect("a claim has a payer");
        account.claims -= 1;
        if account.claims == 0 {
            self.payers.swap_remove(&claim.payer);
        }
        self.serve(now);
    }

    /// Gives what is free to those that wait. To be called again while somebody waits: turns come and go by themselves.
    pub(super) fn serve(&mut self, now: Instant) {
        while let Some((missing, id)) = self.growing.first().copied() {
            if missing > self.free_bytes {
                break;
            }
            self.grant(id);
        }
        while let Some(id) = self.next_newcomer(now) {
            if self.claim(id).missing() > self.free_for(id) {
                break;
            }
            self.grant(id);
        }
    }

    /// Bytes that are free for a claim. One that holds some was promised the rest when it got them.
    fn free_for(&self, id: ClaimId) -> usize {
        let claim = self.claim(id);
        match claim.held_bytes == 0 && self.has_share(claim.payer) {
            true => self.free_bytes.saturating_sub(self.bytes_max / LEFT_TO_OTHERS),
            false => self.free_bytes,
        }
    }

    /// Says whether an address holds as much as is left to others.
    fn has_share(&self, payer: Payer) -> bool {
        payer.is_some() && self.payers[&payer].held_bytes >= self.bytes_max / LEFT_TO_OTHERS
    }

    /// The newcomer to go next; none while another claim has its turn.
    fn next_newcomer(&mut self, now: Instant) -> Option<ClaimId> {
        let (_, first) = self.waiting.first_key_value()?;
        let first = *first;
        if !self.has_turn(first, now) {
            let (_, payer) = self.lines.first()?;
            return self.first_in_line(*payer);
        }
        let claim = self.claim(first);
        if claim.held_bytes > 0 {
            return None;
        }
        // Of an address that has its share, it goes before that one's other claims alone.
        let mut others = self.lines.iter().filter(|(_, payer)| *payer != claim.payer);
        match others.next().filter(|_| self.has_share(claim.payer)) {
            Some((_, payer)) => self.first_in_line(*payer),
            None => Some(first),
        }
    }

    fn first_in_line(&self, payer: Payer) -> Option<ClaimId> {
        let line = &self.payers[&payer].newcomers;
        line.first_key_value().map(|(_, id)| *id)
    }

    /// Says whether the claim that has waited longest goes before all newcomers now.
    fn has_turn(&mut self, first: ClaimId, now: Instant) -> bool {
        let wait = self.claim(first).waiting.as_ref();
        let since = wait.expect("it is among those that wait").since;
        if now < since + TURN_EVERY {
            return false;
        }
        let turn_at = match self.turn_at {
            Some(turn_at) if now < turn_at + TURN_EVERY => turn_at,
            _ => *self.turn_at.insert(now),
        };
        now < turn_at + TURN_LASTS
    }

    fn grant(&mut self, id: ClaimId) {
        let wait = self.unqueue(id).expect("who waits is granted");
        self.hold(id, wait.to_bytes);
        // A request that has given up meanwhile ends the claim, or asks again.
        let _ = wait.told.send(());
    }

    fn hold(&mut self, id: ClaimId, bytes: usize) {
        let claim = self.claims.get_mut(&id).expect("a claim has not ended");
        assert!(
            bytes <= claim.need_bytes || bytes == 0,
            "no claim holds more than it needs"
        );
        let held = std::mem::replace(&mut claim.held_bytes, bytes);
        let payer = claim.payer;
        self.free_bytes = (self.free_bytes + held)
            .checked_sub(bytes)
            .expect("what is taken is free");
        let account = self.payers.get_mut(&payer).expect("a claim has a payer");
        let before = account.held_bytes;
        account.held_bytes = before + bytes - held;
        let after = account.held_bytes;
        if self.lines.remove(&(before, payer)) {
            self.lines.insert((after, payer));
        }
    }

    fn queue(&mut self, id: ClaimId, to_bytes: usize, now: Instant, told: oneshot::Sender<()>) {
        let number = self.next_wait;
        self.next_wait += 1;
        let claim = self.claims.get_mut(&id).expect("a claim has not ended");
        claim.waiting = Some(Wait {
            number,
            since: now,
            to_bytes,
            told,
        });
        self.waiting.insert(number, id);
        if claim.held_bytes > 0 {
            self.growing.insert((claim.missing(), id));
            return;
        }
        let account = self.payers.get_mut(&claim.payer).expect("a claim has a payer");
        account
            .newcomers
            .insert(place_in_line(claim.need_bytes, number), id);
        self.lines.insert((account.held_bytes, claim.payer));
    }

    fn unqueue(&mut self, id: ClaimId) -> Option<Wait> {
        let claim = self.claims.get_mut(&id).expect("a claim has not ended");
        let wait = claim.waiting.take()?;
        self.waiting.remove(&wait.number);
        if claim.held_bytes > 0 {
            self.growing.remove(&(claim.missing(), id));
            return Some(wait);
        }
        let account = self.payers.get_mut(&claim.payer).expect("a claim has a payer");
        account
            .newcomers
            .remove(&place_in_line(claim.need_bytes, wait.number));
        if account.newcomers.is_empty() {
            self.lines.remove(&(account.held_bytes, claim.payer));
        }
        Some(wait)
    }

    fn claim(&self, id: ClaimId) -> &Claim {
        self.claims.get(&id).expect("a claim has not ended")
    }

    fn claim_mut(&mut self, id: ClaimId) -> &mut Claim {
        self.claims.get_mut(&id).expect("a claim has not ended")
    }
}

#[cfg(test)]
mod tests;
