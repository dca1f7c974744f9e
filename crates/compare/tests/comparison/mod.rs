//! A made-up comparison for the tests of its reports. No figure in it was ever measured.

use std::collections::BTreeMap;

use compare::results::{
    Acknowledges, Asked, Cell, DriverFacts, Experiment, LoopKind, Machine, Plot, Published, Results, Row,
    SCHEMA, Sitting, Survives, SystemFacts,
};

/// Wins, losses, ties, failures and figures of a publication.
pub(crate) fn results() -> Results {
    Results {
        schema: SCHEMA,
        suite: "quick".to_owned(),
        command: "strand-compare run --suite quick --out out".to_owned(),
        began: "2001-01-01T10:00:00Z".to_owned(),
        ended: "2001-01-01T11:30:00Z".to_owned(),
        nodes: 1,
        hosts: Vec::new(),
        repetitions: 3,
        asked: Some(Asked {
            seconds: 1.0,
            warmup_seconds: 20.0,
            scale: 0.05,
            repetitions_max: 7,
            clients: "all".to_owned(),
        }),
        sittings: vec![
            sitting("2001-01-01T10:00:00Z", 0.12),
            sitting("2001-01-01T11:00:00Z", 0.4),
        ],
        machine: Machine {
            cpu: "Made-up CPU".to_owned(),
            cpus: 2,
            memory_gb: 25.2,
            kernel: "Linux 0.0".to_owned(),
            file_system: "ext4 (rw,relatime)".to_owned(),
            load_before: 0.12,
            load_after: 1.9,
        },
        floors: vec![
            figures(&[("flush 4 KiB", 55.0), ("loopback", 18.0)]),
            figures(&[("flush 4 KiB", 81.0), ("loopback", 18.2)]),
        ],
        systems: systems(),
        experiments: vec![appends(), table(), batches(), fixed_rate(), left_out()],
    }
}

fn sitting(began: &str, load: f64) -> Sitting {
    Sitting {
        began: began.to_owned(),
        load,
    }
}

/// Figures by their names.
pub(crate) fn figures(figures: &[(&str, f64)]) -> BTreeMap<String, f64> {
    figures
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect()
}

fn system(name: &str, title: &str, flushed: bool, durability: &str) -> SystemFacts {
    let driver = |title: &str| DriverFacts {
        title: title.to_owned(),
        version: "1.2".to_owned(),
        settings: BTreeMap::from([("acks".to_owned(), "all".to_owned())]),
    };
    SystemFacts {
        name: name.to_owned(),
        title: title.to_owned(),
        version: "3.1".to_owned(),
        survives: if flushed {
            Survives::PowerCut
        } else {
            Survives::ProcessCrash
        },
        durability: durability.to_owned(),
        acknowledges: Some(match name.starts_with("strand") {
            true => Acknowledges::Batch,
            false => Acknowledges::Record,
        }),
        note: None,
        settings: BTreeMap::from([("heap".to_owned(), "1 GiB".to_owned())]),
        drivers: BTreeMap::from([
            ("own".to_owned(), driver("Own client 1.2")),
            ("common".to_owned(), driver("libcommon")),
        ]),
        failed: None,
    }
}

fn systems() -> Vec<SystemFacts> {
    let mut broken = system("cove", "Cove", true, "quorum of one");
    broken.failed = Some("java is not on PATH: install it".to_owned());
    vec![
        system("strand", "Strand", true, "one flush for all that wait"),
        system("strand-memory", "Strand, memory", false, "page cache"),
        system("wharf", "Wharf, default", false, "page cache; flushed by and by"),
        system("wharf-flush", "Wharf, flush each", true, "each record flushed"),
        broken,
    ]
}

/// Three repetitions around a latency, of so many samples.
pub(crate) fn cell(system: &str, p50_us: f64, samples: f64) -> Cell {
    let runs = [0.97, 1.0, 1.02].map(|part| {
        let p50 = p50_us * part;
        figures(&[
            ("p50_us", p50),
            ("p999_us", p50 * 9.5),
            ("mean_us", p50 * 1.2),
            ("records_per_s", 1e6 / p50 / 1.2),
            ("mb_per_s", 100.0 / p50 / 1.2),
            ("samples", samples),
        ])
    });
    let curve = |quantile: f64| (quantile, p50_us * (1.0 - quantile).powf(-0.45) * 0.73);
    Cell {
        system: system.to_owned(),
        driver: "own".to_owned(),
        best_client: true,
        runs: runs.to_vec(),
        percentiles: [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0]
            .map(curve)
            .to_vec(),
        delivery_percentiles: Vec::new(),
        verified_records: Some(30_000),
        failures: Vec::new(),
        not_asked: None,
    }
}

fn common(mut cell: Cell) -> Cell {
    cell.driver = "common".to_owned();
    cell.best_client = false;
    cell
}

/// The same, but never twice alike.
fn unsteady(mut cell: Cell) -> Cell {
    cell.runs[0].values_mut().for_each(|value| *value *= 0.5);
    cell
}

fn not_asked(mut cell: Cell) -> Cell {
    cell.runs.clear();
    cell.percentiles.clear();
    cell.not_asked = Some("meant for records of up to 1 MB".to_owned());
    cell
}

fn row(name: &str, parameters: &[(&str, f64)], cells: Vec<Cell>) -> Row {
    Row {
        name: name.to_owned(),
        parameters: figures(parameters),
        cells,
    }
}

fn experiment(name: &str, title: &str, loop_kind: LoopKind, metrics: &[&str], rows: Vec<Row>) -> Experiment {
    Experiment {
        name: name.to_owned(),
        title: title.to_owned(),
        about: "Made up for tests.".to_owned(),
        source: None,
        loop_kind,
        metrics: metrics.iter().map(|metric| (*metric).to_owned()).collect(),
        plot: None,
        rows,
        left_out: None,
        published: Vec::new(),
        speed_up_over: None,
        command: format!("strand-compare run --only {name}"),
    }
}

/// Our own workload: a win, a tie, a loss, a failure and too few samples.
fn appends() -> Experiment {
    let mut failing = cell("wharf", 240.0, 20_000.0);
    failing.runs.pop();
    failing
        .failures
        .push("a record was acknowledged and not there".to_owned());
    let mut failed = cell("wharf-flush", 500.0, 20_000.0);
    failed.runs.clear();
    failed.percentiles.clear();
    failed.failures = vec!["the broker closed the connection".to_owned(); 3];
    let rows = vec![
        row(
            "100 B",
            &[],
            vec![
                cell("strand", 120.0, 20_000.0),
                common(cell("strand", 150.0, 20_000.0)),
                cell("strand-memory", 30.0, 20_000.0),
                cell("wharf", 200.0, 20_000.0),
                common(cell("wharf", 151.0, 20_000.0)),
                cell("wharf-flush", 460.0, 20_000.0),
            ],
        ),
        row(
            "50 KB",
            &[],
            vec![
                cell("strand", 207.0, 20_000.0),
                cell("strand-memory", 100.0, 20_000.0),
                failing,
                failed,
            ],
        ),
        row(
            "1 MB",
            &[],
            vec![
                cell("strand", 1_600.0, 900.0),
                cell("strand-memory", 1_500.0, 900.0),
                cell("wharf", 1_250.0, 900.0),
                cell("wharf-flush", 1_300.0, 900.0),
            ],
        ),
    ];
    let metrics = ["p50_us", "p999_us", "records_per_s"];
    Experiment {
        plot: Some(Plot::Bars {
            metric: "p50_us".to_owned(),
        }),
        ..experiment("appends", "Appends one by one", LoopKind::Closed, &metrics, rows)
    }
}

/// A table of a publication, with its figures and a row that was not run.
fn table() -> Experiment {
    let rows = vec![
        row(
            "100 B",
            &[],
            vec![
                cell("strand", 130.0, 20_000.0),
                cell("wharf", 190.0, 20_000.0),
                cell("wharf-flush", 480.0, 20_000.0),
            ],
        ),
        row(
            "50 KB",
            &[],
            vec![
                cell("strand", 230.0, 20_000.0),
                cell("wharf", 290.0, 20_000.0),
                cell("wharf-flush", 780.0, 20_000.0),
            ],
        ),
        row(
            "90 MB",
            &[],
            vec![
                unsteady(cell("strand", 800.0, 20_000.0)),
                not_asked(cell("wharf", 290.0, 20_000.0)),
                cell("wharf-flush", 780.0, 20_000.0),
            ],
        ),
    ];
    let published = |system: &str, row: &str, mean: f64| Published {
        system: system.to_owned(),
        row: row.to_owned(),
        figures: figures(&[("mean_us", mean), ("mb_per_s", 3.8)]),
    };
    let metrics = ["mean_us", "p999_us", "mb_per_s", "records_per_s"];
    Experiment {
        source: Some("A Made-up Paper, 2001, table 1".to_owned()),
        published: vec![
            published("Wharf", "100 B", 2_000.0),
            published("Quay", "50 KB", 4_000.0),
            published("Quay", "1 MB", 9_000.0),
        ],
        ..experiment(
            "table-1",
            "Table 1: one producer",
            LoopKind::Closed,
            &metrics,
            rows,
        )
    }
}

/// A figure over a parameter.
fn batches() -> Experiment {
    let mut rows = Vec::new();
    for producers in [1.0, 4.0] {
        for batch in [1.0, 16.0, 256.0, 4_096.0, 16_384.0] {
            let rate = |system: &str, base: f64| {
                let p50_us = 1e6 / (base * f64::powf(batch, 0.8) * f64::powf(producers, 0.6));
                cell(system, p50_us, 1e5)
            };
            rows.push(row(
                &format!("{producers}:{batch}"),
                &[("producers", producers), ("batch_records", batch)],
                vec![
                    rate("strand", 9e3),
                    common(rate("strand", 7e3)),
                    rate("wharf", 6e3),
                    common(rate("wharf", 4.5e3)),
                    rate("wharf-flush", 2e3),
                ],
            ));
        }
    }
    Experiment {
        source: Some("A Made-up Page, figure 2".to_owned()),
        plot: Some(Plot::Lines {
            x: "batch_records".to_owned(),
            metric: "records_per_s".to_owned(),
            by: Some("producers".to_owned()),
        }),
        ..experiment(
            "figure-2",
            "Figure 2: batches",
            LoopKind::Closed,
            &["records_per_s"],
            rows,
        )
    }
}

fn fixed_rate() -> Experiment {
    let cells = |part: f64| {
        vec![
            cell("strand", 150.0 * part, 5e4),
            cell("wharf", 170.0 * part, 5e4),
            cell("wharf-flush", 610.0 * part, 5e4),
        ]
    };
    let rows = vec![
        row("1,000/s", &[("rate", 1e3)], cells(1.0)),
        row("4,000/s", &[("rate", 4e3)], cells(1.7)),
    ];
    Experiment {
        plot: Some(Plot::Percentiles),
        ..experiment(
            "fixed-rate",
            "At a fixed rate",
            LoopKind::Open,
            &["p50_us", "p999_us"],
            rows,
        )
    }
}

fn left_out() -> Experiment {
    Experiment {
        left_out: Some("comes with the total order".to_owned()),
        ..experiment(
            "table-5",
            "Table 5: total order",
            LoopKind::Closed,
            &["mean_us"],
            Vec::new(),
        )
    }
}
