//! `ropewalk-compare`: compares systems, makes the reports of a comparison again, and tells what differs between two comparisons.
//! The binary `ropewalk` stands beside this one: it is the node to compare, and the driver of it.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use bench::version;
use clap::{Parser, Subcommand};
use compare::diff::{self, Machines};
use compare::report::{self, Form};
use compare::{CompareOptions, Interrupt};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const EXAMPLES: &str = "\
Examples:
  ropewalk-compare run --systems ropewalk,kafka --suite quick --out comparison
  ropewalk-compare report comparison/results.json
  ropewalk-compare diff before/results.json after/results.json --system ropewalk";

/// Several logs under the same workloads, and one report
#[derive(Debug, Parser)]
#[command(name = "ropewalk-compare", version = version::SHORT, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run several systems under the same workloads, and report
    Run(CompareOptions),
    /// Make the reports of a comparison again from its results.json, beside it
    Report {
        /// results.json
        results: PathBuf,
        /// And one HTML page that needs nothing else
        #[arg(long)]
        html: bool,
    },
    /// Do on a host what a comparison on another machine asks
    #[command(hide = true)]
    Agent,
    /// Tell what got better or worse between two comparisons; exit with 1 if something got worse, or they are of two machines
    Diff(DiffArguments),
}

#[derive(Debug, clap::Args)]
struct DiffArguments {
    /// results.json of the earlier comparison
    before: PathBuf,
    /// results.json of the later one
    after: PathBuf,
    /// What this system and its variants do decides the exit status; the first system of the comparison unless told
    #[arg(long)]
    system: Option<String>,
    /// Judge the figures even if they are of two machines
    #[arg(long)]
    any_machine: bool,
    /// Report as one JSON object
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(options) => run(&options),
        Command::Report { results, html } => compare::read_results(&results).and_then(|found| {
            let form = if html { Form::Page } else { Form::Markdown };
            report::write_all(&found, results.parent().unwrap_or(Path::new(".")), form)
        }),
        Command::Agent => compare::agent::run(),
        Command::Diff(arguments) => diff(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is gone there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &CompareOptions) -> Result<()> {
    let interrupt = Interrupt::default();
    watch_signals(interrupt.clone())?;
    // Without the folder of this binary: the report is for other machines too.
    let words = std::iter::once("ropewalk-compare".to_owned()).chain(std::env::args().skip(1));
    let command = words.collect::<Vec<_>>().join(" ");
    let failures = compare::run(options, &command, &interrupt)?;
    print(&format!(
        "the report is in {}",
        options.out.join("report.md").display()
    ))?;
    if failures.is_empty() {
        return Ok(());
    }
    bail!("{} runs failed:\n  {}", failures.len(), failures.join("\n  "))
}

/// Watches for SIGINT and SIGTERM, and for SIGHUP unless it is ignored (nohup). The first ends what was started and keeps what was
/// measured; the second kills it, and ends this process at once.
fn watch_signals(interrupt: Interrupt) -> Result<()> {
    let watched: &[i32] = match platform::process::ignores_hangup()? {
        true => &[SIGINT, SIGTERM],
        false => &[SIGINT, SIGTERM, SIGHUP],
    };
    let mut signals = Signals::new(watched).context("signals cannot be watched")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut signals = signals.forever();
            if signals.next().is_some() {
                interrupt.set();
            }
            if let Some(signal) = signals.next() {
                // As shells have it for a process that a signal ended.
                interrupt.exit(128 + signal);
            }
        })
        .context("a thread for signals could not be started")?;
    Ok(())
}

fn diff(arguments: &DiffArguments) -> Result<()> {
    let before = compare::read_results(&arguments.before)?;
    let after = compare::read_results(&arguments.after)?;
    let machines = match arguments.any_machine {
        true => Machines::Any,
        false => Machines::Same,
    };
    let diff = diff::run(&before, &after, machines, arguments.system.as_deref())?;
    print(&match arguments.json {
        true => diff.to_json()?,
        false => diff.to_string(),
    })?;
    if diff.has_regressions() {
        bail!("something got worse");
    }
    if !diff.unlike_machines.is_empty() {
        bail!("these are of two machines, so nothing was judged: --any-machine judges all the same");
    }
    Ok(())
}

/// Prints a text and the end of its line. A reader that has gone away (`| head`) has got all that it wanted.
fn print(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("the output cannot be written")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_help_and_documents_show_is_understood() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let documents =
            ["README.md", "docs/comparing.md", "bench/peers/README.md"].map(|name| root.join(name));
        let documents =
            documents.map(|path| std::fs::read_to_string(path).expect("a document of the source tree"));
        let lines = documents
            .iter()
            .flat_map(|text| text.lines())
            .chain(EXAMPLES.lines())
            .map(str::trim);
        let commands: Vec<&str> = lines
            .filter(|line| line.starts_with("ropewalk-compare "))
            .collect();
        for command in &commands {
            let parsed = Arguments::try_parse_from(command.split(' '));
            assert!(parsed.is_ok(), "{command}: {parsed:?}");
        }
        assert!(commands.len() >= 7, "{commands:?}");
    }
}
