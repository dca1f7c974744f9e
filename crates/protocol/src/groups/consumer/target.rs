//! The target assignment: what every member is to have, made anew whenever the group's epoch rises.
//!
//! Planned with a member changed, replaced or gone, before any of that is durable.

use std::collections::{BTreeMap, BTreeSet};

use record::TopicId;

use super::super::Assignment;
use super::super::context::Context;
use super::super::contract::Name;
use super::super::records::{Change, ConsumerValue, MemberValue, What};
use super::Consumer;
use super::assign::{Assignor, Wish, Wishes};
use super::subscription::{hash_topics, wanted};

/// How the members will differ from those that are there.
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
    /// What it was to have so far.
    pub(super) target: &'a Assignment,
    /// What it has.
    pub(super) has: &'a Assignment,
}

/// What an epoch means for the group.
#[derive(Debug, Default)]
pub(super) struct NewTarget {
    pub(super) changes: Vec<Change>,
    pub(super) epoch: i32,
    /// The new target of the member in the outlook, if it differs.
    pub(super) member_target: Option<Assignment>,
}

impl Consumer {
    /// Raises the group's epoch and assigns anew.
    pub(super) fn plan_epoch(&self, cx: &Context, group: &Name, outlook: &Outlook<'_>) -> NewTarget {
        let wishes = self.wishes(cx, outlook);
        let epoch = self.epoch.checked_add(1).expect("epochs do not run out");
        let topics_hash = hash_topics(&wishes.topics);
        let value = ConsumerValue { epoch, topics_hash };
        let mut new = NewTarget {
            changes: vec![Change::of(group, What::Consumer(Some(value)))],
            epoch,
            member_target: None,
        };
        let assignments = self.assignor(outlook).assign(&wishes);
        assert_eq!(
            assignments.len(),
            wishes.members.len(),
            "every member gets an assignment"
        );
        for (wish, target) in wishes.members.into_iter().zip(assignments) {
            if target == wish.before {
                continue;
            }
            let is_member = outlook.member.is_some_and(|changed| *changed.name == wish.member);
            let what = What::Target(Name::clone(&wish.member), Some(target.clone()));
            new.changes.push(Change::of(group, what));
            if is_member {
                new.member_target = Some(target);
            }
        }
        new.changes
            .push(Change::of(group, What::TargetEpoch(Some(epoch))));
        new
    }

    /// Whether the partitions of the wanted topics are others than when the epoch began.
    pub(super) fn topics_changed(&self, cx: &Context) -> bool {
        let mut topics = BTreeMap::new();
        for member in self.members.values() {
            topics.extend(wanted(cx, &member.said).map(|(_, topic)| (topic.id, topic.partition_count)));
        }
        hash_topics(&topics) != self.topics_hash
    }

    fn wishes(&self, cx: &Context, outlook: &Outlook<'_>) -> Wishes {
        let mut topics: BTreeMap<TopicId, i32> = BTreeMap::new();
        let mut members: BTreeMap<&Name, Wish> = BTreeMap::new();
        let mut add = |member: Changed<'_>| -> Wish {
            let mut wanted_ids = BTreeSet::new();
            for (_, topic) in wanted(cx, member.said) {
                topics.insert(topic.id, topic.partition_count);
                wanted_ids.insert(topic.id);
            }
            Wish {
                member: Name::clone(member.name),
                instance: member.said.instance.clone(),
                topics: wanted_ids,
                before: member.target.clone(),
                has: member.has.clone(),
            }
        };
        for (name, member) in &self.members {
            let is_changed = outlook.member.is_some_and(|changed| changed.name == name);
            if !outlook.gone.contains(name) && !is_changed {
                let (said, target, has) = (&member.said, &member.target, &member.current.assigned);
                members.insert(
                    name,
                    add(Changed {
                        name,
                        said,
                        target,
                        has,
                    }),
                );
            }
        }
        if let Some(changed) = outlook.member {
            members.insert(changed.name, add(changed));
        }
        Wishes {
            members: members.into_values().collect(),
            topics,
        }
    }

    /// The assignor that most members ask for; between equals, and if nobody asks, `uniform`.
    pub(super) fn assignor(&self, outlook: &Outlook<'_>) -> Assignor {
        let changed = outlook.member.map(|changed| (changed.name, changed.said));
        let others = self
            .members
            .iter()
            .filter(|(name, _)| !outlook.gone.contains(*name))
            .filter(|(name, _)| changed.is_none_or(|(changed, _)| changed != *name))
            .map(|(name, member)| (name, &member.said));
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        for (_, said) in others.chain(changed) {
            if let Some(assignor) = said.assignor.as_ref().and_then(|name| Assignor::named(name).ok()) {
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
