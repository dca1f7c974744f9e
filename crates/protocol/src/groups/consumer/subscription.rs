//! The topics that a member wants: those that it names and those that match its regular expression.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use record::TopicId;

use super::super::context::Context;
use super::super::contract::{GroupError, Name};
use super::super::expressions::{Expressions, Hold};
use super::super::records::MemberValue;
use super::super::topics::Topic;
use super::Consumer;
use super::planning::View;
use super::roster::Roster;

/// An expression of a group.
#[derive(Debug, Default)]
pub(super) struct InUse {
    /// The number of members that have it: none while the first one is not durable.
    pub(super) members: usize,
    hold: Option<Rc<Hold>>,
}

impl Consumer {
    /// Makes sure that an expression is known before anything is planned with it.
    pub(super) fn learn_regex(&mut self, cx: &mut Context, regex: &Name) -> Result<(), GroupError> {
        self.forget_unused_expressions();
        if self.expressions.contains_key(regex) {
            return Ok(());
        }
        // Each is matched anew whenever topics change.
        let max = cx.settings.regexes_max;
        if self.expressions.len() >= max {
            let what = "regular expressions in a group";
            return Err(GroupError::LimitReached { what, max });
        }
        cx.check_growth(!cx.expressions.is_known(regex))?;
        let hold = cx.expressions.learn(&cx.settings, &cx.topics, regex)?;
        let in_use = InUse {
            members: 0,
            hold: Some(hold),
        };
        self.expressions.insert(Name::clone(regex), in_use);
        Ok(())
    }

    /// One that was learned for nothing is not kept.
    pub(super) fn forget_unused_expressions(&mut self) {
        self.expressions.retain(|_, in_use| in_use.members > 0);
    }

    /// Sees to it that the expressions of members stay known: also those that came from the log.
    pub(super) fn hold_expressions(&mut self, cx: &mut Context) {
        for (regex, in_use) in &mut self.expressions {
            if in_use.hold.is_none() {
                in_use.hold = Some(cx.expressions.hold(&cx.settings, &cx.topics, regex));
            }
        }
    }

    /// The topics that members want.
    pub(crate) fn subscribed(&self, cx: &Context) -> BTreeSet<Name> {
        self.roster.wanted_names(&self.view(cx)).cloned().collect()
    }

    /// Returns the number of things to look at when topics have changed.
    pub(crate) fn weight(&self, expressions: &Expressions) -> usize {
        let regexes = self.expressions.keys();
        let matched = regexes.map(|regex| expressions.matching(regex).names.len());
        self.roster.members.len() + self.held_partitions + self.named_topics + matched.sum::<usize>()
    }
}

impl Roster {
    /// The names of the topics that members want: as often as a member names them, and once for each expression, however many
    /// members have that.
    pub(super) fn wanted_names<'a>(&'a self, view: &'a View) -> impl Iterator<Item = &'a Name> {
        let named = self.members.values().flat_map(|member| &member.said.topics);
        let in_use = view.matching.values().filter(|seen| seen.is_in_use);
        named.chain(in_use.flat_map(|seen| &seen.matching.names))
    }
}

/// Returns the number of partitions of the topics that a member wants; by its expression, the number when that was matched.
pub(super) fn wanted_partitions(cx: &Context, said: &MemberValue) -> usize {
    let by_regex = said.regex.as_ref();
    let matched = by_regex.map_or(0, |regex| cx.expressions.matching(regex).partitions);
    let named = said.topics.iter().filter_map(|name| cx.topics.named(name));
    matched + named.map(Topic::partitions).sum::<usize>()
}

/// Stands for the partitions of these topics: another number when they change. FNV-1a; it is stored, and must stay as
/// it is.
pub(super) fn hash_topics(topics: &BTreeMap<TopicId, i32>) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (id, partition_count) in topics {
        for byte in id.0.iter().chain(&partition_count.to_be_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    i64::from_ne_bytes(hash.to_ne_bytes())
}
