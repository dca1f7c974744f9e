//! The target assignment: what every member is to have, made anew whenever the group's epoch rises.
//!
//! Planned with a member changed, replaced or gone, before any of that is durable.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use record::TopicId;

use super::super::Assignment;
use super::super::contract::Name;
use super::super::records::{Change, ConsumerValue, MemberValue, What};
use super::assign::{Assignor, GroupSpec, MemberSpec};
use super::planning::View;
use super::roster::Roster;
use super::subscription::hash_topics;

/// The difference between the members that will be and those that are there.
#[derive(Debug, Default)]
pub(super) struct Outlook<'a> {
    /// A member that is new or says something new.
    pub(super) member: Option<Changed<'a>>,
    /// Members that will be gone.
    pub(super) gone: BTreeSet<Name>,
}

/// A member in an outlook.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed<'a> {
    pub(super) name: &'a Name,
    pub(super) said: &'a MemberValue,
    /// The partitions that it was to have so far.
    pub(super) target: &'a Assignment,
    /// The partitions that it has.
    pub(super) has: &'a Assignment,
}

/// The meaning of an epoch for the group.
#[derive(Debug, Default)]
pub(super) struct NewTarget {
    pub(super) changes: Vec<Change>,
    pub(super) epoch: i32,
    /// The new target of the member in the outlook, if it differs.
    pub(super) member_target: Option<Assignment>,
}

impl Roster {
    /// Raises the group's epoch and assigns anew.
    pub(super) fn plan_epoch(&self, view: &View, group: &Name, outlook: &Outlook<'_>) -> NewTarget {
        let group_spec = self.group_spec(view, outlook);
        let epoch = self.epoch.checked_add(1).expect("epochs do not run out");
        let topics_hash = hash_topics(&group_spec.topics);
        let value = ConsumerValue { epoch, topics_hash };
        let mut new = NewTarget {
            changes: vec![Change::of(group, What::Consumer(Some(value)))],
            epoch,
            member_target: None,
        };
        let assignments = self.assignor(outlook).assign(&group_spec);
        assert_eq!(
            assignments.len(),
            group_spec.members.len(),
            "every member gets an assignment"
        );
        for (member_spec, target) in group_spec.members.into_iter().zip(assignments) {
            if target == member_spec.before {
                continue;
            }
            let is_member = outlook
                .member
                .is_some_and(|changed| *changed.name == member_spec.member);
            let what = What::Target(Name::clone(&member_spec.member), Some(target.clone()));
            new.changes.push(Change::of(group, what));
            if is_member {
                new.member_target = Some(target);
            }
        }
        new.changes
            .push(Change::of(group, What::TargetEpoch(Some(epoch))));
        new
    }

    /// Says whether the partitions of the wanted topics are others than when the epoch began.
    pub(super) fn topics_changed(&self, view: &View) -> bool {
        let mut topics = BTreeMap::new();
        find_topics(view, self.wanted_names(view), &mut topics);
        hash_topics(&topics) != self.topics_hash
    }

    /// The wishes of the members as they will be. The matches of an expression are there once, however many members have it.
    fn group_spec(&self, view: &View, outlook: &Outlook<'_>) -> GroupSpec {
        let mut topics = BTreeMap::new();
        let mut matched_by: BTreeMap<Option<&Name>, Rc<BTreeSet<TopicId>>> = BTreeMap::new();
        let mut members: BTreeMap<&Name, MemberSpec> = BTreeMap::new();
        for member in self.members_in(outlook) {
            let regex = member.said.regex.as_ref();
            let matched = matched_by.entry(regex).or_insert_with(|| {
                let names = regex.into_iter().flat_map(|regex| view.matching(regex));
                Rc::new(find_topics(view, names, &mut topics))
            });
            let mut named = find_topics(view, &member.said.topics, &mut topics);
            named.retain(|topic| !matched.contains(topic));
            let member_spec = MemberSpec {
                member: Name::clone(member.name),
                instance: member.said.instance.clone(),
                named,
                matched: Rc::clone(matched),
                before: member.target.clone(),
                has: member.has.clone(),
            };
            members.insert(member.name, member_spec);
        }
        GroupSpec {
            members: members.into_values().collect(),
            topics,
        }
    }

    /// The members as they will be.
    fn members_in<'a>(&'a self, outlook: &'a Outlook<'_>) -> impl Iterator<Item = Changed<'a>> {
        let changed = outlook.member;
        self.members
            .iter()
            .filter(move |(name, _)| !outlook.gone.contains(*name))
            .filter(move |(name, _)| changed.is_none_or(|changed| changed.name != *name))
            .map(|(name, member)| Changed {
                name,
                said: &member.said,
                target: &member.target,
                has: &member.current.assigned,
            })
            .chain(changed)
    }

    /// The assignor that most members ask for; between equals, and if nobody asks, `uniform`.
    pub(super) fn assignor(&self, outlook: &Outlook<'_>) -> Assignor {
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        for member in self.members_in(outlook) {
            let wanted = member.said.assignor.as_ref();
            if let Some(assignor) = wanted.and_then(|name| Assignor::named(name).ok()) {
                *votes.entry(assignor).or_default() += 1;
            }
        }
        let most = votes.values().copied().max().unwrap_or(0);
        votes
            .into_iter()
            .find(|(_, count)| *count == most)
            .map_or(Assignor::Uniform, |(assignor, _)| assignor)
    }
}

/// The ids of those topics that are there. Adds them to the topics that anybody wants.
fn find_topics<'a>(
    view: &View,
    names: impl IntoIterator<Item = &'a Name>,
    wanted: &mut BTreeMap<TopicId, i32>,
) -> BTreeSet<TopicId> {
    let mut found = BTreeSet::new();
    for topic in names.into_iter().filter_map(|name| view.topics.named(name)) {
        wanted.insert(topic.id, topic.partition_count);
        found.insert(topic.id);
    }
    found
}
