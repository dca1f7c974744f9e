//! Rounds over all groups: what may concern many of them is done for some at a time, so that no call stops the core.
//!
//! A round goes through the groups in the order of their names, and skips those that it does not concern. What comes up
//! meanwhile is for the next round, as groups have been passed already.

use std::collections::BTreeMap;
use std::sync::Arc;

use record::TopicId;

use super::contract::{GroupType, Name};
use super::expressions::Expressions;
use super::group::Group;

/// The most, more or less, that one call does, in things looked at: members, partitions, offsets, names of topics.
pub(crate) const WORK_AT_ONCE: usize = 10_000;

/// The reasons for which groups are visited.
#[derive(Debug, Default)]
pub(crate) struct Visit {
    /// Topics have changed; this is their version now ...
    pub(crate) topics_version: Option<u64>,
    /// ... and these are gone.
    pub(crate) gone: Vec<(Name, TopicId)>,
    /// Offsets that nobody needs any more are to go.
    pub(crate) expires_offsets: bool,
}

impl Visit {
    fn concerns(&self, group: &Group) -> bool {
        let sees_topics = self.topics_version.is_some() && group.group_type() == GroupType::Consumer;
        let mut gone = self.gone.iter();
        self.expires_offsets || sees_topics || gone.any(|(topic, id)| group.offsets.know_topic(topic, *id))
    }

    fn add(&mut self, other: Visit) {
        self.topics_version = other.topics_version.or(self.topics_version);
        self.gone.extend(other.gone);
        self.expires_offsets |= other.expires_offsets;
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    visit: Arc<Visit>,
    /// The group that the round goes on with; none if there is no round.
    from: Option<Name>,
    /// The purpose of the next round.
    next: Option<Visit>,
}

impl Rounds {
    /// Begins a round, or sees to it that another one follows.
    pub(super) fn begin(&mut self, visit: Visit) {
        if self.is_under_way() {
            self.next.get_or_insert_default().add(visit);
        } else {
            self.start(visit);
        }
    }

    fn start(&mut self, visit: Visit) {
        self.visit = Arc::new(visit);
        self.from = Some(Name::default());
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.from.is_some()
    }

    /// The version of the topics that the round under way is to show to groups.
    pub(super) fn topics_version(&self) -> Option<u64> {
        self.visit.topics_version.filter(|_| self.is_under_way())
    }

    /// The next groups to visit, and why.
    pub(super) fn step(
        &mut self,
        groups: &BTreeMap<Name, Group>,
        expressions: &Expressions,
    ) -> (Arc<Visit>, Vec<Name>) {
        let visit = Arc::clone(&self.visit);
        let mut concerned = Vec::new();
        let Some(from) = self.from.take() else {
            return (visit, concerned);
        };
        let mut work = 0;
        for (name, group) in groups.range(from..) {
            if work >= WORK_AT_ONCE {
                self.from = Some(Name::clone(name));
                return (visit, concerned);
            }
            work += 1 + visit.gone.len();
            if visit.concerns(group) {
                work += group.weight(expressions);
                concerned.push(Name::clone(name));
            }
        }
        if let Some(next) = self.next.take() {
            self.start(next);
        }
        (visit, concerned)
    }
}
