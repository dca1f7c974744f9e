//! Cuts of topics with one order: of each partition the offset before which exactly the records below a position lie.

use anyhow::{Context, Result, bail};
use client::TopicMetadata;
use serde_json::Value;

use crate::top::change;

/// A position of a topic, as `NAME@POSITION` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) topic: String,
    pub(crate) position: u64,
}

/// Reads `NAME@POSITION`: no topic's name has an `@`.
pub(crate) fn at(text: &str) -> Result<At, String> {
    let parts = text.split_once('@').filter(|(topic, _)| !topic.is_empty());
    let read = parts.and_then(|(topic, position)| {
        let position = position.parse::<i64>().ok()?;
        Some(At {
            topic: topic.to_owned(),
            position: u64::try_from(position).ok()?,
        })
    });
    read.ok_or_else(|| "expected NAME@POSITION, such as ledger@17".to_owned())
}

/// A cut, as a node tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) position: u64,
    /// By partitions.
    pub(crate) offsets: Vec<i64>,
}

impl Cut {
    /// Asks the node at an HTTP address for the cut of a topic at a position, or of all that is ordered now.
    ///
    /// # Errors
    /// The node's own words: the topic is not there or has no order, or nothing has the position yet.
    pub(crate) fn ask(http: &str, topic: &str, position: Option<u64>) -> Result<Cut> {
        let query = position.map_or_else(String::new, |position| format!("?position={position}"));
        let told = change(
            http,
            "GET",
            &format!("/v1/topics/{topic}/cut{query}"),
            &Value::Null,
        )?;
        Cut::read(&told).context("the node's answer is no cut")
    }

    fn read(told: &Value) -> Option<Cut> {
        let offsets = told["offsets"].as_array()?.iter().map(Value::as_i64);
        Some(Cut {
            position: told["position"].as_u64()?,
            offsets: offsets.collect::<Option<_>>()?,
        })
    }

    /// The offset in a partition. One that was added later than the cut begins at its first record.
    ///
    /// # Errors
    /// The topic has fewer partitions than the cut: it was made again.
    pub(crate) fn offset(&self, topic: &TopicMetadata, partition: i32) -> Result<i64> {
        if self.offsets.len() > topic.partitions.len() {
            bail!(
                "topic {} has fewer partitions than the cut: it was made again meanwhile",
                topic.name
            );
        }
        let place = usize::try_from(partition).ok();
        Ok(place
            .and_then(|place| self.offsets.get(place).copied())
            .unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_of_a_topic_is_named() {
        let of = |topic: &str, position| {
            Ok(At {
                topic: topic.to_owned(),
                position,
            })
        };
        assert_eq!(at("ledger@17"), of("ledger", 17));
        assert_eq!(at("a.b-c@0"), of("a.b-c", 0));
        for text in [
            "",
            "ledger",
            "@17",
            "ledger@",
            "ledger@total",
            "ledger@-1",
            "a@1@2",
            "a@9223372036854775808",
        ] {
            assert!(at(text).is_err(), "{text}");
        }
    }
}
