//! A client of either world: what it knows of its membership, and what it says by either protocol. It behaves as a careful
//! one does: what it is told to have it takes, what it must give up it gives up, sooner or later, and it forgets
//! everything when it is fenced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use protocol::groups::{
    Assignment, ConsumerHeartbeat, Heard, Heartbeat, JoinGroup, LeaveGroup, LeavingMember, MemberPresence,
    Name, Protocol, SyncGroup, Ticket,
};
use record::PartitionId;

#[derive(Default)]
pub(crate) struct Member {
    pub(crate) instance: Option<Name>,
    pub(crate) id: Name,
    /// Its epoch or generation; 0 before it has joined.
    pub(crate) epoch: i32,
    /// What it works on.
    pub(crate) has: BTreeSet<PartitionId>,
    /// What it was told to have.
    told: Assignment,
    /// When it sent what was last accepted: its session counts from there.
    pub(crate) heard_at: Duration,
    asked_at: Duration,
    /// The ticket that it waits for.
    pub(crate) asked: Option<Ticket>,
    pub(crate) leaving: bool,
}

impl Member {
    /// What a client is configured to be outlives whatever member it is.
    pub(crate) fn new(who: usize) -> Member {
        Member {
            instance: who.is_multiple_of(2).then(|| Name::from(format!("i{who}"))),
            ..Member::default()
        }
    }

    pub(crate) fn forget(&mut self) {
        *self = Member {
            instance: self.instance.take(),
            ..Member::default()
        };
    }

    pub(crate) fn wait_for(&mut self, ticket: Ticket, now: Duration) {
        self.asked = Some(ticket);
        self.asked_at = now;
    }

    /// What it asked for was done.
    pub(crate) fn accept(&mut self) {
        self.heard_at = self.asked_at;
    }

    /// The same of a heartbeat of the consumer protocol.
    pub(crate) fn hear(&mut self, heard: &Heard) {
        self.accept();
        self.epoch = heard.epoch;
        if let Some(assignment) = &heard.assignment {
            self.told = assignment.clone();
            self.has.extend(assignment.iter());
        }
    }

    /// Lets go of what it must not have any more.
    pub(crate) fn let_go(&mut self) {
        self.has.retain(|partition| self.told.contains(*partition));
    }

    /// Does not go on working if it has heard nothing for a session.
    pub(crate) fn expire(&mut self, now: Duration, session: Duration) {
        if now >= self.heard_at + session {
            self.has.clear();
        }
    }

    fn presence(&self, for_a_while: bool) -> MemberPresence {
        match (self.epoch, self.leaving) {
            (0, _) => MemberPresence::Joining,
            (_, true) if for_a_while && self.instance.is_some() => MemberPresence::LeavingForAWhile,
            (_, true) => MemberPresence::Leaving,
            (epoch, false) => MemberPresence::At(epoch),
        }
    }

    /// A heartbeat of the consumer protocol, with nothing that it need not say.
    pub(crate) fn heartbeat(&self, group: &str, for_a_while: bool) -> ConsumerHeartbeat {
        ConsumerHeartbeat {
            group: Name::from(group),
            member: Name::clone(&self.id),
            presence: self.presence(for_a_while),
            instance: self.instance.clone(),
            rack: None,
            client_id: Name::from("c"),
            client_host: Name::from("/h"),
            rebalance_timeout: Some(Duration::from_secs(3600)),
            topics: None,
            regex: None,
            assignor: None,
            owned: Some(self.has.iter().copied().collect()),
            random: 0,
        }
    }

    /// From here on by the classic protocol.
    pub(crate) fn join(&self, group: &str, metadata: Bytes) -> JoinGroup {
        JoinGroup {
            group: Name::from(group),
            member: Name::clone(&self.id),
            instance: self.instance.clone(),
            client_id: Name::from("c"),
            client_host: Name::from("/h"),
            session_timeout: Duration::from_secs(10),
            rebalance_timeout: Duration::from_secs(5),
            protocol_type: Name::from("consumer"),
            protocols: vec![Protocol {
                name: Name::from("range"),
                metadata,
            }],
            requires_known_member: false,
            can_skip_assignment: false,
            random: 0,
        }
    }

    pub(crate) fn sync(&self, group: &str, assignments: Vec<(Name, Bytes)>) -> SyncGroup {
        SyncGroup {
            group: Name::from(group),
            member: Name::clone(&self.id),
            instance: self.instance.clone(),
            generation: self.epoch,
            protocol_type: None,
            protocol: None,
            assignments,
        }
    }

    pub(crate) fn beat(&self, group: &str) -> Heartbeat {
        Heartbeat {
            group: Name::from(group),
            member: Name::clone(&self.id),
            instance: self.instance.clone(),
            generation: self.epoch,
        }
    }

    pub(crate) fn leave(&self, group: &str) -> LeaveGroup {
        LeaveGroup {
            group: Name::from(group),
            members: vec![LeavingMember {
                member: Name::clone(&self.id),
                instance: self.instance.clone(),
            }],
        }
    }
}

/// No two of them work on one partition.
pub(crate) fn check_owners<'a>(members: impl Iterator<Item = &'a Member>) {
    let mut owners = BTreeMap::new();
    for (who, member) in members.enumerate() {
        for partition in &member.has {
            if let Some(other) = owners.insert(*partition, who) {
                panic!("{partition} is with {other} and {who}");
            }
        }
    }
}
