//! The examples of docs/http.md run as they stand and print what they say. `…` stands for anything within a line.

use std::process::Command;

use crate::support::TestNode;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md");
/// The address that the page uses.
const ADDRESS: &str = "localhost:8092";
/// The exit code of curl when `--max-time` ends it.
const TIMED_OUT: i32 = 28;

/// A command of the page, and what it prints.
struct Example {
    command: String,
    output: Option<String>,
}

fn examples(page: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match language {
            "sh" => examples.push(Example {
                command: block.join("\n"),
                output: None,
            }),
            "text" => {
                let last = examples.last_mut().expect("output follows its command");
                last.output = Some(block.join("\n"));
            }
            other => panic!("the page has a block of {other:?}, which nobody runs"),
        }
    }
    examples
}

/// Says if a line is one that the page shows.
fn is_like(line: &str, shown: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn every_example_does_what_the_page_says() {
    let page = std::fs::read_to_string(PAGE).expect("it is in the source tree");
    let node = TestNode::start();
    let folder = tempfile::tempdir().expect("there is room");
    let examples = examples(&page);
    assert!(examples.len() > 10, "the page has examples");
    for Example { command, output } in examples {
        let here = command.replace(ADDRESS, &node.http_address().to_string());
        let ran = Command::new("sh")
            .args(["-ec", &here])
            .current_dir(folder.path())
            .output()
            .expect("there is a shell");
        let printed = String::from_utf8(ran.stdout).expect("text");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(
            matches!(ran.status.code(), Some(0 | TIMED_OUT)),
            "{command}\n{printed}\n{said}"
        );
        let Some(output) = output else { continue };
        let printed = printed.trim_end().replace('\r', "");
        let alike = printed.lines().count() == output.lines().count()
            && printed
                .lines()
                .zip(output.lines())
                .all(|(line, shown)| is_like(line, shown));
        assert!(alike, "{command}\nprints\n{printed}\nthe page says\n{output}");
    }
}

#[test]
fn anything_is_within_a_line_only() {
    assert!(is_like("a1b2c", "a…b…c") && is_like("abc", "abc") && is_like("ab", "a…b"));
    assert!(!is_like("abcd", "abc") && !is_like("xbc", "a…c") && !is_like("acb", "a…b…c"));
}
