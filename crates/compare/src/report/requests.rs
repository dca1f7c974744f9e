//! How many records go in a request and how many requests are under way: once for a table, or beside each of its rows.

use crate::results::{Experiment, LoopKind, Row};
use bench::number;

/// What all rows of a table have, if that is the same.
pub(crate) fn of_all(experiment: &Experiment) -> Option<String> {
    let first = of_row(experiment, experiment.rows.first()?)?;
    let mut rows = experiment.rows.iter();
    rows.all(|row| of_row(experiment, row).as_ref() == Some(&first))
        .then_some(first)
}

/// A row's name, with its requests where not all rows have the same.
pub(crate) fn row_title(experiment: &Experiment, name: &str) -> String {
    if of_all(experiment).is_some() {
        return name.to_owned();
    }
    let row = experiment.rows.iter().find(|row| row.name == name);
    match row.and_then(|row| of_row(experiment, row)) {
        Some(requests) => format!("{name} · {requests}"),
        None => name.to_owned(),
    }
}

/// "batches of 64, 4 in flight".
fn of_row(experiment: &Experiment, row: &Row) -> Option<String> {
    let records = *row.parameters.get("batch_records")?;
    let is_open = experiment.loop_kind == LoopKind::Open;
    let size = match records > 1.0 {
        true if is_open => format!("batches of {} at most", number::count(records as u64)),
        true => format!("batches of {}", number::count(records as u64)),
        false if is_open => "single records, unless a client batches by itself".to_owned(),
        false => "single records".to_owned(),
    };
    let in_flight = row.parameters.get("in_flight");
    Some(match in_flight {
        Some(in_flight) => format!("{size}, {} in flight", number::count(*in_flight as u64)),
        None => size,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn experiment(loop_kind: LoopKind, requests: &[(f64, f64)]) -> Experiment {
        let row = |(records, in_flight): &(f64, f64)| Row {
            name: format!("{records} records"),
            parameters: BTreeMap::from([
                ("batch_records".to_owned(), *records),
                ("in_flight".to_owned(), *in_flight),
            ]),
            cells: Vec::new(),
        };
        Experiment {
            loop_kind,
            rows: requests.iter().map(row).collect(),
            ..Experiment::default()
        }
    }

    #[test]
    fn requests_that_are_the_same_in_all_rows_are_told_once() {
        let same = experiment(LoopKind::Closed, &[(1_000.0, 8.0), (1_000.0, 8.0)]);
        assert_eq!(of_all(&same).as_deref(), Some("batches of 1,000, 8 in flight"));
        assert_eq!(row_title(&same, "1000 records"), "1000 records");
        let open = experiment(LoopKind::Open, &[(64.0, 8.0)]);
        assert_eq!(
            of_all(&open).as_deref(),
            Some("batches of 64 at most, 8 in flight")
        );
    }

    #[test]
    fn requests_that_differ_stand_beside_their_rows() {
        let other = experiment(LoopKind::Closed, &[(64.0, 4.0), (1.0, 1.0)]);
        assert_eq!(of_all(&other), None);
        assert_eq!(
            row_title(&other, "64 records"),
            "64 records · batches of 64, 4 in flight"
        );
        assert_eq!(
            row_title(&other, "1 records"),
            "1 records · single records, 1 in flight"
        );
        assert_eq!(row_title(&other, "published alone"), "published alone");
    }
}
