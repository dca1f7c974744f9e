//! Test: every command that help texts and documents show is one that this program understands.

use std::fs;
use std::path::Path;

use clap::Parser;

use crate::{Arguments, command_line};

/// Documents with commands in them, from the root of the source tree.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "docs/cli.md",
    "docs/comparing.md",
    "docs/configs.md",
    "docs/operating.md",
    "docs/transactions.md",
];

#[test]
fn every_example_can_be_parsed() {
    let mut texts = Vec::new();
    gather_help(&command_line(), &mut texts);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in DOCUMENTS {
        let text = fs::read_to_string(root.join(name)).expect("a document of the source tree");
        texts.push(((*name).to_owned(), code_of(&text)));
    }
    let mut wrong = Vec::new();
    let mut count = 0;
    for (place, text) in &texts {
        for line in text.lines() {
            for words in commands_of(line) {
                count += 1;
                if let Err(error) = Arguments::try_parse_from(&words)
                    && error.exit_code() != 0
                {
                    wrong.push(format!("{place}: {}: {error}", words.join(" ")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 50, "only {count} examples were found");
}

#[test]
fn every_command_has_an_example() {
    let mut lacking = Vec::new();
    gather_lacking(&command_line(), &mut lacking);
    assert!(lacking.is_empty(), "{lacking:?}");
}

/// Lines that are broken by hand would be broken again, in their middle.
#[test]
fn paragraphs_that_are_broken_by_hand_fit_a_narrow_terminal() {
    let mut texts = Vec::new();
    gather_help(&command_line(), &mut texts);
    for (place, text) in &texts {
        for paragraph in text.split("\n\n") {
            // Examples are indented.
            let lines: Vec<&str> = paragraph.lines().filter(|line| !line.starts_with(' ')).collect();
            let is_broken = lines.len() > 1;
            let fits = lines.iter().all(|line| line.chars().count() <= 80);
            assert!(!is_broken || fits, "{place}: {paragraph}");
        }
    }
}

/// The commands without further words whose help shows no command.
fn gather_lacking(command: &clap::Command, lacking: &mut Vec<String>) {
    let help = command.get_after_help().map(ToString::to_string);
    if !command.has_subcommands() && !help.is_some_and(|help| help.contains("ropewalk ")) {
        lacking.push(command.get_name().to_owned());
    }
    for inner in command.get_subcommands() {
        gather_lacking(inner, lacking);
    }
}

fn gather_help(command: &clap::Command, texts: &mut Vec<(String, String)>) {
    if let Some(help) = command.get_after_help() {
        texts.push((format!("{} --help", command.get_name()), help.to_string()));
    }
    for inner in command.get_subcommands() {
        gather_help(inner, texts);
    }
}

/// The text in a document's fenced blocks.
fn code_of(text: &str) -> String {
    let mut inside = false;
    let mut code = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// The words of each `ropewalk` command in a line, as a shell would take it apart. What stands behind two spaces explains,
/// and what stands in backticks is only spoken of.
fn commands_of(line: &str) -> Vec<Vec<String>> {
    let line: String = line.split('`').step_by(2).collect();
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut spaces = 0;
    let mut redirected = false;
    for letter in line.trim().chars().chain([' ']) {
        spaces = if letter == ' ' && quote.is_none() {
            spaces + 1
        } else {
            0
        };
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') if spaces >= 2 => break,
            (None, ' ' | '|' | '<' | '>' | '#' | '&') => {
                let last = commands.last_mut().expect("never empty");
                if let Some(word) = word.take()
                    && !redirected
                {
                    last.push(word);
                }
                match letter {
                    '|' | '&' => {
                        commands.push(Vec::new());
                        redirected = false;
                    }
                    '<' | '>' => redirected = true,
                    '#' => break,
                    _ => {}
                }
            }
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    commands.retain(|words| words.first().is_some_and(|word| word == "ropewalk"));
    commands
}

#[test]
fn a_line_is_taken_apart_as_by_a_shell() {
    let line = r"  printf 'a b\n' | ropewalk produce t --key-separator ': ' < in.txt   as it is | ropewalk consume no";
    assert_eq!(
        commands_of(line),
        [["ropewalk", "produce", "t", "--key-separator", ": "]]
    );
    assert!(commands_of("kcat -b host; see `ropewalk topic list`").is_empty());
}
