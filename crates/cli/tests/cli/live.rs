//! `top` on a terminal that `script` (of util-linux) makes for it: what it leaves behind when it ends.

use std::io::Read;
use std::process::{Command, Stdio};

use tempfile::tempdir;

use crate::support::RunningNode;

/// Bytes that show the cursor again and leave the alternate screen.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Reads on until `expected` has come.
fn read_to(out: &mut impl Read, text: &mut String, expected: &str) {
    let mut chunk = [0; 4096];
    while !text.contains(expected) {
        let count = out.read(&mut chunk).expect("a pipe");
        assert!(count > 0, "no {expected:?} in {text:?}");
        text.push_str(&String::from_utf8_lossy(&chunk[..count]));
    }
}

/// The terminal's settings whenever they were asked for (`stty -g`).
fn modes(text: &str) -> Vec<&str> {
    let is_mode = |letter: char| letter.is_ascii_hexdigit() || letter == ':';
    let lines = text.lines();
    lines
        .filter(|line| line.contains(':') && line.chars().all(is_mode))
        .collect()
}

#[test]
fn the_terminal_is_given_back_when_top_is_told_to_end() {
    let directory = tempdir().expect("a temporary directory");
    let node = RunningNode::start(&directory);
    for signal in ["-TERM", "-INT"] {
        // The inner shell becomes `top`: so its process id is known.
        let top = format!(
            "exec {} top --http {} --bootstrap {}",
            env!("CARGO_BIN_EXE_ropewalk"),
            node.http_address(),
            node.address
        );
        let command = format!("stty -g; sh -c 'echo pid=$$; {top}'; echo code=$?; stty -g");
        let mut script = Command::new("script")
            .args(["-q", "-e", "-c", &command, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test needs script");
        let mut out = script.stdout.take().expect("piped");
        let mut text = String::new();
        // Only what is not blank is drawn: a single word of the last line.
        read_to(&mut out, &mut text, "pauses");
        let process_id = text.lines().find_map(|line| line.strip_prefix("pid="));
        let process_id = process_id.expect("the shell tells it").to_owned();
        let sent = Command::new("kill").args([signal, &process_id]).status();
        assert!(sent.expect("kill is everywhere").success());
        read_to(&mut out, &mut text, "code=");
        out.read_to_string(&mut text).expect("text");
        assert!(script.wait().expect("our child").success(), "{text:?}");
        assert!(
            text.contains(LEAVE) && text.contains("code=0"),
            "{signal}: {text:?}"
        );
        let modes = modes(&text);
        assert!(modes.len() == 2 && modes[0] == modes[1], "{signal}: {text:?}");
    }
}
