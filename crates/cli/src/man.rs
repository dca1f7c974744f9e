//! `ropewalk man`: a manual page for each command, made from what `--help` says.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::output::{Output, counted};

const EXAMPLES: &str = "\
Examples:
  ropewalk man ./man && man ./man/ropewalk.1
  ropewalk man /usr/local/share/man/man1";

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
    let command = crate::command_line();
    let pages = pages(&command);
    clap_mangen::generate_to(command, &arguments.directory).with_context(cannot)?;
    let mut output = Output::open();
    output.line(format!("wrote {} to {directory}", counted(pages, "page")))?;
    output.flush()
}

/// How many pages a command gets: its own and those of the commands in it.
fn pages(command: &clap::Command) -> usize {
    1 + command.get_subcommands().map(pages).sum::<usize>()
}
