//! Sentences about made-up tables.

use std::collections::BTreeMap;

use super::*;
use crate::report::{comparisons, markdown};
use crate::results::{Cell, Row, Survives};

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
             first in 1. Beside systems that promise less (not scored), ours ◆ loses 2 of 2 rows by median latency. By most in \
             “row 2”, cached ○ is 29× better (7.00 against 200).",
            "**Even.** ours ◆ is level with the best in its one row by records per second.",
            "**Rates.** ours ◆ is first in 2 of 2 rows by records per second: 2.0× to 4.0× the next best (other ◆).",
            "**Not scored.** Beside systems that promise less, ours ◆ is worse in 2 and better in 3 of 5 figures.",
        ]
    );
}

#[test]
fn what_is_lost_to_those_that_promise_less_is_said_after_what_is_lost_to_equals() {
    let told = sentences(&results(vec![
        experiment("Level", "p50_us", &[(5.0, 5.0)]),
        experiment("Cached", "p50_us", &[(9.0, 300.0), (1.0, 3.0), (2.0, 4.0)]),
        experiment("Equals", "p50_us", &[(3.0, 1.0)]),
    ]));
    assert_eq!(
        told[..3],
        [
            "**Equals.** ours ◆ loses its one row by median latency. In “row 1”, other ◆ is 3.0× better (1.00 against 3.00).",
            "**Cached.** Beside systems that promise less (not scored), ours ◆ loses 1 of 3 rows by median latency. In “row 1”, \
             cached ○ is 1.29× better (7.00 against 9.00). It is first in 2. Beside systems that promise the same, ours ◆ is first in \
             3 of 3 rows by median latency: the next best (other ◆) takes 2.0× to 33× as long.",
            "**Level.** ours ◆ is level with the best in its one row by median latency.",
        ]
    );
}

#[test]
fn what_only_one_client_for_both_tells_of_has_a_sentence() {
    let mut table = experiment("Queues", "p50_us", &[(4.0, 9.0)]);
    table.metrics.push("records_per_s".to_owned());
    let cells = &mut table.rows[0].cells;
    cells.truncate(2);
    for one in cells.iter_mut().flat_map(|cell| &mut cell.runs) {
        one.insert("records_per_s".to_owned(), 100.0);
        one.insert("records".to_owned(), 1e6);
    }
    let mut common = cells.clone();
    for cell in &mut common {
        cell.driver = "libboth".to_owned();
        cell.best_client = false;
    }
    cells.extend(common);
    // Its own client tells the latency of a batch of 100.
    for run in &mut cells[0].runs {
        run.insert("samples".to_owned(), 1e4);
    }
    let with_own_client = sentences(&results(vec![table.clone()]));
    assert_eq!(
        with_own_client[0],
        "**Queues.** ours ◆ is level with the best in its one row by records per second. Through libboth on both sides, ours ◆ is first \
         in its one row by median latency: the next best (other ◆) takes 2.2× as long.",
    );
    for run in &mut table.rows[0].cells[0].runs {
        run.insert("samples".to_owned(), 1e6);
    }
    let without_need = sentences(&results(vec![table]));
    assert!(!without_need[0].contains("libboth"), "{}", without_need[0]);
}

#[test]
fn times_are_told_as_times() {
    let told = sentences(&results(vec![experiment("Delays", "p50_us", &[(1.0, 3.0)])]));
    let words = "is first in its one row by median latency: the next best (other ◆) takes 3.0× as long";
    assert!(told[0].contains(words), "{}", told[0]);
}

#[test]
fn every_measured_table_has_a_sentence() {
    let table = |title: &str, cells: &[(&str, f64)]| {
        let mut table = experiment(title, "p50_us", &[(1.0, 3.0)]);
        table.rows[0].cells = cells
            .iter()
            .map(|(name, value)| cell(name, "p50_us", *value))
            .collect();
        table
    };
    let mut guesses = table("Guesses", &[("ours", 1.0), ("other", 3.0)]);
    let runs = guesses.rows[0].cells.iter_mut().flat_map(|cell| &mut cell.runs);
    runs.for_each(|run| {
        run.insert("samples".to_owned(), 3.0);
    });
    let mut results = results(vec![
        table("Same", &[("ours", 1.0), ("other", 3.0), ("cached", 1.0)]),
        table("Others", &[("ours", 4.0), ("ours-memory", 9.0), ("cached", 7.0)]),
        table("Without us", &[("other", 3.0), ("third", 5.0)]),
        guesses,
        table("Not measured", &[]),
    ]);
    for (name, survives) in [("third", Survives::PowerCut), ("ours-memory", Survives::Nothing)] {
        results.systems.push(SystemFacts {
            name: name.to_owned(),
            title: name.to_owned(),
            survives,
            ..SystemFacts::default()
        });
    }
    assert_eq!(
        sentences(&results),
        [
            "**Others.** Beside systems that promise more (not scored), ours-memory loses its one row by median latency. In “row 1”, \
             cached ○ is 1.29× better (7.00 against 9.00). Beside systems that promise less (not scored), ours ◆ is first in its one \
             row by median latency: the next best (cached ○) takes 1.75× as long.",
            "**Same.** ours ◆ is first in its one row by median latency: the next best (other ◆) takes 3.0× as long.",
            "**Without us.** ours and its variants are set beside nobody here. Best by median latency among those that promise the \
             same, alone or level: other ◆ in 1 of 1 rows.",
            "**Guesses.** None of its figures could be set beside another.",
            "**Not scored.** Beside systems that promise less, ours ◆ is worse in 0 and better in 1 of 2 figures. Beside systems that \
             promise more, ours-memory is worse in 1 and better in 0 of 1 figures.",
        ]
    );
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
