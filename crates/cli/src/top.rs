//! `ropewalk top`: watches a node that runs. Live on a terminal; as text or JSON for scripts.
//!
//! It only asks, and asks little: the node's metrics over HTTP, and consumer groups by Kafka's protocol.

mod cluster;
mod dashboard;
mod exposition;
mod growth;
mod lag;
mod latency;
mod observer;
mod scrape;
mod screen;
mod terminal;
mod units;
mod view;

use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use self::observer::Observer;
pub(crate) use self::scrape::{change, http_address, look};
use self::view::View;
use crate::output::Output;
use crate::remote::Remote;

const EXAMPLES: &str = "\
Examples:
  ropewalk top                                    live; q ends, p pauses
  ropewalk top --bootstrap log.example:9092       HTTP is asked at log.example:8092
  ropewalk top --once                             one look, as text
  ropewalk top --json --interval 10 >> figures.ndjson
  ropewalk top --once --json | jq .appended.records_per_second
  ropewalk top --once --json | jq .cluster.short_partitions

Rates are means over the interval. How long answers take is measured from here,
network included, with the smallest question that there is. How long produces,
fetches and flushes take is what the node counts in buckets: percentiles are
estimates within a bucket, and ≤ stands before its end. They are of the
interval; with --once since the node's start.";

/// The port on which a node serves HTTP if it was not told otherwise.
const DEFAULT_HTTP_PORT: u16 = 8092;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArguments {
    /// The node's HTTP address; without it, port 8092 of the host of --bootstrap
    #[arg(long, value_name = "HOST:PORT", env = "ROPEWALK_HTTP", value_parser = http_address)]
    http: Option<String>,
    #[command(flatten)]
    remote: Remote,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Look for one interval, print what was seen and end
    #[arg(long)]
    once: bool,
    /// Print one JSON object for each interval
    #[arg(long)]
    json: bool,
}

impl TopArguments {
    /// The address given, or else HTTP's usual port on the host that Kafka's protocol is asked at.
    fn http_address(&self) -> String {
        http_of(self.http.as_deref(), &self.remote)
    }
}

/// Where a node serves HTTP: as it was given, or where it does if it was not told otherwise.
pub(crate) fn http_of(given: Option<&str>, remote: &Remote) -> String {
    given.map_or_else(|| format!("{}:{DEFAULT_HTTP_PORT}", remote.host()), str::to_owned)
}

pub(crate) fn run(arguments: &TopArguments) -> Result<()> {
    let http = arguments.http_address();
    let observer = Observer::new(&http, &arguments.remote)?;
    let is_watched = stdout().is_terminal() && !arguments.json;
    // Text without end is of no use to a script.
    let is_single = arguments.once || !(is_watched || arguments.json);
    let mut watch = Watch::begin(observer, Duration::from_secs(arguments.interval), is_single)?;
    if is_watched && !is_single {
        return screen::run(watch, &http);
    }
    let mut output = Output::open();
    loop {
        let view = watch.next()?;
        match arguments.json {
            true => output.json(&view.as_json())?,
            false => output.line(view.as_text())?,
        }
        output.flush()?;
        if is_single {
            return Ok(());
        }
    }
}

/// One look after the other.
struct Watch {
    observer: Observer,
    interval: Duration,
    /// There is one interval only, too little for percentiles: they are since the node's start.
    is_single: bool,
    before: observer::Observation,
}

impl Watch {
    /// Takes the first look.
    fn begin(mut observer: Observer, interval: Duration, is_single: bool) -> Result<Watch> {
        observer.check_is_one()?;
        let before = observer.observe(Instant::now())?;
        Ok(Watch {
            observer,
            interval,
            is_single,
            before,
        })
    }

    /// Waits for the interval, and gives what happened in it. After an error it may be called again.
    fn next(&mut self) -> Result<View> {
        let now = self.observer.observe(Instant::now() + self.interval)?;
        let mut view = View::between(&self.before, &now);
        if self.is_single {
            view = view.with_latencies_since_start(&now);
        }
        self.before = now;
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Top {
        #[command(flatten)]
        arguments: TopArguments,
    }

    fn asked(words: &[&str]) -> String {
        let words = ["top"].iter().chain(words);
        Top::parse_from(words).arguments.http_address()
    }

    #[test]
    fn http_is_asked_at_the_bootstraps_host_unless_named() {
        assert_eq!(asked(&["-b", "log.example:9092"]), "log.example:8092");
        assert_eq!(asked(&["-b", "[::1]:19092,other:9092"]), "[::1]:8092");
        assert_eq!(
            asked(&["-b", "log.example:9092", "--http", "other:80"]),
            "other:80"
        );
    }
}
