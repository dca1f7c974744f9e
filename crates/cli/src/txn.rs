//! `ropewalk txn`: lists, describes and aborts transactions, and finds those that hang, over HTTP.

mod hanging;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::failure::{Senseless, note};
use crate::named::{Named, named};
use crate::output::{cleaned, counted, or_dash, table, tell};
use crate::remote::OverHttp;
use crate::time::{shown, shown_span, span_ms};
use crate::top::change;

const EXAMPLES: &str = "\
Examples:
  ropewalk txn list --state Ongoing
  ropewalk txn list --open-for 5m --json | jq -r .[].id
  ropewalk txn list --partition orders:3     which transactions this partition waits for
  ropewalk txn describe payments-1
  ropewalk txn abort payments-1              as at its timeout; its producer is fenced
  ropewalk txn hanging                       what no coordinator will end
  ropewalk txn abort --partition orders:3 --first-offset 1700

A reader of committed records sees nothing behind the first offset of an open
transaction. Each transaction ends at its timeout at the latest, unless it
hangs.";

/// States, as a node names them.
const STATES: [&str; 6] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
];
/// Transactions that are asked for at a time.
const AT_A_TIME: usize = 1_000;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TxnArguments {
    #[command(subcommand)]
    command: TxnCommand,
}

#[derive(Subcommand)]
enum TxnCommand {
    /// List transactional ids, each with its latest transaction
    #[command(after_help = "Examples:
  ropewalk txn list
  ropewalk txn list --state Ongoing,PrepareCommit
  ropewalk txn list --prefix payments- --open-for 90s
  ropewalk txn list --partition orders:3 --json

A transaction is open from its first partition on until all its partitions
know how it ended: in the states Ongoing, PrepareCommit and PrepareAbort.")]
    List(ListArguments),
    /// Show a transactional id: its producer, its state, the partitions of its open transaction
    #[command(after_help = "Example:
  ropewalk txn describe payments-1")]
    Describe(DescribeArguments),
    /// Abort an open transaction and fence its producer, or abort one that hangs
    #[command(after_help = "Examples:
  ropewalk txn abort payments-1
  ropewalk txn abort --partition orders:3 --first-offset 1700     one that hangs

A transaction ends as at its timeout: its records are never shown to readers
of committed records, and its producer has to begin anew. One that hangs is
named by its place, which `ropewalk txn hanging` tells; a transaction that a
coordinator knows is not ended so.")]
    Abort(AbortArguments),
    /// Find open transactions that no coordinator knows: nobody will end them
    #[command(after_help = "Examples:
  ropewalk txn hanging
  ropewalk txn hanging --topic orders --topic returns:3
  ropewalk txn hanging --all --json          those that their coordinators will end, too

Without --topic all partitions of all topics are looked at, one after the
other.")]
    Hanging(hanging::HangingArguments),
}

#[derive(Args)]
struct ListArguments {
    /// Only those in one of these states; several with commas between
    #[arg(long, value_name = "STATE", value_delimiter = ',', ignore_case = true, value_parser = clap::builder::PossibleValuesParser::new(STATES))]
    state: Vec<String>,
    /// Only ids that begin so
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Only those that have been open for so long at least
    #[arg(long, value_name = "TIME", value_parser = span_ms)]
    open_for: Option<i64>,
    /// Only those that are open and have this partition
    #[arg(short, long, value_name = "TOPIC:PARTITION", value_parser = place)]
    partition: Option<Place>,
    #[command(flatten)]
    over_http: OverHttp,
}

#[derive(Args)]
struct DescribeArguments {
    /// The transactional id
    id: String,
    #[command(flatten)]
    over_http: OverHttp,
}

#[derive(Args)]
struct AbortArguments {
    /// The transactional id
    #[arg(required_unless_present = "partition", conflicts_with = "partition")]
    id: Option<String>,
    /// The partition in which a transaction hangs
    #[arg(short, long, value_name = "TOPIC:PARTITION", value_parser = place, requires = "first_offset")]
    partition: Option<Place>,
    /// The first offset of the transaction that hangs
    #[arg(long, value_name = "OFFSET", requires = "partition", value_parser = clap::value_parser!(i64).range(0..))]
    first_offset: Option<i64>,
    #[command(flatten)]
    over_http: OverHttp,
}

/// One partition.
#[derive(Debug, Clone)]
struct Place {
    topic: String,
    partition: i32,
}

fn place(text: &str) -> Result<Place, String> {
    let expected = || "expected TOPIC:PARTITION".to_owned();
    let Named { topic, partition } = named(text).map_err(|_| expected())?;
    let partition = partition.ok_or_else(expected)?;
    Ok(Place { topic, partition })
}

pub(crate) fn run(arguments: &TxnArguments) -> Result<()> {
    match &arguments.command {
        TxnCommand::List(arguments) => list(arguments),
        TxnCommand::Describe(arguments) => describe(arguments),
        TxnCommand::Abort(arguments) => abort(arguments),
        TxnCommand::Hanging(arguments) => hanging::run(arguments),
    }
}

fn list(arguments: &ListArguments) -> Result<()> {
    let mut filter = String::new();
    let mut only = |name: &str, value: &str| {
        filter.push_str(&format!("&{name}={}", encoded(value)));
    };
    if !arguments.state.is_empty() {
        only(
            "state",
            &arguments
                .state
                .iter()
                .map(|state| exact(state))
                .collect::<Vec<_>>()
                .join(","),
        );
    }
    if let Some(prefix) = &arguments.prefix {
        only("prefix", prefix);
    }
    if let Some(open_ms) = arguments.open_for {
        only("open_ms", &open_ms.to_string());
    }
    if let Some(Place { topic, partition }) = &arguments.partition {
        only("partition", &format!("{topic}:{partition}"));
    }
    let address = arguments.over_http.address();
    let found = all_pages(&address, "/v1/transactions", &filter, "transactions")?;
    let text = match found.len() {
        0 if filter.is_empty() => {
            "there are no transactional ids; a producer with a transactional.id makes one".to_owned()
        }
        0 => "no transaction is so".to_owned(),
        _ => listed(&found),
    };
    tell(arguments.over_http.json, text, found.into())
}

/// A state in the letters that a node takes.
fn exact(state: &str) -> &str {
    let mut known = STATES.into_iter();
    known
        .find(|known| known.eq_ignore_ascii_case(state))
        .unwrap_or(state)
}

/// All entries of a list that comes in pages. Standard error names the nodes whose part is missing.
fn all_pages(address: &str, path: &str, filter: &str, entries: &str) -> Result<Vec<Value>> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = asked(address, &format!("{path}?limit={AT_A_TIME}{filter}{after}"))?;
        let of_page = page[entries].as_array();
        found.extend_from_slice(of_page.with_context(|| strange(address, path))?);
        if after.is_empty() {
            tell_missing(&page);
        }
        match page["next"].as_str() {
            None => return Ok(found),
            Some(next) => after = format!("&after={}", encoded(next)),
        }
    }
}

fn tell_missing(page: &Value) {
    let missing = page["missing_nodes"].as_array().map_or(&[][..], Vec::as_slice);
    if !missing.is_empty() {
        let nodes: Vec<String> = missing.iter().map(Value::to_string).collect();
        let nodes = nodes.join(", ");
        note(&format!(
            "node(s) {nodes} did not tell which transactions they coordinate"
        ));
    }
}

/// The answer of a node to a question, or its own words if it refuses.
fn asked(address: &str, path: &str) -> Result<Value> {
    change(address, "GET", path, &Value::Null)
}

fn strange(address: &str, path: &str) -> String {
    format!("http://{address}{path} is not what a node of Ropewalk serves")
}

fn listed(found: &[Value]) -> String {
    let heading = [
        "id",
        "state",
        "open",
        "timeout",
        "producer",
        "epoch",
        "partitions",
        "coordinator",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(found.iter().map(|one| {
        vec![
            text(&one["id"]),
            text(&one["state"]),
            or_dash(one["open_ms"].as_i64().map(shown_span)),
            or_dash(one["timeout_ms"].as_i64().map(shown_span)),
            one["producer_id"].to_string(),
            one["producer_epoch"].to_string(),
            one["partition_count"].to_string(),
            one["coordinator"].to_string(),
        ]
    }));
    table(&rows)
}

fn describe(arguments: &DescribeArguments) -> Result<()> {
    let path = format!("/v1/transactions/{}", encoded(&arguments.id));
    let found = asked(&arguments.over_http.address(), &path)?;
    tell(arguments.over_http.json, described(&found), found)
}

fn described(found: &Value) -> String {
    let since = found["start_ms"].as_i64().map(shown);
    let open = found["open_ms"].as_i64().map(shown_span);
    let timeout = or_dash(found["timeout_ms"].as_i64().map(shown_span));
    let stands = match (open, since) {
        (Some(open), Some(since)) => format!("open for {open} (since {since}) of {timeout} that it may be"),
        (_, Some(since)) => format!("its latest transaction began {since}"),
        _ => "it has had no transaction yet".to_owned(),
    };
    let mut told = cleaned(&format!(
        "transaction {} is {}: {stands}",
        text(&found["id"]),
        text(&found["state"])
    ));
    told.push_str(&format!(
        "\nproducer {} with epoch {}, coordinated by node {}",
        found["producer_id"], found["producer_epoch"], found["coordinator"]
    ));
    let partitions = found["partitions"].as_array().map_or(&[][..], Vec::as_slice);
    if partitions.is_empty() {
        return told;
    }
    let mut rows = vec![["topic", "partition"].map(str::to_owned).to_vec()];
    rows.extend(
        partitions
            .iter()
            .map(|place| vec![text(&place["topic"]), place["partition"].to_string()]),
    );
    format!("{told}\n\n{}", table(&rows))
}

fn abort(arguments: &AbortArguments) -> Result<()> {
    let address = arguments.over_http.address();
    let (path, id) = match (&arguments.id, &arguments.partition, arguments.first_offset) {
        (Some(id), ..) => (format!("/v1/transactions/{}/abort", encoded(id)), id),
        (None, Some(place), Some(first)) => return abort_hanging(arguments, place, first),
        _ => return Err(Senseless("a transactional id or a place is needed".to_owned()).into()),
    };
    let aborted = change(&address, "POST", &path, &Value::Null)?;
    let told = match aborted["state"].as_str() {
        Some("PrepareAbort") => format!(
            "transaction {id} is being aborted, and its producer is fenced; {} not know yet: `ropewalk txn describe {id}` shows whether they do",
            match aborted["partition_count"].as_u64() {
                Some(1) => "its partition does".to_owned(),
                count => format!("some of its {} do", counted(count.unwrap_or(0), "partition")),
            }
        ),
        _ => format!("aborted transaction {id}; its producer is fenced"),
    };
    tell(arguments.over_http.json, cleaned(&told), aborted)
}

fn abort_hanging(arguments: &AbortArguments, place: &Place, first: i64) -> Result<()> {
    let Place { topic, partition } = place;
    let path = format!(
        "/v1/topics/{}/partitions/{partition}/transactions/{first}/abort",
        encoded(topic)
    );
    let aborted = change(&arguments.over_http.address(), "POST", &path, &Value::Null)?;
    let told = format!(
        "aborted the transaction of producer {} at offset {first} of {topic}:{partition}",
        aborted["producer_id"]
    );
    let json = json!({
        "topic": topic,
        "partition": partition,
        "first_offset": first,
        "producer_id": aborted["producer_id"],
        "producer_epoch": aborted["producer_epoch"],
    });
    tell(arguments.over_http.json, cleaned(&told), json)
}

/// A member that is text.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

/// Text as a path and a query take it, whatever letters it has.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'_' | b'.' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_chose_is_no_command_to_the_terminal_no_row_and_no_other_path() {
        let id = "a\x1b[2J\nb/c?d";
        assert_eq!(encoded(id), "a%1B%5B2J%0Ab%2Fc%3Fd");
        let found = json!({
            "id": id, "state": "Ongoing", "producer_id": 7, "producer_epoch": 2, "coordinator": 1,
            "timeout_ms": 60_000, "start_ms": 951_825_600_000_i64, "open_ms": 1_500, "partition_count": 1,
            "partitions": [{ "topic": "orders", "partition": 3 }],
        });
        let told = described(&found);
        assert_eq!(
            told,
            "transaction a?[2J?b/c?d is Ongoing: open for 1s (since 2000-02-29T12:00:00.000Z) of 1m0s that it may be\n\
             producer 7 with epoch 2, coordinated by node 1\n\n\
             topic   partition\norders  3"
        );
        let told = listed(&[found]);
        assert_eq!(told.lines().count(), 2, "{told}");
        assert!(
            told.ends_with("a?[2J?b/c?d  Ongoing  1s    1m0s     7         2      1           1"),
            "{told}"
        );
    }

    #[test]
    fn one_that_has_ended_is_not_called_open() {
        let mut found = json!({ "id": "x", "state": "CompleteCommit", "start_ms": 0, "partitions": [] });
        assert!(
            described(&found)
                .starts_with("transaction x is CompleteCommit: its latest transaction began 1970")
        );
        found["start_ms"] = Value::Null;
        found["state"] = "Empty".into();
        assert!(described(&found).starts_with("transaction x is Empty: it has had no transaction yet"));
    }
}
