//! The suites: which tables there are, by name. What each table asks stands in `suite/*.toml.jinja`, whose templates are filled with
//! what a comparison asks: `rows` are its workloads, and `all_rows` what those have in common.

mod published;

use anyhow::{Context, Result};
use clap::ValueEnum;
use minijinja::{Environment, context};
use serde::Deserialize;

use super::plan::Plan;
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

/// All that publications name, on one node.
const WHOLE: Scale = Scale {
    records: 1.0,
    nodes: 1,
};

impl Scale {
    /// So much of `records`, at least one.
    fn of(self, records: u64) -> u64 {
        ((records as f64 * self.records) as u64).max(1)
    }

    /// How many of so many records of a publication are asked: "10,000,000 records, as there", "500,000 records (there
    /// 10,000,000)".
    fn told(self, there: u64) -> String {
        let (here, told) = (self.of(there), number::count(there));
        match here == there {
            true => format!("{told} records, as there"),
            false => format!("{} records (there {told})", number::count(here)),
        }
    }
}

/// A suite's file. What is not told of a table, a row or a load is refused by name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuiteFile {
    tables: Vec<toml::Table>,
}

impl Suite {
    /// As the option has it.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value().expect("no suite is hidden");
        value.get_name().to_owned()
    }

    pub(super) fn plans(self, scale: Scale) -> Vec<Plan> {
        let template = match self {
            Suite::Quick => include_str!("suite/quick.toml.jinja"),
            Suite::Papers => include_str!("suite/papers.toml.jinja"),
            Suite::Field => include_str!("suite/field.toml.jinja"),
        };
        let plans = fill(template, scale).with_context(|| format!("suite/{}.toml.jinja", self.name()));
        plans.expect("a test reads each suite")
    }
}

/// The tables of a suite's file.
fn fill(template: &str, scale: Scale) -> Result<Vec<Plan>> {
    let mut environment = Environment::new();
    environment.add_function("scaled", move |there: u64| scale.of(there));
    environment.add_function("told", move |there: u64| scale.told(there));
    let text = environment.render_str(template, context! { nodes => scale.nodes })?;
    let file: SuiteFile = toml::from_str(&text)?;
    file.tables.into_iter().map(plan).collect()
}

/// A table whose rows have what it says of all of them, and that has its publication's figures beside it.
fn plan(mut table: toml::Table) -> Result<Plan> {
    let mut common = match table.remove("all_rows") {
        Some(toml::Value::Table(common)) => common,
        _ => toml::Table::new(),
    };
    common.entry("work").or_insert_with(|| "append".into());
    let rows = table.get_mut("rows").and_then(toml::Value::as_array_mut);
    for row in rows.into_iter().flatten().filter_map(toml::Value::as_table_mut) {
        for (name, value) in &common {
            row.entry(name).or_insert_with(|| value.clone());
        }
    }
    let name = table.get("name").map(toml::Value::to_string).unwrap_or_default();
    let mut plan: Plan = table.try_into().with_context(|| format!("table {name}"))?;
    plan.published = published::of(&plan.name);
    Ok(plan)
}

pub(super) fn all_plans() -> impl Iterator<Item = Plan> {
    Suite::value_variants()
        .iter()
        .flat_map(|suite| suite.plans(WHOLE))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::{Load, Work};
    use crate::results::{LoopKind, METRICS};

    /// A reader that gets little with each request has enough to read after so many.
    const REQUESTS_MAX: u64 = 1 << 14;

    #[test]
    fn suites_are_sound() {
        let clustered = Scale { nodes: 3, ..WHOLE };
        let scales = [WHOLE, clustered].into_iter();
        let all = scales.flat_map(|scale| {
            Suite::value_variants()
                .iter()
                .map(move |suite| suite.plans(scale))
        });
        for plans in all {
            let names: BTreeSet<_> = plans.iter().map(|plan| &plan.name).collect();
            assert_eq!(names.len(), plans.len(), "names are unique");
            for plan in &plans {
                let names: BTreeSet<_> = plan.rows.iter().map(|row| &row.name).collect();
                assert_eq!(names.len(), plan.rows.len(), "{}", plan.name);
                assert!(plan.left_out.is_some() || !plan.rows.is_empty(), "{}", plan.name);
                for metric in &plan.metrics {
                    assert!(METRICS.iter().any(|known| known.0 == metric), "{metric}");
                }
                for published in &plan.published {
                    let is_known = names.contains(&published.row) || plan.left_out.is_some();
                    assert!(is_known, "{}: {}", plan.name, published.row);
                }
                for row in &plan.rows {
                    assert!(row.work.load().record_bytes > 1, "{}: {}", plan.name, row.name);
                }
            }
        }
    }

    #[test]
    fn a_misspelt_key_is_refused_by_name_with_its_table() {
        let row = r#"{ name = "100 B", record_bytes = 100 }"#;
        let sound = format!("tables = [{{ name = \"one\", title = \"\", about = \"\", rows = [{row}] }}]");
        assert_eq!(fill(&sound, WHOLE).expect("it is sound").len(), 1);
        for (key, misspelt) in [
            ("tables", "tabels"),
            ("title", "titel"),
            ("rows", "lines"),
            ("record_bytes", "recrod_bytes"),
        ] {
            let text = sound.replace(key, misspelt);
            let error = format!("{:#}", fill(&text, WHOLE).expect_err(misspelt));
            assert!(error.contains(&format!("unknown field `{misspelt}`")), "{error}");
            assert!(key == "tables" || error.contains("table \"one\""), "{error}");
        }
    }

    #[test]
    fn loops_are_never_mixed_in_a_table() {
        for plan in all_plans() {
            for row in &plan.rows {
                let load = row.work.load();
                let is_open = load.rate.is_some() || load.share_of_maximum.is_some();
                let expected = match row.work {
                    Work::Restart(_) | Work::FailOver(_) => LoopKind::None,
                    _ if is_open => LoopKind::Open,
                    _ => LoopKind::Closed,
                };
                assert_eq!(plan.loop_kind, expected, "{}: {}", plan.name, row.name);
            }
        }
    }

    #[test]
    fn a_share_of_a_maximum_names_an_earlier_row() {
        let plans = Suite::Field.plans(WHOLE);
        let mut shares = 0;
        for (place, plan) in plans.iter().enumerate() {
            for row in &plan.rows {
                assert_eq!(row.work.load().share_of_maximum.is_some(), row.maximum.is_some());
                if let Some(maximum) = &row.maximum {
                    let mut earlier = plans[..place].iter();
                    let found = earlier.find(|plan| plan.name == maximum.table);
                    let rows = &found.expect("it is earlier").rows;
                    assert!(rows.iter().any(|known| known.name == maximum.row));
                    shares += 1;
                }
            }
        }
        assert_eq!(shares, 3);
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
        for plan in all_plans() {
            for row in &plan.rows {
                let (load, least) = match &row.work {
                    // What a publication names, it names for reading, too.
                    Work::Read(load) if load.times.is_none() => continue,
                    Work::Read(load) => (load, u64::from(load.request_bytes()) * REQUESTS_MAX),
                    Work::ReadMeanwhile { stored, .. } => (stored, u64::MAX),
                    Work::Append(_) | Work::Restart(_) | Work::FailOver(_) => continue,
                };
                assert_eq!(load.times, Some(120.0), "{}", plan.name);
                let bytes = load.records.expect("a volume is fixed") * load.record_bytes as u64;
                let expected = least.min(255_000_000)..1_100_000_000;
                assert!(expected.contains(&bytes), "{}: {bytes}", plan.name);
                assert!(plan.metrics.contains(&"stored_mb".to_owned()));
            }
        }
    }

    /// The works of a table of `papers`.
    fn works_of(name: &str) -> Vec<Work> {
        let plans = Suite::Papers.plans(WHOLE);
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
                let (Work::Append(written), Work::Read(read)) = &pair else {
                    panic!("{pair:?}");
                };
                assert_eq!(
                    (written.records, written.producers),
                    (read.records, read.consumers)
                );
            }
        }
    }

    #[test]
    fn a_subscriber_of_confluo_asks_for_a_batch_as_it_was_written() {
        let mut batches = BTreeSet::new();
        for work in works_of("confluo-subscribe") {
            let load = work.load();
            assert_eq!(load.request_bytes(), load.batch_records * 64);
            batches.insert(load.batch_records);
        }
        assert_eq!(batches, BTreeSet::from([1, 16_384]));
    }

    /// How many records a system takes for certain in a run of one second; none where that is not known.
    fn records_for_certain(load: &Load) -> Option<f64> {
        let times = load.times().filter(|_| load.records.is_none())?;
        // Most take 1,000 a second one by one; of sixteen producers and more, four times as many.
        let one_by_one = if load.producers < 16 { 1e3 } else { 4e3 };
        let is_one_by_one = (load.batch_records, load.in_flight, load.share_of_maximum) == (1, 1, None);
        Some(load.rate.or(is_one_by_one.then_some(one_by_one))? * times)
    }

    #[test]
    fn percentiles_have_the_samples_that_they_need_even_in_runs_of_a_second() {
        let mut looked_at = 0;
        for plan in [Suite::Papers, Suite::Field]
            .into_iter()
            .flat_map(|suite| suite.plans(WHOLE))
        {
            for row in &plan.rows {
                let Work::Append(load) = &row.work else { continue };
                // There are never enough of a megabyte: these are marked.
                let Some(records) = records_for_certain(load).filter(|_| load.record_bytes < 1_000_000)
                else {
                    continue;
                };
                for (metric, least) in [("p99_us", 1e3), ("p999_us", 1e4)] {
                    if plan.metrics.iter().any(|shown| shown == metric) {
                        assert!(records >= least, "{}: {metric} of {records}", row.name);
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
}
