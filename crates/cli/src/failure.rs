//! The message for the user when a command fails: one sentence, and the next step where we know it.

use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;

use client::{ClientError, ErrorCode};
use rustix::io::Errno;
use server::config::{ConfigError, Source};

use crate::findings::Unreadable;
use crate::output::{OutputClosed, cleaned};
use crate::signals::Signal;

/// The length of an answer that begins with `HTTP`.
const HTTP_AS_LENGTH: i64 = i64::from_be_bytes(*b"\0\0\0\0HTTP");
/// The exit code for a command line that makes no sense: the one that clap gives.
const SENSELESS: u8 = 2;
/// The exit code for a directory that could not be read, so that nothing can be said about it.
const UNREADABLE: u8 = 3;

/// A command line whose parts make sense, and the whole does not.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Senseless(pub(crate) String);

/// No failure: a signal asked for the end, and the command has come to it in order. It has said so.
#[derive(Debug, thiserror::Error)]
#[error("ended by {0}")]
pub(crate) struct Ended(pub(crate) Signal);

/// A failure of a command whose log lines programs read: it is told as the last of them.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Logged(pub(crate) anyhow::Error);

/// Says why a command failed, and gives the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(Logged(error)) = error.downcast_ref() {
        tracing::error!("{}", sentence(error));
        return exit_code(error);
    }
    if let Some(Ended(signal)) = error.downcast_ref() {
        return ExitCode::from(signal.exit_code());
    }
    if error.is::<OutputClosed>() {
        // `ropewalk consume … | head` got all that it wanted.
        return ExitCode::SUCCESS;
    }
    say("error", "31", &sentence(error));
    exit_code(error)
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    match (is_senseless(error), error.is::<Unreadable>()) {
        (true, _) => ExitCode::from(SENSELESS),
        (_, true) => ExitCode::from(UNREADABLE),
        _ => ExitCode::FAILURE,
    }
}

/// Says if the command line is to blame: then the same one fails anywhere.
fn is_senseless(error: &anyhow::Error) -> bool {
    let origin = match error.downcast_ref() {
        Some(
            ConfigError::UnknownKey { origin, .. }
            | ConfigError::Value { origin, .. }
            | ConfigError::TopicDefault { origin, .. },
        ) => Some(origin),
        _ => None,
    };
    error.is::<Senseless>() || matches!(origin, Some(Source::Set | Source::Flag(_)))
}

/// A remark on stderr that is not part of the output.
pub(crate) fn note(text: &str) {
    say("note", "36", text);
}

fn say(word: &str, color: &str, text: &str) {
    let text = cleaned(text);
    let mut err = stderr().lock();
    let colored = err.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // If stderr is gone there is nobody left to tell.
    let _ = match colored {
        true => writeln!(err, "\x1b[1;{color}m{word}:\x1b[0m {text}"),
        false => writeln!(err, "{word}: {text}"),
    };
}

/// The whole chain of reasons, on one line. Many errors repeat their cause in their own words; it is told once.
fn sentence(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if told.is_empty() {
            told = text;
        } else if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
    }
    let mut told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(hint) = error
        .chain()
        .find_map(|cause| cause.downcast_ref())
        .and_then(hint)
    {
        told = format!("{told}; {hint}");
    }
    told
}

/// Help against the failures that newcomers meet.
fn hint(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::Connect { source, .. } => match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::MFILE | Errno::NFILE) => Some("`ulimit -n` shows how many files may be open"),
            _ => Some("`ropewalk serve` starts a node, --bootstrap names another address"),
        },
        ClientError::Address { .. } => Some(
            "an address is HOST:PORT: that of --bootstrap, or what the node was told as kafka.advertised",
        ),
        ClientError::FrameLength { length_bytes, .. } => Some(match *length_bytes {
            HTTP_AS_LENGTH => "that is HTTP; --bootstrap names the address for Kafka's clients",
            _ => "this is not Kafka's protocol; --bootstrap names another address",
        }),
        ClientError::TopicDeleted { made_again: true, .. } => {
            Some("the same command again reads the one that is there now")
        }
        ClientError::RecordsLost { .. } => Some("--partition and --from say where to begin again"),
        // Where there is a message, it says more.
        ClientError::Broker {
            code: ErrorCode::InvalidTopicException,
            message: None,
            ..
        } => Some("no topic can have this name, or only the broker itself writes to it"),
        ClientError::Broker {
            code: ErrorCode::PolicyViolation,
            message: None,
            ..
        } => Some(
            "a topic that is only compacted is not trimmed: `ropewalk config get --topic NAME cleanup.policy` tells",
        ),
        // Where a message names another limit, this one is not to blame.
        ClientError::Broker {
            code: ErrorCode::MessageTooLarge,
            message,
            ..
        } if message
            .as_ref()
            .is_none_or(|text| text.contains("max.message.bytes")) =>
        {
            Some("`ropewalk config set --topic NAME max.message.bytes=8MiB` allows more")
        }
        _ => match error.code()? {
            ErrorCode::UnknownTopicOrPartition => Some("`ropewalk topic list` shows what there is"),
            ErrorCode::TopicAlreadyExists => {
                Some("`ropewalk topic create NAME --if-absent` leaves it as it is")
            }
            ErrorCode::GroupIdNotFound => Some("`ropewalk group list` shows what there is"),
            ErrorCode::NonEmptyGroup => Some("stop its consumers first"),
            ErrorCode::InvalidConfig => Some(
                "`ropewalk config get --topic NAME` shows what there is, or --node ID; --json tells what it means",
            ),
            ErrorCode::KafkaStorageError => Some(
                "the node's log names the fault: a full or failing disk, or damage, which `ropewalk check DIR` finds while the node is stopped",
            ),
            ErrorCode::CoordinatorNotAvailable => Some(
                "the node may just have started; else its log says why groups are closed, and so does GET /ready",
            ),
            ErrorCode::OffsetOutOfRange => {
                Some("--from earliest begins at the first record that is still there")
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use clap::Parser;

    use super::*;

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let source = std::io::Error::other("refused");
        let error = ClientError::Connect {
            address: "host:1".to_owned(),
            source,
        };
        let told = sentence(&anyhow::Error::new(error));
        assert!(
            told.starts_with("cannot connect to host:1: refused; `ropewalk serve`"),
            "{told}"
        );
        let error: anyhow::Result<()> = Err(std::io::Error::other("no\nsuch thing")).context("reading x");
        assert_eq!(sentence(&error.expect_err("failed")), "reading x: no such thing");
    }

    #[test]
    fn only_the_command_line_is_senseless() {
        let refused = |sets: &[(String, String)], file| {
            let loaded = server::config::Config::load(file, sets, &[]);
            anyhow::Error::new(loaded.expect_err("refused"))
        };
        let set = |key: &str, value: &str| [(key.to_owned(), value.to_owned())];
        assert!(is_senseless(&refused(&set("cores", "abc"), None)));
        assert!(is_senseless(&refused(&set("nope", "1"), None)));
        let text = "cores = \"abc\"";
        let file = server::config::FileText { name: "f", text };
        assert!(!is_senseless(&refused(&[], Some(file))), "the file is to blame");
        assert!(is_senseless(&Senseless("crossed".to_owned()).into()));
        assert!(!is_senseless(&anyhow::anyhow!("gone")));
    }

    #[test]
    fn a_topic_that_is_refused_without_a_message_is_explained() {
        let told = |message: Option<&str>| {
            let error = ClientError::Broker {
                operation: "trying".to_owned(),
                code: ErrorCode::InvalidTopicException,
                message: message.map(str::to_owned),
            };
            sentence(&error.into())
        };
        assert!(told(None).contains("; no topic can have this name, or only"));
        assert!(told(Some("it has a slash")).ends_with("(it has a slash)"));
    }

    #[test]
    fn a_limit_is_told_with_what_sets_it_unless_another_is_named() {
        let told = |code, message: Option<&str>| {
            let error = ClientError::Broker {
                operation: "trying".to_owned(),
                code,
                message: message.map(str::to_owned),
            };
            sentence(&error.into())
        };
        let raise = "`ropewalk config set --topic NAME max.message.bytes=8MiB` allows more";
        let large = |message| told(ErrorCode::MessageTooLarge, message);
        assert!(large(None).ends_with(raise));
        assert!(large(Some("100 at most (max.message.bytes)")).ends_with(raise));
        assert!(large(Some("1 MiB at most (journal.file_bytes)")).ends_with("(journal.file_bytes))"));
        let policy = |message| told(ErrorCode::PolicyViolation, message);
        assert!(policy(None).contains("; a topic that is only compacted is not trimmed"));
        assert!(policy(Some("10000 partitions at most")).ends_with("(10000 partitions at most)"));
        let exists = told(ErrorCode::TopicAlreadyExists, Some("it does"));
        assert!(exists.ends_with("(it does); `ropewalk topic create NAME --if-absent` leaves it as it is"));
    }

    #[test]
    fn a_wrong_address_is_told_with_what_it_might_be() {
        let told = |length_bytes| {
            let error = ClientError::FrameLength {
                address: "h:1".to_owned(),
                length_bytes,
                limit_bytes: 5,
            };
            sentence(&error.into())
        };
        assert!(
            told(1_213_486_160).contains("; that is HTTP; --bootstrap names"),
            "HTTP"
        );
        assert!(told(-1).contains("; this is not Kafka's protocol; --bootstrap names"));
    }

    #[test]
    fn a_hint_is_a_command_that_can_be_given() {
        let mut count = 0;
        for code in ErrorCode::ALL {
            let error = ClientError::broker("trying", code.code(), None);
            let commands = hint(&error)
                .into_iter()
                .flat_map(|hint| hint.split('`').skip(1).step_by(2));
            for command in commands {
                count += 1;
                let parsed = crate::Arguments::try_parse_from(command.split(' '));
                assert!(parsed.is_ok(), "{code:?}: {command}");
            }
        }
        assert!(count > 2, "only {count} commands were found");
    }
}
