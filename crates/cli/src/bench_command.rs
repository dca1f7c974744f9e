//! `ropewalk bench`: measurements, of this machine or of any broker of Kafka's protocol. What is measured and how stands
//! in the crate `bench`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use bench::compare::{self, CompareOptions, Interrupt};
use bench::{
    AppendOptions, CommitOptions, DriveOptions, FloorOptions, MembersOptions, ReadOptions, append, commit,
    drive, floor, members, read,
};
use clap::{Args, Subcommand};

use crate::output::Output;
use crate::signals;

const EXAMPLES: &str = "\
Examples:
  ropewalk bench floor --dir /srv/log
  ropewalk bench append --topic load --partitions 8 --record-bytes 100 --seconds 30
  ropewalk bench append --topic load --rate 100000 --json
  ropewalk bench read --topic load
  ropewalk bench commit --groups 10000 --seconds 5
  ropewalk bench members --members 1000 --partitions 1000
  ropewalk bench compare --systems ropewalk,kafka --suite quick --out comparison
  ropewalk bench diff before/results.json after/results.json --system ropewalk

append and read measure other brokers too: --bootstrap names their address.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Measure what disk, loopback and memory of this machine allow
    Floor(FloorOptions),
    /// Append records and measure rate and latency
    Append(AppendOptions),
    /// Read records back and measure the rate
    Read(ReadOptions),
    /// Commit offsets of many groups and measure rate and latency
    Commit(CommitOptions),
    /// Have many members join a group, one more join and one leave, and measure how long it takes to settle
    Members(MembersOptions),
    /// Carry out a comparison's commands from standard input
    Drive(DriveOptions),
    /// Run several systems under the same workloads, and report
    Compare(CompareOptions),
    /// Make the reports of a comparison again from its results.json, beside it
    Report {
        /// results.json
        results: PathBuf,
    },
    /// Tell what got better or worse between two comparisons; exit with 1 if something got worse
    Diff(DiffArguments),
}

#[derive(Args)]
struct DiffArguments {
    /// results.json of the earlier comparison
    before: PathBuf,
    /// results.json of the later one
    after: PathBuf,
    /// Only what this system does decides the exit status, for example ropewalk
    #[arg(long)]
    system: Option<String>,
    /// Report as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: BenchArguments) -> Result<()> {
    match arguments.command {
        BenchCommand::Floor(options) => print(&floor::run(&options)?.render(options.json)),
        BenchCommand::Append(options) => {
            let report = append::run(&options)?;
            print(&report.render(options.json))?;
            // The figures stand, but a script must not take them for those of a sound run.
            match report.errors {
                0 => Ok(()),
                errors => bail!(
                    "{errors} batches failed: {}",
                    report.first_error.unwrap_or_default()
                ),
            }
        }
        BenchCommand::Read(options) => print(&read::run(&options)?.render(options.json)),
        BenchCommand::Commit(options) => print(&commit::run(&options)?.render(options.json)),
        BenchCommand::Members(options) => print(&members::run(&options)?.render(options.json)),
        BenchCommand::Drive(options) => drive::run(&options),
        BenchCommand::Compare(options) => compare(&options),
        BenchCommand::Report { results } => {
            let found = compare::read_results(&results)?;
            compare::report::write_all(&found, results.parent().unwrap_or(Path::new(".")))
        }
        BenchCommand::Diff(arguments) => diff(&arguments),
    }
}

/// The first signal ends what was started and keeps what was measured; the second ends this process at once.
fn compare(options: &CompareOptions) -> Result<()> {
    let interrupt = Interrupt::default();
    let signalled = interrupt.clone();
    signals::watch(move |_| {
        signalled.set();
        true
    })?;
    // Without the folder of this binary: the report is for other machines too.
    let words = std::iter::once("ropewalk".to_owned()).chain(std::env::args().skip(1));
    let command = words.collect::<Vec<_>>().join(" ");
    let failures = compare::run(options, &command, &interrupt)?;
    print(&format!(
        "the report is in {}",
        options.out.join("report.html").display()
    ))?;
    if failures.is_empty() {
        return Ok(());
    }
    bail!("{} runs failed:\n  {}", failures.len(), failures.join("\n  "))
}

fn diff(arguments: &DiffArguments) -> Result<()> {
    let before = compare::read_results(&arguments.before)?;
    let after = compare::read_results(&arguments.after)?;
    let diff = compare::diff::run(&before, &after)?;
    print(&if arguments.json {
        diff.to_json()?
    } else {
        diff.to_string()
    })?;
    if diff.has_regressions(arguments.system.as_deref()) {
        bail!("something got worse");
    }
    Ok(())
}

fn print(report: &str) -> Result<()> {
    let mut output = Output::open();
    output.line(report.trim_end())?;
    output.flush()
}
