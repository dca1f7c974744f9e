//! Sentences about made-up tables.

use std::collections::BTreeMap;

use super::*;
use crate::compare::report::{comparisons, markdown};
use crate::compare::results::{Cell, Row, Survives};

fn cell(system: &str, metric: &str, value: f64) -> Cell {
    let run = |part: f64| BTreeMap::from([(metric.to_owned(), value * part), ("samples".to_owned(), 1e6)]);
    Cell {
        system: system.to_owned(),
        best_client: true,
        runs: [0.99, 1.0, 1.01].map(run).to_vec(),
        ..Cell::default()
    }
}

/// A table with a row for each pair of figures, ours and the other's.
fn experiment(title: &str, metric: &str, pairs: &[(f64, f64)]) -> Experiment {
    let row = |(index, (ours, theirs)): (usize, &(f64, f64))| Row {
        name: format!("row {}", index + 1),
        parameters: BTreeMap::new(),
        cells: vec![
            cell("ours", metric, *ours),
            cell("other", metric, *theirs),
            cell("cached", metric, 7.0),
        ],
    };
    Experiment {
        name: title.to_owned(),
        title: title.to_owned(),
        metrics: vec![metric.to_owned()],
        rows: pairs.iter().enumerate().map(row).collect(),
        ..Experiment::default()
    }
}

fn results(experiments: Vec<Experiment>) -> Results {
    let system = |name: &str, survives| SystemFacts {
        name: name.to_owned(),
        title: name.to_owned(),
        survives,
        ..SystemFacts::default()
    };
    Results {
        repetitions: 3,
        systems: vec![
            system("ours", Survives::PowerCut),
            system("other", Survives::PowerCut),
            system("cached", Survives::ProcessCrash),
        ],
        experiments,
        ..Results::default()
    }
}

fn sentences(results: &Results) -> Vec<String> {
    let mut document = Document::default();
    push(&mut document, results, &comparisons::all(results));
    let text = markdown::render(&document);
    let lines = text.lines().filter_map(|line| line.strip_prefix("- "));
    lines.map(str::to_owned).collect()
}

#[test]
fn what_is_lost_is_said_first_and_by_how_much() {
    let told = sentences(&results(vec![
        experiment("Rates", "records_per_s", &[(400.0, 100.0), (200.0, 100.0)]),
        experiment("Even", "records_per_s", &[(100.0, 100.0)]),
        experiment("Delays", "p50_us", &[(100.0, 300.0), (200.0, 100.0)]),
    ]));
    assert_eq!(
        told,
        [
            "**Delays.** ours ◆ loses 1 of 2 rows by median latency. In “row 2”, other ◆ is 2.0× better (100 against 200). It is \
             first in 1.",
            "**Even.** ours ◆ is level with the best in its one row by records per second.",
            "**Rates.** ours ◆ is first in 2 of 2 rows by records per second: 2.0× to 4.0× the next best (other ◆).",
            "**Not scored.** Beside systems that promise less, ours ◆ is worse in 2 and better in 3 of 5 figures.",
        ]
    );
}

#[test]
fn many_tables_take_about_ten_sentences() {
    let won = |number: usize| experiment(&format!("Table {number}"), "p50_us", &[(1.0, 3.0)]);
    let told = sentences(&results((0..14).map(won).collect()));
    assert_eq!(told.len(), SENTENCES + 1);
    assert!(
        told[0].contains(
            "is first in its one row by median latency: the next best (other ◆) takes 3.0× as long"
        ),
        "{}",
        told[0]
    );
    let rest = &told[SENTENCES - 1];
    assert!(
        rest.starts_with("**The other 5 tables.** Of 5 rows in “Table 9”"),
        "{rest}"
    );
    assert!(rest.ends_with("ours ◆ is first in 5."), "{rest}");
}

#[test]
fn nothing_beside_it_is_nothing_to_say() {
    let mut results = results(vec![experiment("Alone", "p50_us", &[(1.0, 3.0)])]);
    results.systems.truncate(1);
    let mut document = Document::default();
    push(&mut document, &results, &comparisons::all(&results));
    assert!(document.blocks.is_empty());
}

#[test]
fn loads_of_their_own_are_named() {
    let mut own = experiment("Shares", "p50_us", &[(1.0, 3.0)]);
    for (cell, due) in own.rows[0].cells.iter_mut().zip([1e3, 2e3, 4e3]) {
        for run in &mut cell.runs {
            run.insert("due_per_s".to_owned(), due);
            run.insert("records_per_s".to_owned(), due);
        }
    }
    let told = sentences(&results(vec![own]));
    assert!(
        told[0].contains("by median latency, each system at its own load:"),
        "{}",
        told[0]
    );
}
