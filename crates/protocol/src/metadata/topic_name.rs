//! Which names a topic may have: Kafka's rules, because names become part of metrics and paths in its tools.

use thiserror::Error;

/// The longest name, in bytes (all allowed characters are single bytes).
pub const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Why a name cannot be a topic's (Kafka: INVALID_TOPIC_EXCEPTION).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TopicNameError {
    /// There is no name.
    #[error("a topic needs a name")]
    Empty,
    /// `.` and `..` mean directories to other tools.
    #[error("a topic cannot be called \".\" or \"..\"")]
    Dots,
    /// The name is too long.
    #[error("a topic name has at most {TOPIC_NAME_BYTES_MAX} characters, not {got_bytes}")]
    TooLong {
        /// Its length.
        got_bytes: usize,
    },
    /// A character that is not allowed.
    #[error("a topic name has ASCII letters, digits, '.', '_' and '-' only, not {got:?}")]
    Character {
        /// The first such character.
        got: char,
    },
}

/// Checks a topic's name.
///
/// # Errors
/// See [`TopicNameError`].
pub fn check_topic_name(name: &str) -> Result<(), TopicNameError> {
    if name.is_empty() {
        return Err(TopicNameError::Empty);
    }
    if name == "." || name == ".." {
        return Err(TopicNameError::Dots);
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

/// What Kafka's metrics make of a name: two topics may not come out the same.
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
        assert_eq!(check_topic_name(".."), Err(TopicNameError::Dots));
        assert_eq!(
            check_topic_name(&(longest + "x")),
            Err(TopicNameError::TooLong { got_bytes: 250 })
        );
        for (bad, got) in [("a b", ' '), ("grün", 'ü'), ("a/b", '/'), ("a@b", '@')] {
            assert_eq!(check_topic_name(bad), Err(TopicNameError::Character { got }));
        }
    }
}
