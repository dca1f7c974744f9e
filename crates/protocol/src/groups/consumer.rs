//! A group by the consumer protocol (KIP-848): members say what they want, the coordinator assigns and reconciles.
//!
//! All that matters here is durable first: a heartbeat is planned against this state as a list of changes, and the state
//! follows when the log has them. A partition has at most one owner at any time: the next one gets it only
//! after the last one has said that it let go, or was put out.

mod assign;
mod assign_range;
mod assign_uniform;
mod change_over;
mod classic_face;
mod committer;
mod heartbeat;
mod owners;
mod reconcile;
mod room;
mod saying;
mod subscription;
mod target;
mod timers;

use std::collections::BTreeMap;
use std::time::Duration;

use super::Assignment;
use super::context::Context;
use super::contract::{GroupError, GroupState, Name};
use super::records::{Change, ConsumerValue, CurrentValue, MemberValue, Progress, What};
use owners::Owners;
use room::said_bytes;
use subscription::InUse;
use target::Outlook;

/// The epoch of a static member that has left for a while.
const AWAY_EPOCH: i32 = -2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    epoch: i32,
    topics_hash: i64,
    target_epoch: i32,
    pub(crate) members: BTreeMap<Name, Member>,
    /// Static members: the member that has each instance id.
    instances: BTreeMap<Name, Name>,
    /// The bytes of what members say.
    said_bytes: usize,
    /// The partitions that members have, give up and are to have.
    held_partitions: usize,
    owners: Owners,
    /// Since when there are no members, milliseconds since 1970; the log does not tell that.
    pub(crate) empty_since_ms: Option<i64>,
    /// Whether there were members when a change was last looked at.
    had_members: bool,
    /// The expressions that members have.
    expressions: BTreeMap<Name, InUse>,
    /// The version of the topics at which the wanted ones were last seen to be as they were when the epoch began.
    compared_version: Option<u64>,
    /// Members that a change has touched since their timers were last set.
    touched: Vec<Name>,
}

/// A member.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) said: MemberValue,
    pub(crate) current: CurrentValue,
    pub(crate) target: Assignment,
    /// When it counts as gone unless it is heard of.
    expires: Option<Duration>,
    /// Until when it must have let go of what it is to give up.
    revoke_by: Option<Duration>,
    /// Until when one that speaks the classic protocol must have joined again, or come for its assignment.
    act_by: Option<Duration>,
}

impl Default for Member {
    fn default() -> Self {
        Member {
            said: MemberValue {
                instance: None,
                rack: None,
                client_id: Name::default(),
                client_host: Name::default(),
                topics: Vec::new(),
                regex: None,
                rebalance_timeout: Duration::ZERO,
                assignor: None,
                classic: None,
            },
            current: CurrentValue {
                epoch: 0,
                previous_epoch: 0,
                progress: Progress::Stable,
                assigned: Assignment::default(),
                revoking: Assignment::default(),
            },
            target: Assignment::default(),
            expires: None,
            revoke_by: None,
            act_by: None,
        }
    }
}

impl Consumer {
    /// The address of its first member.
    pub(crate) fn first_host(&self) -> Option<&Name> {
        self.members
            .values()
            .next()
            .map(|member| &member.said.client_host)
    }

    /// Takes a durable change. A change that takes away what is not there changes nothing.
    pub(crate) fn apply(&mut self, change: What) {
        match change {
            What::Consumer(Some(ConsumerValue { epoch, topics_hash })) => {
                self.epoch = epoch;
                self.topics_hash = topics_hash;
            }
            What::TargetEpoch(epoch) => self.target_epoch = epoch.unwrap_or(0),
            What::Member(name, Some(said)) => {
                self.compared_version = None;
                // Before what it said until now counts no more: that may be the same.
                if let Some(regex) = &said.regex {
                    self.expressions.entry(Name::clone(regex)).or_default().members += 1;
                }
                // A member may come back under another instance id, and one that is gone must not be found by either.
                self.release_saying(&name);
                if let Some(instance) = &said.instance {
                    self.instances.insert(Name::clone(instance), Name::clone(&name));
                }
                self.said_bytes += said_bytes(&said);
                self.touch(name).said = said;
            }
            What::Member(name, None) => self.forget(&name),
            What::Target(name, Some(target)) => self.change(name, |member| member.target = target),
            What::Target(name, None) => {
                if self.members.contains_key(&name) {
                    self.change(name, |member| member.target = Assignment::default());
                }
            }
            What::Current(name, Some(current)) => self.set_current(name, current),
            What::Current(name, None) => self.release(&name),
            What::Consumer(None) | What::Offset(..) | What::Classic(_) => {
                unreachable!("not a change within a consumer group")
            }
        }
    }

    fn touch(&mut self, name: Name) -> &mut Member {
        self.touched.push(Name::clone(&name));
        self.members.entry(name).or_default()
    }

    /// Changes what a member has or is to have.
    fn change(&mut self, name: Name, change: impl FnOnce(&mut Member)) {
        let member = self.touch(name);
        let before = member.partition_count();
        change(member);
        let now = member.partition_count();
        self.held_partitions = self.held_partitions - before + now;
    }

    fn forget(&mut self, name: &Name) {
        self.release(name);
        self.release_saying(name);
        if let Some(member) = self.members.remove(name) {
            self.held_partitions -= member.partition_count();
        }
    }

    /// What the member said counts no more: its instance id is nobody's, nor has it an expression.
    fn release_saying(&mut self, name: &Name) {
        let Some(member) = self.members.get(name) else {
            return;
        };
        self.said_bytes -= said_bytes(&member.said);
        if let Some(instance) = &member.said.instance
            && self.instances.get(instance) == Some(name)
        {
            self.instances.remove(instance);
        }
        if let Some(regex) = &member.said.regex
            && let Some(in_use) = self.expressions.get_mut(regex)
        {
            in_use.members -= 1;
            if in_use.members == 0 {
                self.expressions.remove(regex);
            }
        }
    }

    fn set_current(&mut self, name: Name, current: CurrentValue) {
        let before = self.members.get(&name).map(|member| &member.current);
        self.owners.change(&name, before, &current);
        self.change(name, |member| {
            // There is as much time for everything that is to be given up.
            if member.current.revoking != current.revoking {
                member.revoke_by = None;
            }
            member.current = current;
        });
    }

    /// What the member had is free.
    fn release(&mut self, name: &Name) {
        if let Some(member) = self.members.get(name) {
            self.owners.release(name, &member.current);
        }
    }

    pub(crate) fn state(&self) -> GroupState {
        if self.members.is_empty() {
            GroupState::Empty
        } else if self.epoch > self.target_epoch {
            GroupState::Assigning
        } else if self.members.values().all(|member| self.is_reconciled(member)) {
            GroupState::Stable
        } else {
            GroupState::Reconciling
        }
    }

    fn is_reconciled(&self, member: &Member) -> bool {
        member.current.progress == Progress::Stable && member.current.epoch == self.target_epoch
    }

    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    /// The assignor in use.
    pub(crate) fn assignor_name(&self) -> &'static str {
        self.assignor(&Outlook::default()).name()
    }

    pub(crate) fn target_epoch(&self) -> i32 {
        self.target_epoch
    }

    /// Whether there is nothing to remember.
    pub(crate) fn is_hollow(&self) -> bool {
        self.epoch == 0 && self.members.is_empty()
    }

    fn check_member(&self, name: &Name, instance: Option<&Name>) -> Result<&Member, GroupError> {
        let unknown = || GroupError::UnknownMember {
            member: Name::clone(name),
        };
        if let Some(instance) = instance {
            let holder = self.instances.get(instance).ok_or_else(unknown)?;
            if holder != name {
                return Err(GroupError::FencedInstance {
                    instance: Name::clone(instance),
                });
            }
        }
        self.members.get(name).ok_or_else(unknown)
    }

    /// The changes that take the group out of the log, members first.
    pub(crate) fn removals(&self, group: &Name) -> Vec<Change> {
        let mut changes = Vec::new();
        for name in self.members.keys() {
            changes.extend(removals_of(group, name));
        }
        if !self.is_hollow() {
            changes.push(Change::of(group, What::TargetEpoch(None)));
            changes.push(Change::of(group, What::Consumer(None)));
        }
        changes
    }

    /// Every record that the log must hold for the group to come back as it is.
    pub(crate) fn image(&self, group: &Name) -> Vec<Change> {
        if self.is_hollow() {
            return Vec::new();
        }
        let (epoch, topics_hash) = (self.epoch, self.topics_hash);
        let mut whats = vec![
            What::Consumer(Some(ConsumerValue { epoch, topics_hash })),
            What::TargetEpoch(Some(self.target_epoch)),
        ];
        for (name, member) in &self.members {
            whats.push(What::Member(Name::clone(name), Some(member.said.clone())));
            whats.push(What::Target(Name::clone(name), Some(member.target.clone())));
            whats.push(What::Current(Name::clone(name), Some(member.current.clone())));
        }
        whats.into_iter().map(|what| Change::of(group, what)).collect()
    }

    /// Members have a full session to be heard of after a start. None is known to owe anything.
    pub(crate) fn handle_loaded(&mut self, cx: &mut Context) {
        self.touched = self.members.keys().cloned().collect();
        self.note_applied(cx);
        for member in self.members.values_mut() {
            member.act_by = None;
        }
    }
}

/// The changes that take a member out of the log.
fn removals_of(group: &Name, name: &Name) -> [Change; 3] {
    [
        Change::of(group, What::Current(Name::clone(name), None)),
        Change::of(group, What::Target(Name::clone(name), None)),
        Change::of(group, What::Member(Name::clone(name), None)),
    ]
}
