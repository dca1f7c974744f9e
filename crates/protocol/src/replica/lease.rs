//! Leases: how long a leader may take its tail for the latest without asking anybody.
//!
//! Stands between the links of a shard and whoever is told a tail. Nodes give each other beats. A beat tells how long ago which beat of the other came, so
//! its receiver knows a time of its own clock at which the sender still listened to it; a leader that an ack quorum has listened to within [`LEASE`]
//! knows of every later epoch that may have been opened. For a replica that promises one tells the new leader how long the one before may believe in
//! itself by the beats that it was sent, and the new leader waits for that. It must never be told less.
//!
//! Times are of clocks that also run while the machine sleeps. Those of two nodes may run apart by a tenth each.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::leader::NodeId;

/// The time for which a leader may believe by a beat, counted by its own clock from when its sender is known to have listened.
pub const LEASE: Duration = Duration::from_millis(250);
/// The time for which the sender of a beat has to expect that: by its own clock, which may be the faster one.
pub const GRANT: Duration = Duration::from_nanos(LEASE.as_nanos() as u64 / 4 * 5);

/// A beat between two shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// The time at which it was sent, by the sender's clock. It means something only to the sender.
    pub sent: Duration,
    /// The latest beat that came from the receiver.
    pub echo: Option<Echo>,
}

/// A beat that came, told back to its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The time at which it was sent, by its sender's clock.
    pub sent: Duration,
    /// The time since it came, by the other clock.
    pub held: Duration,
}

/// A leader that may still believe that it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Believer {
    /// Its node; `None` if the sender cannot tell.
    pub node: Option<NodeId>,
    /// The time that is left to it at most, by the sender's clock.
    pub left: Duration,
}

/// The beats of a shard with those of other nodes.
#[derive(Debug, Clone)]
pub struct Leases {
    peers: BTreeMap<NodeId, Peer>,
    /// A process before this one may have given beats that count until then.
    unknown_until: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Peer {
    /// When the link was taken that it has now.
    linked_at: Option<Duration>,
    /// The latest beat that came over the link, and when.
    heard: Option<(Duration, Duration)>,
    /// A time at which the peer listened to this node.
    listened_at: Option<Duration>,
    /// By the beats that it was given, the peer may believe until then.
    believes_until: Duration,
}

impl Leases {
    /// None yet, in a process that has started `now`.
    #[must_use]
    pub fn new(now: Duration) -> Leases {
        Leases {
            peers: BTreeMap::new(),
            unknown_until: now + GRANT,
        }
    }

    /// Begins anew with a node whose link was taken. Beats of an earlier link must not come here any more.
    pub fn handle_link(&mut self, now: Duration, peer: NodeId) {
        let peer = self.peers.entry(peer).or_default();
        (peer.linked_at, peer.heard, peer.listened_at) = (Some(now), None, None);
    }

    /// Takes note that a node has no link any more. If the node has closed it itself, it believes by no beat of it any more: whoever closes a link
    /// calls this first.
    pub fn handle_link_lost(&mut self, peer: NodeId, was_closed: bool) {
        let peer = self.peers.entry(peer).or_default();
        if was_closed && peer.heard.is_some() {
            peer.believes_until = Duration::ZERO;
        }
        (peer.linked_at, peer.heard, peer.listened_at) = (None, None, None);
    }

    /// Takes a beat.
    pub fn handle_beat(&mut self, now: Duration, from: NodeId, beat: Beat) {
        let Some(peer) = self.peers.get_mut(&from).filter(|peer| peer.linked_at.is_some()) else {
            return;
        };
        peer.heard = Some((beat.sent, now));
        if let Some(echo) = beat.echo.filter(|echo| echo.sent <= now) {
            // The other clock may be the faster one.
            let listened_at = echo.sent.saturating_add(echo.held / 5 * 4).min(now);
            peer.listened_at = peer.listened_at.max(Some(listened_at));
        }
    }

    /// The beat to send to a node. All that was said to it before has to reach it before this beat does.
    pub fn next_beat(&mut self, now: Duration, to: NodeId) -> Beat {
        let peer = self.peers.entry(to).or_default();
        if peer.heard.is_some() {
            peer.believes_until = peer.believes_until.max(now + GRANT);
        }
        let echo = peer.heard.map(|(sent, at)| Echo {
            sent,
            held: now.saturating_sub(at),
        });
        Beat { sent: now, echo }
    }

    /// Says whether a node has listened to this one within [`LEASE`].
    #[must_use]
    pub fn is_held(&self, now: Duration, peer: NodeId) -> bool {
        let listened_at = self.peers.get(&peer).and_then(|peer| peer.listened_at);
        listened_at.is_some_and(|at| now.saturating_sub(at) < LEASE)
    }

    /// Says whether nothing was heard from a node for as long as `patience`, though it is linked, or it is not linked.
    #[must_use]
    pub fn is_silent(&self, now: Duration, peer: NodeId, patience: Duration) -> bool {
        let since = self
            .peers
            .get(&peer)
            .and_then(|peer| peer.listened_at.max(peer.linked_at));
        since.is_none_or(|since| now.saturating_sub(since) >= patience)
    }

    /// Until when a node may believe by the beats that it was given.
    #[must_use]
    pub fn believes_until(&self, peer: NodeId) -> Duration {
        self.peers
            .get(&peer)
            .map_or(Duration::ZERO, |peer| peer.believes_until)
    }

    /// Until when anybody may believe by the beats of a process before this one.
    #[must_use]
    pub fn unknown_until(&self) -> Duration {
        self.unknown_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADER: NodeId = NodeId(1);
    const FOLLOWER: NodeId = NodeId(2);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// The leader's side and the follower's, linked at their 1000 ms.
    fn linked() -> (Leases, Leases) {
        let (mut leader, mut follower) = (Leases::new(ms(0)), Leases::new(ms(0)));
        leader.handle_link(ms(1000), FOLLOWER);
        follower.handle_link(ms(1000), LEADER);
        (leader, follower)
    }

    #[test]
    fn a_leader_believes_from_when_it_was_listened_to_and_the_follower_expects_longer() {
        let (mut leader, mut follower) = linked();
        let beat = leader.next_beat(ms(1000), FOLLOWER);
        assert_eq!(follower.believes_until(LEADER), ms(0), "nothing was given");
        follower.handle_beat(ms(1010), LEADER, beat);
        let answer = follower.next_beat(ms(1110), LEADER);
        assert!(!leader.is_held(ms(1120), FOLLOWER));
        leader.handle_beat(ms(1120), FOLLOWER, answer);
        // It was sent at 1000 and held for 100, of which a faster clock leaves 80.
        assert!(leader.is_held(ms(1329), FOLLOWER) && !leader.is_held(ms(1330), FOLLOWER));
        assert_eq!(follower.believes_until(LEADER), ms(1110) + GRANT);
        assert!(ms(1330) < follower.believes_until(LEADER));
    }

    #[test]
    fn an_echo_of_the_future_or_of_an_earlier_link_counts_nothing() {
        let (mut leader, mut follower) = linked();
        let beat = leader.next_beat(ms(1000), FOLLOWER);
        follower.handle_beat(ms(1010), LEADER, beat);
        let answer = follower.next_beat(ms(1020), LEADER);
        leader.handle_link_lost(FOLLOWER, false);
        leader.handle_beat(ms(1030), FOLLOWER, answer);
        assert!(!leader.is_held(ms(1030), FOLLOWER));
        leader.handle_link(ms(1040), FOLLOWER);
        let echo = Some(Echo {
            sent: ms(9000),
            held: ms(0),
        });
        leader.handle_beat(ms(1050), FOLLOWER, Beat { sent: ms(5), echo });
        assert!(!leader.is_held(ms(1050), FOLLOWER));
        let echo = Some(Echo {
            sent: ms(1040),
            held: ms(9000),
        });
        leader.handle_beat(ms(1050), FOLLOWER, Beat { sent: ms(6), echo });
        assert!(leader.is_held(ms(1050), FOLLOWER) && !leader.is_held(ms(1300), FOLLOWER));
    }

    #[test]
    fn a_link_that_the_leader_closed_is_believed_in_no_more_and_one_that_was_lost_is() {
        for was_closed in [false, true] {
            let (mut leader, mut follower) = linked();
            follower.handle_beat(ms(1010), LEADER, leader.next_beat(ms(1000), FOLLOWER));
            follower.next_beat(ms(1020), LEADER);
            follower.handle_link_lost(LEADER, was_closed);
            let until = if was_closed { ms(0) } else { ms(1020) + GRANT };
            assert_eq!(follower.believes_until(LEADER), until);
        }
        // A link over which nothing came says nothing of the one before.
        let (mut leader, mut follower) = linked();
        follower.handle_beat(ms(1010), LEADER, leader.next_beat(ms(1000), FOLLOWER));
        follower.next_beat(ms(1020), LEADER);
        follower.handle_link_lost(LEADER, false);
        follower.handle_link(ms(1030), LEADER);
        follower.handle_link_lost(LEADER, true);
        assert_eq!(follower.believes_until(LEADER), ms(1020) + GRANT);
    }

    #[test]
    fn a_node_is_silent_when_it_is_not_linked_or_has_not_listened_for_long() {
        let (mut leader, mut follower) = linked();
        assert!(leader.is_silent(ms(1000), NodeId(3), ms(500)));
        assert!(
            !leader.is_silent(ms(1499), FOLLOWER, ms(500)) && leader.is_silent(ms(1500), FOLLOWER, ms(500))
        );
        follower.handle_beat(ms(1400), LEADER, leader.next_beat(ms(1400), FOLLOWER));
        leader.handle_beat(ms(1450), FOLLOWER, follower.next_beat(ms(1400), LEADER));
        assert!(!leader.is_silent(ms(1899), FOLLOWER, ms(500)));
        leader.handle_link_lost(FOLLOWER, true);
        assert!(leader.is_silent(ms(1460), FOLLOWER, ms(500)));
    }
}
