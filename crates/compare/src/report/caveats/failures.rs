//! What failed, shortly: the whole of it stands below the tables and with the systems.

use super::super::{cells, columns};
use super::{cells_of, gather, point, sentence, told_in};
use crate::report::document::Text;
use crate::results::{Results, SystemFacts};

/// How many failures are told on the first page.
const FAILURES_TOLD: usize = 8;

/// How many letters of a failure are told there: what systems log may be long.
const LETTERS_TOLD: usize = 120;

/// Systems that were not measured at all, then failures of the others.
pub(super) fn points(results: &Results) -> Vec<Text> {
    let mut points = failed_systems(results);
    points.extend(failed_cells(results));
    points
}

fn failed_systems(results: &Results) -> Vec<Text> {
    let failed = |system: &SystemFacts| {
        let why = shortened(system.failed.as_ref()?);
        Some(point(
            &format!("{} was not measured. ", system.title),
            sentence(&why),
        ))
    };
    results.systems.iter().filter_map(failed).collect()
}

/// Cells that failed, as a whole or in part, of systems that did not fail as a whole.
fn failed_cells(results: &Results) -> Vec<Text> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for (experiment, row, cell) in cells_of(results) {
        let system = columns::system(results, &cell.system);
        if system.is_some_and(|system| system.failed.is_some()) {
            continue;
        }
        let Some(note) = cells::failure_note(cell) else {
            continue;
        };
        let title = system.map_or(cell.system.as_str(), |system| &system.title);
        gather(
            &mut told,
            format!("{title}: {}", shortened(&note)),
            format!("{}, {}", experiment.title, row.name),
        );
    }
    let told_first = told.iter().take(FAILURES_TOLD);
    let mut points: Vec<Text> = told_first.map(|told| told_in(told, "Failed. ")).collect();
    if told.len() > FAILURES_TOLD {
        let words = match told.len() - FAILURES_TOLD {
            1 => "Another failure stands below its table.".to_owned(),
            more => format!("{more} other failures stand below the tables."),
        };
        points.push(point("Failed. ", words));
    }
    points
}

/// The beginning of a long text, up to a blank.
fn shortened(text: &str) -> String {
    let text = text.trim();
    let Some((end, _)) = text.char_indices().nth(LETTERS_TOLD) else {
        return text.to_owned();
    };
    let start = &text[..end];
    let words = start.rsplit_once(' ').map_or(start, |(words, _)| words);
    format!("{} …", words.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_failure_is_cut_between_words_and_a_short_one_is_whole() {
        assert_eq!(shortened(" it ended \n"), "it ended");
        let long = "{\"level\":\"wärn\"} ".repeat(40);
        let short = shortened(&long);
        assert!(short.chars().count() <= LETTERS_TOLD + 2, "{short}");
        assert!(short.ends_with("\"} …") && long.starts_with(short.trim_end_matches(" …")));
        assert!(shortened(&"x".repeat(500)).starts_with("xxxx"));
    }
}
