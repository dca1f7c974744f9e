//! What the user is told when a command fails: one sentence, and what to do next where we know it.

use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;

use client::{ClientError, ErrorCode};

use crate::output::{OutputClosed, cleaned};

/// Says why a command failed, and gives the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<OutputClosed>() {
        // `ropewalk consume … | head` got all that it wanted.
        return ExitCode::SUCCESS;
    }
    say("error", "31", &sentence(error));
    ExitCode::FAILURE
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

/// What helps against the failures that newcomers meet.
fn hint(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::Connect { .. } => {
            Some("`ropewalk serve` starts a node, --bootstrap names another address")
        }
        _ => match error.code()? {
            ErrorCode::UnknownTopicOrPartition => Some("`ropewalk topic list` shows what there is"),
            ErrorCode::GroupIdNotFound => Some("`ropewalk group list` shows what there is"),
            ErrorCode::NonEmptyGroup => Some("stop its consumers first"),
            ErrorCode::InvalidConfig => Some(
                "`ropewalk config get --topic NAME` shows what there is, or --node ID; --json tells what it means",
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
