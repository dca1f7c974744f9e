//! How many records go in a request and how many requests are under way: once for a table, or beside each of its rows.

use bench::number;

use crate::results::{Experiment, LoopKind, Row};

/// What all rows of a table have, if that is the same.
pub(crate) fn of_all(experiment: &Experiment) -> Option<String> {
    let mut rows = experiment.rows.iter().map(|row| of_row(experiment, row));
    let first = rows.next()??;
    rows.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// A row's name, with its requests where not all rows have the same.
pub(crate) fn row_title(experiment: &Experiment, name: &str) -> String {
    let requests = experiment.row(name).and_then(|row| of_row(experiment, row));
    match requests.filter(|_| of_all(experiment).is_none()) {
        Some(requests) => format!("{name} · {requests}"),
        None => name.to_owned(),
    }
}

/// "batches of 64, 4 in flight".
fn of_row(experiment: &Experiment, row: &Row) -> Option<String> {
    let records = *row.parameters.get("batch_records")?;
    let count = number::count(records as u64);
    let size = match (records > 1.0, experiment.loop_kind == LoopKind::Open) {
        (true, true) => format!("batches of {count} at most"),
        (true, false) => format!("batches of {count}"),
        (false, true) => "single records, unless a client batches by itself".to_owned(),
        (false, false) => "single records".to_owned(),
    };
    let in_flight = row.parameters.get("in_flight");
    Some(in_flight.map_or(size.clone(), |count| {
        format!("{size}, {} in flight", number::count(*count as u64))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::made_up;

    fn experiment(loop_kind: LoopKind, requests: &[(f64, f64)]) -> Experiment {
        let row = |(records, in_flight): &(f64, f64)| {
            let mut row = made_up::row(&format!("{records} records"), Vec::new());
            row.parameters = [("batch_records", *records), ("in_flight", *in_flight)]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
            row
        };
        let rows = requests.iter().map(row).collect();
        Experiment {
            loop_kind,
            ..made_up::experiment(&[], rows)
        }
    }

    #[test]
    fn requests_are_told_once_where_all_rows_have_the_same_and_else_beside_each() {
        let same = experiment(LoopKind::Closed, &[(1_000.0, 8.0), (1_000.0, 8.0)]);
        assert_eq!(of_all(&same).as_deref(), Some("batches of 1,000, 8 in flight"));
        assert_eq!(row_title(&same, "1000 records"), "1000 records");
        let open = experiment(LoopKind::Open, &[(64.0, 8.0)]);
        assert_eq!(
            of_all(&open).as_deref(),
            Some("batches of 64 at most, 8 in flight")
        );
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
