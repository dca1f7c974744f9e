//! `ropewalk completions`: a script with which a shell completes this command line.
//!
//! Made from the same arguments that are parsed, so it cannot fall behind them.

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  ropewalk completions bash > ~/.local/share/bash-completion/completions/ropewalk

  # with fpath+=~/.zfunc before compinit in ~/.zshrc
  mkdir -p ~/.zfunc
  ropewalk completions zsh > ~/.zfunc/_ropewalk

  mkdir -p ~/.config/fish/completions
  ropewalk completions fish > ~/.config/fish/completions/ropewalk.fish";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments) -> Result<()> {
    // Into memory first: the generator does not report a writer that fails.
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut crate::command_line(),
        "ropewalk",
        &mut script,
    );
    let mut output = Output::open();
    output.bytes(&script)?;
    output.flush()
}
