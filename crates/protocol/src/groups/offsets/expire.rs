//! Offsets that nobody needs any more: of groups empty for too long, of topics no longer read, of deleted topics.
//!
//! The rules are Kafka's (KIP-211). A group that is empty and has lost its last offset goes as well.

use record::TopicId;

use super::super::context::{Context, Gate, Then};
use super::super::group::Group;
use super::OffsetValue;

impl Group {
    /// Takes away what is too old, and the group itself if nothing is left of it. Not while anything is under way.
    pub(crate) fn expire_offsets(&mut self, cx: &mut Context) {
        let (now, empty_since) = (cx.unix_ms(), self.empty_since_ms());
        let retention = i64::try_from(cx.settings.offsets_retention.as_millis()).unwrap_or(i64::MAX);
        let has_members = self.member_count() > 0;
        // A connector's or a schema registry's topics are not known from here: nothing goes while it has members.
        if has_members && !self.knows_subscriptions() {
            return;
        }
        let subscribed = self.subscribed();
        let goes = |topic: &str, value: &OffsetValue| {
            let since = value.committed_ms.max(empty_since.unwrap_or(i64::MIN));
            let is_read = subscribed.as_ref().is_none_or(|topics| topics.contains(topic));
            now.saturating_sub(since) >= retention && !(has_members && is_read)
        };
        let mut changes = self
            .offsets
            .removals(&self.name, |partition, value| goes(&partition.topic, value));
        if !has_members && self.may_go() && changes.len() == self.offsets.len() {
            changes.extend(self.kind_removals());
        }
        if !changes.is_empty() {
            cx.persist(&self.name, changes, Gate::Closed, Then::Answer(Vec::new()));
        }
    }

    /// Takes away the offsets of a topic that is gone.
    pub(crate) fn forget_topic(&mut self, cx: &mut Context, topic: &str, id: TopicId) {
        let changes = self.offsets.removals(&self.name, |partition, value| {
            &*partition.topic == topic && value.topic_id == id
        });
        if !changes.is_empty() {
            cx.persist(&self.name, changes, Gate::Open, Then::Answer(Vec::new()));
        }
    }

    /// After a start: takes away the offsets of topics that went while this process was down.
    pub(crate) fn forget_lost_topics(&mut self, cx: &mut Context) {
        let changes = self.offsets.removals(&self.name, |_, value| {
            value.topic_id.0 != [0; 16] && cx.topics.with_id(value.topic_id).is_none()
        });
        if !changes.is_empty() {
            cx.persist(&self.name, changes, Gate::Open, Then::Answer(Vec::new()));
        }
    }
}
