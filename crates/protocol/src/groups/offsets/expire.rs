//! Offsets that nobody needs any more: of groups empty for too long, of topics no longer read, of deleted topics.
//!
//! The rules are Kafka's (KIP-211). An offset is not old while one of its partition is pending: transactions end. A group that is
//! empty and has lost its last offset goes as well. What does not fit into one batch of the log goes with the next look.

use std::time::Duration;

use record::whole_ms;

use super::super::context::{Context, Gate, Then};
use super::super::contract::TopicPartition;
use super::super::group::Group;
use super::super::topics::Topics;
use super::OffsetValue;

/// The least time that the news of a topic may be on its way: a commit that came before it must not be taken away, however often
/// old offsets are looked for.
const NEWS_PATIENCE: Duration = Duration::from_secs(30);

impl Group {
    /// Takes away what is too old or was left behind, and the group itself if nothing is left of it. Not while anything is
    /// under way, nor while members come together: what they are to read is not known then.
    pub(crate) fn expire_offsets(&mut self, cx: &mut Context) {
        if !self.is_quiet() || self.under_way > 0 || !self.is_settled() {
            return;
        }
        let (now, empty_since) = (cx.unix_ms_at_least(), self.empty_since_ms());
        let has_members = self.member_count() > 0;
        // A connector's or a schema registry's topics are not known from here: nothing is too old while it has members.
        let may_be_old = !has_members || self.knows_subscriptions();
        let subscribed = if may_be_old { self.subscribed(cx) } else { None };
        let has_passed = |since_ms: i64, time: Duration| now.saturating_sub(since_ms) >= whole_ms(time);
        let news_patience = cx.settings.offsets_check_interval.max(NEWS_PATIENCE);
        // A commit may be ahead of the news of its topic, but not by as much as that. When its topic went, the log may
        // have refused to let it go.
        let was_left =
            |value: &OffsetValue| is_lost(&cx.topics, value) && has_passed(value.committed_ms, news_patience);
        let goes = |partition: &TopicPartition, value: &OffsetValue| {
            let is_read = subscribed
                .as_ref()
                .is_none_or(|topics| topics.contains(&partition.topic));
            let since = value.committed_ms.max(empty_since.unwrap_or(i64::MIN));
            let is_old = !(has_members && is_read) && has_passed(since, cx.settings.offsets_retention);
            (is_old && self.offsets.pendings.of(partition).is_empty()) || was_left(value)
        };
        let removals = self.offsets.removals(cx, &self.name, goes, was_left);
        let mut changes = removals.changes;
        let all = self.offsets.len() + self.offsets.pendings.len();
        if !has_members && self.may_go() && changes.len() == all {
            changes.extend(self.kind_removals());
        }
        if !changes.is_empty() {
            cx.persist(&self.name, changes, Gate::Closed, Then::Answer(Vec::new()));
        }
    }

    /// Takes away the offsets of topics that are gone, as soon as nothing is under way: that may be a commit for a topic
    /// that was made anew under the same name, and what takes the old offset away must not stand behind it in the log.
    pub(crate) fn forget_topics(&mut self, cx: &mut Context) {
        if self.gone_topics.is_empty() || self.under_way > 0 {
            return;
        }
        let goes = |value: &OffsetValue| self.gone_topics.contains(&value.topic_id);
        let removals = self
            .offsets
            .removals(cx, &self.name, |_, value| goes(value), goes);
        if !removals.are_cut {
            self.gone_topics.clear();
        }
        let changes = removals.changes;
        if !changes.is_empty() {
            cx.persist(&self.name, changes, Gate::Open, Then::Answer(Vec::new()));
        }
    }

    /// After a start: takes away the offsets of topics that went while this process was down.
    pub(crate) fn forget_lost_topics(&mut self, cx: &mut Context) {
        let is_lost = |value: &OffsetValue| is_lost(&cx.topics, value);
        let removals = self
            .offsets
            .removals(cx, &self.name, |_, value| is_lost(value), is_lost);
        let changes = removals.changes;
        if !changes.is_empty() {
            cx.persist(&self.name, changes, Gate::Open, Then::Answer(Vec::new()));
        }
    }
}

/// Says that the topic is not there. One without an id is known by its name alone, and may come again.
fn is_lost(topics: &Topics, value: &OffsetValue) -> bool {
    value.topic_id.0 != [0; 16] && topics.with_id(value.topic_id).is_none()
}
