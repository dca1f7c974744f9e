//! `ropewalk bench`: measurements, of this machine or of any broker of Kafka's protocol. What is measured and how stands
//! in the crate `bench`.

use anyhow::{Result, bail};
use bench::{
    AppendOptions, CommitOptions, DriveOptions, FloorOptions, MembersOptions, ReadOptions, Report as _,
    append, commit, drive, floor, members, read,
};
use clap::{Args, Subcommand};
use server::config::plain_value;

use crate::failure::Senseless;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  ropewalk bench floor --dir /srv/log
  ropewalk bench append --topic load --partitions 8 --record-bytes 100 --seconds 30
  ropewalk bench append --topic load --rate 100000 --batch-records 1000 --json
  ropewalk bench read --topic load
  ropewalk bench commit --groups 10000 --seconds 5
  ropewalk bench members --members 1000 --partitions 1000

append and read measure other brokers too: --bootstrap names their address.
What they make stays: the topic (bench, of members bench-members), the groups of
commit (bench-0, bench-1 and so on) and of members (bench-members).
`ropewalk topic delete bench` and `ropewalk group delete bench-0` remove them.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Measure what disk, loopback and memory of this machine allow
    #[command(after_help = "Example:
  ropewalk bench floor --dir /srv/log")]
    Floor(FloorOptions),
    /// Append records and measure rate and latency
    #[command(after_help = "Examples:
  ropewalk bench append --partitions 8 --record-bytes 100 --seconds 30
  ropewalk bench append --rate 100000 --batch-records 1000 --json

The topic stays: `ropewalk topic delete bench` removes it.")]
    Append(AppendOptions),
    /// Read records back and measure the rate
    #[command(after_help = "Example:
  ropewalk bench read --topic bench")]
    Read(ReadOptions),
    /// Commit offsets of many groups and measure rate and latency
    #[command(after_help = "Example:
  ropewalk bench commit --groups 10000 --seconds 5

The topic stays, and so do the groups bench-0, bench-1 and so on:
`ropewalk topic delete bench` and `ropewalk group delete bench-0` remove them.")]
    Commit(CommitOptions),
    /// Have many members join a group, one more join and one leave, and measure how long it takes to settle
    #[command(after_help = "Examples:
  ropewalk bench members --members 1000 --partitions 1000
  ropewalk bench members --members 1000 --partitions 10000 --heartbeat-interval 5
  ropewalk bench members --members 1000 --protocol classic

Heartbeats go back to back unless told otherwise: that is the coordinator's own
time. With an interval it is what an application waits: up to two of them, where
one member gives a partition up and another gets it. An empty classic group
waits for more members first (groups.initial_rebalance_delay).

The topic stays, and so does the group: `ropewalk topic delete bench-members`
and `ropewalk group delete bench-members` remove them.")]
    Members(MembersOptions),
    /// Carry out a comparison's commands from standard input
    #[command(after_help = "Example:
  ropewalk bench drive 127.0.0.1:9092

Started by `ropewalk-compare`; of use by itself only to write another driver.")]
    Drive(DriveOptions),
}

pub(crate) fn run(arguments: BenchArguments) -> Result<()> {
    match arguments.command {
        BenchCommand::Floor(options) => print(&floor::run(&options)?.render(options.json)),
        BenchCommand::Append(mut options) => {
            options.configs = plain_configs(options.configs)?;
            let report = append::run(&options)?;
            let printed = print(&report.render(options.json));
            // The figures stand, but a script must not take them for those of a sound run.
            match report.errors {
                0 => printed,
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
    }
}

/// Configs with times and sizes as Kafka's plain numbers.
fn plain_configs(configs: Vec<(String, String)>) -> Result<Vec<(String, String)>> {
    let plain = |(name, value): (String, String)| match plain_value(&name, &value) {
        Ok(value) => Ok((name, value)),
        Err(expected) => Err(Senseless(format!("{name} must be {expected}")).into()),
    };
    configs.into_iter().map(plain).collect()
}

fn print(report: &str) -> Result<()> {
    let mut output = Output::open();
    output.line(report.trim_end())?;
    output.flush()
}
