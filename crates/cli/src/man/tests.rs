//! Test: what manual pages say of examples and variables.

use super::*;

fn page(command: &clap::Command) -> String {
    let mut bytes = Vec::new();
    render(command, &mut bytes).expect("memory takes everything");
    String::from_utf8(bytes).expect("a page is text")
}

/// Calls `look` with each command and its page.
fn each_page(command: &clap::Command, look: &mut impl FnMut(&clap::Command, &str)) {
    look(command, &page(command));
    for inner in command.get_subcommands() {
        each_page(inner, look);
    }
}

fn built() -> clap::Command {
    let mut command = crate::command_line().disable_help_subcommand(true);
    command.build();
    command
}

/// The lines of a page that are printed as they are, without roff's escapes.
fn unflowed(page: &str) -> Vec<String> {
    let blocks = page.split(".nf\n").skip(1);
    let blocks = blocks.map(|block| block.split("\n.fi\n").next().expect("never empty"));
    let plain = |line: &str| {
        line.replace("\\&", "")
            .replace("\\-", "-")
            .replace("\\*(Aq", "'")
            .replace("\\\\", "\\")
    };
    blocks.flat_map(|block| block.lines().map(plain)).collect()
}

#[test]
fn every_example_stands_on_a_line_of_its_own() {
    let mut examples = 0;
    each_page(&built(), &mut |command, page| {
        let help = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let shown = unflowed(page);
        for line in help.lines().filter(|line| is_indented(line)) {
            examples += 1;
            assert!(shown.iter().any(|shown| shown == line), "{line}: {page}");
        }
        let has_examples = help.lines().any(is_indented);
        assert_eq!(page.contains(".SH EXAMPLES\n"), has_examples, "{page}");
        assert!(!page.contains("EXTRA") && !page.contains("Examples:"), "{page}");
    });
    assert!(examples > 50, "only {examples} examples were found");
}

#[test]
fn every_variable_is_told() {
    each_page(&built(), &mut |command, page| {
        let is_remote = command
            .get_arguments()
            .any(|argument| argument.get_id() == "bootstrap");
        assert_eq!(page.contains("ROPEWALK_BOOTSTRAP"), is_remote, "{page}");
    });
    let serve = built().find_subcommand("serve").map(page).expect("it is there");
    for variable in ["DATA", "KAFKA", "HTTP", "CORES", "CONFIG"] {
        let entry = format!(
            ".TP\n\\fBROPEWALK_{variable}\\fR\nStands for \\-\\-{}",
            variable.to_lowercase()
        );
        assert!(serve.contains(&entry), "{serve}");
    }
    assert!(serve.contains(".SH ENVIRONMENT\n"), "{serve}");
    // Roff would drop an empty argument and take the next one for it.
    let title = serve
        .lines()
        .find(|line| line.starts_with(".TH"))
        .expect("each page has one");
    let expected = format!(
        "1 {} \"ropewalk {}\" Ropewalk",
        version::DAY,
        env!("CARGO_PKG_VERSION")
    );
    assert!(
        title.replace('"', "").ends_with(&expected.replace('"', "")),
        "{title}"
    );
}
