//! Tells the program which commit it was built from, where git knows: results say what was measured. Without git it is left out.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    println!("cargo::rerun-if-changed=build.rs");
    // Each commit and each checkout adds a line to it.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    // As far as it can be known when this is built: sources that change later do not run this again.
    let is_changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|list| !list.is_empty());
    let changed = if is_changed { ", changed" } else { "" };
    println!("cargo::rustc-env=ROPEWALK_COMMIT={commit}{changed}");
}
