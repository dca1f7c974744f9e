//! Output for a shell: scripts that complete a command line, and manual pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::run;

#[test]
fn a_shell_script_and_manual_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).printed();
        for word in ["ropewalk", "consume", "key-separator"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pages = directory.path().join("man/man1");
    let wrote = run(&["man", pages.to_str().expect("text")]).printed();
    let count = fs::read_dir(&pages).expect("made").count();
    assert!(wrote.starts_with(&format!("wrote {count} pages to ")), "{wrote}");
    for (page, text) in [
        ("ropewalk.1", "consume"),
        ("ropewalk-topic-create.1", "partitions"),
        ("ropewalk-consume.1", ".SH EXAMPLES"),
    ] {
        let page = fs::read_to_string(pages.join(page)).expect("a page for each command");
        assert!(page.contains(text), "{page}");
    }
    let file = directory.path().join("file");
    fs::write(&file, "").expect("writable");
    let complaint = run(&["man", file.to_str().expect("text")]).complaint();
    assert!(
        complaint.starts_with(&format!(
            "error: manual pages cannot be written to {}: ",
            file.display()
        )),
        "{complaint}"
    );
}

#[test]
fn bash_understands_its_script() {
    let script = run(&["completions", "bash"]).printed();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("ropewalk.bash");
    fs::write(&path, script).expect("writable");
    // Completes as bash would after `ropewalk cons`.
    let ask = format!(
        "source {}; COMP_WORDS=(ropewalk cons); COMP_CWORD=1; _ropewalk ropewalk cons ropewalk; echo \"${{COMPREPLY[@]}}\"",
        path.display()
    );
    let answer = Command::new("bash").args(["-c", &ask]).output();
    let answer = answer.expect("this test needs bash");
    assert_eq!(
        String::from_utf8_lossy(&answer.stdout).trim(),
        "consume",
        "{answer:?}"
    );
}

/// The lines of a document's section that a user would paste.
fn shell_block(document: &str, heading: &str) -> String {
    let section = document.split(heading).nth(1).expect("it has this section");
    let block = section.split("```sh\n").nth(1).expect("with a block");
    block.split("```").next().expect("never empty").to_owned()
}

#[test]
fn what_is_shown_for_shells_works_in_an_empty_home() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let document = fs::read_to_string(document).expect("a document of the source tree");
    let help = run(&["completions", "--help"]).printed();
    let examples = help.split("Examples:\n").nth(1).expect("it has some");
    let binaries = Path::new(env!("CARGO_BIN_EXE_ropewalk")).parent();
    let binaries = binaries.expect("it is in a folder").display();
    let path = format!("{binaries}:{}", std::env::var("PATH").expect("it is set"));
    for lines in [shell_block(&document, "## In your shell").as_str(), examples] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let ran = Command::new("sh")
            .args(["-e", "-c", lines])
            .env("HOME", home.path())
            .env("PATH", &path)
            .current_dir(home.path())
            .output()
            .expect("sh is everywhere");
        assert!(ran.status.success(), "{lines}: {ran:?}");
        for made in [
            ".local/share/bash-completion/completions/ropewalk",
            ".zfunc/_ropewalk",
            ".config/fish/completions/ropewalk.fish",
        ] {
            let made = fs::metadata(home.path().join(made)).expect("made");
            assert!(made.len() > 0, "{lines}");
        }
    }
}
