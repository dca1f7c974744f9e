//! The suite `papers`: the tables and figures of publications on shared logs, with their parameters. Their own figures are in
//! `published`.

use crate::plan::{Amount, Load, Plan, READ_BYTES, Who, Work};
use crate::results::{LoopKind, Plot, TIMES_VERSION_1};

use super::{Scale, published, size};

const SHARED_LOGS_SIZES: [usize; 3] = [100, 50_000, 1_000_000];
/// Of 1,000 records a second and more, so many seconds have enough for a tail of 1 in 1,000: runs last so many times a run's seconds.
const TAIL_TIMES: f64 = 10.0;
/// There are never enough of larger ones: they are not sent for longer.
const TAIL_BYTES_MAX: usize = 50_000;
const LATER: &str = "Total order comes later: these tables compare systems that order all shards.";

pub(super) fn plans(scale: Scale) -> Vec<Plan> {
    let mut plans = vec![
        producers_by_size(scale),
        producers_by_number(scale),
        consumers_by_size(scale),
        consumers_by_number(scale),
    ];
    plans.extend(total_order());
    plans.push(unthrottled(scale));
    plans.extend([publish(scale), subscribe(scale)]);
    for record_bytes in [100, 512] {
        plans.extend(matrix(record_bytes, scale));
    }
    plans.push(layouts());
    plans
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

fn producers_by_size(scale: Scale) -> Plan {
    let plan = Plan::new(
        "shared-logs-1",
        &format!(
            "Table 1: a single producer on a single shard, one by one ({})",
            scale.nodes()
        ),
        &format!(
            "Each record is acknowledged before the next is sent. For the sake of the tail, runs of 100 B and 50 KB last ten times --seconds. {}",
            scale.beside_three()
        ),
    );
    let plan = Plan {
        source: Some(
            "Gorai, Xu, Xu: Comparison of Different Shared-Log Systems (2022), Table 1; its MB are 1,024 KB",
        ),
        metrics: &["mean_us", "p999_us", "mb_per_s", "records_per_s"],
        plot: Some(Plot::Percentiles),
        published: published::shared_logs_1(),
        ..plan
    };
    SHARED_LOGS_SIZES.into_iter().fold(plan, |plan, bytes| {
        plan.row(size(bytes), Work::Append(for_the_tail(bytes)))
    })
}

fn producers_by_number(scale: Scale) -> Plan {
    let plan = Plan::new(
        "shared-logs-2",
        &format!(
            "Table 2: concurrent producers of 50 KB, each on its own shard ({})",
            scale.nodes()
        ),
        "4 and 8 producers, each one by one. Latencies of all together, throughput of each. For the sake of the tail, runs last ten times --seconds.",
    );
    let plan = Plan {
        source: Some(
            "Gorai, Xu, Xu: Comparison of Different Shared-Log Systems (2022), Table 2; its MB are 1,024 KB",
        ),
        metrics: &["mean_us", "p999_us", "mb_per_s_each", "records_per_s_each"],
        plot: Some(Plot::Percentiles),
        published: published::shared_logs_2(),
        ..plan
    };
    [4, 8].into_iter().fold(plan, |plan, producers| {
        let load = for_the_tail(50_000).each_on_its_own(producers);
        plan.row(format!("{producers} producers"), Work::Append(load))
    })
}

/// How reading is measured, for captions: the same for every system.
const READING: &str = "Every system has the same volume to read; one that writes it too slowly has what it wrote in 120 times a run's seconds, as the column says, \
    and then its figures decide nothing. It is read from its first record, pass after pass until a run's seconds of reading are over, in requests of 1 MiB of payloads (of four records, where these are larger).";

/// Enough of each size to read, written with several requests waiting so that it does not take long.
fn to_read(record_bytes: usize, shards: u32) -> Load {
    let batch_records = (64_000 / record_bytes).clamp(1, 100) as u32;
    Load::one_by_one(record_bytes)
        .each_on_its_own(shards)
        .in_batches(batch_records, 4)
        .to_read()
}

fn consumers_by_size(scale: Scale) -> Plan {
    let plan = Plan::new(
        "shared-logs-3",
        &format!("Table 3: a single consumer on a single shard ({})", scale.nodes()),
        READING,
    );
    let plan = Plan {
        source: Some(
            "Gorai, Xu, Xu: Comparison of Different Shared-Log Systems (2022), Table 3; its MB are 1,024 KB",
        ),
        metrics: &["mb_per_s", "records_per_s", "stored_mb"],
        plot: Some(Plot::Bars {
            metric: "mb_per_s".to_owned(),
        }),
        published: published::shared_logs_3(),
        ..plan
    };
    SHARED_LOGS_SIZES.into_iter().fold(plan, |plan, bytes| {
        plan.row(size(bytes), Work::read(to_read(bytes, 1), 1))
    })
}

fn consumers_by_number(scale: Scale) -> Plan {
    let plan = Plan::new(
        "shared-logs-4",
        &format!(
            "Table 4: concurrent consumers of 50 KB, each on its own shard ({})",
            scale.nodes()
        ),
        &format!("4 and 8 consumers; throughput of each. {READING}"),
    );
    let plan = Plan {
        source: Some(
            "Gorai, Xu, Xu: Comparison of Different Shared-Log Systems (2022), Table 4; its MB are 1,024 KB",
        ),
        metrics: &["mb_per_s_each", "records_per_s_each", "stored_mb"],
        plot: Some(Plot::Bars {
            metric: "mb_per_s_each".to_owned(),
        }),
        published: published::shared_logs_4(),
        ..plan
    };
    [4, 8].into_iter().fold(plan, |plan, consumers| {
        let work = Work::read(to_read(50_000, consumers), consumers);
        plan.row(format!("{consumers} consumers"), work)
    })
}

/// Tables 5 to 8, whose place this is.
fn total_order() -> Vec<Plan> {
    let tables = [
        (
            "shared-logs-5",
            "Table 5: total order, a single producer",
            published::shared_logs_5(),
        ),
        (
            "shared-logs-6",
            "Table 6: total order, concurrent producers of 50 KB on one shard",
            published::shared_logs_6(),
        ),
        (
            "shared-logs-7",
            "Table 7: total order, a single consumer at random positions",
            published::shared_logs_7(),
        ),
        (
            "shared-logs-8",
            "Table 8: total order, concurrent consumers at random positions, 50 KB",
            published::shared_logs_8(),
        ),
    ];
    let plan = |(name, title, published)| Plan {
        source: Some("Gorai, Xu, Xu: Comparison of Different Shared-Log Systems (2022), Tables 5 to 8"),
        metrics: &["mean_us", "p999_us", "mb_per_s", "records_per_s"],
        left_out: Some(LATER),
        published,
        ..Plan::new(
            name,
            title,
            "CORFU and Scalog against the total order of this log.",
        )
    };
    tables.into_iter().map(plan).collect()
}

fn unthrottled(scale: Scale) -> Plan {
    let plan = Plan::new(
        "smf",
        &format!("Unthrottled producers of 100 B ({})", scale.nodes()),
        &format!(
            "The publication ran Kafka 0.11's own perf producer (acks=1, not idempotent, no linger, batches of 16 KB, 32 MB of records waiting, so that latency is \
             the time in the client's queue) and its own client with one batch of 8,196 records at a time, with lz4 on both sides. Here both ways are run on all systems, \
             without compression. \"Kafka, as smf's text has it\" is Kafka through a client of today with the settings of that text: acks=1, not idempotent, no linger, lz4. \
             Ropewalk's own driver tells the latency of a batch, Kafka's that of each record; librdkafka tells that of each record of both, and so it drives both here, \
             whatever clients were asked for. A row has {} in all: three producers share them, where the publication's command for Kafka sends as many from each. \
             In its own way smf sent 999,912 there. The publication's first table of latencies has no unit; it is read as ms, like the second. \
             The speed-up is measured through one client for both; the publication's, of 34 to 48 times in latency, is that of smf run in its way over Kafka run in the other.",
            scale.records(10_000_000)
        ),
    );
    let plan = Plan {
        source: Some("smf: write-ahead log, latency and QPS against Apache Kafka 0.11 (2017)"),
        metrics: &["p50_us", "p95_us", "p99_us", "p999_us", "max_us", "records_per_s"],
        plot: Some(Plot::Percentiles),
        who: Who::Variants(&["ropewalk", "ropewalk-memory", "kafka", "kafka-flush", "kafka-smf"]),
        common_clients: true,
        speed_up_over: Some("kafka"),
        published: published::smf(),
        ..plan
    };
    let load = Load {
        amount: Amount::Records(scale.of(10_000_000)),
        ..Load::one_by_one(100)
    };
    let queued = load.in_batches(160, 2_000);
    let batched = load.in_batches(8_196, 1);
    [1, 3].into_iter().fold(plan, |plan, producers| {
        let name = if producers == 1 {
            "1 producer".to_owned()
        } else {
            format!("{producers} producers")
        };
        let several = |load: Load| Work::Append(Load { producers, ..load });
        plan.row(format!("{name}, as Kafka was run"), several(queued))
            .row(format!("{name}, as smf was run"), several(batched))
    })
}

/// The figure goes on beyond four, by an amount that it does not name.
const CONFLUO_PARTIES: [u32; 4] = [1, 2, 4, 8];
const CONFLUO_BATCHES: [u32; 5] = [1, 16, 256, 4_096, 16_384];
const CONFLUO_SOURCE: &str =
    "Confluo: pub-sub system, publishers and subscribers of 64 B messages (a figure without numbers)";

fn publish(scale: Scale) -> Plan {
    let plan = Plan::new(
        "confluo-publish",
        &format!(
            "Publishers of 64 B on one partition, in batches (in memory, {})",
            scale.nodes()
        ),
        "Each publisher sends one batch after the other. Acknowledged from memory on both sides; all data is on a RAM disk. Publishers share \
         this machine's CPUs with the system.",
    );
    let plan = Plan {
        source: Some(CONFLUO_SOURCE),
        metrics: &["records_per_s", "p50_us", "p99_us"],
        plot: Some(Plot::Lines {
            x: "producers".to_owned(),
            metric: "records_per_s".to_owned(),
            by: Some("batch_records".to_owned()),
        }),
        who: Who::Variants(&["ropewalk-memory", "kafka"]),
        in_memory: true,
        ..plan
    };
    CONFLUO_BATCHES.into_iter().fold(plan, |plan, batch| {
        CONFLUO_PARTIES.into_iter().fold(plan, |plan, producers| {
            let load = Load {
                producers,
                ..Load::one_by_one(64).in_batches(batch, 1)
            };
            plan.row(format!("{producers} × {batch}"), Work::Append(load))
        })
    })
}

fn subscribe(scale: Scale) -> Plan {
    let plan = Plan::new(
        "confluo-subscribe",
        &format!(
            "Subscribers of 64 B on one partition (in memory, {})",
            scale.nodes()
        ),
        &format!(
            "Every subscriber reads all records by itself, one batch of them in a request, as they were written. Every system has the same volume to \
             read: {} MB, or what 16,384 requests bring if that is less. It is read from its first record, pass after pass until a run's seconds of reading are over. \
             There, 4 subscribers with batches of 16,384 are as many as the network takes.",
            READ_BYTES / 1_000_000
        ),
    );
    let plan = Plan {
        source: Some(CONFLUO_SOURCE),
        metrics: &["records_per_s", "mb_per_s", "stored_mb"],
        plot: Some(Plot::Lines {
            x: "consumers".to_owned(),
            metric: "records_per_s".to_owned(),
            by: Some("batch_records".to_owned()),
        }),
        who: Who::Variants(&["ropewalk-memory", "kafka"]),
        in_memory: true,
        ..plan
    };
    CONFLUO_BATCHES.into_iter().fold(plan, |plan, batch| {
        CONFLUO_PARTIES.into_iter().fold(plan, |plan, consumers| {
            let request_bytes = batch * 64;
            let work = Work::Read {
                load: Load::one_by_one(64)
                    .in_batches(batch, 4)
                    .to_read_by(request_bytes),
                consumers,
                request_bytes,
            };
            plan.row(format!("{consumers} × {batch}"), work)
        })
    })
}

/// Client processes, and threads of each, every one of which has a partition.
fn matrix(record_bytes: usize, scale: Scale) -> [Plan; 2] {
    let names: [(&'static str, &'static str); 2] = match record_bytes {
        100 => [
            ("logrange-100-write", "written"),
            ("logrange-100-read", "read back"),
        ],
        _ => [
            ("logrange-512-write", "written"),
            ("logrange-512-read", "read back"),
        ],
    };
    names.map(|(name, what)| {
        let is_written = what == "written";
        let plan = Plan::new(
            name,
            &format!(
                "Clients : partitions of each, {record_bytes} B, {what} ({})",
                scale.nodes()
            ),
            &matrix_about(is_written, scale),
        );
        let plan = Plan {
            source: Some("Logrange: performance against Apache Kafka (2019), tables for 100 and 512 B"),
            metrics: match is_written {
                true => &["mb_per_s", "records_per_s", "server_cpu_s_per_gb"],
                false => &["mb_per_s", "records_per_s", "server_cpu_s_per_gb", "stored_mb"],
            },
            plot: Some(Plot::Bars {
                metric: "mb_per_s".to_owned(),
            }),
            who: Who::Variants(&["ropewalk", "ropewalk-memory", "kafka"]),
            published: published::logrange(record_bytes, is_written),
            ..plan
        };
        published::LOGRANGE_CELLS
            .into_iter()
            .fold(plan, |plan, (clients, partitions)| {
                let load = Load {
                    amount: Amount::Records(scale.of(2_000_000) * u64::from(partitions)),
                    ..Load::one_by_one(record_bytes)
                        .by_clients(clients)
                        .each_on_its_own(partitions)
                        .in_batches(1_000, 2)
                };
                let work = match is_written {
                    true => Work::Append(load),
                    false => Work::read(load, partitions),
                };
                plan.row(published::logrange_row(clients, partitions), work)
            })
    })
}

fn matrix_about(is_written: bool, scale: Scale) -> String {
    let records = scale.records(2_000_000);
    let processes = "c:p are c client processes with p threads each, every one of which has a partition. There, the threads of a client share its connection; here each has \
        its own. All counts from the first process's first measured record to the last one's last.";
    let volume = match is_written {
        true => format!("Every thread writes {records} in batches."),
        false => {
            let way = "from the first on, pass after pass until a run's seconds of reading are over, in requests of 1 MiB of payloads.";
            format!("Every thread reads back what it wrote, {records}: {way}")
        }
    };
    format!("{processes} {volume}")
}

fn layouts() -> Plan {
    let plan = Plan::new(
        "zlog",
        "Three layouts of a log on one storage device, by size of entry",
        "Version 1 keeps entries in a key-value store, version 2 in a byte stream with metadata in a key-value store, version 3 is this project's journal: a byte stream \
         with a compact index in memory. All flush before they acknowledge; 16 appends wait at a time. In one process, without a network. The publication names how many times as \
         fast as version 1 its version 2 is, for three sizes, and that a version 3 of the future came to nearly double of version 2; the rest of its figure has no numbers.",
    );
    let plan = Plan {
        source: Some("ZLog project update (2016): append throughput of versions 1 and 2"),
        metrics: &["records_per_s", TIMES_VERSION_1, "mb_per_s", "p50_us", "p99_us"],
        plot: Some(Plot::Lines {
            x: "record_bytes".to_owned(),
            metric: "records_per_s".to_owned(),
            by: None,
        }),
        loop_kind: LoopKind::Closed,
        published: published::zlog(),
        who: Who::Variants(&["layout-key-value", "layout-bytestream", "layout-journal"]),
        ..plan
    };
    (8..=15).map(|power| 1usize << power).fold(plan, |plan, bytes| {
        let load = Load::one_by_one(bytes).in_batches(1, 16);
        plan.row(published::zlog_row(bytes), Work::Append(load))
    })
}
