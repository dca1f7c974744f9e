//! The metrics of what clients use: topics, Kafka's APIs with their errors, and groups with their lag.

use prometheus_client::registry::Unit;

use super::super::TopicFigures;
use super::{Metric, counter, gauge, known};
use crate::groups::GroupLag;

/// The metrics of a topic on one core.
pub(in crate::metrics) static OF_TOPIC: &[Metric<TopicFigures>] = &[
    counter(
        "topic_appended_records",
        None,
        |topic| known(topic.appended_records),
        "Records appended to the topic's partitions on the core.",
    ),
    counter(
        "topic_appended",
        Some(Unit::Bytes),
        |topic| known(topic.appended_bytes),
        "Bytes of the record batches appended to them.",
    ),
    counter(
        "topic_read",
        Some(Unit::Bytes),
        |topic| known(topic.read_bytes),
        "Bytes of record batches read from them for consumers.",
    ),
    counter(
        "topic_failed_appends",
        None,
        |topic| known(topic.failed_appends),
        "Batches for them that were refused, or whose flush failed; what is asked for too late is not among these, nor what was refused for its condition.",
    ),
    gauge(
        "topic_unstable_records",
        None,
        |topic| known(topic.unstable_records),
        "Records between the last stable offset and the tail of a partition that the core leads, which readers of committed records wait for; of the topic's partitions the most.",
    ),
];

/// The metrics of one of Kafka's APIs on one core.
pub(in crate::metrics) static OF_API: &[Metric<u64>] = &[counter(
    "api_requests",
    None,
    |requests| known(*requests),
    "Kafka requests whose header was understood, by what they ask for.",
)];

/// The metrics of one of Kafka's APIs and an error.
pub(in crate::metrics) static OF_ERROR: &[Metric<u64>] = &[counter(
    "api_errors",
    None,
    |answers| known(*answers),
    "Answers to Kafka requests that told an error, by what was asked for and the error's name. An answer counts once for each error in it, however many partitions met that.",
)];

/// The metrics of a group and a topic that it reads.
pub(in crate::metrics) static OF_GROUP: &[Metric<GroupLag>] = &[gauge(
    "group_lag_records",
    None,
    |lag| known(lag.records),
    "Records of a topic between what a group has committed and the tail, in all partitions of which it has committed something, at the last look (see groups.lag_check_interval); of each core the 1,000 that are furthest behind.",
)];
