//! Runs the built binary: single commands, and a node that is gone when its test is.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

pub(crate) fn ropewalk(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk"));
    command.args(arguments).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// The result of a command: exit code, stdout, stderr.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).expect("commands print text");
        Ran {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Checks that the command succeeded, and gives what it printed.
    #[track_caller]
    pub(crate) fn printed(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// Checks that the command failed with exit code 1 and one sentence, and gives the sentence.
    #[track_caller]
    pub(crate) fn complaint(self) -> String {
        self.sentence(1)
    }

    /// Checks that the command line was found to make no sense, in one sentence, and gives the sentence.
    #[track_caller]
    pub(crate) fn senseless(self) -> String {
        self.sentence(2)
    }

    #[track_caller]
    fn sentence(self, code: i32) -> String {
        assert_eq!((self.code, self.err.lines().count()), (Some(code), 1), "{self:?}");
        self.err.trim_end().to_owned()
    }
}

pub(crate) fn run(arguments: &[&str]) -> Ran {
    Ran::of(ropewalk(arguments).output().expect("the binary was built"))
}

/// Runs a command whose output nobody reads.
pub(crate) fn run_unread(arguments: &[&str]) -> Ran {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = ropewalk(arguments);
    let output = command.stdout(writer).stderr(Stdio::piped()).output();
    Ran::of(output.expect("the binary was built"))
}

pub(crate) fn run_with_input(arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = ropewalk(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary was built");
    let mut stdin = child.stdin.take().expect("piped");
    // A command may fail before it has read everything.
    let _ = stdin.write_all(input);
    drop(stdin);
    Ran::of(child.wait_with_output().expect("our child"))
}

/// A running node on free ports.
pub(crate) struct RunningNode {
    process: Child,
    pub(crate) address: String,
    pub(crate) greeting: Vec<String>,
}

impl RunningNode {
    pub(crate) fn start(directory: &TempDir) -> RunningNode {
        RunningNode::start_with(directory, &["disk.reserve_bytes=0"])
    }

    /// Starts a node with `sets`, which `start` has of its own.
    pub(crate) fn start_with(directory: &TempDir, sets: &[&str]) -> RunningNode {
        let data = directory.path().join("data");
        let data = data.to_str().expect("temporary paths are text");
        let options = [
            "--data",
            data,
            "--kafka",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--cores",
            "2",
        ];
        let small = [
            "journal.file_bytes=1MiB",
            "journal.bytes_max=8MiB",
            "journal.layout_trigger=2MiB",
        ];
        let mut command = ropewalk(&["serve"]);
        command
            .args(options)
            .args(small.iter().chain(sets).flat_map(|set| ["--set", set]));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the binary was built");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let greeting_lines = if sets.contains(&"log.format=json") { 1 } else { 4 };
        let greeting: Vec<String> = lines.take(greeting_lines).map_while(Result::ok).collect();
        let of_json = |line: &String| {
            let facts: serde_json::Value = serde_json::from_str(line).ok()?;
            facts["kafka"].as_str().map(str::to_owned)
        };
        let of_text = |line: &String| line.strip_prefix("  kafka  ").map(str::to_owned);
        let address = greeting
            .iter()
            .find_map(|line| of_text(line).or_else(|| of_json(line)));
        let Some(address) = address else {
            let mut err = String::new();
            let _ = process.stderr.take().expect("piped").read_to_string(&mut err);
            panic!("the node did not start: {err}");
        };
        RunningNode {
            process,
            address,
            greeting,
        }
    }

    /// Where it serves HTTP, as `host:port`.
    pub(crate) fn http_address(&self) -> String {
        let line = |line: &String| line.strip_prefix("  http   http://").map(str::to_owned);
        self.greeting
            .iter()
            .find_map(line)
            .expect("the greeting tells it")
    }

    /// Runs a tool against this node.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with_input(arguments, b"")
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let arguments: Vec<_> = arguments
            .iter()
            .copied()
            .chain(["--bootstrap", &self.address])
            .collect();
        run_with_input(&arguments, input)
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end_with(mut self, signal: &str) -> Ran {
        let process_id = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &process_id]).status();
        assert!(sent.expect("kill is everywhere").success());
        let mut err = String::new();
        self.process
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut err)
            .expect("text");
        let status = self.process.wait().expect("our child");
        Ran {
            code: status.code(),
            out: String::new(),
            err,
        }
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        // Fails if it has ended, which is as well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
