//! Figures that say too little to win or lose anything, and what two figures must have in common to be set side by side.
//!
//! A cell shows most of it by itself (`of_cell`); the rest is seen only beside the other cells of its row (`in_row`).

use std::collections::BTreeMap;

use super::measured::better;
use crate::figures::DUE;
use crate::results::{Acknowledges, Better, Cell, Experiment, QUANTILES, Row};

/// How many samples must lie above a percentile for it to be one.
const SAMPLES_ABOVE: f64 = 10.0;

/// Processor time is told in ticks of this many seconds (proc_pid_stat(5), at the usual 100 a second).
const TICK_S: f64 = 0.01;

/// A difference of one in fewer ticks than this is more than 5 %.
const TICKS_MIN: f64 = 20.0;

/// Who takes less than this part of what is due in the open loop is behind.
const KEPT_UP: f64 = 0.9;

/// Loads whose rates differ by more than this part are not the same load.
const SAME_LOAD: f64 = 0.05;

/// Latency beside reads must have had them beside it for so much of the run.
const BESIDE_READS_PERCENT: f64 = 90.0;

/// Who has less than this part of what others have to read does not read the same.
const SAME_TO_READ: f64 = 0.9;

/// How much there is to read.
const STORED: &str = "stored_mb";

/// What goes to the disk for each byte appended: less than the bytes themselves was not measured.
const WRITTEN: &str = "written_per_byte";

/// Rates, which the open loop sets itself.
const RATES: [&str; 4] = ["records_per_s", "mb_per_s", "records_per_s_each", "mb_per_s_each"];

/// Why a figure says too little to win or lose anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guess {
    /// A percentile of too few samples.
    FewSamples,
    /// Processor time of too few ticks of the clock that tells it.
    FewTicks,
    /// Latency of a load that was not kept up with: it says how long the load lasted, nothing of the system.
    Behind,
    /// Latency beside reads that were over long before the load.
    FewReads,
    /// Not even half of the repetitions that were asked succeeded.
    FewRuns,
    /// Reading, or latency beside it, with less to read than others of the row have.
    LessToRead,
    /// Bytes written, where somebody wrote less than was appended: the kernel counted them at another time.
    Unwritten,
}

/// The load of the open loop that a rate answers to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Due {
    records_per_s: f64,
    is_behind: bool,
}

impl Due {
    /// Whether two rates say anything beside each other: of one load, and not both all that was due.
    pub(crate) fn can_meet(self, other: Self) -> bool {
        self.is_same_load(other) && (self.is_behind || other.is_behind)
    }

    /// Whether both had the same load.
    fn is_same_load(self, other: Self) -> bool {
        let [one, other] = [self.records_per_s, other.records_per_s];
        (one - other).abs() <= SAME_LOAD * one.max(other)
    }
}

type Run = BTreeMap<String, f64>;

/// What a cell shows by itself.
pub(crate) fn of_cell(cell: &Cell, metric: &str) -> Option<Guess> {
    let is_latency = metric.ends_with("_us");
    if is_latency && is_behind(cell, metric) {
        return Some(Guess::Behind);
    }
    let beside = cell.spread("beside_reads_percent");
    if is_latency && beside.is_some_and(|beside| beside.median < BESIDE_READS_PERCENT) {
        return Some(Guess::FewReads);
    }
    if let Some((_, quantile)) = QUANTILES.iter().find(|(name, _)| *name == metric) {
        let samples = |run: &Run| run.get("samples").or_else(|| run.get("records")).copied();
        return is_few(least(cell, metric, samples), *quantile).then_some(Guess::FewSamples);
    }
    let ticks = least(cell, metric, |run| Some(processor_seconds(run, metric)? / TICK_S));
    (ticks < TICKS_MIN - 1e-6).then_some(Guess::FewTicks)
}

/// What a cell shows in its row, where so many repetitions were asked of each.
pub(crate) fn in_row(row: &Row, cell: &Cell, metric: &str, repetitions: u32) -> Option<Guess> {
    if better(metric) == Better::Neither {
        return None;
    }
    let runs = cell.runs.iter().filter(|run| run.contains_key(metric)).count();
    if repetitions > 1 && runs * 2 <= repetitions as usize {
        return Some(Guess::FewRuns);
    }
    if has_less_to_read(row, cell) {
        return Some(Guess::LessToRead);
    }
    let is_short = |cell: &Cell| cell.spread(WRITTEN).is_some_and(|written| written.median < 1.0);
    (metric == WRITTEN && row.cells.iter().any(is_short)).then_some(Guess::Unwritten)
}

fn has_less_to_read(row: &Row, cell: &Cell) -> bool {
    let stored = |cell: &Cell| cell.spread(STORED).map(|stored| stored.median);
    let most = row.cells.iter().filter_map(stored).fold(0.0, f64::max);
    stored(cell).is_some_and(|own| own < most * SAME_TO_READ)
}

/// Whether a latency was told once for each request of many records, or for each record; none for what is no such latency.
pub(crate) fn timed(cell: &Cell, metric: &str) -> Option<Acknowledges> {
    if !metric.ends_with("_us") || metric.starts_with("delivery_") {
        return None;
    }
    let (samples, records) = (cell.spread("samples")?.median, cell.spread("records")?.median);
    (samples > 0.0).then_some(match samples * 2.0 < records {
        true => Acknowledges::Batch,
        false => Acknowledges::Record,
    })
}

/// What was due, where the metric is a rate of the open loop.
pub(crate) fn due(cell: &Cell, metric: &str) -> Option<Due> {
    if !RATES.contains(&metric) {
        return None;
    }
    Some(Due {
        records_per_s: cell.spread(DUE)?.median,
        is_behind: is_behind(cell, metric),
    })
}

/// Whether cells of one row had loads of their own: shares of what each system takes.
pub(crate) fn has_own_loads(experiment: &Experiment) -> bool {
    experiment.rows.iter().any(|row| {
        let mut dues = row.cells.iter().filter_map(|cell| due(cell, RATES[0]));
        let first = dues.next();
        first.is_some_and(|first| dues.any(|other| !first.is_same_load(other)))
    })
}

fn is_behind(cell: &Cell, metric: &str) -> bool {
    let kept_up = least(cell, metric, |run| {
        Some(run.get("records_per_s")? / run.get(DUE)?)
    });
    kept_up < KEPT_UP
}

/// The least of something over the runs that have a metric; infinity if none has it.
fn least(cell: &Cell, metric: &str, of: impl Fn(&Run) -> Option<f64>) -> f64 {
    let runs = cell.runs.iter().filter(|run| run.contains_key(metric));
    runs.filter_map(of).fold(f64::INFINITY, f64::min)
}

/// How much processor time such a metric of a run was computed from.
fn processor_seconds(run: &Run, metric: &str) -> Option<f64> {
    let (value, of) = (run.get(metric)?, |name: &str| run.get(name).copied());
    match metric {
        "server_cpu_s_per_gb" | "client_cpu_s_per_gb" => Some(value * of("mb_per_s")? * of("seconds")? / 1e3),
        "server_cpu_us_per_record" => Some(value * of("records")? / 1e6),
        _ => None,
    }
}

/// Whether so many samples are too few for a quantile.
pub(crate) fn is_few(samples: f64, quantile: f64) -> bool {
    // A little slack: 1 - 0.9999 is not quite a ten-thousandth.
    samples * (1.0 - quantile) < SAMPLES_ABOVE - 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::measured::Measured;
    use crate::results::made_up;

    fn cell(figures: &[(&str, f64)]) -> Cell {
        made_up::cell("ours", figures)
    }

    fn row(cells: Vec<Cell>) -> Row {
        made_up::row("a row", cells)
    }

    fn figure(figures: &[(&str, f64)], metric: &str) -> Measured {
        Measured::of(&cell(figures), metric).expect("it is there")
    }

    fn cpu(seconds: f64) -> Measured {
        // 100 MB in 2 s: a tenth of a GB.
        let figures = [
            ("mb_per_s", 50.0),
            ("seconds", 2.0),
            ("server_cpu_s_per_gb", seconds * 10.0),
        ];
        figure(&figures, "server_cpu_s_per_gb")
    }

    #[test]
    fn processor_time_of_few_ticks_decides_nothing() {
        assert_eq!(cpu(0.19).guess, Some(Guess::FewTicks));
        assert_eq!(cpu(0.0).guess, Some(Guess::FewTicks));
        assert_eq!(cpu(0.2).guess, None);
        assert!(cpu(0.2).can_meet(&cpu(3.0)) && !cpu(0.01).can_meet(&cpu(3.0)));
        let records = [("records", 1e4), ("server_cpu_us_per_record", 10.0)];
        let records = figure(&records, "server_cpu_us_per_record");
        assert_eq!(records.guess, Some(Guess::FewTicks));
    }

    #[test]
    fn who_is_behind_wins_and_loses_nothing_by_latency() {
        let latency = |due| {
            let figures = [
                ("p50_us", 9.0),
                ("samples", 1e4),
                ("records_per_s", 950.0),
                (DUE, due),
            ];
            figure(&figures, "p50_us")
        };
        assert_eq!(latency(1_000.0).guess, None);
        assert_eq!(latency(2_000.0).guess, Some(Guess::Behind));
        assert!(!latency(2_000.0).can_meet(&latency(1_000.0)));
    }

    #[test]
    fn a_rate_that_was_asked_for_is_no_win() {
        let rate = |rate: f64, due: f64| figure(&[("records_per_s", rate), (DUE, due)], "records_per_s");
        assert!(
            !rate(1e3, 1e3).can_meet(&rate(950.0, 1e3)),
            "both took what was due"
        );
        assert!(rate(1e3, 1e3).can_meet(&rate(500.0, 1e3)), "one is behind");
        assert!(!rate(9e3, 1e4).can_meet(&rate(500.0, 1e3)), "other loads");
        let closed = |rate: f64| figure(&[("records_per_s", rate)], "records_per_s");
        assert!(closed(1e3).can_meet(&closed(950.0)));
    }

    #[test]
    fn the_latency_of_a_batch_is_not_set_beside_that_of_a_record() {
        let of = |samples: f64, metric: &str| {
            let figures = [
                ("p50_us", 9.0),
                ("delivery_p50_us", 9.0),
                ("records_per_s", 9.0),
                ("records", 64e4),
                ("samples", samples),
            ];
            figure(&figures, metric)
        };
        assert!(!of(1e4, "p50_us").can_meet(&of(64e4, "p50_us")));
        assert!(of(1e4, "p50_us").can_meet(&of(2e4, "p50_us")));
        assert!(of(1e4, "delivery_p50_us").can_meet(&of(64e4, "delivery_p50_us")));
        assert!(of(1e4, "records_per_s").can_meet(&of(64e4, "records_per_s")));
    }

    #[test]
    fn latency_beside_reads_that_were_over_early_decides_nothing() {
        let beside = |percent: f64| {
            let figures = [
                ("p50_us", 9.0),
                ("samples", 1e4),
                ("beside_reads_percent", percent),
            ];
            figure(&figures, "p50_us").guess
        };
        assert_eq!((beside(38.0), beside(95.0)), (Some(Guess::FewReads), None));
    }

    #[test]
    fn a_cell_with_few_of_its_repetitions_decides_nothing() {
        let mut cell = cell(&[("ready_s", 9.0), ("records", 9.0)]);
        let guess = |cell: &Cell, metric: &str, repetitions| {
            in_row(&row(vec![cell.clone()]), cell, metric, repetitions)
        };
        assert_eq!(guess(&cell, "ready_s", 3), None);
        cell.runs.truncate(1);
        assert_eq!(guess(&cell, "ready_s", 3), Some(Guess::FewRuns));
        assert_eq!(guess(&cell, "ready_s", 1), None, "one was asked");
        assert_eq!(guess(&cell, "records", 3), None, "it decides nothing anyway");
    }

    #[test]
    fn less_written_than_appended_makes_guesses_of_the_whole_row() {
        let written = |per_byte: f64| cell(&[(WRITTEN, per_byte), ("records_per_s", 9.0)]);
        let told = |cells: [f64; 2], metric: &str| {
            let row = row(cells.map(written).to_vec());
            in_row(&row, &row.cells[0], metric, 3)
        };
        assert_eq!(told([2.0, 0.026], WRITTEN), Some(Guess::Unwritten));
        assert_eq!(told([2.0, 1.1], WRITTEN), None);
        assert_eq!(told([2.0, 0.026], "records_per_s"), None);
    }

    #[test]
    fn who_has_less_to_read_than_others_wins_and_loses_nothing() {
        let stored = |mb: f64| cell(&[(STORED, mb), ("mb_per_s", 9.0)]);
        let row = row([246.9, 256.0, 40.5].map(stored).to_vec());
        let told = |place: usize, metric: &str| in_row(&row, &row.cells[place], metric, 3);
        assert_eq!([0, 1].map(|place| told(place, "mb_per_s")), [None, None]);
        assert_eq!(told(2, "mb_per_s"), Some(Guess::LessToRead));
        assert_eq!(told(2, STORED), None, "it says so, and decides nothing");
    }
}
