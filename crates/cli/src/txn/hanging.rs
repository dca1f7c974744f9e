//! `ropewalk txn hanging`: open transactions that no coordinator knows, in all partitions or in those that are named.

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use super::{all_pages, asked, encoded, strange, text};
use crate::failure::note;
use crate::named::{Named, named};
use crate::output::{counted, or_dash, table, tell};
use crate::progress::Progress;
use crate::remote::OverHttp;
use crate::time::shown;

#[derive(Args)]
pub(super) struct HangingArguments {
    /// A topic, or one partition of it as TOPIC:PARTITION; may be repeated
    #[arg(short, long = "topic", value_name = "TOPIC[:PARTITION]", value_parser = named)]
    topics: Vec<Named>,
    /// Show all open transactions, also those that their coordinators will end
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    over_http: OverHttp,
}

pub(super) fn run(arguments: &HangingArguments) -> Result<()> {
    let address = arguments.over_http.address();
    let places = places(&address, &arguments.topics)?;
    let mut progress = Progress::new("looking for transactions that hang".to_owned());
    let (mut found, mut unasked) = (Vec::new(), 0);
    for (at, (topic, partition)) in places.iter().enumerate() {
        progress.say(&format!("{at} of {}", counted(places.len(), "partition")));
        match open_in(&address, topic, *partition) {
            Ok(open) => found.extend(
                open.into_iter()
                    .filter(|one| arguments.all || one["is_hanging"] != false),
            ),
            Err(error) => {
                note(&format!("{topic}:{partition} cannot be looked at: {error:#}"));
                unasked += 1;
            }
        }
    }
    drop(progress);
    let told = match (found.len(), arguments.all) {
        (0, false) => "no transaction hangs".to_owned(),
        (0, true) => "no transaction is open".to_owned(),
        _ => shown_open(&found),
    };
    if unasked == 0 || !found.is_empty() {
        tell(arguments.over_http.json, told, found.into())?;
    }
    match unasked {
        0 => Ok(()),
        _ => bail!("{} could not be looked at", counted(unasked, "partition")),
    }
}

/// The partitions that are named, or all.
fn places(address: &str, named: &[Named]) -> Result<Vec<(String, i32)>> {
    let mut places = Vec::new();
    if named.is_empty() {
        for topic in all_pages(address, "/v1/topics", "", "topics")? {
            places.extend(partitions_of(address, &text(&topic["name"]))?);
        }
    }
    for Named { topic, partition } in named {
        match partition {
            Some(partition) => places.push((topic.clone(), *partition)),
            None => places.extend(partitions_of(address, topic)?),
        }
    }
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

fn partitions_of(address: &str, topic: &str) -> Result<Vec<(String, i32)>> {
    let path = format!("/v1/topics/{}", encoded(topic));
    let described = asked(address, &path)?;
    let count = described["partitions"].as_array().map(Vec::len);
    let count = count.with_context(|| strange(address, &path))?;
    Ok((0..)
        .take(count)
        .map(|partition| (topic.to_owned(), partition))
        .collect())
}

/// The open transactions of a partition, each with its place.
fn open_in(address: &str, topic: &str, partition: i32) -> Result<Vec<Value>> {
    let path = format!(
        "/v1/topics/{}/partitions/{partition}/transactions",
        encoded(topic)
    );
    let mut found = all_pages(address, &path, "", "transactions")?;
    for one in &mut found {
        one["topic"] = topic.into();
        one["partition"] = partition.into();
    }
    Ok(found)
}

fn shown_open(found: &[Value]) -> String {
    let heading = [
        "topic",
        "partition",
        "first offset",
        "producer",
        "epoch",
        "latest record",
        "hangs",
        "id",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(found.iter().map(|one| {
        vec![
            text(&one["topic"]),
            one["partition"].to_string(),
            one["first_offset"].to_string(),
            one["producer_id"].to_string(),
            one["producer_epoch"].to_string(),
            or_dash(one["last_timestamp_ms"].as_i64().map(shown)),
            match one["is_hanging"].as_bool() {
                Some(true) => "yes",
                Some(false) => "no",
                None => "unknown",
            }
            .to_owned(),
            or_dash(one["transaction"]["id"].as_str()),
        ]
    }));
    table(&rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_told_which_transactions_hang_and_of_which_that_is_not_known() {
        let open = |is_hanging: Value, transaction: Value| {
            json!({
                "topic": "orders", "partition": 3, "first_offset": 17, "producer_id": 7, "producer_epoch": 2,
                "last_timestamp_ms": null, "is_hanging": is_hanging, "transaction": transaction,
            })
        };
        let told = shown_open(&[
            open(true.into(), Value::Null),
            open(Value::Null, Value::Null),
            open(false.into(), json!({ "id": "payments-1" })),
        ]);
        let rows: Vec<Vec<&str>> = told
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[1], ["orders", "3", "17", "7", "2", "-", "yes", "-"]);
        assert_eq!(
            (rows[2][6], rows[3][6], rows[3][7]),
            ("unknown", "no", "payments-1")
        );
    }
}
