//! `ropewalk bench`: measurements, of this machine or of any broker of Kafka's protocol. What is measured and how stands
//! in the crate `bench`.

use anyhow::{Result, bail};
use bench::{AppendOptions, FloorOptions, ReadOptions, append, floor, read};
use clap::{Args, Subcommand};

use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  ropewalk bench floor --dir /srv/log
  ropewalk bench append --topic load --partitions 8 --record-bytes 100 --seconds 30
  ropewalk bench append --topic load --rate 100000 --json
  ropewalk bench read --topic load

The same commands measure other brokers: --bootstrap names their address.";

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
    }
}

fn print(report: &str) -> Result<()> {
    let mut output = Output::open();
    output.line(report.trim_end())?;
    output.flush()
}
