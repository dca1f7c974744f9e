//! Events at a node between two looks: rates, means and states, as text and as JSON.
//!
//! A figure that the node does not tell is a dash here and null in JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::{ClusterView, NODE_HEADING};
use super::growth::Growth;
use super::lag::Lag;
use super::latency::Latencies;
use super::observer::Observation;
use super::units::{bytes, count, time};
use crate::output::{cleaned, or_dash, table};

/// A node over one interval.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) time_ms: i64,
    seconds: f64,
    pub(super) version: String,
    uptime_seconds: Option<f64>,
    pub(super) appended_records: Option<f64>,
    appended_bytes: Option<f64>,
    appended_batches: Option<f64>,
    read_bytes: Option<f64>,
    disk_reads: Option<f64>,
    requests: Option<f64>,
    /// Those of them that were asked from here to measure the answers.
    measuring_requests: f64,
    connections: Option<f64>,
    pub(super) answers: Option<Answers>,
    latencies: Latencies,
    flushes: Option<f64>,
    flush_seconds: Option<f64>,
    flush_bytes: Option<f64>,
    unflushed_bytes: Option<f64>,
    journal_bytes: Option<f64>,
    journal_bytes_max: Option<f64>,
    tail_cache_bytes: Option<f64>,
    chunk_cache_bytes: Option<f64>,
    chunk_cache_hits: Option<f64>,
    cpus: Option<f64>,
    resident_bytes: Option<f64>,
    disk_free_bytes: Option<f64>,
    faults: Option<f64>,
    dead_journals: Option<f64>,
    full_journals: Option<f64>,
    /// `None` of a node that is alone.
    pub(super) cluster: Option<ClusterView>,
    pub(super) cores: Vec<CoreView>,
    pub(super) lag: Lag,
}

/// The times of answers to questions from here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Answers {
    /// The number of answers.
    count: usize,
    /// Half of them took no longer than this, in seconds.
    p50: f64,
    /// 99 of 100 took no longer than this, in seconds.
    pub(super) p99: f64,
    max: f64,
}

/// One core over the interval; all but the first two each second.
#[derive(Debug, Clone)]
pub(super) struct CoreView {
    pub(super) core: String,
    pub(super) connections: Option<f64>,
    pub(super) requests: Option<f64>,
    pub(super) records: Option<f64>,
    pub(super) bytes: Option<f64>,
    pub(super) is_up: bool,
}

impl Answers {
    fn of(answers: &[Duration]) -> Option<Answers> {
        let mut sorted: Vec<f64> = answers.iter().map(Duration::as_secs_f64).collect();
        sorted.sort_by(f64::total_cmp);
        let max = *sorted.last()?;
        // The least that as many are not above.
        let at = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
        Some(Answers {
            count: sorted.len(),
            p50: at(50),
            p99: at(99),
            max,
        })
    }
}

impl CoreView {
    fn of(core: String, growth: &Growth<'_>) -> CoreView {
        let label = ("core", core.as_str());
        CoreView {
            connections: growth.now.sum_of("ropewalk_connections", label),
            requests: growth.rate_of("ropewalk_requests_total", label),
            records: growth.rate_of("ropewalk_appended_records_total", label),
            bytes: growth.rate_of("ropewalk_appended_bytes_total", label),
            is_up: growth.now.sum_of("ropewalk_core_up", label) == Some(1.0),
            core,
        }
    }
}

impl View {
    /// The events between two looks.
    pub(super) fn between(before: &Observation, now: &Observation) -> View {
        // Two looks at the same instant would divide by nothing.
        let seconds = now
            .at
            .saturating_duration_since(before.at)
            .as_secs_f64()
            .max(1e-3);
        let growth = Growth {
            before: &before.metrics,
            now: &now.metrics,
            seconds,
        };
        let sum = |name| now.metrics.sum(name);
        let version = now.metrics.label("ropewalk_build_info", "version");
        View {
            time_ms: now.time_ms,
            seconds,
            version: version.unwrap_or("-").to_owned(),
            uptime_seconds: sum("ropewalk_uptime_seconds"),
            appended_records: growth.rate("ropewalk_appended_records_total"),
            appended_bytes: growth.rate("ropewalk_appended_bytes_total"),
            appended_batches: growth.rate("ropewalk_appended_batches_total"),
            read_bytes: growth.rate("ropewalk_read_bytes_total"),
            disk_reads: growth.rate("ropewalk_disk_reads_total"),
            requests: growth.rate("ropewalk_requests_total"),
            measuring_requests: now.answers.len() as f64 / seconds,
            connections: sum("ropewalk_connections"),
            answers: Answers::of(&now.answers),
            latencies: Latencies::between(Some(&before.metrics), &now.metrics),
            flushes: growth.rate("ropewalk_flushes_total"),
            flush_seconds: growth.each("ropewalk_flush_seconds_total", "ropewalk_flushes_total"),
            flush_bytes: growth.each("ropewalk_flushed_bytes_total", "ropewalk_flushes_total"),
            unflushed_bytes: sum("ropewalk_unflushed_bytes"),
            journal_bytes: sum("ropewalk_journal_bytes"),
            journal_bytes_max: sum("ropewalk_journal_max_bytes"),
            tail_cache_bytes: sum("ropewalk_tail_cache_bytes"),
            chunk_cache_bytes: sum("ropewalk_chunk_cache_bytes"),
            chunk_cache_hits: growth.part(
                "ropewalk_chunk_cache_hits_total",
                "ropewalk_chunk_cache_misses_total",
            ),
            cpus: growth.rate("ropewalk_process_cpu_seconds_total"),
            resident_bytes: sum("ropewalk_process_resident_memory_bytes"),
            disk_free_bytes: sum("ropewalk_disk_free_bytes"),
            faults: sum("ropewalk_faults_total"),
            dead_journals: sum("ropewalk_journal_dead"),
            full_journals: sum("ropewalk_disk_full"),
            cluster: ClusterView::of(&growth),
            cores: now
                .metrics
                .values(&["ropewalk_core_up"], "core")
                .into_iter()
                .map(|core| CoreView::of(core, &growth))
                .collect(),
            lag: now.lag.clone(),
        }
    }

    /// The same with how long things took since the node's start, `now` being the later look.
    pub(super) fn with_latencies_since_start(self, now: &Observation) -> View {
        View {
            latencies: Latencies::between(None, &now.metrics),
            ..self
        }
    }

    /// Says if something is wrong that a person should look at.
    pub(super) fn is_ailing(&self) -> bool {
        let some = |value: Option<f64>| value.is_some_and(|value| value > 0.0);
        some(self.faults) || some(self.dead_journals) || some(self.full_journals)
    }

    /// The lines about the node: a word and figures for each.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let answers = match &self.answers {
            None => "none".to_owned(),
            Some(answers) => format!(
                "p50 {}  p99 {}  max {}  of {}",
                time(answers.p50),
                time(answers.p99),
                time(answers.max),
                answers.count
            ),
        };
        let hits = self
            .chunk_cache_hits
            .map(|ratio| format!("{:.1} %", ratio * 100.0));
        let mut lines = vec![
            (
                "node",
                format!(
                    "{}, up {}, {} connections, {} CPUs, {}",
                    self.version,
                    shown(self.uptime_seconds, time),
                    shown(self.connections, count),
                    shown(self.cpus, |cpus| format!("{cpus:.2}")),
                    shown(self.resident_bytes, bytes),
                ),
            ),
            (
                "appends",
                format!(
                    "{} records/s  {}/s  {} batches/s",
                    shown(self.appended_records, count),
                    shown(self.appended_bytes, bytes),
                    shown(self.appended_batches, count)
                ),
            ),
            (
                "reads",
                format!(
                    "{}/s  {} from disk/s",
                    shown(self.read_bytes, bytes),
                    shown(self.disk_reads, count)
                ),
            ),
            (
                "requests",
                format!(
                    "{}/s  {} of them from here, to measure the answers",
                    shown(self.requests, count),
                    count(self.measuring_requests)
                ),
            ),
            ("answers", answers),
        ];
        lines.extend(self.latencies.lines());
        lines.extend([
            (
                "flushes",
                format!(
                    "{}/s  {} each  {} each  {} waiting",
                    shown(self.flushes, count),
                    shown(self.flush_seconds, time),
                    shown(self.flush_bytes, bytes),
                    shown(self.unflushed_bytes, bytes)
                ),
            ),
            (
                "journal",
                format!(
                    "{} of {}  {} free on disk",
                    shown(self.journal_bytes, bytes),
                    shown(self.journal_bytes_max, bytes),
                    shown(self.disk_free_bytes, bytes)
                ),
            ),
            (
                "caches",
                format!(
                    "tail {}  chunks {}  {} hits",
                    shown(self.tail_cache_bytes, bytes),
                    shown(self.chunk_cache_bytes, bytes),
                    or_dash(hits)
                ),
            ),
            (
                "faults",
                format!(
                    "{}  journals dead {}  disk full {}",
                    shown(self.faults, count),
                    shown(self.dead_journals, count),
                    shown(self.full_journals, count)
                ),
            ),
        ]);
        lines.extend(self.cluster.iter().flat_map(ClusterView::lines));
        lines
    }

    /// The tables below the lines, each with its heading: the other nodes, the cores, and the groups.
    pub(super) fn tables(&self) -> Vec<Vec<Vec<String>>> {
        let nodes = self.cluster.as_ref().map(ClusterView::node_rows);
        let nodes = nodes.filter(|rows| !rows.is_empty());
        let groups = Some(self.group_rows()).filter(|rows| !rows.is_empty());
        let tables = [
            nodes.map(|rows| with_heading(&NODE_HEADING, rows)),
            Some(with_heading(&CORE_HEADING, self.core_rows())),
            groups.map(|rows| with_heading(&GROUP_HEADING, rows)),
        ];
        tables.into_iter().flatten().collect()
    }

    /// The cores as rows, without a heading.
    fn core_rows(&self) -> Vec<Vec<String>> {
        let row = |core: &CoreView| {
            let name = match core.is_up {
                true => core.core.clone(),
                false => format!("{} (silent)", core.core),
            };
            vec![
                name,
                shown(core.connections, count),
                shown(core.requests, count),
                shown(core.records, count),
                shown(core.bytes, bytes),
            ]
        };
        self.cores.iter().map(row).collect()
    }

    /// The groups as rows, without a heading.
    fn group_rows(&self) -> Vec<Vec<String>> {
        let groups = self.lag.groups.iter();
        groups
            .map(|group| vec![group.name.clone(), group.state.clone(), group.records.to_string()])
            .collect()
    }

    /// The note about the groups that are not shown.
    pub(super) fn groups_note(&self) -> Option<String> {
        match (&self.lag.error, self.lag.left_out) {
            (Some(error), _) => Some(format!("how far groups are is not known: {error}")),
            (None, 0) => None,
            (None, left_out) => Some(format!("{left_out} more groups")),
        }
    }

    pub(super) fn as_text(&self) -> String {
        let mut lines: Vec<String> = self
            .lines()
            .iter()
            .map(|(word, figures)| cleaned(&format!("{word:9} {figures}")))
            .collect();
        for rows in self.tables() {
            lines.extend([String::new(), table(&rows)]);
        }
        lines.extend(self.groups_note().map(|note| cleaned(&note)));
        lines.join("\n")
    }

    pub(super) fn as_json(&self) -> Value {
        let groups = self.lag.groups.iter();
        let groups =
            groups.map(|group| json!({ "name": group.name, "state": group.state, "lag": group.records }));
        let cores = self.cores.iter().map(|core| {
            json!({
                "core": core.core, "up": core.is_up, "connections": core.connections,
                "requests_per_second": core.requests, "records_per_second": core.records,
                "bytes_per_second": core.bytes,
            })
        });
        json!({
            "time_ms": self.time_ms,
            "seconds": self.seconds,
            "version": self.version,
            "uptime_seconds": self.uptime_seconds,
            "connections": self.connections,
            "requests_per_second": self.requests,
            "measuring_requests_per_second": self.measuring_requests,
            "appended": {
                "records_per_second": self.appended_records, "bytes_per_second": self.appended_bytes,
                "batches_per_second": self.appended_batches,
            },
            "read": { "bytes_per_second": self.read_bytes, "disk_reads_per_second": self.disk_reads },
            "answers": self.answers.map(|answers| json!({
                "count": answers.count, "p50_seconds": answers.p50, "p99_seconds": answers.p99,
                "max_seconds": answers.max,
            })),
            "latency": self.latencies.as_json(),
            "flushes": {
                "per_second": self.flushes, "mean_seconds": self.flush_seconds, "mean_bytes": self.flush_bytes,
                "unflushed_bytes": self.unflushed_bytes,
            },
            "journal": { "bytes": self.journal_bytes, "bytes_max": self.journal_bytes_max },
            "caches": {
                "tail_bytes": self.tail_cache_bytes, "chunk_bytes": self.chunk_cache_bytes,
                "chunk_hit_ratio": self.chunk_cache_hits,
            },
            "process": { "cpus": self.cpus, "resident_bytes": self.resident_bytes },
            "disk_free_bytes": self.disk_free_bytes,
            "faults": self.faults,
            "dead_journals": self.dead_journals,
            "full_journals": self.full_journals,
            "cluster": self.cluster.as_ref().map(ClusterView::as_json),
            "cores": cores.collect::<Value>(),
            "groups": groups.collect::<Value>(),
            "groups_left_out": self.lag.left_out,
            "groups_error": self.lag.error,
        })
    }
}

/// Above the columns of `core_rows`.
const CORE_HEADING: [&str; 5] = ["core", "connections", "requests/s", "records/s", "appended/s"];
/// Above the columns of `group_rows`.
const GROUP_HEADING: [&str; 3] = ["group", "state", "lag"];

fn with_heading(heading: &[&str], rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let heading = heading.iter().map(|word| (*word).to_owned()).collect();
    [vec![heading], rows].concat()
}

fn shown(value: Option<f64>, show: impl FnOnce(f64) -> String) -> String {
    or_dash(value.map(show))
}

#[cfg(test)]
pub(super) mod tests;
