//! The names that a topic may have: Kafka's rules, because names become part of metrics and paths in its tools.

use record::TopicId;
use thiserror::Error;

use super::METADATA_NAME;
use crate::groups::GROUPS_TOPIC;
use crate::transactions::TRANSACTIONS_TOPIC;

/// The longest name, in bytes (all allowed characters are single bytes).
pub const TOPIC_NAME_BYTES_MAX: usize = 249;

/// The beginning of the names of topics that keep orders; a topic's id is the rest.
pub(super) const ORDER_LOG: &str = "__order_";
/// The length of a topic's id as text.
const TOPIC_ID_DIGITS: usize = 32;

/// Names of Kafka's own topics, which are not here: its clients and tools take a topic of that name for Kafka's.
const RESERVED_NAMES: [&str; 2] = [METADATA_NAME, "__share_group_state"];

/// Why a name cannot be a topic's (Kafka: INVALID_TOPIC_EXCEPTION), in Kafka's words where it refuses the name too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TopicNameError {
    /// There is no name.
    #[error("Topic name is invalid: the empty string is not allowed")]
    Empty,
    /// `.` and `..` mean directories to other tools.
    #[error("Topic name is invalid: '{name}' is not allowed")]
    Dots {
        /// `.` or `..`.
        name: &'static str,
    },
    /// The name is too long.
    #[error(
        "Topic name is invalid: its length, {got_bytes}, is longer than the max allowed length {TOPIC_NAME_BYTES_MAX}"
    )]
    TooLong {
        /// Its length.
        got_bytes: usize,
    },
    /// A character that is not allowed.
    #[error(
        "Topic name is invalid: it contains one or more characters other than ASCII alphanumerics, '.', '_' and '-': {got:?}"
    )]
    Character {
        /// The first such character.
        got: char,
    },
    /// The node keeps something of its own there; whoever wrote to it could have the node lose that.
    #[error("{name} is kept by the node itself, which makes it when it is needed")]
    Internal {
        /// The name.
        name: &'static str,
    },
    /// The node keeps the order of a topic there.
    #[error("names that begin with {ORDER_LOG} and a topic's id are of the logs that nodes keep orders in")]
    OrderLog,
    /// Kafka keeps something of its own there (Kafka: INVALID_REQUEST).
    #[error("{name} is reserved; choose another name")]
    Reserved {
        /// The name.
        name: &'static str,
    },
}

/// Checks a topic's name.
///
/// # Errors
/// See [`TopicNameError`]; neither `Internal` nor `Reserved`, for a topic that is there may be called so.
pub fn check_topic_name(name: &str) -> Result<(), TopicNameError> {
    if name.is_empty() {
        return Err(TopicNameError::Empty);
    }
    if let Some(name) = [".", ".."].into_iter().find(|dots| *dots == name) {
        return Err(TopicNameError::Dots { name });
    }
    if name.len() > TOPIC_NAME_BYTES_MAX {
        return Err(TopicNameError::TooLong {
            got_bytes: name.len(),
        });
    }
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
    match name.chars().find(|character| !allowed(*character)) {
        Some(got) => Err(TopicNameError::Character { got }),
        None => Ok(()),
    }
}

/// Checks the name of a topic that a user is about to make.
///
/// # Errors
/// See [`TopicNameError`].
pub fn check_new_name(name: &str) -> Result<(), TopicNameError> {
    check_topic_name(name)?;
    if is_order_log(name) {
        return Err(TopicNameError::OrderLog);
    }
    if let Some(name) = [GROUPS_TOPIC, TRANSACTIONS_TOPIC]
        .into_iter()
        .find(|own| *own == name)
    {
        return Err(TopicNameError::Internal { name });
    }
    match RESERVED_NAMES.into_iter().find(|reserved| *reserved == name) {
        Some(name) => Err(TopicNameError::Reserved { name }),
        None => Ok(()),
    }
}

/// Says whether a topic is kept by the node itself: its users may read it and not write to it.
#[must_use]
pub fn is_internal(name: &str) -> bool {
    name == GROUPS_TOPIC || name == TRANSACTIONS_TOPIC || is_order_log(name)
}

/// The name of the topic that keeps the order of another one.
#[must_use]
pub fn order_log_name(topic: TopicId) -> String {
    format!("{ORDER_LOG}{topic}")
}

/// Says whether a topic keeps the order of another one. Clients that ask for all topics are not told of it, for it is of no use to them.
#[must_use]
pub fn is_order_log(name: &str) -> bool {
    let id = name.strip_prefix(ORDER_LOG);
    id.is_some_and(|id| id.len() == TOPIC_ID_DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Returns the form that Kafka's metrics make of a name: two topics may not come out the same.
pub(super) fn folded(name: &str) -> Box<str> {
    name.replace('.', "_").into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafkas_rules() {
        let longest = "x".repeat(TOPIC_NAME_BYTES_MAX);
        for good in ["orders", "a.b_c-D9", "...", "__internal", longest.as_str()] {
            assert_eq!(check_topic_name(good), Ok(()), "{good}");
        }
        assert_eq!(check_topic_name(""), Err(TopicNameError::Empty));
        assert_eq!(check_topic_name(".."), Err(TopicNameError::Dots { name: ".." }));
        assert_eq!(
            check_topic_name(&(longest + "x")),
            Err(TopicNameError::TooLong { got_bytes: 250 })
        );
        for (bad, got) in [("a b", ' '), ("grün", 'ü'), ("a/b", '/'), ("a@b", '@')] {
            assert_eq!(check_topic_name(bad), Err(TopicNameError::Character { got }));
        }
    }

    #[test]
    fn users_make_no_topics_with_names_that_the_node_needs() {
        assert_eq!(check_new_name("orders"), Ok(()));
        assert_eq!(check_new_name(""), Err(TopicNameError::Empty));
        for name in [GROUPS_TOPIC, TRANSACTIONS_TOPIC] {
            assert_eq!(check_new_name(name), Err(TopicNameError::Internal { name }));
        }
        let order_log = order_log_name(TopicId([0x5e; 16]));
        assert!(is_internal(&order_log), "{order_log}");
        assert_eq!(check_new_name(&order_log), Err(TopicNameError::OrderLog));
        assert_eq!(check_new_name("__order_book"), Ok(()));
        for name in RESERVED_NAMES {
            assert_eq!(check_new_name(name), Err(TopicNameError::Reserved { name }));
        }
        for name in [GROUPS_TOPIC, METADATA_NAME] {
            assert_eq!(check_topic_name(name), Ok(()), "one that is there");
        }
    }
}
