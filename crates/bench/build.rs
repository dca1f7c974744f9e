//! Tells the program which commit it was built from, where git knows: results and `--version` say it. Nothing here depends on
//! the time of the build, so that the same commit gives the same text.

use std::process::Command;

/// This package's folder, as seen from the root of its repository.
const PLACE: &str = "crates/bench/";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let number = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let (commit, day, version, origin) = match Commit::look() {
        Some(commit) => (
            commit.named(commit.short_id()),
            commit.day().to_owned(),
            commit.named(&format!("{}, {}", commit.short_id(), commit.day())),
            commit.named(&format!("commit {} of {}", commit.id, commit.time)),
        ),
        None => (
            String::new(),
            "commit unknown".to_owned(),
            "commit unknown".to_owned(),
            "commit unknown: built without git".to_owned(),
        ),
    };
    println!("cargo::rustc-env=ROPEWALK_COMMIT={commit}");
    println!("cargo::rustc-env=ROPEWALK_DAY={day}");
    println!("cargo::rustc-env=ROPEWALK_VERSION={number} ({version})");
    println!("cargo::rustc-env=ROPEWALK_ORIGIN={origin}");
}

/// The commit that is checked out.
struct Commit {
    id: String,
    /// When it was made, in UTC, as RFC 3339.
    time: String,
    /// Says whether the sources differ from it, as far as that can be known now: sources that change later do not run this again.
    is_changed: bool,
}

impl Commit {
    /// Asks git. `None` where it is missing, or where the repository around here is not this project's, as with an unpacked archive.
    fn look() -> Option<Commit> {
        if git(&["rev-parse", "--show-prefix"])? != PLACE {
            return None;
        }
        // Each commit and each checkout adds a line to it.
        let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
        println!("cargo::rerun-if-changed={log}");
        let time = git(&[
            "-c",
            "log.showSignature=false",
            "log",
            "-1",
            "--format=%cd",
            "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
        ])?;
        Some(Commit {
            id: git(&["rev-parse", "HEAD"])?,
            time,
            is_changed: !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty(),
        })
    }

    /// A name of it, with a word on changed sources.
    fn named(&self, name: &str) -> String {
        let changed = if self.is_changed { ", changed" } else { "" };
        format!("{name}{changed}")
    }

    fn short_id(&self) -> &str {
        &self.id[..12]
    }

    fn day(&self) -> &str {
        &self.time[..10]
    }
}

/// Returns the output of git without the line's end, with times in UTC; `None` if git fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .env("TZ", "UTC")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
