//! `ropewalk consume`: prints a topic's records, up to where it ends now or as they come.

mod printer;

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Cluster, Consumer, ConsumerOptions, Fetched, Offset, OffsetQuery, Start, TopicMetadata};

use self::printer::Printer;
use crate::failure::note;
use crate::output::Output;
use crate::remote::Remote;

/// How long a follower waits before it looks for a lost leader again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// What followers have fetched and is not printed yet, in fetches.
const FETCHES_WAITING: usize = 4;

const EXAMPLES: &str = "\
Examples:
  ropewalk consume greetings                      everything that is there now
  ropewalk consume greetings --from latest --follow
  ropewalk consume orders --partition 2 --from 1000 --max 10
  ropewalk consume orders --json | jq .value

With several partitions, records are in order within each partition only.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConsumeArguments {
    /// The topic
    topic: String,
    #[command(flatten)]
    remote: Remote,
    /// Where to begin: earliest, latest or an offset
    #[arg(long, value_name = "WHERE", default_value = "earliest", value_parser = start)]
    from: Start,
    /// The partition to read; without it, all of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Stop after this many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Wait for new records in place of stopping at the last
    #[arg(long)]
    follow: bool,
    /// Print each record's key and this before its value
    #[arg(long, value_name = "TEXT", conflicts_with = "json")]
    key_separator: Option<String>,
    /// Print each record as a JSON object on a line of its own, with offset, timestamp, key and headers
    #[arg(long)]
    json: bool,
}

fn start(text: &str) -> Result<Start, String> {
    match text {
        "earliest" => Ok(Start::Earliest),
        "latest" => Ok(Start::Latest),
        _ => match text.parse() {
            Ok(offset) if offset >= 0 => Ok(Start::Offset(Offset(offset))),
            _ => Err("expected earliest, latest or an offset".to_owned()),
        },
    }
}

pub(crate) fn run(arguments: &ConsumeArguments) -> Result<()> {
    let mut cluster = arguments.remote.connect()?;
    let topic = cluster.topic(&arguments.topic)?;
    let partitions = partitions(arguments, &topic)?;
    let mut printer = Printer::new(
        Output::open(),
        arguments.json,
        arguments.key_separator.clone(),
        arguments.max,
    );
    if arguments.follow {
        return follow(arguments, &partitions, &mut printer);
    }
    for partition in partitions {
        if !read_to_tail(arguments, &mut cluster, partition, &mut printer)? {
            break;
        }
    }
    Ok(())
}

fn partitions(arguments: &ConsumeArguments, topic: &TopicMetadata) -> Result<Vec<i32>> {
    let all: Vec<i32> = topic.partitions.iter().map(|partition| partition.index).collect();
    match arguments.partition {
        Some(wanted) if all.contains(&wanted) => Ok(vec![wanted]),
        Some(wanted) => {
            bail!(
                "topic {} has no partition {wanted}, its last one is {}",
                topic.name,
                all.len() as i64 - 1
            )
        }
        None if all.len() > 1 && matches!(arguments.from, Start::Offset(_)) => {
            bail!(
                "topic {} has {} partitions; an offset needs --partition",
                topic.name,
                all.len()
            )
        }
        None => Ok(all),
    }
}

/// Prints a partition up to where it ends now. Tells whether more is wanted.
fn read_to_tail(
    arguments: &ConsumeArguments,
    cluster: &mut Cluster,
    partition: i32,
    printer: &mut Printer,
) -> Result<bool> {
    let topic = &arguments.topic;
    let tail = cluster
        .offset(topic, partition, OffsetQuery::Latest)?
        .unwrap_or(Offset::ZERO);
    if let Start::Offset(offset) = arguments.from
        && offset > tail
    {
        bail!("offset {offset} does not exist yet: partition {partition} of topic {topic} goes on at {tail}");
    }
    let mut consumer = Consumer::new(
        cluster,
        topic,
        partition,
        arguments.from,
        ConsumerOptions::default(),
    )?;
    while consumer.position() < tail {
        let fetched = consumer.fetch()?;
        if !printer.print(partition, &fetched)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a follower brings: its partition, and what it fetched or why it cannot go on.
type News = (i32, Result<Fetched>);

/// Prints all partitions as records come, until enough were printed or the process is ended.
fn follow(arguments: &ConsumeArguments, partitions: &[i32], printer: &mut Printer) -> Result<()> {
    let (give, take) = sync_channel(FETCHES_WAITING);
    for partition in partitions.iter().copied() {
        let cluster = arguments.remote.connect()?;
        let follower = Follower {
            cluster,
            topic: arguments.topic.clone(),
            partition,
            start: arguments.from,
        };
        let give = give.clone();
        let thread = thread::Builder::new().name(format!("partition-{partition}"));
        let started = thread.spawn(move || follower.run(&give));
        started.context("a thread for a partition could not be started")?;
    }
    drop(give);
    for (partition, news) in take {
        if !printer.print(partition, &news?)? {
            break;
        }
    }
    Ok(())
}

/// Reads one partition for ever, on a thread of its own: a fetch waits at the broker, and partitions must not wait for
/// each other.
struct Follower {
    cluster: Cluster,
    topic: String,
    partition: i32,
    start: Start,
}

impl Follower {
    fn run(mut self, give: &SyncSender<News>) {
        if let Err(error) = self.follow(give) {
            // If nobody takes it, the command is over.
            let _ = give.send((self.partition, Err(error)));
        }
    }

    fn follow(&mut self, give: &SyncSender<News>) -> Result<()> {
        let options = ConsumerOptions::default();
        let mut consumer = Consumer::new(
            &mut self.cluster,
            &self.topic,
            self.partition,
            self.start,
            options,
        )?;
        loop {
            let fetched = match consumer.fetch() {
                Ok(fetched) => fetched,
                Err(error) if error.is_retriable() => {
                    note(&format!("partition {}: {error}; trying again", self.partition));
                    self.reconnect(&mut consumer)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if !fetched.is_empty() && give.send((self.partition, Ok(fetched))).is_err() {
                return Ok(());
            }
        }
    }

    fn reconnect(&mut self, consumer: &mut Consumer) -> Result<()> {
        loop {
            thread::sleep(RECONNECT_PAUSE);
            match consumer.reconnect(&mut self.cluster) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_retriable() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_a_word_or_an_offset() {
        assert_eq!(start("earliest"), Ok(Start::Earliest));
        assert_eq!(start("latest"), Ok(Start::Latest));
        assert_eq!(start("17"), Ok(Start::Offset(Offset(17))));
        assert!(start("-1").is_err());
        assert!(start("oldest").is_err());
    }
}
