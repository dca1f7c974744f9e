//! `ropewalk produce`: appends what stands in standard input or files to a topic, a record for each line unless told
//! otherwise.
//!
//! Records are gathered while the last batch is under way: a typed line goes out at once, a piped file in large batches. The
//! command ends when everything is acknowledged, and fails if anything was not. Whatever ends it, what became of all that was sent
//! is known then and told.

mod appender;
mod draft;
mod inputs;
mod pace;
mod pieces;
mod report;
mod stop;

use std::io::{IsTerminal, stderr, stdin};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use anyhow::{Result, anyhow};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use client::{Acks, Cluster, Compression, TopicMetadata};
use server::record_json::HeaderBytes;

use self::appender::Appender;
use self::draft::Reading;
use self::inputs::{Inputs, News};
use self::pieces::Pieces;
use self::stop::Stop;
use crate::escapes::Delimiter;
use crate::failure::{Ended, note};
use crate::output::{counted, tell};
use crate::progress::Progress;
use crate::remote::{Remote, topic_or_new};

const EXAMPLES: &str = r"Examples:
  printf 'one\ntwo\n' | ropewalk produce greetings
  ropewalk produce orders --key-separator : orders.txt       each line is KEY:VALUE
  tail -f app.log | ropewalk produce logs --partition 0
  ropewalk produce pictures --whole --header type=png a.png b.png
  ropewalk produce load --rate 1000 --compression zstd lines.txt
  ropewalk consume orders --json | ropewalk produce copy --json
  ropewalk produce orders --report orders.txt | jq .partitions

Each line is one record, or with --whole each input. Records with a key go to
the partition that Kafka's clients choose for it. --json reads key, value,
headers and timestamp_ms; the value must be there, and null makes the record a
tombstone.";

const CODECS: [(&str, Compression); 5] = [
    ("none", Compression::None),
    ("gzip", Compression::Gzip),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];

#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "ropewalk produce [OPTIONS] <TOPIC> [FILE]...")]
pub(crate) struct ProduceArguments {
    /// The topic; made with the node's defaults if it does not exist
    #[arg(required_unless_present = "topic_flag")]
    topic: Option<String>,
    /// The topic, in place of naming it without a flag
    #[arg(short = 't', long = "topic", value_name = "TOPIC")]
    topic_flag: Option<String>,
    /// Files to read, - for standard input; without one, standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    remote: Remote,
    /// The key of every record; without it, and without a separator, records have none
    #[arg(short, long, value_name = "TEXT", conflicts_with_all = ["key_separator", "json"])]
    key: Option<String>,
    /// Text between key and value in each line, such as : or \t
    #[arg(short = 'K', long, value_name = "TEXT", value_parser = key_separator, conflicts_with_all = ["json", "whole"])]
    key_separator: Option<Delimiter>,
    /// A header for every record; may be repeated
    #[arg(short = 'H', long, value_name = "NAME=VALUE", value_parser = header)]
    header: Vec<HeaderBytes>,
    /// Text between records; \n \t \r \0 \\ and \xHH are understood
    #[arg(short = 'D', long, value_name = "TEXT", default_value = r"\n", value_parser = delimiter, conflicts_with = "whole")]
    delimiter: Delimiter,
    /// Make each input one record, whatever is in it
    #[arg(long)]
    whole: bool,
    /// Read each line as JSON, as `ropewalk consume --json` prints it
    #[arg(long)]
    json: bool,
    /// The partition to append to; without it, by key, or in turn
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// When a record counts as appended: when it is committed, the leader has it, or it was sent
    #[arg(long, default_value = "all", value_parser = acks())]
    acks: Acks,
    /// Compression of batches
    #[arg(short = 'z', long, value_name = "CODEC", default_value = "none", value_parser = compression())]
    compression: Compression,
    /// Append no more than this many records a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Fail if the topic does not exist
    #[arg(long)]
    no_create: bool,
    /// Print one JSON object at the end: how many records were appended, and the first and last offset in each partition
    #[arg(long)]
    report: bool,
}

impl ProduceArguments {
    fn topic(&self) -> &str {
        let named = self.topic_flag.as_ref().or(self.topic.as_ref());
        named.expect("clap asks for one of them")
    }

    /// The files; beside `--topic`, what stands first is one of them.
    fn files(&self) -> Vec<PathBuf> {
        let first = self.topic_flag.as_ref().and(self.topic.as_ref());
        first
            .map(PathBuf::from)
            .into_iter()
            .chain(self.files.iter().cloned())
            .collect()
    }
}

fn header(text: &str) -> Result<HeaderBytes, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), Some(value.into()))),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn delimiter(text: &str) -> Result<Delimiter, String> {
    match Delimiter::parse(text)? {
        nothing if nothing.0.is_empty() => {
            Err("nothing separates nothing; --whole makes each input one record".to_owned())
        }
        delimiter => Ok(delimiter),
    }
}

fn key_separator(text: &str) -> Result<Delimiter, String> {
    match Delimiter::parse(text)? {
        nothing if nothing.0.is_empty() => Err("nothing separates nothing".to_owned()),
        separator => Ok(separator),
    }
}

/// Its words are told to the shell, which completes them.
fn acks() -> impl TypedValueParser<Value = Acks> {
    // -1 is what some clients call it.
    let words = [
        PossibleValue::new("all").alias("-1"),
        PossibleValue::new("1"),
        PossibleValue::new("0"),
    ];
    PossibleValuesParser::new(words)
        .map(|word| word.parse::<Acks>().expect("each of these words is known there"))
}

/// As `acks`.
fn compression() -> impl TypedValueParser<Value = Compression> {
    PossibleValuesParser::new(CODECS.map(|(word, _)| word)).map(|word| {
        let found = CODECS.into_iter().find(|(known, _)| *known == word);
        found.expect("no other word is taken").1
    })
}

pub(crate) fn run(arguments: &ProduceArguments) -> Result<()> {
    let files = arguments.files();
    let mut inputs = Inputs::open(&files)?;
    let mut cluster = arguments.remote.connect()?;
    let topic = topic(arguments, &mut cluster)?;
    let stop = Stop::default();
    let appender = Appender::new(arguments, cluster, &topic, stop.clone())?;
    if files.is_empty() && stdin().is_terminal() {
        note("each line that you type is a record; Ctrl-D ends");
    }
    let news = inputs.read(&stop)?;
    let mut intake = Intake::new(arguments, &inputs, stop, appender);
    let outcome = intake.run(&news);
    let report = &intake.appender.report;
    // Also after a failure: what was appended until then stays.
    let told = match arguments.report {
        true => tell(true, String::new(), report.as_json(&topic.name)),
        false => Ok(()),
    };
    let ended: Option<&Ended> = outcome.as_ref().err().and_then(|error| error.downcast_ref());
    if ended.is_some() || (outcome.is_ok() && stderr().is_terminal()) {
        let by = ended.map_or(String::new(), |Ended(signal)| format!("{signal}: "));
        let appended = counted(report.records(), "record");
        note(&format!("{by}appended {appended} to {}", topic.name));
    }
    outcome.and(told)
}

fn topic(arguments: &ProduceArguments, cluster: &mut Cluster) -> Result<TopicMetadata> {
    if arguments.no_create {
        return Ok(cluster.topic(arguments.topic())?);
    }
    let (topic, made) = topic_or_new(cluster, arguments.topic())?;
    if made {
        note(&format!("topic {} did not exist and was created", topic.name));
    }
    Ok(topic)
}

/// Takes the inputs in and appends what is in them.
struct Intake<'a> {
    inputs: &'a Inputs,
    stop: Stop,
    appender: Appender<'a>,
    reading: Reading,
    pieces: Pieces,
    /// `line`, or `record` where lines mean nothing.
    noun: &'static str,
    /// Which input is being read, and pieces that came of it.
    input: usize,
    count: u64,
}

impl<'a> Intake<'a> {
    fn new(
        arguments: &ProduceArguments,
        inputs: &'a Inputs,
        stop: Stop,
        appender: Appender<'a>,
    ) -> Intake<'a> {
        let reading = match (&arguments.key_separator, arguments.json) {
            (_, true) => Reading::Json,
            (Some(separator), false) => Reading::KeyAndValue {
                separator: separator.0.clone(),
            },
            (None, false) => Reading::Value {
                key: arguments.key.as_ref().map(|key| key.as_bytes().to_vec()),
            },
        };
        let delimiter = &arguments.delimiter.0;
        Intake {
            inputs,
            stop,
            appender,
            reading,
            pieces: Pieces::new((!arguments.whole).then(|| delimiter.clone())),
            noun: if !arguments.whole && delimiter == b"\n" {
                "line"
            } else {
                "record"
            },
            input: 0,
            count: 0,
        }
    }

    /// Appends everything, or what stands before whatever is in the way.
    fn run(&mut self, news: &Receiver<News>) -> Result<()> {
        let taken = self.take_all(news);
        // That something was not appended weighs more than why nothing was read behind it.
        let outcome = self.appender.finish().and(taken);
        outcome.map_err(|error| match error.is::<Ended>() {
            true => error,
            false => error.context(self.appender.report.until_failure()),
        })
    }

    fn take_all(&mut self, news: &Receiver<News>) -> Result<()> {
        // A file's size tells how much is left; of a pipe nothing does.
        let bytes_total = self.inputs.bytes_total;
        let mut progress = bytes_total.map(|bytes| (Progress::new("appending"), bytes));
        let mut taken_bytes = 0;
        while self.input < self.inputs.count() {
            match self.next(news)? {
                News::Chunk(chunk) => {
                    taken_bytes += chunk.len() as u64;
                    self.take(&chunk)?;
                }
                News::End => self.end_input()?,
                News::Failed(index, error) => {
                    let name = self.inputs.name(index);
                    return Err(anyhow!(error).context(format!("{name} cannot be read")));
                }
                News::Stopped => {}
            }
            if let Some((progress, bytes)) = &mut progress {
                progress.show(taken_bytes, *bytes, &self.inputs.name(self.input_shown()));
            }
        }
        Ok(())
    }

    /// The next news. Nothing to gather: then what there is is sent, and what became of it learned, before waiting for more.
    fn next(&mut self, news: &Receiver<News>) -> Result<News> {
        if let Ok(news) = news.try_recv() {
            return Ok(news);
        }
        self.stop.check()?;
        self.appender.flush()?;
        Ok(news
            .recv()
            .expect("whoever watches for signals may always say something"))
    }

    fn take(&mut self, chunk: &[u8]) -> Result<()> {
        let Intake {
            appender,
            reading,
            count,
            ..
        } = self;
        let place = (self.noun, self.inputs, self.input);
        self.pieces
            .take(chunk, |piece| append(appender, reading, count, place, piece))
    }

    fn end_input(&mut self) -> Result<()> {
        let Intake {
            appender,
            reading,
            count,
            ..
        } = self;
        let place = (self.noun, self.inputs, self.input);
        self.pieces
            .end(|piece| append(appender, reading, count, place, piece))?;
        (self.input, self.count) = (self.input + 1, 0);
        Ok(())
    }

    fn input_shown(&self) -> usize {
        // Behind the last there is none.
        self.input.min(self.inputs.count() - 1)
    }
}

/// Appends what a piece stands for. A piece that stands for nothing is told with its place in the input.
fn append(
    appender: &mut Appender<'_>,
    reading: &Reading,
    count: &mut u64,
    (noun, inputs, input): (&str, &Inputs, usize),
    piece: &[u8],
) -> Result<()> {
    *count += 1;
    let draft = reading.draft(piece).map_err(|fault| {
        let of = match inputs.count() {
            1 => String::new(),
            _ => format!(" of {}", inputs.name(input)),
        };
        anyhow!("{noun} {count}{of} {fault}")
    })?;
    appender.append(&draft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_separators_are_read() {
        let text = |text: &str| text.as_bytes().to_vec();
        assert_eq!(header("a=b=c"), Ok((text("a"), Some(text("b=c")))));
        assert_eq!(header("a="), Ok((text("a"), Some(Vec::new()))));
        assert!(header("a").is_err() && header("=b").is_err());
        assert!(delimiter("").is_err() && delimiter(r"\q").is_err());
        assert_eq!(delimiter(r"\0").expect("known").0, [0]);
    }

    #[test]
    fn each_word_that_is_completed_is_read() {
        let command = ProduceArguments::augment_args(clap::Command::new("produce"));
        let mut read = Vec::new();
        for flag in ["acks", "compression"] {
            let mut arguments = command.get_arguments();
            let found = arguments
                .find(|argument| argument.get_id() == flag)
                .expect("it is one");
            for word in found.get_possible_values() {
                let given = format!("--{flag}={}", word.get_name());
                let matches = command
                    .clone()
                    .try_get_matches_from(["produce", "t", given.as_str()]);
                assert!(matches.is_ok(), "{given}");
                read.push(word.get_name().to_owned());
            }
        }
        assert_eq!(read.join(" "), "all 1 0 none gzip snappy lz4 zstd");
    }
}
