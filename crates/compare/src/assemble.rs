//! From plans and runs to `Results`: nothing is measured and nothing is decided here.

use std::collections::BTreeMap;

use super::asking::ways;
use super::figures;
use super::fleet::Way;
use super::peer::System;
use super::plan::{Plan, RowPlan};
use super::record::{CellKey, Line, Moment, Record, Run};
use super::results::{
    Cell, Experiment, Machine, Results, Row, SCHEMA, Sitting, SystemFacts, TIMES_VERSION_1,
};
use super::runner::Setting;

/// Everything as one value: what is known besides, with what plans and runs add to it.
pub(super) fn results(known: Results, plans: &[Plan], record: &Record, setting: &Setting<'_>) -> Results {
    let moments = || record.lines.iter().filter_map(moment).cloned();
    let (first, last) = (
        moments().next().unwrap_or_default(),
        moments().next_back().unwrap_or_default(),
    );
    let ways: Vec<Vec<Way>> = plans.iter().map(|plan| ways(setting, plan)).collect();
    let experiments = plans.iter().zip(&ways);
    let experiments = experiments.map(|(plan, ways)| experiment(plan, &known.command, record, ways));
    let experiments: Vec<Experiment> = experiments.collect();
    let is_asked = |system: &&System| ways.iter().flatten().any(|way| way.system == **system);
    let asked = setting.systems.iter().filter(is_asked);
    let measured = asked.map(|system| facts(system, record, &experiments));
    Results {
        schema: SCHEMA,
        began: first.at,
        ended: last.at,
        sittings: sittings(&record.lines),
        machine: Machine {
            load_before: first.load,
            load_after: last.load,
            ..known.machine
        },
        floors: vec![first.floors, last.floors],
        // Those that cannot be used come last.
        systems: measured.chain(known.systems).collect(),
        experiments,
        ..known
    }
}

/// A folder that cannot be used, as a system of which nothing was measured.
pub(super) fn broken(folder: &str, why: &str) -> SystemFacts {
    SystemFacts {
        name: folder.to_owned(),
        title: folder.to_owned(),
        failed: Some(why.to_owned()),
        ..SystemFacts::default()
    }
}

/// The moments after which runs were made.
fn sittings(lines: &[Line]) -> Vec<Sitting> {
    let mut sittings = Vec::new();
    let mut begins = None;
    for line in lines {
        match line {
            Line::Moment(moment) => begins = Some(moment),
            Line::Run(_) => sittings.extend(begins.take().map(|moment| Sitting {
                began: moment.at.clone(),
                load: moment.load,
            })),
            Line::Asked(_) | Line::System { .. } | Line::Driver { .. } => {}
        }
    }
    sittings
}

fn moment(line: &Line) -> Option<&Moment> {
    match line {
        Line::Moment(moment) => Some(moment),
        _ => None,
    }
}

fn facts(system: &System, record: &Record, experiments: &[Experiment]) -> SystemFacts {
    let variant = &system.variant;
    let mut facts = SystemFacts {
        name: variant.name.clone(),
        title: variant.title.clone(),
        version: system.peer.file.version.clone(),
        survives: variant.survives,
        durability: variant.durability.clone(),
        acknowledges: system.peer.file.acknowledges,
        note: system.peer.file.note.clone(),
        ..SystemFacts::default()
    };
    for line in &record.lines {
        match line {
            Line::System { system, settings } if *system == variant.name => {
                facts.settings.clone_from(settings)
            }
            Line::Driver {
                system,
                driver,
                facts: of_driver,
            } if *system == variant.name => {
                facts.drivers.insert(driver.clone(), of_driver.clone());
            }
            _ => {}
        }
    }
    facts.failed = nothing_measured(&variant.name, experiments);
    facts
}

/// Why nothing of a system was measured, if all its runs failed.
fn nothing_measured(system: &str, experiments: &[Experiment]) -> Option<String> {
    let cells = experiments.iter().flat_map(Experiment::cells);
    let cells: Vec<&Cell> = cells.filter(|cell| cell.system == system).collect();
    match cells.iter().any(|cell| !cell.runs.is_empty()) {
        true => None,
        false => cells.iter().find_map(|cell| cell.failures.first().cloned()),
    }
}

fn experiment(plan: &Plan, command: &str, record: &Record, ways: &[Way]) -> Experiment {
    let rows = plan.rows.iter().map(|planned| row(plan, planned, record, ways));
    plan.filled(rows.collect(), alone(command, &plan.name))
}

/// The command that repeats one table alone, elsewhere: its runs would be found where they are already.
fn alone(command: &str, name: &str) -> String {
    let command = without_options(command, &["--only", "--out"]);
    format!("{command} --only {name} --out {name}")
}

/// A command without these options and their values.
pub(super) fn without_options(command: &str, options: &[&str]) -> String {
    let mut words = Vec::new();
    let mut rest = command.split(' ');
    while let Some(word) = rest.next() {
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(name, value)| (name, Some(value)));
        match (options.contains(&name), value) {
            (false, _) => words.push(word),
            (true, None) => drop(rest.next()),
            (true, Some(_)) => {}
        }
    }
    words.join(" ")
}

fn row(plan: &Plan, planned: &RowPlan, record: &Record, ways: &[Way]) -> Row {
    let cells = ways.iter().map(|way| {
        let key = CellKey::of(plan, planned, way);
        cell(way, &key, record.runs(&key).collect())
    });
    let mut row = Row {
        name: planned.name.clone(),
        parameters: planned.work.parameters(),
        cells: cells.collect(),
    };
    if let Some(first) = plan.variants.first()
        && plan.metrics.iter().any(|metric| metric == TIMES_VERSION_1)
    {
        put_times_version_1(&mut row, first);
    }
    row
}

/// Puts beside each rate how many times that of the first system it is.
fn put_times_version_1(row: &mut Row, first: &str) {
    const RATE: &str = "records_per_s";
    let first = row.cells.iter().find(|cell| cell.system == first);
    let Some(one) = first.and_then(|cell| cell.spread(RATE)) else {
        return;
    };
    for run in row.cells.iter_mut().flat_map(|cell| &mut cell.runs) {
        let times = run.get(RATE).map(|rate| rate / one.median);
        if let Some(times) = times.filter(|times| times.is_finite()) {
            run.insert(TIMES_VERSION_1.to_owned(), (times * 1e3).round() / 1e3);
        }
    }
}

fn cell(way: &Way, key: &CellKey, runs: Vec<&Run>) -> Cell {
    // Who broke its promise once is not believed the other times.
    let is_believed = !runs.iter().any(|run| run.broke_its_promise);
    let succeeded = || runs.iter().filter(|run| run.succeeded() && is_believed);
    let by_gravity = runs.iter().filter(|run| run.broke_its_promise).chain(&runs);
    let mut failures: Vec<String> = by_gravity.filter_map(|run| run.failure.clone()).collect();
    // The repetitions after a failure only say that there was one.
    failures.truncate(1);
    Cell {
        system: key.system.clone(),
        driver: key.driver.clone(),
        best_client: way.driver.name == way.system.variant.driver,
        runs: succeeded().map(|run| run.figures.clone()).collect(),
        percentiles: figures::curve(succeeded().map(|run| &run.latency_ns)),
        delivery_percentiles: figures::curve(succeeded().map(|run| &run.delivery_ns)),
        verified_records: succeeded().filter_map(|run| run.verified_records).max(),
        failures,
        not_asked: runs.iter().find_map(|run| run.not_asked.clone()),
    }
}

/// Failed runs and systems that cannot be used, as sentences. What was not asked for a reason of the workload is no failure.
pub(super) fn failures(results: &Results) -> Vec<String> {
    let of_runs = results.cells().flat_map(|(experiment, row, cell)| {
        let place = format!(
            "{} · {} · {} · {}",
            experiment.name, row.name, cell.system, cell.driver
        );
        let failures = cell.failures.iter();
        failures.map(move |why| format!("{place}: {why}"))
    });
    // Those without a cell could not even be asked.
    let is_asked = |system: &SystemFacts| results.cells().any(|(_, _, cell)| cell.system == system.name);
    let unasked = results.systems.iter().filter(|system| !is_asked(system));
    let of_systems =
        unasked.filter_map(|system| Some(format!("{}: {}", system.name, system.failed.as_ref()?)));
    of_runs.chain(of_systems).collect()
}

/// Floors by name, of a report of them.
pub(super) fn floors(report: &bench::floor::FloorReport) -> BTreeMap<String, f64> {
    let times = report
        .times
        .iter()
        .map(|row| (format!("{} {} B", row.operation, row.bytes), row.latency.p50_us));
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::made_up;

    #[test]
    fn rates_are_told_as_multiples_of_the_first_system_s_too() {
        let cell = |system: &str, rates: &[f64]| {
            let run = |rate: &f64| BTreeMap::from([("records_per_s".to_owned(), *rate)]);
            Cell {
                runs: rates.iter().map(run).collect(),
                ..made_up::cell(system, &[])
            }
        };
        let row = |cells: Vec<Cell>| {
            let mut row = made_up::row("256 B", cells);
            put_times_version_1(&mut row, "one");
            let cells = row.cells.iter();
            let times = cells.map(|cell| cell.spread(TIMES_VERSION_1).map(|spread| spread.median));
            times.collect::<Vec<_>>()
        };
        let cells = vec![cell("one", &[90.0, 100.0, 110.0]), cell("two", &[136.0])];
        assert_eq!(row(cells), [Some(1.0), Some(1.36)]);
        assert_eq!(row(vec![cell("two", &[136.0])]), [None], "beside nothing");
        assert_eq!(row(vec![cell("one", &[]), cell("two", &[136.0])]), [None, None]);
    }

    #[test]
    fn a_sitting_begins_with_the_moment_after_which_runs_were_made() {
        let moment = |at: &str| {
            Line::Moment(Moment {
                at: at.to_owned(),
                load: 0.1,
                floors: BTreeMap::new(),
            })
        };
        let cell = CellKey::made_up("100 B");
        let run = || Line::Run(Run::new(&cell, 0));
        // Killed in the middle, gone on with to the end, and asked for again when there was nothing left to do.
        let lines = [
            moment("1"),
            run(),
            run(),
            moment("2"),
            run(),
            moment("3"),
            moment("4"),
            moment("5"),
        ];
        let found = sittings(&lines);
        let began: Vec<&str> = found.iter().map(|sitting| sitting.began.as_str()).collect();
        assert_eq!(began, ["1", "2"]);
    }

    #[test]
    fn one_table_is_repeated_by_a_command_of_its_own() {
        let command = "ropewalk-compare run --only a,b --suite quick --out=x --seconds 1";
        let expected = "ropewalk-compare run --suite quick --seconds 1 --only b --out b";
        assert_eq!(alone(command, "b"), expected);
    }
}
