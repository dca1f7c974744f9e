//! The state that a leader starts from: the replicas are the metadata's word, the log's ends and history are storage's.

use std::fmt;
use std::time::Duration;

use record::{Epoch, Logged, Offset};

use crate::history::{BatchFacts, History, RecoverError};
use crate::producers::{ProducerId, ProducerLimits};

/// A node of the cluster (Kafka's broker id). Never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub i32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The promise in a replica's acknowledgement (`ropewalk.durability`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// The batch has been flushed to disk.
    #[default]
    Flushed,
    /// The batch has been received: a power cut may lose it. A topic's explicit choice.
    Memory,
}

/// A replica and how far it has acknowledged the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replica {
    /// Its node.
    pub node: NodeId,
    /// The first offset it has not acknowledged.
    pub next_offset: Offset,
}

/// The state that a leader starts from. `log_start <= tail <= next_offset`; the leader's own replica is among the replicas. An
/// acknowledgement counts in the epoch that it was given in: a leader with followers starts from none, its own included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderState {
    /// The leader's own node.
    pub node: NodeId,
    /// The epoch to open: above every epoch in the log.
    pub epoch: Epoch,
    /// The first offset that has not been given up.
    pub log_start: Offset,
    /// The first offset not known to be committed, as sealing the last epoch has proved. A node that is its own ack quorum may
    /// pass `log_start`, and commits all it holds on opening.
    pub tail: Offset,
    /// The end of the log.
    pub next_offset: Offset,
    /// The promise in an acknowledgement.
    pub durability: Durability,
    /// The replicas, each once.
    pub replicas: Vec<Replica>,
    /// The number of them that must acknowledge; between one and all.
    pub ack_quorum: usize,
    /// The epochs and producers of the log up to `next_offset`.
    pub history: History,
}

/// A partition's log as recovery found it.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The first offset that has not been given up.
    pub log_start: Offset,
    /// The end of the log.
    pub next_offset: Offset,
    /// The history as the last checkpoint has it; empty if there was none.
    pub snapshot: &'a [u8],
    /// The batches that the snapshot does not cover, in order.
    pub batches: &'a [Logged],
}

impl LeaderState {
    /// The state of a leader without followers, over what recovery found if the partition is not new. It opens the given
    /// epoch, or the one after the latest in the log. `next_id` is the first producer id that nobody was given yet.
    ///
    /// # Errors
    /// The log that was found contradicts itself, or the metadata.
    pub fn recover(
        node: NodeId,
        epoch: Option<Epoch>,
        now: Duration,
        limits: ProducerLimits,
        next_id: ProducerId,
        found: Option<Found<'_>>,
    ) -> Result<LeaderState, RecoverError> {
        let (log_start, next_offset, mut history) = match found {
            None => (Offset::ZERO, Offset::ZERO, History::new(limits)),
            Some(found) => {
                let batches = found.batches.iter().map(BatchFacts::of);
                let history = History::recover(now, limits, found.snapshot, found.next_offset, batches)?;
                (found.log_start, found.next_offset, history)
            }
        };
        history.producers.begin_at(next_id);
        let latest = history.epochs.latest();
        let epoch = epoch.unwrap_or_else(|| latest.map_or(Epoch(0), |latest| Epoch(latest.0 + 1)));
        match latest.filter(|latest| *latest >= epoch) {
            Some(latest) => Err(RecoverError::EpochPassed { epoch, latest }),
            None => Ok(LeaderState::single(node, epoch, log_start, next_offset, history)),
        }
    }

    /// The state of a leader without followers: its own flush commits.
    #[must_use]
    pub fn single(
        node: NodeId,
        epoch: Epoch,
        log_start: Offset,
        next_offset: Offset,
        history: History,
    ) -> LeaderState {
        LeaderState {
            node,
            epoch,
            log_start,
            tail: log_start,
            next_offset,
            durability: Durability::Flushed,
            replicas: vec![Replica { node, next_offset }],
            ack_quorum: 1,
            history,
        }
    }

    pub(super) fn assert_sound(&self) {
        assert!(Offset::ZERO <= self.log_start, "offsets begin at zero");
        assert!(
            self.log_start <= self.tail,
            "what was given up had been committed"
        );
        assert!(self.tail <= self.next_offset, "what was committed is in the log");
        assert!(self.ack_quorum >= 1, "somebody has to acknowledge");
        assert!(self.ack_quorum <= self.replicas.len(), "an ack quorum can be met");
        assert!(
            self.own_replica().next_offset <= self.next_offset,
            "the leader acknowledges its own log at most"
        );
        for (index, replica) in self.replicas.iter().enumerate() {
            let again = self.replicas[..index]
                .iter()
                .any(|other| other.node == replica.node);
            assert!(!again, "node {} holds one replica", replica.node);
        }
    }

    pub(super) fn own_replica(&self) -> &Replica {
        self.replicas
            .iter()
            .find(|replica| replica.node == self.node)
            .expect("the leader holds a replica")
    }

    /// The highest offset below which at least so many replicas, of those that there are, have acknowledged everything.
    pub(super) fn held_by(&self, count: usize) -> Offset {
        let acknowledged_by = |offset: Offset| {
            self.replicas
                .iter()
                .filter(|replica| replica.next_offset >= offset)
                .count()
        };
        // Replica sets are a handful: counting for each is cheaper than sorting a copy.
        self.replicas
            .iter()
            .map(|replica| replica.next_offset)
            .filter(|offset| acknowledged_by(*offset) >= count)
            .max()
            .expect("the lowest acknowledgement is met by all, and the count is at most all")
    }
}
