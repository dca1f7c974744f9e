//! What a report tells besides verdicts: the machine, the systems with their guarantees, settings and clients, what failed or was not
//! asked, and which figures are marked. Facts only: the sentences about them stand in the template.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use super::comparisons::is_named_after;
use super::guesses::{has_own_loads, timed};
use super::markdown::escape;
use super::measured::Measured;
use super::score::of_key;
use super::{cells, columns, contrary, requests, tables};
use crate::results::{Cell, Experiment, LoopKind, Results, Row, SystemFacts};

/// How many failures are told, and how many letters of each: what systems log may be long. Notes below the tables have the whole.
const FAILURES_TOLD: usize = 8;
const LETTERS_TOLD: usize = 120;
/// So many CPUs may be busy with other things, the kernel's own among them.
const OTHERS_QUIET: f64 = 0.3;

/// Of the whole comparison.
pub(crate) fn of(results: &Results) -> Value {
    let drivers = || results.systems.iter().flat_map(|system| system.drivers.values());
    let repetitions = results.repetitions as usize;
    context! {
        results,
        more_often => results.cells().any(|(_, _, cell)| cell.runs.len() > repetitions),
        course => course(results),
        first => results.systems.first().map(|first| escape(&columns::title(first))),
        systems => results.systems.iter().map(|one| system(results, one)).collect::<Vec<_>>(),
        only_best => results.cells().all(|(_, _, cell)| cell.best_client),
        numbers_records => results.systems.iter().any(|system| system.name.starts_with("ropewalk"))
            && drivers().any(|driver| driver.settings.contains_key("enable.idempotence")),
        failures => failures(results),
        not_asked => gathered(results.cells().filter_map(|(experiment, row, cell)| {
            let title = results.system(&cell.system).map_or(&cell.system, |system| &system.title);
            Some((format!("{title}: {}", cell.not_asked.as_ref()?), format!("{}, {}", experiment.title, row.name)))
        })),
        without_ours => without_ours(results),
        marks => marks(results),
    }
}

pub(crate) fn of_experiment(results: &Results, experiment: &Experiment) -> Value {
    let verified: Vec<u64> = experiment
        .cells()
        .filter_map(|cell| cell.verified_records)
        .collect();
    context! {
        says => experiment,
        requests => requests::of_all(experiment),
        has_own_loads => has_own_loads(experiment),
        table => tables::whole(results, experiment),
        contrary => contrary::to_publication(results, experiment),
        verified_records => verified.iter().sum::<u64>(),
        verified_cells => verified.len(),
    }
}

/// A system by its own words and by its figures.
fn system(results: &Results, system: &SystemFacts) -> Value {
    let measured = results.systems.iter().filter(|other| other.failed.is_none());
    let has_batches = |row: &Row| row.parameters.get("batch_records") > Some(&1.0);
    let timed = results.cells().find_map(|(experiment, row, cell)| {
        let is_it =
            experiment.loop_kind == LoopKind::Closed && has_batches(row) && cell.system == system.name;
        timed(cell, "p50_us").filter(|_| is_it)
    });
    context! {
        title => columns::title(system),
        says => system,
        is_alone => measured.filter(|other| other.survives == system.survives).count() < 2,
        timed,
    }
}

/// What else was at work while the runs were made.
fn course(results: &Results) -> Option<Value> {
    let of = |metric: &str| -> Vec<f64> {
        let runs = results.cells().flat_map(|(_, _, cell)| &cell.runs);
        let mut values: Vec<f64> = runs.filter_map(|run| run.get(metric)).copied().collect();
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        values
    };
    let (loads, others) = (of("load"), of("other_cpus"));
    Some(context! {
        least => loads.first()?,
        most => loads.last()?,
        middle => others.get(others.len() / 2).copied().unwrap_or_default(),
        disturbed => others.iter().filter(|cpus| **cpus > OTHERS_QUIET).count(),
        runs => others.len(),
    })
}

/// Cells that failed, as a whole or in part, of systems that did not fail as a whole.
fn failures(results: &Results) -> Vec<String> {
    let mut told = gathered(results.cells().filter_map(|(experiment, row, cell)| {
        let system = results
            .system(&cell.system)
            .filter(|system| system.failed.is_none())?;
        let note = shortened(&cells::failure_note(cell)?);
        Some((
            format!("{}: {note}", system.title),
            format!("{}, {}", experiment.title, row.name),
        ))
    }));
    let more = told.len().saturating_sub(FAILURES_TOLD);
    told.truncate(FAILURES_TOLD);
    told.extend((more > 0).then(|| format!("{more} more, below the tables.")));
    told
}

/// Each thing once, with the first of its places and how many more there are.
fn gathered(found: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for (what, place) in found {
        of_key(&mut told, what).push(place);
    }
    let with_place = |(what, places): (String, Vec<String>)| match places.len() - 1 {
        0 => format!("{what} ({})", places[0]),
        more => format!("{what} ({}, and {more} more)", places[0]),
    };
    told.into_iter().map(with_place).collect()
}

/// The beginning of a long text, up to a blank.
pub(crate) fn shortened(text: &str) -> String {
    let text = text.trim();
    let Some((end, _)) = text.char_indices().nth(LETTERS_TOLD) else {
        return text.to_owned();
    };
    let start = &text[..end];
    let words = start.rsplit_once(' ').map_or(start, |(words, _)| words);
    format!("{} …", words.trim_end())
}

/// Tables that were asked and have no figure of our system.
fn without_ours(results: &Results) -> Vec<String> {
    let Some(first) = results.systems.first() else {
        return Vec::new();
    };
    let is_ours = |cell: &Cell| !cell.runs.is_empty() && is_named_after(&cell.system, &first.name);
    let is_without =
        |experiment: &&Experiment| experiment.left_out.is_none() && !experiment.cells().any(is_ours);
    let without = results.experiments.iter().filter(is_without);
    without.map(|experiment| escape(&experiment.title)).collect()
}

/// How many figures have each mark, by what it stands for.
fn marks(results: &Results) -> BTreeMap<String, usize> {
    let measured = results.cells().flat_map(|(experiment, row, cell)| {
        let metrics = experiment.metrics.iter();
        metrics.filter_map(move |metric| Measured::in_row(row, cell, metric, results.repetitions))
    });
    let mut marks = BTreeMap::new();
    for one in measured {
        let name = match one.guess {
            Some(guess) => format!("{guess:?}"),
            None if one.is_unsteady() => "Unsteady".to_owned(),
            None => continue,
        };
        *marks.entry(name).or_default() += 1;
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Acknowledges, DriverFacts, made_up};

    #[test]
    fn a_long_failure_is_cut_between_words_and_a_short_one_is_whole() {
        assert_eq!(shortened(" it ended \n"), "it ended");
        let long = "{\"level\":\"wärn\"} ".repeat(40);
        let short = shortened(&long);
        assert!(short.chars().count() <= LETTERS_TOLD + 2, "{short}");
        assert!(short.ends_with("\"} …") && long.starts_with(short.trim_end_matches(" …")));
        assert!(shortened(&"x".repeat(500)).starts_with("xxxx"));
    }

    #[test]
    fn clients_and_unlike_latencies_are_facts_of_the_report() {
        let mut results = made_up::results(&["ropewalk", "nats-sync"]);
        let cell = |system: &str, samples| Cell {
            best_client: true,
            ..made_up::cell(
                system,
                &[("p50_us", 9.0), ("samples", samples), ("records", 64e4)],
            )
        };
        let mut row = made_up::row("64", vec![cell("ropewalk", 1e4), cell("nats-sync", 64e4)]);
        row.parameters.insert("batch_records".to_owned(), 64.0);
        results.experiments = vec![made_up::experiment(&["p50_us"], vec![row])];
        results.systems[0].acknowledges = Some(Acknowledges::Batch);
        let fact = |results: &Results, name: &str| of(results).get_attr(name).expect("it is there");
        assert!(fact(&results, "only_best").is_true() && !fact(&results, "numbers_records").is_true());
        let told = |system: usize| {
            let system = fact(&results, "systems")
                .get_item_by_index(system)
                .expect("it is there");
            let acknowledges = system
                .get_attr("says")
                .and_then(|says| says.get_attr("acknowledges"));
            format!(
                "{} {}",
                acknowledges.expect("a fact"),
                system.get_attr("timed").expect("a fact")
            )
        };
        assert_eq!([told(0), told(1)], ["batch batch", "None record"]);
        results.experiments[0].rows[0].cells[0].best_client = false;
        let settings = [("enable.idempotence".to_owned(), "true".to_owned())].into();
        results.systems[1].drivers.insert(
            "java".to_owned(),
            DriverFacts {
                settings,
                ..DriverFacts::default()
            },
        );
        assert!(!fact(&results, "only_best").is_true() && fact(&results, "numbers_records").is_true());
    }
}
