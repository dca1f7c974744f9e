//! The binary `ropewalk`: a node, and the tools to look at one, in one program.
//!
//! Each command is a module with its arguments and a `run`. A command that fails says so in one sentence on stderr. Exit
//! codes: 0 done, 1 failed, 2 the command line makes no sense, 3 something could not be read, 128 and a signal's number where that ended it at once.

mod address;
mod bench_command;
mod change_config;
mod check;
mod cluster;
mod completions;
mod consume;
mod cut;
mod directory;
mod escapes;
mod failure;
mod findings;
mod group;
mod inspect;
mod logging;
mod man;
mod named;
mod node_options;
mod output;
mod produce;
mod progress;
mod remote;
mod serve;
mod show_config;
mod signals;
mod time;
mod top;
mod topic;
mod txn;

use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::process::ExitCode;

use bench::version;
use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

/// Every core allocates and frees on its own thread; glibc's arenas would make them meet.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
A first session:
  ropewalk serve --data ./data
  printf 'one\\ntwo\\n' | ropewalk produce greetings
  ropewalk consume greetings

Any Kafka client works too:
  kcat -b localhost:9092 -C -t greetings -o beginning -e

`ropewalk COMMAND --help` explains a command and shows examples.";

#[derive(Parser)]
#[command(
    name = "ropewalk",
    version = version::SHORT,
    long_version = version::LONG,
    about = "A log that speaks Kafka's protocol and answers once records are on disk"
)]
#[command(after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a node and run it until it is told to stop
    Serve(serve::ServeArguments),
    /// Show a node's configuration, or read and change the configs of topics and nodes that run
    Config(show_config::ConfigArguments),
    /// Create, list, describe, grow, trim or delete topics
    Topic(topic::TopicArguments),
    /// List, describe, reset or delete consumer groups, or forget their offsets
    Group(group::GroupArguments),
    /// List, describe or abort transactions, or find those that hang
    Txn(txn::TxnArguments),
    /// Tell how a cluster of several nodes stands
    Cluster(cluster::ClusterArguments),
    /// Append records from standard input or files to a topic
    Produce(produce::ProduceArguments),
    /// Print a topic's records
    Consume(consume::ConsumeArguments),
    /// Verify everything that is stored in a directory that no node is running on
    Check(check::CheckArguments),
    /// List what the journals and segments of a directory at rest hold
    Inspect(inspect::InspectArguments),
    /// Watch a node that runs: rates, latency, flushes, caches, lag
    Top(top::TopArguments),
    /// Measure: what the machine allows, how fast a broker appends and is read
    Bench(bench_command::BenchArguments),
    /// Print a script with which a shell completes this command line
    Completions(completions::CompletionsArguments),
    /// Write manual pages
    Man(man::ManArguments),
}

/// The whole command line, for what is made from it.
fn command_line() -> clap::Command {
    Arguments::command()
}

/// Reads the command line, or says what is wrong with it and ends.
fn arguments() -> Arguments {
    let error = match Arguments::try_parse() {
        Ok(arguments) => return arguments,
        Err(error) => error,
    };
    if error.kind() == ErrorKind::MissingRequiredArgument {
        // A usage line has every argument that was given, those of the environment too, as if they were required.
        without_environment(command_line()).get_matches();
    }
    match expected_number(&error) {
        Some(told) => told.exit(),
        None => error.exit(),
    }
}

/// An error about text that is no number, in words for people: the standard library's are for programmers.
fn expected_number(error: &clap::Error) -> Option<clap::Error> {
    let cause = std::error::Error::source(error)?;
    let expected = match cause.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => "expected a smaller number",
        Some(_) => "expected a whole number",
        None => cause.is::<ParseFloatError>().then_some("expected a number")?,
    };
    let (argument, value) = (
        error.get(ContextKind::InvalidArg)?,
        error.get(ContextKind::InvalidValue)?,
    );
    let told = format!("invalid value '{value}' for '{argument}': {expected}\n");
    Some(clap::Error::raw(error.kind(), told))
}

/// The same command line, deaf to variables.
fn without_environment(command: clap::Command) -> clap::Command {
    command
        .mut_args(|argument| argument.env(None::<&'static str>))
        .mut_subcommands(without_environment)
}

fn main() -> ExitCode {
    let done = match arguments().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Config(arguments) => show_config::run(&arguments),
        Command::Topic(arguments) => topic::run(arguments),
        Command::Group(arguments) => group::run(arguments),
        Command::Txn(arguments) => txn::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Produce(arguments) => produce::run(&arguments),
        Command::Consume(arguments) => consume::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Bench(arguments) => bench_command::run(arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}

#[cfg(test)]
mod examples;
