//! `ropewalk man`: a manual page for each command, made from what `--help` says.
//!
//! `clap_mangen` writes the sections that every program has. The text behind a command's help is taken apart here: examples are
//! printed line by line as they are, and the rest flows.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bench::version;
use clap::{Arg, Args};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::output::{Output, counted};

const EXAMPLES: &str = "\
Examples:
  ropewalk man ./man && man ./man/ropewalk.1
  ropewalk man /usr/local/share/man/man1";

/// The text in an argument's help before the name of the variable that stands for the argument.
const VARIABLE_MARK: &str = "[env: ";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArguments {
    /// Where the pages go; made if it does not exist
    directory: PathBuf,
}

pub(crate) fn run(arguments: &ManArguments) -> Result<()> {
    let directory = arguments.directory.display();
    let cannot = || format!("manual pages cannot be written to {directory}");
    fs::create_dir_all(&arguments.directory).with_context(cannot)?;
    let mut command = crate::command_line().disable_help_subcommand(true);
    command.build();
    let pages = write_pages(&command, &arguments.directory).with_context(cannot)?;
    let mut output = Output::open();
    output.line(format!("wrote {} to {directory}", counted(pages, "page")))?;
    output.flush()
}

/// Writes the pages of a command and of those in it; returns how many.
fn write_pages(command: &clap::Command, directory: &Path) -> io::Result<usize> {
    let mut file = File::create(directory.join(Man::new(command.clone()).get_filename()))?;
    render(command, &mut file)?;
    let mut pages = 1;
    for inner in command.get_subcommands() {
        pages += write_pages(inner, directory)?;
    }
    Ok(pages)
}

/// Writes the page of a command.
fn render(command: &clap::Command, page: &mut dyn Write) -> io::Result<()> {
    let man = Man::new(command.clone())
        .date(version::DAY)
        .source(concat!("ropewalk ", env!("CARGO_PKG_VERSION")))
        .manual("Ropewalk");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    let mut own = Roff::new();
    environment(command, &mut own);
    behind_help(command, &mut own);
    own.to_writer(page)
}

/// The variables that stand for arguments.
fn environment(command: &clap::Command, page: &mut Roff) {
    let variables: Vec<_> = command
        .get_arguments()
        .filter_map(|argument| Some((variable_of(argument)?, argument)))
        .collect();
    if variables.is_empty() {
        return;
    }
    page.control("SH", ["ENVIRONMENT"]);
    for (variable, argument) in variables {
        let flag = argument.get_long().unwrap_or_default();
        page.control("TP", []);
        page.text([clap_mangen::roff::bold(variable)]);
        page.text([roman(format!("Stands for --{flag} where that is not given."))]);
    }
}

/// The variable that clap reads for an argument, or that its help says is read.
fn variable_of(argument: &Arg) -> Option<String> {
    if let Some(name) = argument.get_env() {
        return Some(name.to_string_lossy().into_owned());
    }
    let help = argument.get_help()?.to_string();
    let (_, marked) = help.split_once(VARIABLE_MARK)?;
    let (name, _) = marked.split_once(']')?;
    Some(name.to_owned())
}

/// The paragraphs behind a command's help: its examples as they are, then the others.
fn behind_help(command: &clap::Command, page: &mut Roff) {
    let Some(help) = command.get_after_help().map(ToString::to_string) else {
        return;
    };
    let (examples, notes): (Vec<&str>, Vec<&str>) = help
        .split("\n\n")
        .partition(|paragraph| paragraph.lines().any(is_indented));
    if !examples.is_empty() {
        page.control("SH", ["EXAMPLES"]);
    }
    for paragraph in examples {
        page.control("PP", []);
        page.control("nf", []);
        for line in paragraph.lines().filter(|line| !is_plain_heading(line)) {
            page.text([roman(line)]);
        }
        page.control("fi", []);
    }
    if !notes.is_empty() {
        page.control("SH", ["NOTES"]);
    }
    for paragraph in notes {
        page.control("PP", []);
        page.text([roman(paragraph.lines().collect::<Vec<_>>().join(" "))]);
    }
}

fn is_indented(line: &str) -> bool {
    line.starts_with("  ")
}

/// Tells a line that says no more than the section's own heading.
fn is_plain_heading(line: &str) -> bool {
    matches!(line, "Example:" | "Examples:")
}

#[cfg(test)]
mod tests;
