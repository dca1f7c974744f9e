//! The table in docs/metrics.md, made from the code; and that what is rendered stands in it.

use std::collections::BTreeSet;
use std::fmt::Write;

use prometheus_client::metrics::MetricType;

use super::super::render::{PREFIX, render};
use super::super::table::{
    BUILD, Metric, OF_API, OF_COORDINATOR, OF_CORE, OF_CORE_ANSWER, OF_ERROR, OF_FOLLOWER, OF_GROUP,
    OF_JOURNAL, OF_NODE, OF_PEER, OF_RETENTION, OF_TOPIC,
};
use super::{core, journal, snapshot};

/// Where the documentation's table stands.
const DOCUMENTATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
/// Set to write the table anew.
const WRITE_DOCUMENTATION: &str = "ROPEWALK_WRITE_DOCS";

/// Full name, kind, labels and help of every metric, in the order they are rendered.
fn described() -> Vec<(String, &'static str, &'static str, &'static str)> {
    fn rows<S>(
        metrics: &'static [Metric<S>],
        labels: &'static str,
    ) -> impl Iterator<Item = (String, &'static str, &'static str, &'static str)> {
        metrics.iter().map(move |metric| {
            let unit = metric
                .unit
                .as_ref()
                .map_or(String::new(), |unit| format!("_{}", unit.as_str()));
            let total = if matches!(metric.kind, MetricType::Counter) {
                "_total"
            } else {
                ""
            };
            let name = format!("{PREFIX}_{}{unit}{total}", metric.name);
            (name, metric.kind.as_str(), labels, metric.help)
        })
    }
    let build = (format!("{PREFIX}_{}_info", BUILD.0), "info", "version", BUILD.1);
    std::iter::once(build)
        .chain(rows(OF_NODE, ""))
        .chain(rows(OF_CORE_ANSWER, "core"))
        .chain(rows(OF_CORE, "core"))
        .chain(rows(OF_COORDINATOR, "core"))
        .chain(rows(OF_API, "core, api"))
        .chain(rows(OF_ERROR, "core, api, error"))
        .chain(rows(OF_TOPIC, "core, topic"))
        .chain(rows(OF_GROUP, "group, topic"))
        .chain(rows(OF_PEER, "core, node"))
        .chain(rows(OF_JOURNAL, "core, journal"))
        .chain(rows(OF_RETENTION, "core, journal, config"))
        .chain(rows(OF_FOLLOWER, "core, journal, node"))
        .collect()
}

fn documentation() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         `GET /metrics` on the HTTP address answers in the OpenMetrics text format, which Prometheus reads. Counters\n\
         begin at zero with each start. A figure that is not known is missing: of a core that does not answer there is\n\
         `ropewalk_core_up` only.\n\n\
         A histogram `NAME` is told as `NAME_bucket`, cumulative and with its upper bound as the label `le`, `NAME_sum` and\n\
         `NAME_count`. Bounds go from 10 µs to 10 s in steps of 1, 2, 5, so a percentile between these is known up to a factor\n\
         of 2.5 at most: `histogram_quantile(0.99, sum by (le) (rate(ropewalk_produce_latency_seconds_bucket[5m])))`.\n\
         Times are taken in the node: the network is not in them; how long an answer waits behind others of its connection is.\n\n\
         [grafana](grafana) has a dashboard to import into Grafana (`ropewalk.json`) and alert rules for Prometheus\n\
         (`alerts.yml`). Prometheus asks a node so:\n\n\
         ```yaml\n\
         scrape_configs:\n  - job_name: ropewalk\n    static_configs:\n      - targets: [\"localhost:8092\"]\n\
         ```\n\n\
         A scraper that accepts `text/plain` and not OpenMetrics gets the same figures in Prometheus' text format 0.0.4.\n\n\
         Each core counts by topic the first 1,000 that are used, `metrics.topics_max` in the configuration, until they are deleted;\n\
         all others together have the label `topic=\"(others)\"`. Which topics are the busiest:\n\
         `topk(10, sum by (topic) (rate(ropewalk_topic_appended_bytes_total[5m])))`. Records read are not counted by topic: batches\n\
         are handed on as they are.\n\n\
         Not here: figures by partition (`GET /v1/topics/NAME`, `GET /v1/groups/NAME`).\n\n\
         | metric | kind | labels | what it is |\n|---|---|---|---|\n",
    );
    for (name, kind, labels, help) in described() {
        writeln!(page, "| `{name}` | {kind} | {labels} | {help} |")
            .expect("writing to a string does not fail");
    }
    page
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the documentation is no stored data: no disk simulates it"
)]
fn the_documentation_lists_every_metric() {
    if std::env::var_os(WRITE_DOCUMENTATION).is_some() {
        std::fs::write(DOCUMENTATION, documentation()).expect("the source tree can be written");
    }
    let found = std::fs::read_to_string(DOCUMENTATION).expect("docs/metrics.md is in the source tree");
    assert!(
        found == documentation(),
        "docs/metrics.md is stale: run with {WRITE_DOCUMENTATION}=1"
    );
}

#[test]
fn names_are_unique_and_every_rendered_sample_is_documented() {
    let described = described();
    let names: BTreeSet<_> = described.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names.len(), described.len());
    let text = render(snapshot(vec![Ok(core(vec![journal(0)]))]));
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let rendered: BTreeSet<_> = samples
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(|sample| {
            let mut of_histogram = ["_bucket", "_sum", "_count"]
                .iter()
                .filter_map(|part| sample.strip_suffix(part));
            let mut histograms = described.iter().filter(|(_, kind, ..)| *kind == "histogram");
            let named = of_histogram.next_back();
            let histogram = histograms.find(|(name, ..)| named == Some(name.as_str()));
            histogram.map_or(sample, |(name, ..)| name.as_str())
        })
        .collect();
    assert_eq!(rendered, names);
    for (name, _, _, help) in &described {
        assert!(help.ends_with('.') && !help.contains('|'), "{name}: {help}");
    }
}
