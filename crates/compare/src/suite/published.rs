//! What the publications themselves report, in our units, row by row as in the tables of `papers`. Other hardware, other durability:
//! shown beside what is measured here, and never put in relation to it (but for the direction of `TIMES_VERSION_1`).

use crate::results::{Published, TIMES_VERSION_1};

use super::size;

/// One system's figures in one row.
fn published(system: &str, row: impl Into<String>, figures: &[(&str, f64)]) -> Published {
    Published {
        system: system.to_owned(),
        row: row.into(),
        figures: figures
            .iter()
            .map(|&(metric, value)| (metric.to_owned(), value))
            .collect(),
    }
}

/// Mean ms, tail ms, MB/s, records/s, for one system and row.
type Latencies = (&'static str, &'static str, [f64; 4]);

/// Milliseconds to microseconds; throughput under these names.
fn with_latencies(table: &[Latencies], throughput: [&str; 2]) -> Vec<Published> {
    let figures = |&(system, row, [mean, tail, mb, records]): &Latencies| {
        let figures = [
            ("mean_us", mean * 1_000.0),
            ("p999_us", tail * 1_000.0),
            (throughput[0], mb),
            (throughput[1], records),
        ];
        published(system, row, &figures)
    };
    table.iter().map(figures).collect()
}

pub(super) fn shared_logs_1() -> Vec<Published> {
    let table = [
        ("Kafka", "100 B", [2.00, 20.01, 0.038, 400.0]),
        ("BookKeeper", "100 B", [4.00, 11.00, 0.023, 250.0]),
        ("Kafka", "50 KB", [3.00, 28.00, 13.47, 280.0]),
        ("BookKeeper", "50 KB", [20.00, 134.01, 2.37, 50.0]),
        ("Kafka", "1 MB", [36.00, 213.06, 27.21, 27.0]),
        ("BookKeeper", "1 MB", [139.00, 616.00, 7.15, 7.0]),
    ];
    with_latencies(&table, ["mb_per_s", "records_per_s"])
}

pub(super) fn shared_logs_2() -> Vec<Published> {
    let table = [
        ("Kafka", "4 producers", [4.57, 31.01, 10.63, 217.77]),
        ("BookKeeper", "4 producers", [21.50, 539.51, 2.27, 46.5]),
        ("Kafka", "8 producers", [6.5, 214.00, 7.5, 153.7]),
        ("BookKeeper", "8 producers", [21.96, 644.10, 2.22, 45.5]),
    ];
    with_latencies(&table, ["mb_per_s_each", "records_per_s_each"])
}

pub(super) fn shared_logs_3() -> Vec<Published> {
    [
        ("Kafka", "100 B", 0.78, 8_000.0),
        ("BookKeeper", "100 B", 0.48, 5_000.0),
        ("Kafka", "50 KB", 64.0, 1_350.0),
        ("BookKeeper", "50 KB", 78.0, 1_550.0),
        ("Kafka", "1 MB", 78.0, 78.0),
        ("BookKeeper", "1 MB", 38.0, 38.0),
    ]
    .into_iter()
    .map(|(system, row, mb, records)| published(system, row, &[("mb_per_s", mb), ("records_per_s", records)]))
    .collect()
}

pub(super) fn shared_logs_4() -> Vec<Published> {
    [
        ("Kafka", "4 consumers", 25.82, 541.48),
        ("BookKeeper", "4 consumers", 51.58, 1_056.53),
        ("Kafka", "8 consumers", 13.83, 290.18),
        ("BookKeeper", "8 consumers", 27.68, 567.06),
    ]
    .into_iter()
    .map(|(system, row, mb, records)| {
        published(
            system,
            row,
            &[("mb_per_s_each", mb), ("records_per_s_each", records)],
        )
    })
    .collect()
}

pub(super) fn shared_logs_5() -> Vec<Published> {
    let table = [
        ("Corfu", "100 B", [9.00, 29.00, 0.010, 110.05]),
        ("Scalog", "100 B", [10.02, 19.00, 0.009, 99.76]),
        ("Corfu", "50 KB", [15.00, 65.01, 2.30, 47.16]),
        ("Scalog", "50 KB", [19.83, 24.00, 2.45, 50.20]),
        ("Corfu", "1 MB", [88.00, 257.01, 7.29, 7.29]),
        ("Scalog", "1 MB", [44.63, 78.00, 14.92, 14.92]),
    ];
    with_latencies(&table, ["mb_per_s", "records_per_s"])
}

pub(super) fn shared_logs_6() -> Vec<Published> {
    let table = [
        ("Corfu", "4 producers", [16.21, 55.01, 2.26, 46.42]),
        ("Scalog", "4 producers", [26.05, 144.00, 1.87, 38.35]),
        ("Corfu", "8 producers", [17.23, 88.0, 2.16, 44.38]),
        ("Scalog", "8 producers", [26.24, 234.0, 1.85, 38.04]),
    ];
    with_latencies(&table, ["mb_per_s_each", "records_per_s_each"])
}

/// Mean and tail only, in ms.
fn latencies_alone(table: &[(&str, &str, f64, f64)]) -> Vec<Published> {
    let figures = |&(system, row, mean, tail): &(&str, &str, f64, f64)| {
        published(
            system,
            row,
            &[("mean_us", mean * 1_000.0), ("p999_us", tail * 1_000.0)],
        )
    };
    table.iter().map(figures).collect()
}

pub(super) fn shared_logs_7() -> Vec<Published> {
    latencies_alone(&[
        ("Corfu", "100 B", 0.44, 2.00),
        ("Scalog", "100 B", 0.34, 1.30),
        ("Corfu", "50 KB", 0.48, 2.00),
        ("Scalog", "50 KB", 1.20, 2.43),
        ("Corfu", "1 MB", 0.51, 2.00),
        ("Scalog", "1 MB", 13.03, 20.96),
    ])
}

pub(super) fn shared_logs_8() -> Vec<Published> {
    latencies_alone(&[
        ("Corfu", "4 consumers", 0.38, 2.00),
        ("Scalog", "4 consumers", 0.73, 1.64),
        ("Corfu", "8 consumers", 0.40, 2.10),
        ("Scalog", "8 consumers", 0.75, 1.91),
    ])
}

/// Each system as it was run there. Its first table has no unit; its second, of the same kind, is in ms.
pub(super) fn smf() -> Vec<Published> {
    let row = |system, row, percentiles: [f64; 5], millions: f64| {
        let names = ["p50_us", "p95_us", "p99_us", "p999_us", "max_us"];
        let mut figures: Vec<(&str, f64)> = names
            .into_iter()
            .zip(percentiles.map(|ms| ms * 1_000.0))
            .collect();
        figures.push(("records_per_s", millions * 1e6));
        published(system, row, &figures)
    };
    vec![
        row(
            "Kafka 0.11",
            "1 producer, as Kafka was run",
            [411.0, 921.0, 980.0, 993.0, 995.0],
            0.423_908,
        ),
        row(
            "smf",
            "1 producer, as smf was run",
            [12.0, 19.0, 23.0, 23.0, 23.0],
            1.712,
        ),
        row(
            "Kafka 0.11",
            "3 producers, as Kafka was run",
            [878.0, 1_340.0, 1_814.0, 1_896.0, 1_930.0],
            0.955_888,
        ),
        row(
            "smf",
            "3 producers, as smf was run",
            [21.0, 36.0, 49.0, 54.0, 54.0],
            2.269_661,
        ),
    ]
}

/// Clients and partitions of each, in the order of the tables.
pub(super) const LOGRANGE_CELLS: [(u32, u32); 12] = [
    (1, 1),
    (1, 2),
    (1, 4),
    (1, 8),
    (2, 1),
    (2, 2),
    (2, 4),
    (2, 8),
    (4, 1),
    (4, 2),
    (4, 4),
    (4, 8),
];

/// 100 B: Logrange written, read, Kafka written, read; MB/s.
const LOGRANGE_100: [[u32; 4]; 12] = [
    [166, 132, 71, 188],
    [251, 177, 97, 333],
    [255, 153, 150, 287],
    [314, 157, 154, 584],
    [275, 215, 94, 206],
    [364, 255, 110, 300],
    [375, 191, 140, 390],
    [437, 208, 155, 550],
    [377, 291, 100, 240],
    [479, 310, 128, 368],
    [443, 277, 160, 360],
    [432, 297, 160, 320],
];

/// The same for 512 B.
const LOGRANGE_512: [[u32; 4]; 12] = [
    [275, 394, 270, 360],
    [346, 502, 491, 472],
    [422, 492, 541, 675],
    [472, 415, 547, 927],
    [410, 648, 400, 440],
    [498, 693, 475, 667],
    [584, 531, 490, 712],
    [675, 528, 420, 680],
    [568, 822, 380, 580],
    [548, 550, 400, 560],
    [665, 705, 360, 428],
    [658, 770, 280, 460],
];

/// The name of the row of so many clients with so many partitions each, as there: "2:4".
pub(super) fn logrange_row(clients: u32, partitions: u32) -> String {
    format!("{clients}:{partitions}")
}

/// The figures of both systems there.
pub(super) fn logrange(record_bytes: usize, written: bool) -> Vec<Published> {
    let table = if record_bytes == 100 {
        LOGRANGE_100
    } else {
        LOGRANGE_512
    };
    let first = usize::from(!written);
    let systems = [("Logrange", first), ("Kafka 2019", first + 2)];
    let of_system = |(system, place): (&str, usize)| {
        let figures = LOGRANGE_CELLS.into_iter().zip(table);
        let figures = figures.map(|((clients, partitions), figures)| {
            published(
                system,
                logrange_row(clients, partitions),
                &[("mb_per_s", f64::from(figures[place]))],
            )
        });
        figures.collect::<Vec<_>>()
    };
    systems.into_iter().flat_map(of_system).collect()
}

/// How many times as fast as version 1 the text says that version 2 is.
pub(super) fn zlog() -> Vec<Published> {
    [(256, 1.36), (4_096, 2.45), (32_768, 10.3)]
        .into_iter()
        .map(|(bytes, times)| published("ZLog 2", zlog_row(bytes), &[(TIMES_VERSION_1, times)]))
        .collect()
}

/// Sizes are powers of two there.
pub(super) fn zlog_row(bytes: usize) -> String {
    if bytes < 1_024 {
        size(bytes)
    } else {
        format!("{} KiB", bytes / 1_024)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_cell_of_the_matrix_is_shown_beside_its_own_row() {
        let shown = logrange(100, true);
        let places: BTreeSet<_> = shown.iter().map(|one| (&one.system, &one.row)).collect();
        assert_eq!((shown.len(), places.len()), (24, 24));
        let figure = |system: &str, row: &str| {
            let mut found = shown.iter().filter(|one| one.system == system && one.row == row);
            found.next().map(|one| one.figures["mb_per_s"])
        };
        assert_eq!(figure("Logrange", "2:4"), Some(375.0));
        assert_eq!(figure("Kafka 2019", "4:1"), Some(100.0));
    }
}
