//! Topics on the command line, and single partitions of them.

/// The topic, or one partition of it, that `--topic` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) topic: String,
    pub(crate) partition: Option<i32>,
}

impl Named {
    /// Says if this partition is meant.
    pub(crate) fn is(&self, topic: &str, partition: i32) -> bool {
        self.topic == topic && self.partition.is_none_or(|wanted| wanted == partition)
    }
}

/// A topic's name has no colon.
pub(crate) fn named(text: &str) -> Result<Named, String> {
    let (topic, partition) = match text.split_once(':') {
        Some((topic, index)) => (topic, index.parse::<i32>().ok().filter(|index| *index >= 0)),
        None => (text, None),
    };
    match topic.is_empty() || (partition.is_none() && text.contains(':')) {
        true => Err("expected TOPIC or TOPIC:PARTITION".to_owned()),
        false => Ok(Named {
            topic: topic.to_owned(),
            partition,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_or_one_partition_is_named() {
        let of = |topic: &str, partition| {
            Ok(Named {
                topic: topic.to_owned(),
                partition,
            })
        };
        assert_eq!(named("orders"), of("orders", None));
        assert_eq!(named("orders:3"), of("orders", Some(3)));
        for text in ["", ":3", "orders:", "orders:x", "orders:-1", "a:b:1"] {
            assert!(named(text).is_err(), "{text}");
        }
    }
}
