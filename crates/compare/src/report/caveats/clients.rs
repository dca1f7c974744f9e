//! What is the client's part of a figure: one acknowledgement for many records or for each, and whose client it was.

use std::collections::BTreeSet;

use super::super::guesses::timed;
use super::{cells_of, join, point};
use crate::report::document::{Span, Text};
use crate::results::{Acknowledges, LoopKind, Results, Row, SystemFacts};

/// One acknowledgement, or one latency, for many records, or one for each.
pub(super) fn acknowledgements(results: &Results) -> Vec<Text> {
    let mut rows = results.experiments.iter().flat_map(|experiment| &experiment.rows);
    if !rows.any(has_batches) {
        return Vec::new();
    }
    let titles = |is_one: &dyn Fn(&SystemFacts) -> bool| -> Vec<String> {
        let those = measured(results).filter(|system| is_one(system));
        those.map(|system| system.title.clone()).collect()
    };
    let acknowledging = |what| titles(&|system| system.acknowledges == Some(what));
    let told = |what| titles(&|system| latencies_told(results, system) == Some(what));
    let [batch, record] = [Acknowledges::Batch, Acknowledges::Record];
    let mut points = Vec::new();
    let (batches, records) = (acknowledging(batch), acknowledging(record));
    if !batches.is_empty() && !records.is_empty() {
        points.push(point(
            "A batch or a record. ",
            format!(
                "Where records go in batches, {} give one acknowledgement for a whole batch; {} give one for each record, which is \
                 a message of its own. Part of a wide difference in tables of batches is that work.",
                join(&batches),
                join(&records)
            ),
        ));
    }
    let (batches, records) = (told(batch), told(record));
    if !batches.is_empty() && !records.is_empty() {
        points.push(point(
            "Latency of a batch or of a record. ",
            format!(
                "In the closed loop, where records go in batches, the latency of {} counts from when a whole batch is handed over; \
                 that of {} counts for each record, from when it is handed over, with the time in which the batch fills. Neither \
                 wins or loses by latency beside the other.",
                join(&batches),
                join(&records)
            ),
        ));
    }
    points
}

fn has_batches(row: &Row) -> bool {
    let records = row.parameters.get("batch_records");
    records.is_some_and(|records| *records > 1.0)
}

/// The systems of which something was measured.
fn measured(results: &Results) -> impl Iterator<Item = &SystemFacts> {
    results.systems.iter().filter(|system| system.failed.is_none())
}

/// What the folders of the measured systems say of how these are used, each thing once.
pub(super) fn notes(results: &Results) -> Vec<Text> {
    let notes = measured(results).filter_map(|system| system.note.as_deref());
    let notes: BTreeSet<&str> = notes.collect();
    let points = notes.into_iter().map(|note| point("How it is used. ", note));
    points.collect()
}

/// Whether the latencies of a system in batches were told by batch or by record, as their numbers show.
fn latencies_told(results: &Results, system: &SystemFacts) -> Option<Acknowledges> {
    let mut cells = cells_of(results).filter(|(experiment, row, cell)| {
        experiment.loop_kind == LoopKind::Closed && has_batches(row) && cell.system == system.name
    });
    cells.find_map(|(_, _, cell)| timed(cell, "p50_us"))
}

/// Whose client it was: a figure is that of a system and its client.
pub(super) fn points(results: &Results) -> Vec<Text> {
    let tables: BTreeSet<&str> = cells_of(results).map(|(table, ..)| table.name.as_str()).collect();
    let common = cells_of(results).filter(|(_, _, cell)| !cell.best_client);
    let common: BTreeSet<String> = common.map(|(table, ..)| table.name.clone()).collect();
    if tables.is_empty() {
        return Vec::new();
    }
    // Who has a common client in one table could have it in all.
    let has_both: BTreeSet<&str> = cells_of(results)
        .filter(|(_, _, cell)| !cell.best_client)
        .map(|(_, _, cell)| cell.system.as_str())
        .collect();
    let lacks_one = cells_of(results)
        .any(|(table, _, cell)| has_both.contains(cell.system.as_str()) && !common.contains(&table.name));
    if !common.is_empty() && !lacks_one {
        return vec![point(
            "Clients. ",
            "A figure is that of a system and its client together. Each system is measured through its best client, and, \
             where it can be, through a common one. Best is set beside best and the same client beside itself, nothing else.",
        )];
    }
    let both = match common.is_empty() {
        true => String::new(),
        false => {
            let common = Vec::from_iter(common);
            format!(" (in {} through a common one, too)", join(&common))
        }
    };
    vec![
        point(
            "Clients. ",
            format!(
                "A figure is that of a system and its client together, and each system ran through its own best client alone{both}. So a \
                 part of each difference is that of the clients, which are not even written in the same language. Through one client \
                 for all, differences are other, often smaller: measure with ",
            ),
        )
        .with(Span::Code("--clients all".to_owned()))
        .and("."),
    ]
}

/// What two clients of one protocol do for their producers, where one does more.
pub(super) fn numbering(results: &Results) -> Vec<Text> {
    let mut settings = measured(results)
        .flat_map(|system| system.drivers.values())
        .flat_map(|driver| driver.settings.keys());
    let is_ropewalk = measured(results).any(|system| system.name.starts_with("ropewalk"));
    match is_ropewalk && settings.any(|name| name == "enable.idempotence") {
        false => Vec::new(),
        true => vec![point(
            "Clients that number records. ",
            "Kafka's Java client is idempotent: it numbers its records, has at most 5 requests under way for each connection, and \
             the broker checks the numbers. Ropewalk's driver numbers none, and has as many requests under way as the row says.",
        )],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::{Cell, DriverFacts, Experiment};

    /// Two systems in batches of 64, of which one told a latency for each record.
    fn results(best_client: bool) -> Results {
        let cell = |system: &str, samples: f64| Cell {
            system: system.to_owned(),
            best_client,
            runs: vec![BTreeMap::from([
                ("p50_us".to_owned(), 9.0),
                ("samples".to_owned(), samples),
                ("records".to_owned(), 64e4),
            ])],
            ..Cell::default()
        };
        let system = |name: &str, acknowledges| SystemFacts {
            name: name.to_owned(),
            title: name.to_owned(),
            acknowledges: Some(acknowledges),
            ..SystemFacts::default()
        };
        Results {
            systems: vec![
                system("ours", Acknowledges::Batch),
                system("nats-sync", Acknowledges::Record),
            ],
            experiments: vec![Experiment {
                rows: vec![Row {
                    name: String::new(),
                    parameters: BTreeMap::from([("batch_records".to_owned(), 64.0)]),
                    cells: vec![cell("ours", 1e4), cell("nats-sync", 64e4)],
                }],
                ..Experiment::default()
            }],
            ..Results::default()
        }
    }

    fn words(points: &[Text]) -> String {
        points
            .iter()
            .flat_map(|text| &text.0)
            .map(|span| match span {
                Span::Plain(text) | Span::Strong(text) | Span::Quiet(text) | Span::Code(text) => {
                    text.as_str()
                }
                Span::Note(_) => "",
            })
            .collect()
    }

    #[test]
    fn best_clients_alone_are_told_of() {
        let told = words(&points(&results(true)));
        assert!(
            told.contains("--clients all") && !told.contains("common"),
            "{told}"
        );
        let mut some = results(true);
        for name in ["alone", "both"] {
            let mut more = some.experiments[0].clone();
            more.name = name.to_owned();
            more.rows[0].cells[0].best_client = name == "alone";
            some.experiments.push(more);
        }
        let told = words(&points(&some));
        assert!(
            told.contains("--clients all") && told.contains("in both through a common one"),
            "{told}"
        );
        let told = words(&points(&results(false)));
        assert!(
            told.contains("common one") && !told.contains("--clients"),
            "{told}"
        );
        assert!(points(&Results::default()).is_empty());
    }

    #[test]
    fn who_numbers_its_records_is_told() {
        let mut results = results(true);
        results.systems[0].name = "ropewalk".to_owned();
        assert!(numbering(&results).is_empty());
        let settings = [("enable.idempotence".to_owned(), "true".to_owned())].into();
        let driver = DriverFacts {
            settings,
            ..DriverFacts::default()
        };
        results.systems[1].drivers.insert("java".to_owned(), driver);
        assert!(words(&numbering(&results)).contains("idempotent"));
    }

    #[test]
    fn ways_that_were_not_used_and_unlike_latencies_are_named() {
        let mut results = results(true);
        assert!(notes(&results).is_empty());
        for system in &mut results.systems {
            system.note = Some("Batch publishing may be faster.".to_owned());
        }
        let told = words(&notes(&results));
        assert_eq!(told, "How it is used. Batch publishing may be faster.");
        let told = words(&acknowledgements(&results));
        assert!(
            told.contains("the latency of ours counts from when a whole batch"),
            "{told}"
        );
        results.experiments[0].rows[0].parameters.clear();
        assert!(acknowledgements(&results).is_empty());
    }
}
