//! The suites: which tables there are, by name.

mod field;
mod papers;
mod published;
mod quick;

use super::plan::Plan;
use super::results::Plot;
use bench::number;

/// A named list of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// A handful of workloads: some minutes
    Quick,
    /// The tables and figures of the publications, with their parameters
    Papers,
    /// What users of logs ask: fixed rates, many partitions, backlogs, restarts
    Field,
}

/// How much of what a suite names is done, and on how many nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    /// Of the numbers of records that a publication names.
    pub(super) records: f64,
    /// Of each system; a record is kept on all of them.
    pub(super) nodes: u32,
}

impl Scale {
    /// So much of `records`, at least one.
    fn of(self, records: u64) -> u64 {
        ((records as f64 * self.records) as u64).max(1)
    }

    /// How many of so many records of a publication are asked: "10,000,000 records, as there", "500,000 records (there
    /// 10,000,000)".
    fn records(self, there: u64) -> String {
        let (here, told) = (self.of(there), number::count(there));
        match here == there {
            true => format!("{told} records, as there"),
            false => format!("{} records (there {told})", number::count(here)),
        }
    }

    /// "one node", "3 nodes".
    fn nodes(self) -> String {
        match self.nodes {
            1 => "one node".to_owned(),
            nodes => format!("{nodes} nodes"),
        }
    }

    /// Beside a publication that had three nodes and three replicas.
    fn beside_three(self) -> String {
        let here = match self.nodes {
            1 => "; here there is one node".to_owned(),
            3 => ", as here".to_owned(),
            nodes => format!("; here there are {nodes} of both"),
        };
        format!("The publication had three nodes and three replicas{here}.")
    }
}

impl Suite {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Suite::Quick => "quick",
            Suite::Papers => "papers",
            Suite::Field => "field",
        }
    }

    /// Its tables.
    pub(super) fn plans(self, scale: Scale) -> Vec<Plan> {
        match self {
            Suite::Quick => quick::plans(),
            Suite::Papers => papers::plans(scale),
            Suite::Field => field::plans(),
        }
    }
}

/// The tables of all suites.
pub(super) fn all_tables() -> Vec<&'static str> {
    let suites = [Suite::Quick, Suite::Papers, Suite::Field];
    let scale = Scale {
        records: 1.0,
        nodes: 1,
    };
    let plans = suites.into_iter().flat_map(|suite| suite.plans(scale));
    plans.map(|plan| plan.name).collect()
}

/// What each table shows, and what its publication says of it.
#[cfg(test)]
pub(super) fn published_of_all_suites() -> Vec<(&'static [&'static str], Vec<super::results::Published>)> {
    let suites = [Suite::Quick, Suite::Papers, Suite::Field];
    let plans = suites.into_iter().flat_map(|suite| {
        suite.plans(Scale {
            records: 1.0,
            nodes: 1,
        })
    });
    plans.map(|plan| (plan.metrics, plan.published)).collect()
}

/// A bar for each cell.
fn bars(metric: &str) -> Option<Plot> {
    Some(Plot::Bars {
        metric: metric.to_owned(),
    })
}

/// A line over a parameter, and panels by another.
fn lines(x: &str, metric: &str, by: Option<&str>) -> Option<Plot> {
    let [x, metric] = [x, metric].map(str::to_owned);
    Some(Plot::Lines {
        x,
        metric,
        by: by.map(str::to_owned),
    })
}

/// "100 B", "50 KB", "1 MB": as the publications write sizes (in powers of ten).
fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 if bytes.is_multiple_of(1_000) => format!("{} KB", bytes / 1_000),
        _ if bytes.is_multiple_of(1_000_000) => format!("{} MB", bytes / 1_000_000),
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::{Amount, Load, REQUESTS_MAX, Rate, Work};
    use crate::results::{LoopKind, METRICS};

    const SCALE: Scale = Scale {
        records: 1.0,
        nodes: 1,
    };

    #[test]
    fn suites_are_sound() {
        for suite in [Suite::Quick, Suite::Papers, Suite::Field] {
            let plans = suite.plans(SCALE);
            let names: BTreeSet<_> = plans.iter().map(|plan| plan.name).collect();
            assert_eq!(names.len(), plans.len(), "names are unique");
            for plan in &plans {
                let rows: BTreeSet<_> = plan.rows.iter().map(|row| &row.name).collect();
                assert_eq!(rows.len(), plan.rows.len(), "{}", plan.name);
                assert!(plan.left_out.is_some() || !plan.rows.is_empty(), "{}", plan.name);
                for metric in plan.metrics {
                    assert!(METRICS.iter().any(|known| known.0 == *metric), "{metric}");
                }
                for published in &plan.published {
                    let known = plan.rows.iter().any(|row| row.name == published.row);
                    assert!(
                        known || plan.left_out.is_some(),
                        "{}: {}",
                        plan.name,
                        published.row
                    );
                }
            }
        }
    }

    #[test]
    fn loops_are_never_mixed_in_a_table() {
        for suite in [Suite::Quick, Suite::Papers, Suite::Field] {
            for plan in suite.plans(SCALE) {
                for row in &plan.rows {
                    let open = match &row.work {
                        Work::Append(load) | Work::ReadMeanwhile { load, .. } => load.rate.is_some(),
                        Work::Read { .. } => false,
                        Work::Restart(_) => {
                            assert_eq!(plan.loop_kind, LoopKind::None);
                            continue;
                        }
                    };
                    assert_eq!(
                        open,
                        plan.loop_kind == LoopKind::Open,
                        "{}: {}",
                        plan.name,
                        row.name
                    );
                }
            }
        }
    }

    #[test]
    fn a_share_of_a_maximum_names_an_earlier_row() {
        let plans = Suite::Field.plans(SCALE);
        for (place, plan) in plans.iter().enumerate() {
            for row in &plan.rows {
                let Work::Append(load) = &row.work else { continue };
                if let Some(Rate::OfMaximum { experiment, row, .. }) = load.rate {
                    let earlier = &plans[..place];
                    let found = earlier
                        .iter()
                        .find(|plan| plan.name == experiment)
                        .expect("it is earlier");
                    assert!(found.rows.iter().any(|known| known.name == row));
                }
            }
        }
    }

    #[test]
    fn titles_say_how_many_nodes_there_are() {
        let titles = |nodes| -> Vec<String> {
            let plans = Suite::Papers.plans(Scale { records: 1.0, nodes });
            plans
                .into_iter()
                .map(|plan| plan.title + " " + &plan.about)
                .collect()
        };
        let pairs: Vec<_> = titles(1).into_iter().zip(titles(3)).collect();
        let told = pairs.iter().filter(|(one, _)| one.contains("one node")).count();
        assert!(told >= 11, "{told}");
        for (one, three) in pairs {
            assert!(!three.contains("one node"), "{three}");
            assert_eq!(one.contains("one node)"), three.contains("3 nodes)"), "{three}");
        }
    }

    #[test]
    fn all_systems_have_the_same_to_read_and_the_column_says_if_not() {
        for suite in [Suite::Quick, Suite::Papers, Suite::Field] {
            for plan in suite.plans(SCALE) {
                for row in &plan.rows {
                    let (load, requests_bytes) = match &row.work {
                        // What a publication names, it names for reading, too.
                        Work::Read { load, .. } if matches!(load.amount, Amount::Records(_)) => continue,
                        Work::Read {
                            load, request_bytes, ..
                        } => (load, u64::from(*request_bytes) * REQUESTS_MAX),
                        Work::ReadMeanwhile { stored, .. } => (stored, u64::MAX),
                        Work::Append(_) | Work::Restart(_) => continue,
                    };
                    let records = load.records().expect("a volume is fixed");
                    let bytes = records * load.record_bytes as u64;
                    assert!(
                        (requests_bytes.min(255_000_000)..1_100_000_000).contains(&bytes),
                        "{}: {bytes}",
                        plan.name
                    );
                    assert!(plan.metrics.contains(&"stored_mb"), "{}", plan.name);
                }
            }
        }
    }

    /// The works of a table of `papers`.
    fn works_of(name: &str) -> Vec<Work> {
        let plans = Suite::Papers.plans(SCALE);
        let plan = plans.into_iter().find(|plan| plan.name == name);
        let rows = plan.expect("there is such a table").rows;
        rows.into_iter().map(|row| row.work).collect()
    }

    #[test]
    fn what_logrange_wrote_is_what_it_reads_back() {
        for record_bytes in [100, 512] {
            let [written, read] =
                ["write", "read"].map(|what| works_of(&format!("logrange-{record_bytes}-{what}")));
            assert_eq!(written.len(), read.len());
            for pair in written.into_iter().zip(read) {
                let (Work::Append(written), Work::Read { load, consumers, .. }) = &pair else {
                    panic!("{pair:?}");
                };
                assert_eq!((written.amount, written.producers), (load.amount, *consumers));
            }
        }
    }

    #[test]
    fn a_subscriber_of_confluo_asks_for_a_batch_as_it_was_written() {
        let mut batches = BTreeSet::new();
        for work in works_of("confluo-subscribe") {
            let Work::Read {
                load, request_bytes, ..
            } = &work
            else {
                panic!("{work:?}");
            };
            assert_eq!(*request_bytes, load.batch_records * 64);
            batches.insert(load.batch_records);
        }
        assert_eq!(batches, BTreeSet::from([1, 16_384]));
    }

    #[test]
    fn what_is_read_beside_appends_is_there_whole_unless_it_takes_very_long() {
        let plans = Suite::Field.plans(SCALE);
        let rows = plans.iter().flat_map(|plan| &plan.rows);
        let times: Vec<f64> = rows
            .filter_map(|row| match &row.work {
                Work::ReadMeanwhile { stored, .. } => Some(stored.amount),
                _ => None,
            })
            .map(|amount| match amount {
                Amount::Within { times, .. } => times,
                Amount::Time(_) | Amount::Records(_) => panic!("a volume is fixed, and a time for it"),
            })
            .collect();
        assert_eq!(times, [120.0, 120.0]);
    }

    /// How many records a system takes for certain in a run of one second; none where that is not known.
    fn records_for_certain(load: &Load) -> Option<f64> {
        let Amount::Time(times) = load.amount else {
            return None;
        };
        match load.rate {
            Some(Rate::Fixed(rate)) => Some(rate * times),
            Some(Rate::OfMaximum { .. }) => None,
            // Most take 1,000 a second one by one; of sixteen producers and more, four times as many.
            None if (load.batch_records, load.in_flight) == (1, 1) => {
                Some(times * if load.producers < 16 { 1e3 } else { 4e3 })
            }
            None => None,
        }
    }

    #[test]
    fn percentiles_have_the_samples_that_they_need_even_in_runs_of_a_second() {
        let mut looked_at = 0;
        for plan in [Suite::Papers, Suite::Field]
            .iter()
            .flat_map(|suite| suite.plans(SCALE))
        {
            for row in &plan.rows {
                let Work::Append(load) = &row.work else { continue };
                // There are never enough of a megabyte: these are marked.
                let Some(records) = records_for_certain(load).filter(|_| load.record_bytes < 1_000_000)
                else {
                    continue;
                };
                for (metric, least) in [("p99_us", 1e3), ("p999_us", 1e4)] {
                    if plan.metrics.contains(&metric) {
                        assert!(
                            records >= least,
                            "{}, {}: {metric} of {records}",
                            plan.name,
                            row.name
                        );
                        looked_at += 1;
                    }
                }
            }
        }
        assert!(looked_at >= 12, "{looked_at}");
    }

    #[test]
    fn tables_that_count_in_records_say_how_many_are_asked_at_this_scale() {
        let about = |name: &str, records: f64| {
            let plans = Suite::Papers.plans(Scale { records, nodes: 1 });
            let plan = plans.into_iter().find(|plan| plan.name == name);
            plan.expect("there is such a table").about
        };
        assert!(about("smf", 0.05).contains("500,000 records (there 10,000,000)"));
        assert!(about("smf", 1.0).contains("10,000,000 records, as there"));
        for table in ["logrange-100-write", "logrange-512-read"] {
            assert!(
                about(table, 0.1).contains("200,000 records (there 2,000,000)"),
                "{table}"
            );
        }
    }

    #[test]
    fn sizes_read_as_in_the_publications() {
        let sizes = [64, 100, 4_096, 50_000, 1_000_000].map(size);
        assert_eq!(sizes, ["64 B", "100 B", "4096 B", "50 KB", "1 MB"]);
    }
}
