//! Partitions read for ever, as their records come, over few connections.
//!
//! Records are printed and handed on as they come: a followed record never waits for the next one.

use anyhow::Result;
use client::{Cluster, Lost, Offset, OffsetQuery, Start, TopicFollower, TopicMetadata};

use super::printer::{Printer, Then};
use super::{ConsumeArguments, range};
use crate::failure::note;
use crate::output::counted;

/// Prints partitions of `topic`, given in ascending order, as records come, until all ends are reached or the process is ended.
pub(super) fn run(
    arguments: &ConsumeArguments,
    cluster: &mut Cluster,
    topic: &TopicMetadata,
    partitions: &[i32],
    printer: &mut Printer,
) -> Result<()> {
    let mut starts = starts(arguments, cluster, topic, partitions)?;
    // No record that comes would be printed; waiting for one that says so could take for ever.
    if let Some(until) = arguments.until {
        starts.retain(|(_, start)| !until.is_reached(*start));
    }
    let mut follower = TopicFollower::new(cluster, topic, &starts, arguments.options())?;
    // A user who names partitions wants no others, nor does one who names an offset, which means one partition.
    let wants_all = arguments.partition.is_empty() && !arguments.names_offset();
    while !follower.is_done() {
        if wants_all {
            let new = follower.follow_new(cluster)?;
            if !new.is_empty() {
                note(&format!(
                    "{} has {} more, which are read too",
                    topic.name,
                    counted(new.len(), "partition")
                ));
            }
        }
        let followed = follower.fetch(cluster)?;
        if let Some(lost) = &followed.lost {
            note(&told(lost));
        }
        for (partition, fetched) in &followed.fetched {
            match printer.print(*partition, fetched, None)? {
                Then::Continue => {}
                Then::EndPartition => follower.end(*partition),
                Then::End => return printer.flush(),
            }
        }
        printer.flush()?;
    }
    Ok(())
}

/// Where to begin in each partition, asked of all at once.
fn starts(
    arguments: &ConsumeArguments,
    cluster: &mut Cluster,
    topic: &TopicMetadata,
    partitions: &[i32],
) -> Result<Vec<(i32, Offset)>> {
    let mut wanted = topic.clone();
    wanted
        .partitions
        .retain(|partition| partitions.binary_search(&partition.index).is_ok());
    let latest = arguments.isolation().latest();
    let mut ask = |query| cluster.offsets(&wanted, query);
    let or_zero = |(partition, offset): (i32, Option<Offset>)| (partition, offset.unwrap_or(Offset::ZERO));
    if let Some(count) = arguments.last {
        let firsts = ask(OffsetQuery::Earliest)?.into_iter().map(or_zero);
        let tails = ask(latest)?.into_iter().map(or_zero);
        let starts = firsts
            .zip(tails)
            .map(|((partition, first), (_, tail))| (partition, range::before_tail(first, tail, count)));
        return Ok(starts.collect());
    }
    let found = match arguments.from.start() {
        Start::Offset(offset) => {
            return Ok(partitions.iter().map(|partition| (*partition, offset)).collect());
        }
        Start::Earliest => ask(OffsetQuery::Earliest)?,
        Start::Latest => ask(latest)?,
        Start::Timestamp(ms) => {
            // The tails first: a record that comes in between is not passed over.
            let tails = ask(latest)?;
            let found = ask(OffsetQuery::Timestamp(ms))?;
            tails
                .into_iter()
                .zip(found)
                .map(|((partition, tail), (_, found))| (partition, found.or(tail)))
                .collect()
        }
    };
    Ok(found.into_iter().map(or_zero).collect())
}

fn told(lost: &Lost) -> String {
    let partitions = match lost.partitions[..] {
        [partition] => format!("partition {partition}"),
        _ => counted(lost.partitions.len(), "partition"),
    };
    format!("{partitions}: {}; trying again", lost.error)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use client::ApiKey;
    use client::fake_broker::FakeBroker;

    use crate::{Arguments, Command};

    /// Follows with these words behind the topic, and prints nothing of a record.
    fn follow(broker: &FakeBroker, words: &[&str]) {
        try_to_follow(broker, words).expect("all that is wanted is there");
    }

    fn try_to_follow(broker: &FakeBroker, words: &[&str]) -> anyhow::Result<()> {
        let address = broker.address();
        let all = ["ropewalk", "consume", "t", "--follow", "--bootstrap", &address];
        let quiet = ["--delimiter", ""];
        let all = all.iter().chain(&quiet).chain(words).copied();
        let parsed = Arguments::try_parse_from(all).expect("it makes sense");
        let Command::Consume(arguments) = parsed.command else {
            panic!("another command was meant");
        };
        crate::consume::run(&arguments)
    }

    /// Does something once a follower has asked for records.
    fn meanwhile(broker: &FakeBroker, deed: impl FnOnce() + Send, follow: impl FnOnce()) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while broker.requests(ApiKey::Fetch) == 0 {
                    std::thread::yield_now();
                }
                deed();
            });
            follow();
        });
    }

    #[test]
    fn partitions_that_a_topic_gets_meanwhile_are_read_too() {
        let broker = FakeBroker::start();
        broker.create_topic("t", 1);
        let grow = || {
            broker.grow_topic("t", 1);
            broker.append("t", 1, 1);
        };
        meanwhile(&broker, grow, || follow(&broker, &["--max", "1"]));
    }

    #[test]
    fn a_topic_that_is_made_again_is_not_read_on() {
        let broker = FakeBroker::start();
        broker.create_topic("t", 1);
        let make_again = || {
            broker.delete_topic("t");
            broker.create_topic("t", 1);
            broker.append("t", 0, 1);
        };
        meanwhile(&broker, make_again, || {
            let error = try_to_follow(&broker, &["--max", "1"]).expect_err("that is another one");
            assert!(error.to_string().contains("deleted, and made again"), "{error:#}");
        });
    }

    #[test]
    fn many_partitions_are_followed_over_few_connections() {
        let broker = FakeBroker::start();
        broker.create_topic("t", 200);
        for partition in 0..200 {
            broker.append("t", partition, 2);
        }
        follow(&broker, &["--max", "400"]);
        // One each for metadata, asking where to begin, and reading.
        assert_eq!(broker.requests(ApiKey::ApiVersions), 3);
        follow(&broker, &["--last", "1", "--max", "200"]);
        follow(&broker, &["--from", "@0", "--max", "400"]);
        assert_eq!(broker.requests(ApiKey::ApiVersions), 9);
    }
}
