//! `ropewalk consume`: prints a topic's records, up to where it ends now or as they come.

mod follow;
mod format;
mod printer;
mod range;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use client::{
    ClientError, Cluster, Consumer, ConsumerOptions, ErrorCode, Fetched, Isolation, Offset, Start,
    TopicMetadata,
};

use self::format::Format;
use self::printer::{Printer, Shape, Then};
use self::range::{Begin, Until};
use crate::escapes::Delimiter;
use crate::failure::note;
use crate::output::Output;
use crate::remote::{Remote, no_partition};

const EXAMPLES: &str = r"Examples:
  ropewalk consume greetings                      everything that is there now
  ropewalk consume greetings --from latest --follow
  ropewalk consume orders --last 10               the last ten of each partition
  ropewalk consume orders --from 2026-01-31T12:00:00Z --until 2026-01-31T13:00:00Z
  ropewalk consume orders --from 15m --follow     from a quarter of an hour ago
  ropewalk consume -t orders -p 2 -o 1000 -n 10   the same as with --partition, --from and --max
  ropewalk consume orders --format '{time} {partition}:{offset} {key}={value}'
  ropewalk consume orders --delimiter '\0' | xargs -0 -n 1 echo
  ropewalk consume orders --json | jq .value

With several partitions, records are in order within each partition only.

A format takes {topic} {partition} {offset} {time} {timestamp_ms} {key}
{key:hex} {key_bytes} {value} {value:hex} {value_bytes} {headers}; {{ and }} are
braces, and \n \t \r \0 \\ and \xHH are understood.";

/// The time for which a partition may be without a leader, and the pause between two looks for one.
const LEADER_PATIENCE: Duration = Duration::from_secs(30);
const LEADER_PAUSE: Duration = Duration::from_millis(100);

#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "ropewalk consume [OPTIONS] <TOPIC>")]
pub(crate) struct ConsumeArguments {
    /// The topic
    #[arg(required_unless_present = "topic_flag")]
    topic: Option<String>,
    /// The topic, in place of naming it without a flag
    #[arg(short = 't', long = "topic", value_name = "TOPIC", conflicts_with = "topic")]
    topic_flag: Option<String>,
    #[command(flatten)]
    remote: Remote,
    /// Where to begin: earliest, latest, an offset, a time such as 2026-01-31T12:00:00Z, @ and milliseconds since 1970, or an
    /// age such as 15m
    #[arg(short = 'o', long, value_name = "WHERE", default_value = "earliest", value_parser = range::from)]
    from: Begin,
    /// Begin this many offsets before the end of each partition that is read; of what was compacted fewer records are there
    #[arg(long, value_name = "N", conflicts_with = "from", value_parser = clap::value_parser!(u64).range(1..))]
    last: Option<u64>,
    /// Stop before this offset, or before the first record that is not older than this time or age
    #[arg(long, value_name = "WHERE", value_parser = range::until)]
    until: Option<Until>,
    /// The partitions to read, with commas between; without it, all of them
    #[arg(short, long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(0..))]
    partition: Vec<i32>,
    /// Stop after this many records
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Wait for new records in place of stopping at the last
    #[arg(long)]
    follow: bool,
    /// The records of transactions that are printed: those of committed ones, up to the first that is open, or those of open and
    /// aborted ones, too
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    isolation: Committed,
    /// Print this of each record, with placeholders such as {offset} and {value}
    #[arg(short, long, value_name = "TEXT", value_parser = Format::parse, conflicts_with_all = ["json", "key_separator"])]
    format: Option<Format>,
    /// Print each record's key and this before its value, such as : or \t
    #[arg(short = 'K', long, value_name = "TEXT", value_parser = Delimiter::parse, conflicts_with = "json")]
    key_separator: Option<Delimiter>,
    /// Text that ends each printed record; \n \t \r \0 \\ and \xHH are understood, nothing is allowed
    #[arg(short = 'D', long, value_name = "TEXT", default_value = r"\n", value_parser = Delimiter::parse, conflicts_with = "json")]
    delimiter: Delimiter,
    /// Print each record as a JSON object on a line of its own, with offset, timestamp, key and headers
    #[arg(long)]
    json: bool,
}

/// `--isolation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Committed {
    #[default]
    Committed,
    Uncommitted,
}

pub(crate) fn run(arguments: &ConsumeArguments) -> Result<()> {
    range::check(arguments.from, arguments.until)?;
    let mut cluster = arguments.remote.connect()?;
    let topic = cluster.topic(arguments.topic())?;
    let partitions = partitions(arguments, &topic)?;
    let mut printer = Printer::new(
        Output::open(),
        shape(arguments),
        arguments.topic(),
        arguments.until,
        arguments.max,
    );
    if arguments.follow {
        return follow::run(arguments, &mut cluster, &topic, &partitions, &mut printer);
    }
    for partition in partitions {
        if read_to_tail(arguments, &mut cluster, &topic, partition, &mut printer)? == Then::End {
            break;
        }
    }
    printer.flush()
}

impl ConsumeArguments {
    fn topic(&self) -> &str {
        let named = self.topic_flag.as_ref().or(self.topic.as_ref());
        named.expect("clap asks for one of them")
    }

    fn options(&self) -> ConsumerOptions {
        ConsumerOptions {
            isolation: self.isolation(),
            ..ConsumerOptions::default()
        }
    }

    fn isolation(&self) -> Isolation {
        match self.isolation {
            Committed::Committed => Isolation::Committed,
            Committed::Uncommitted => Isolation::Uncommitted,
        }
    }

    /// Says if an offset tells where it begins or stops, which means one partition.
    fn names_offset(&self) -> bool {
        matches!(self.from, Begin::Offset(_)) || matches!(self.until, Some(Until::Offset(_)))
    }
}

fn shape(arguments: &ConsumeArguments) -> Shape {
    if arguments.json {
        return Shape::Json;
    }
    let format = match (&arguments.format, &arguments.key_separator) {
        (Some(format), _) => format.clone(),
        (None, Some(separator)) => Format::of_keys_and_values(&separator.0),
        (None, None) => Format::of_values(),
    };
    Shape::Text {
        format,
        delimiter: arguments.delimiter.0.clone(),
    }
}

/// Those that are read, in ascending order.
fn partitions(arguments: &ConsumeArguments, topic: &TopicMetadata) -> Result<Vec<i32>> {
    let all: Vec<i32> = topic.partitions.iter().map(|partition| partition.index).collect();
    let mut wanted = arguments.partition.clone();
    wanted.sort_unstable();
    wanted.dedup();
    if let Some(absent) = wanted.iter().find(|wanted| !all.contains(wanted)) {
        return Err(no_partition(topic, *absent));
    }
    let partitions = if wanted.is_empty() { all } else { wanted };
    if arguments.names_offset() && partitions.len() > 1 {
        bail!(
            "an offset means one partition, but {} of topic {} are read; --partition names one",
            partitions.len(),
            topic.name
        )
    }
    Ok(partitions)
}

/// Where to begin in a partition.
fn start_of(arguments: &ConsumeArguments, cluster: &mut Cluster, partition: i32) -> Result<Start> {
    match arguments.last {
        Some(count) => {
            let latest = arguments.isolation().latest();
            range::last(cluster, arguments.topic(), partition, latest, count)
        }
        None => Ok(arguments.from.start()),
    }
}

/// Prints a partition up to where it ends now.
fn read_to_tail(
    arguments: &ConsumeArguments,
    cluster: &mut Cluster,
    described: &TopicMetadata,
    partition: i32,
    printer: &mut Printer,
) -> Result<Then> {
    let topic = arguments.topic();
    // Before the tail: what is appended in between must not put the start beyond it.
    let start = start_of(arguments, cluster, partition)?;
    let tail = cluster
        .offset(topic, partition, arguments.isolation().latest())?
        .unwrap_or(Offset::ZERO);
    if let Start::Offset(offset) = start
        && offset > tail
    {
        bail!("offset {offset} does not exist yet: partition {partition} of topic {topic} goes on at {tail}");
    }
    let begin = |cluster: &mut Cluster| Consumer::new(cluster, topic, partition, start, arguments.options());
    let mut consumer = begin(cluster)?;
    if consumer.topic_id() != described.id {
        let topic = topic.to_owned();
        let made_again = true;
        return Err(ClientError::TopicDeleted { topic, made_again }.into());
    }
    let first = consumer.position();
    while consumer.position() < tail {
        let fetched = match fetch(&mut consumer, cluster) {
            // Retention was faster.
            Err(error) if consumer.position() == first && was_trimmed(start, &error) => {
                consumer = begin(cluster)?;
                continue;
            }
            fetched => fetched?,
        };
        match printer.print(partition, &fetched, Some(tail))? {
            Then::Continue => printer.flush()?,
            enough => return Ok(enough),
        }
    }
    Ok(Then::EndPartition)
}

/// Says if the record that was the first is gone.
fn was_trimmed(start: Start, error: &ClientError) -> bool {
    start == Start::Earliest && error.code() == Some(ErrorCode::OffsetOutOfRange)
}

/// The next records. A broker that goes away is waited for; another may lead the partition by then.
fn fetch(consumer: &mut Consumer, cluster: &mut Cluster) -> Result<Fetched, ClientError> {
    let failed = match consumer.fetch() {
        Err(error) if may_pass(&error) => error,
        fetched => return fetched,
    };
    note(&format!("{failed}; trying again"));
    let give_up_at = Instant::now() + LEADER_PATIENCE;
    loop {
        match consumer.reconnect(cluster).and_then(|()| consumer.fetch()) {
            Err(error) if may_pass(&error) && Instant::now() < give_up_at => thread::sleep(LEADER_PAUSE),
            fetched => return fetched,
        }
    }
}

/// Says if it is about the leader, or a connection. Damage stays.
fn may_pass(error: &ClientError) -> bool {
    let moved = [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::LeaderNotAvailable,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::UnknownLeaderEpoch,
    ];
    match error.code() {
        Some(code) => moved.contains(&code),
        None => error.is_retriable(),
    }
}

#[cfg(test)]
mod tests {
    use client::ConnectionOptions;
    use client::fake_broker::FakeBroker;

    use super::*;

    #[test]
    fn reading_goes_on_over_a_lost_connection() {
        let broker = FakeBroker::start();
        broker.create_topic("t", 1);
        broker.append("t", 0, 3);
        let mut cluster =
            Cluster::connect(&broker.address(), ConnectionOptions::default()).expect("it listens");
        let mut consumer = Consumer::new(&mut cluster, "t", 0, Start::Earliest, ConsumerOptions::default())
            .expect("the topic is there");
        broker.disconnect_all();
        let fetched = fetch(&mut consumer, &mut cluster).expect("it is still there");
        assert_eq!(fetched.records().count(), 3);
    }
}
