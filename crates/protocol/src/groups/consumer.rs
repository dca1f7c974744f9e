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
mod planning;
mod reconcile;
mod room;
mod roster;
mod saying;
mod subscription;
mod target;
mod timers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Assignment;
use super::context::Context;
use super::contract::{GroupError, GroupState, Name};
use super::records::{Change, ConsumerValue, CurrentValue, MemberValue, Progress, What};
use room::said_bytes;
use roster::Roster;
use subscription::InUse;

pub(crate) use planning::{Asker, Step};
pub use planning::{Planned, Planning};

/// The epoch of a static member that has left for a while.
const AWAY_EPOCH: i32 = -2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    roster: Arc<Roster>,
    /// Static members: the member that has each instance id.
    instances: BTreeMap<Name, Name>,
    /// The bytes of what members say.
    said_bytes: usize,
    /// The topics that members name, each as often as it is named.
    named_topics: usize,
    /// The partitions that members have, give up and are to have.
    held_partitions: usize,
    /// The time since which there are no members, milliseconds since 1970; the log does not tell that.
    pub(crate) empty_since_ms: Option<i64>,
    /// Says that there were members when a change was last looked at.
    had_members: bool,
    /// The expressions that members have.
    expressions: BTreeMap<Name, InUse>,
    /// The version of the topics at which the wanted ones were last seen to be as they were when the epoch began.
    compared_version: Option<u64>,
    /// The times that they were to be compared anew, whatever their version.
    looks: u64,
    /// Members that a change has touched since their timers were last set.
    touched: Vec<Name>,
}

/// A member.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) said: MemberValue,
    pub(crate) current: CurrentValue,
    pub(crate) target: Assignment,
    /// The time when it counts as gone unless it is heard of.
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
        self.members()
            .values()
            .next()
            .map(|member| &member.said.client_host)
    }

    /// Takes a durable change. A change that takes away what is not there changes nothing.
    pub(crate) fn apply(&mut self, change: What) {
        match change {
            What::Consumer(Some(ConsumerValue { epoch, topics_hash })) => {
                let roster = self.roster_mut();
                roster.epoch = epoch;
                roster.topics_hash = topics_hash;
            }
            What::TargetEpoch(epoch) => self.roster_mut().target_epoch = epoch.unwrap_or(0),
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
                self.named_topics += said.topics.len();
                self.touch(name).said = said;
            }
            What::Member(name, None) => self.forget(&name),
            What::Target(name, Some(target)) => self.change(name, |member| member.target = target),
            What::Target(name, None) => {
                if self.roster.members.contains_key(&name) {
                    self.change(name, |member| member.target = Assignment::default());
                }
            }
            What::Current(name, Some(current)) => self.set_current(name, current),
            What::Current(name, None) => self.release(&name),
            What::Consumer(None) | What::Offset(..) | What::Pending(..) | What::Classic(_) => {
                unreachable!("not a change within a consumer group")
            }
        }
    }

    fn touch(&mut self, name: Name) -> &mut Member {
        self.touched.push(Name::clone(&name));
        self.roster_mut().members.entry(name).or_default()
    }

    /// The roster, to be changed. Nobody plans with it then; if somebody did after all, it would be with what was before.
    fn roster_mut(&mut self) -> &mut Roster {
        Arc::make_mut(&mut self.roster)
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
        if let Some(member) = self.roster_mut().members.remove(name) {
            self.held_partitions -= member.partition_count();
        }
    }

    /// Forgets what the member said: its instance id is nobody's, nor has it an expression.
    fn release_saying(&mut self, name: &Name) {
        let Some(member) = self.roster.members.get(name) else {
            return;
        };
        self.said_bytes -= said_bytes(&member.said);
        self.named_topics -= member.said.topics.len();
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
        let Roster { members, owners, .. } = self.roster_mut();
        let before = members.get(&name).map(|member| &member.current);
        owners.change(&name, before, &current);
        self.change(name, |member| {
            // There is as much time for everything that is to be given up.
            if member.current.revoking != current.revoking {
                member.revoke_by = None;
            }
            member.current = current;
        });
    }

    /// Frees the partitions that the member had.
    fn release(&mut self, name: &Name) {
        let Roster { members, owners, .. } = self.roster_mut();
        if let Some(member) = members.get(name) {
            owners.release(name, &member.current);
        }
    }

    pub(crate) fn state(&self) -> GroupState {
        self.roster.state()
    }

    pub(crate) fn members(&self) -> &BTreeMap<Name, Member> {
        &self.roster.members
    }

    /// Says that there is nothing to remember.
    pub(crate) fn is_hollow(&self) -> bool {
        self.roster.is_hollow()
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
        self.roster.members.get(name).ok_or_else(unknown)
    }

    /// The changes that take the group out of the log, members first.
    pub(crate) fn removals(&self, group: &Name) -> Vec<Change> {
        self.roster.removals(group)
    }

    /// Every record that the log must hold for the group to come back as it is.
    pub(crate) fn image(&self, group: &Name) -> Vec<Change> {
        if self.is_hollow() {
            return Vec::new();
        }
        let Roster {
            epoch, topics_hash, ..
        } = *self.roster;
        let mut whats = vec![
            What::Consumer(Some(ConsumerValue { epoch, topics_hash })),
            What::TargetEpoch(Some(self.roster.target_epoch)),
        ];
        for (name, member) in &self.roster.members {
            whats.push(What::Member(Name::clone(name), Some(member.said.clone())));
            whats.push(What::Target(Name::clone(name), Some(member.target.clone())));
            whats.push(What::Current(Name::clone(name), Some(member.current.clone())));
        }
        whats.into_iter().map(|what| Change::of(group, what)).collect()
    }

    /// Members have a full session to be heard of after a start. None is known to owe anything.
    pub(crate) fn handle_loaded(&mut self, cx: &mut Context) {
        self.touched = self.roster.members.keys().cloned().collect();
        self.note_applied(cx);
        for member in self.roster_mut().members.values_mut() {
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
