//! The suite `papers`: the tables and figures of publications on shared logs, with their parameters. Their own figures are in
//! `published`.

use super::published::{self, LOGRANGE_CELLS};
use super::{Scale, bars, lines, size};
use crate::plan::{Amount, Load, Plan, READ_BYTES, Who, Work};
use crate::results::{Plot, TIMES_VERSION_1};

/// Of 1,000 records a second and more, so many seconds have enough for a tail of 1 in 1,000: runs last so many times a run's seconds.
const TAIL_TIMES: f64 = 10.0;
/// There are never enough of larger ones: they are not sent for longer.
const TAIL_BYTES_MAX: usize = 50_000;
const SIZES: [usize; 3] = [100, 50_000, 1_000_000];
const SHARED_LOGS: &str =
    "Gorai, Xu, Xu: Comparison of Different Shared-Log Systems (2022), Tables 1 to 8; its MB are 1,024 KB";
const TOTAL_ORDER: &str = "CORFU and Scalog against the total order of this log.";
const LATER: &str = "Total order comes later: these tables compare systems that order all shards.";
const READING: &str = "Every system has the same volume to read; one that writes it too slowly has what it wrote in 120 times a run's seconds, as the column says, \
    and then its figures decide nothing. It is read from its first record, pass after pass until a run's seconds of reading are over, in requests of 1 MiB of payloads (of four records, where these are larger).";
const CONFLUO_PARTIES: [u32; 5] = [1, 2, 4, 8, 16];
const CONFLUO_BATCHES: [u32; 2] = [1, 16_384];
const CONFLUO: &str = "Confluo: pub-sub system, publishers and subscribers of 64 B messages; its figure's numbers were read off the picture, by 7 % at most, \
    but for those of 16 parties in batches of 16K, which are printed in it";
const CONFLUO_BOUND: &str = "There, batches of 16K were bound by a network of some 536 MB/s: ratios over Kafka in the same run, and how each grows with the parties, \
    can be set side by side, not absolutes over loopback.";

pub(super) fn plans(scale: Scale) -> Vec<Plan> {
    let nodes = scale.nodes();
    let latencies = &["mean_us", "p999_us", "mb_per_s", "records_per_s"];
    let later = |name, title| Plan {
        metrics: latencies,
        source: Some(SHARED_LOGS),
        left_out: Some(LATER),
        published: published::of(name),
        ..Plan::new(name, title, TOTAL_ORDER)
    };
    let mut plans = vec![
        Plan {
            metrics: latencies,
            plot: Some(Plot::Percentiles),
            ..shared_logs(
                "shared-logs-1",
                &format!("Table 1: a single producer on a single shard, one by one ({nodes})"),
                &format!(
                    "Each record is acknowledged before the next is sent. For the sake of the tail, runs of 100 B and 50 KB last ten times --seconds. {}",
                    scale.beside_three()
                ),
                SIZES
                    .map(|bytes| (size(bytes), Work::Append(for_the_tail(bytes))))
                    .to_vec(),
            )
        },
        Plan {
            metrics: &["mean_us", "p999_us", "mb_per_s_each", "records_per_s_each"],
            plot: Some(Plot::Percentiles),
            ..shared_logs(
                "shared-logs-2",
                &format!("Table 2: concurrent producers of 50 KB, each on its own shard ({nodes})"),
                "4 and 8 producers, each one by one. Latencies of all together, throughput of each. For the sake of the tail, runs last ten times --seconds.",
                [4, 8]
                    .map(|count| {
                        (
                            format!("{count} producers"),
                            Work::Append(for_the_tail(50_000).each_on_its_own(count)),
                        )
                    })
                    .to_vec(),
            )
        },
        Plan {
            metrics: &["mb_per_s", "records_per_s", "stored_mb"],
            plot: bars("mb_per_s"),
            ..shared_logs(
                "shared-logs-3",
                &format!("Table 3: a single consumer on a single shard ({nodes})"),
                READING,
                SIZES
                    .map(|bytes| (size(bytes), Work::read(to_read(bytes, 1), 1)))
                    .to_vec(),
            )
        },
        Plan {
            metrics: &["mb_per_s_each", "records_per_s_each", "stored_mb"],
            plot: bars("mb_per_s_each"),
            ..shared_logs(
                "shared-logs-4",
                &format!("Table 4: concurrent consumers of 50 KB, each on its own shard ({nodes})"),
                &format!("4 and 8 consumers; throughput of each. {READING}"),
                [4, 8]
                    .map(|count| {
                        (
                            format!("{count} consumers"),
                            Work::read(to_read(50_000, count), count),
                        )
                    })
                    .to_vec(),
            )
        },
        later("shared-logs-5", "Table 5: total order, a single producer"),
        later(
            "shared-logs-6",
            "Table 6: total order, concurrent producers of 50 KB on one shard",
        ),
        later(
            "shared-logs-7",
            "Table 7: total order, a single consumer at random positions",
        ),
        later(
            "shared-logs-8",
            "Table 8: total order, concurrent consumers at random positions, 50 KB",
        ),
        unthrottled(scale),
        confluo("confluo-publish", scale),
        confluo("confluo-subscribe", scale),
    ];
    for name in [
        "logrange-100-write",
        "logrange-100-read",
        "logrange-512-write",
        "logrange-512-read",
    ] {
        plans.push(matrix(name, scale));
    }
    plans.push(layouts());
    plans
}

fn shared_logs(name: &'static str, title: &str, about: &str, rows: Vec<(String, Work)>) -> Plan {
    Plan {
        source: Some(SHARED_LOGS),
        published: published::of(name),
        ..Plan::new(name, title, about).rows(rows)
    }
}

/// One by one, for as long as the tail that these tables show needs.
fn for_the_tail(record_bytes: usize) -> Load {
    let times = if record_bytes <= TAIL_BYTES_MAX {
        TAIL_TIMES
    } else {
        1.0
    };
    Load {
        amount: Amount::Time(times),
        ..Load::one_by_one(record_bytes)
    }
}

/// Enough of each size to read, written with several requests waiting so that it does not take long.
fn to_read(record_bytes: usize, shards: u32) -> Load {
    let batch_records = (64_000 / record_bytes).clamp(1, 100) as u32;
    Load::one_by_one(record_bytes)
        .each_on_its_own(shards)
        .in_batches(batch_records, 4)
        .to_read()
}

fn unthrottled(scale: Scale) -> Plan {
    let about = format!(
        "The publication ran Kafka 0.11's own perf producer (acks=1, not idempotent, no linger, batches of 16 KB, 32 MB of records waiting, so that latency is \
         the time in the client's queue) and its own client with one batch of 8,196 records at a time, with lz4 on both sides. Here both ways are run on all systems, \
         without compression. \"Kafka, as smf's text has it\" is Kafka through a client of today with the settings of that text: acks=1, not idempotent, no linger, lz4. \
         Ropewalk's own driver tells the latency of a batch, Kafka's that of each record; librdkafka tells that of each record of both, and so it drives both here, \
         whatever clients were asked for. A row has {} in all: three producers share them, where the publication's command for Kafka sends as many from each. \
         In its own way smf sent 999,912 there. The publication's first table of latencies has no unit; it is read as ms, like the second. \
         The speed-up is measured through one client for both; the publication's, of 34 to 48 times in latency, is that of smf run in its way over Kafka run in the other.",
        scale.records(10_000_000)
    );
    let amount = Amount::Records(scale.of(10_000_000));
    let load = Load {
        amount,
        ..Load::one_by_one(100)
    };
    let rows = [(1, "1 producer"), (3, "3 producers")]
        .into_iter()
        .flat_map(|(producers, name)| {
            let ways = [
                ("Kafka", load.in_batches(160, 2_000)),
                ("smf", load.in_batches(8_196, 1)),
            ];
            ways.map(|(who, load)| {
                (
                    format!("{name}, as {who} was run"),
                    Work::Append(Load { producers, ..load }),
                )
            })
        });
    Plan {
        source: Some("smf: write-ahead log, latency and QPS against Apache Kafka 0.11 (2017)"),
        metrics: &["p50_us", "p95_us", "p99_us", "p999_us", "max_us", "records_per_s"],
        plot: Some(Plot::Percentiles),
        who: Who::Variants(&["ropewalk", "ropewalk-memory", "kafka", "kafka-flush", "kafka-smf"]),
        common_clients: true,
        speed_up_over: Some("kafka"),
        published: published::of("smf"),
        ..Plan::new(
            "smf",
            &format!("Unthrottled producers of 100 B ({})", scale.nodes()),
            &about,
        )
        .rows(rows)
    }
}

fn confluo(name: &'static str, scale: Scale) -> Plan {
    let is_written = name == "confluo-publish";
    let (title, about) = match is_written {
        true => (
            format!(
                "Publishers of 64 B on one partition, in batches (in memory, {})",
                scale.nodes()
            ),
            format!(
                "Each publisher sends one batch after the other. Acknowledged from memory on both sides; all data is on a RAM disk. Publishers share \
                 this machine's CPUs with the system. {CONFLUO_BOUND}"
            ),
        ),
        false => (
            format!(
                "Subscribers of 64 B on one partition (in memory, {})",
                scale.nodes()
            ),
            format!(
                "Every subscriber reads all records by itself, one batch of them in a request, as they were written. Every system has the same volume to \
                 read: {} MB, or what 16,384 requests bring if that is less. It is read from its first record, pass after pass until a run's seconds of reading are over. {CONFLUO_BOUND}",
                READ_BYTES / 1_000_000
            ),
        ),
    };
    let rows = CONFLUO_BATCHES
        .into_iter()
        .flat_map(|batch| CONFLUO_PARTIES.map(|parties| (parties, batch)));
    let work = |(parties, batch): (u32, u32)| {
        let (load, request_bytes) = (Load::one_by_one(64), batch * 64);
        match is_written {
            true => Work::Append(Load {
                producers: parties,
                ..load.in_batches(batch, 1)
            }),
            false => Work::Read {
                load: load.in_batches(batch, 4).to_read_by(request_bytes),
                consumers: parties,
                request_bytes,
            },
        }
    };
    Plan {
        source: Some(CONFLUO),
        metrics: match is_written {
            true => &["records_per_s", "p50_us", "p99_us"],
            false => &["records_per_s", "mb_per_s", "stored_mb"],
        },
        plot: lines(
            if is_written { "producers" } else { "consumers" },
            "records_per_s",
            Some("batch_records"),
        ),
        who: Who::Variants(&["ropewalk-memory", "kafka"]),
        in_memory: true,
        published: published::of(name),
        ..Plan::new(name, &title, &about).rows(rows.map(|row| (format!("{} × {}", row.0, row.1), work(row))))
    }
}

/// Client processes, and threads of each, every one of which has a partition.
fn matrix(name: &'static str, scale: Scale) -> Plan {
    let (record_bytes, is_written) = (
        if name.contains("-100-") { 100 } else { 512 },
        name.ends_with("write"),
    );
    let records = scale.records(2_000_000);
    let processes = "c:p are c client processes with p threads each, every one of which has a partition. There, the threads of a client share its connection; here each has \
        its own. All counts from the first process's first measured record to the last one's last.";
    let volume = match is_written {
        true => format!("Every thread writes {records} in batches."),
        false => format!(
            "Every thread reads back what it wrote, {records}: from the first on, pass after pass until a run's seconds of reading are over, in requests of 1 MiB of payloads."
        ),
    };
    let what = if is_written { "written" } else { "read back" };
    let title = format!(
        "Clients : partitions of each, {record_bytes} B, {what} ({})",
        scale.nodes()
    );
    let work = |(clients, partitions): (u32, u32)| {
        let amount = Amount::Records(scale.of(2_000_000) * u64::from(partitions));
        let load = Load {
            amount,
            ..Load::one_by_one(record_bytes)
        };
        let load = load
            .by_clients(clients)
            .each_on_its_own(partitions)
            .in_batches(1_000, 2);
        if is_written {
            Work::Append(load)
        } else {
            Work::read(load, partitions)
        }
    };
    Plan {
        source: Some("Logrange: performance against Apache Kafka (2019), tables for 100 and 512 B"),
        metrics: match is_written {
            true => &["mb_per_s", "records_per_s", "server_cpu_s_per_gb"],
            false => &["mb_per_s", "records_per_s", "server_cpu_s_per_gb", "stored_mb"],
        },
        plot: bars("mb_per_s"),
        who: Who::Variants(&["ropewalk", "ropewalk-memory", "kafka"]),
        published: published::of(name),
        ..Plan::new(name, &title, &format!("{processes} {volume}"))
            .rows(LOGRANGE_CELLS.map(|cell| (format!("{}:{}", cell.0, cell.1), work(cell))))
    }
}

fn layouts() -> Plan {
    let plan = Plan::new(
        "zlog",
        "Three layouts of a log on one storage device, by size of entry",
        "Version 1 keeps entries in a key-value store, version 2 in a byte stream with metadata in a key-value store, version 3 is this project's journal: a byte stream \
         with a compact index in memory. All flush before they acknowledge; 16 appends wait at a time. In one process, without a network. The publication of 2016 names how many times as \
         fast as version 1 its version 2 is, for three sizes, and that a version 3 of the future came to nearly double of version 2. Its later measurements are medians of both; \
         in them the byte stream is slower below 4 KiB, unlike in the text of 2016.",
    );
    let rows = (7..=17).map(|power| 1usize << power);
    Plan {
        source: Some(
            "ZLog project update (2016): append throughput of versions 1 and 2; its later measurements: medians, omap and bytestream",
        ),
        metrics: &["records_per_s", TIMES_VERSION_1, "mb_per_s", "p50_us", "p99_us"],
        plot: lines("record_bytes", "records_per_s", None),
        published: published::of("zlog"),
        who: Who::Variants(&["layout-key-value", "layout-bytestream", "layout-journal"]),
        ..plan.rows(rows.map(|bytes| {
            (
                zlog_row(bytes),
                Work::Append(Load::one_by_one(bytes).in_batches(1, 16)),
            )
        }))
    }
}

/// Sizes are powers of two there.
fn zlog_row(bytes: usize) -> String {
    match bytes {
        0..1_024 => size(bytes),
        _ => format!("{} KiB", bytes / 1_024),
    }
}
