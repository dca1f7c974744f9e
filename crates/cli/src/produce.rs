//! `ropewalk produce`: appends the lines of standard input to a topic.
//!
//! Lines are gathered while the last batch is under way: a typed line goes out at once, a piped file in large batches. The
//! command ends when everything is acknowledged, and fails if anything was not.

mod lines;

use std::sync::mpsc::TryRecvError;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Acks, Cluster, Completion, Producer, ProducerOptions, TopicMetadata, partition_of};

use self::lines::{Lines, standard_input};
use crate::failure::note;
use crate::remote::{Remote, topic_or_new};

/// What a batch gathers before it is sent: well below the least that brokers accept by default, 1 MiB.
const BATCH_BYTES: usize = 128 << 10;

const EXAMPLES: &str = "\
Examples:
  printf 'one\\ntwo\\n' | ropewalk produce greetings
  ropewalk produce orders --key-separator : < orders.txt     each line is KEY:VALUE
  tail -f app.log | ropewalk produce logs --partition 0

Each line is one record. Records with a key go to the partition that Kafka's clients choose for it.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProduceArguments {
    /// The topic; made with the node's defaults if it does not exist
    topic: String,
    #[command(flatten)]
    remote: Remote,
    /// What stands between key and value in each line; without it, records have no key
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    key_separator: Option<String>,
    /// The partition to append to; without it, by key, or in turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// When a record counts as appended: all (committed), 1 (the leader has it) or 0 (it was sent)
    #[arg(long, default_value = "all", value_parser = str::parse::<Acks>)]
    acks: Acks,
    /// Fail if the topic does not exist
    #[arg(long)]
    no_create: bool,
}

pub(crate) fn run(arguments: &ProduceArguments) -> Result<()> {
    let mut cluster = arguments.remote.connect()?;
    let topic = topic(arguments, &mut cluster)?;
    let mut appender = Appender::new(arguments, cluster, &topic)?;
    let chunks = standard_input()?;
    let mut lines = Lines::default();
    loop {
        let chunk = match chunks.try_recv() {
            Ok(chunk) => chunk,
            // Nothing to gather: send what there is, and learn what became of it, before waiting for more.
            Err(TryRecvError::Empty) => {
                appender.flush()?;
                match chunks.recv() {
                    Ok(chunk) => chunk,
                    Err(_) => break,
                }
            }
            Err(TryRecvError::Disconnected) => break,
        };
        let chunk = chunk.context("standard input cannot be read")?;
        lines.take(&chunk, |line| appender.append(line))?;
    }
    lines.end(|line| appender.append(line))?;
    appender.flush()
}

fn topic(arguments: &ProduceArguments, cluster: &mut Cluster) -> Result<TopicMetadata> {
    if arguments.no_create {
        return Ok(cluster.topic(&arguments.topic)?);
    }
    let (topic, made) = topic_or_new(cluster, &arguments.topic)?;
    if made {
        note(&format!("topic {} did not exist and was created", topic.name));
    }
    Ok(topic)
}

/// Sends records to the partitions they belong to.
struct Appender<'a> {
    arguments: &'a ProduceArguments,
    cluster: Cluster,
    topic: &'a str,
    /// One for each partition, made when the first record goes there.
    producers: Vec<Option<Producer>>,
    /// The partition that the next record without a key goes to.
    turn: usize,
    lines: u64,
    appended: u64,
}

impl<'a> Appender<'a> {
    fn new(
        arguments: &'a ProduceArguments,
        cluster: Cluster,
        topic: &'a TopicMetadata,
    ) -> Result<Appender<'a>> {
        let count = topic.partitions.len();
        let turn = arguments.partition.map_or(0, |partition| partition as usize);
        if turn >= count {
            bail!(
                "topic {} has no partition {turn}, its last one is {}",
                topic.name,
                count as i64 - 1
            );
        }
        let producers = (0..count).map(|_| None).collect();
        Ok(Appender {
            arguments,
            cluster,
            topic: &topic.name,
            producers,
            turn,
            lines: 0,
            appended: 0,
        })
    }

    fn append(&mut self, line: &[u8]) -> Result<()> {
        self.lines += 1;
        let (key, value) = match &self.arguments.key_separator {
            None => (None, line),
            Some(separator) => {
                let parts = split_at(line, separator.as_bytes());
                let (key, value) = parts
                    .with_context(|| format!("line {} has no key separator {separator:?}", self.lines))?;
                (Some(key), value)
            }
        };
        let partition = match key {
            Some(key) if self.arguments.partition.is_none() => partition_of(key, self.producers.len()),
            _ => self.turn,
        };
        if self.producer(partition)?.gathered_bytes() + line.len() > BATCH_BYTES {
            self.send(partition)?;
        }
        self.producer(partition)?.append(now_ms(), key, Some(value), &[]);
        Ok(())
    }

    fn producer(&mut self, partition: usize) -> Result<&mut Producer> {
        let place = &mut self.producers[partition];
        if place.is_none() {
            let options = ProducerOptions {
                acks: self.arguments.acks,
                idempotent: self.arguments.acks == Acks::All,
                ..ProducerOptions::default()
            };
            *place = Some(Producer::new(
                &mut self.cluster,
                self.topic,
                partition as i32,
                options,
            )?);
        }
        Ok(place.as_mut().expect("made just now"))
    }

    /// Sends what was gathered for a partition, if anything was.
    fn send(&mut self, partition: usize) -> Result<()> {
        let Some(producer) = &mut self.producers[partition] else {
            return Ok(());
        };
        if producer.gathered_records() == 0 {
            return Ok(());
        }
        producer.send(&mut self.cluster);
        let completions = producer.poll(&mut self.cluster, Duration::ZERO);
        if self.arguments.partition.is_none() && partition == self.turn {
            self.turn = (self.turn + 1) % self.producers.len();
        }
        self.take_in(completions)
    }

    /// Sends everything gathered and waits until all of it is acknowledged.
    fn flush(&mut self) -> Result<()> {
        for partition in 0..self.producers.len() {
            self.send(partition)?;
        }
        for partition in 0..self.producers.len() {
            let Some(producer) = &mut self.producers[partition] else {
                continue;
            };
            let completions = producer.flush(&mut self.cluster);
            self.take_in(completions)?;
        }
        Ok(())
    }

    fn take_in(&mut self, completions: Vec<Completion>) -> Result<()> {
        for completion in completions {
            completion
                .outcome
                .with_context(|| format!("after {} appended records", self.appended))?;
            self.appended += completion.records as u64;
        }
        Ok(())
    }
}

/// What stands before and behind the first `separator`.
fn split_at<'a>(line: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = line
        .windows(separator.len())
        .position(|window| window == separator)?;
    Some((&line[..at], &line[at + separator.len()..]))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_the_first_separator() {
        assert_eq!(split_at(b"a::b::c", b"::"), Some((&b"a"[..], &b"b::c"[..])));
        assert_eq!(split_at(b":b", b":"), Some((&b""[..], &b"b"[..])));
        assert_eq!(split_at(b"ab", b":"), None);
        assert_eq!(split_at(b"", b":"), None);
    }
}
