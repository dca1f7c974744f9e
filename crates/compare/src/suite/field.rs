//! The suite `field`: what users of logs ask. Where the OpenMessaging Benchmark has a workload of that shape, the row or the table
//! has its name.

use crate::plan::{Amount, Load, Plan, Rate, Work};
use crate::results::{LoopKind, Plot};
use bench::number;

const COST: &[&str] = &[
    "records_per_s",
    "mb_per_s",
    "p50_us",
    "p99_us",
    "server_cpu_s_per_gb",
    "client_cpu_s_per_gb",
    "server_rss_mb",
    "written_per_byte",
];
const LATENCY: &[&str] = &[
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "records_per_s",
    "due_per_s",
];
/// What there is to read beside appends: a cold pass over it takes a good part of a run.
const OLD_BYTES: u64 = 1_000_000_000;
/// Who writes that slowly has so many times a run's seconds for it: only with the same to read is the reader there as long.
const OLD_TIMES: f64 = 120.0;
/// What is taken for a moment is more than what is taken for long: for so many times a run's seconds.
const MAXIMUM_TIMES: f64 = 3.0;
/// Where few records a second are sent, or tails are rare: so that there are enough for the percentiles that are shown.
const SLOW_RATE_TIMES: f64 = 5.0;
const ONE_BY_ONE_TIMES: f64 = 3.0;
const MAXIMUM: &str = "maximum";
const MAXIMUM_ROW: &str = "4 producers, 4 shards, 1 KB";

pub(super) fn plans() -> Vec<Plan> {
    vec![
        maximum(),
        shares_of_maximum(),
        many_shards(),
        many_producers(),
        end_to_end(),
        backlog(),
        cold_reads(),
        restart(),
    ]
}

/// 1 KB as the OpenMessaging Benchmark means it.
fn kilobyte() -> Load {
    Load::one_by_one(1_024)
}

fn maximum() -> Plan {
    let plan = Plan::new(
        MAXIMUM,
        "Maximum throughput, and what it costs",
        "Closed loop: the next batch is sent when one of those under way is acknowledged. What servers and clients used for each GB of payloads, \
         and what went to the disk for each byte appended.",
    );
    let plan = Plan {
        source: Some(
            "OpenMessaging Benchmark, after the shape of 1-topic-1-partition-100b, 1-topic-1-partition-1kb and 1-topic-16-partitions-1kb; \
             rate (here the maximum), length and consumers (here none) differ",
        ),
        metrics: COST,
        plot: Some(Plot::Bars {
            metric: "mb_per_s".to_owned(),
        }),
        ..plan
    };
    let four = kilobyte().each_on_its_own(4).in_batches(64, 4);
    let rows = [
        (
            "1 producer, 1 shard, 100 B (after 1-topic-1-partition-100b)",
            Load::one_by_one(100).in_batches(1_000, 8),
        ),
        (
            "1 producer, 1 shard, 1 KB (after 1-topic-1-partition-1kb)",
            kilobyte().in_batches(128, 8),
        ),
        (MAXIMUM_ROW, four),
        (
            "4 producers, 16 shards, 1 KB (after 1-topic-16-partitions-1kb)",
            Load { shards: 16, ..four },
        ),
    ];
    rows.into_iter().fold(plan, |plan, (name, load)| {
        let amount = Amount::Time(MAXIMUM_TIMES);
        plan.row(name, Work::Append(Load { amount, ..load }))
    })
}

fn shares_of_maximum() -> Plan {
    let plan = Plan::new(
        "shares",
        "Latency at 10, 50 and 80 % of each system's own maximum",
        "4 producers on 4 shards of 1 KB records, due one by one at fixed times; the latency of each record counts from its own time, so that a stall is not \
         left out. Clients put up to 64 records into a request as each does by itself: Ropewalk's and etcd's what is due when there is room for \
         a request, Kafka's (without a linger) what comes while requests are under way, the others single records. The maximum is that of the same system and client in the table before.",
    );
    let plan = Plan {
        loop_kind: LoopKind::Open,
        metrics: LATENCY,
        plot: Some(Plot::Percentiles),
        ..plan
    };
    [10, 50, 80].into_iter().fold(plan, |plan, percent| {
        let rate = Rate::OfMaximum {
            share: f64::from(percent) / 100.0,
            experiment: MAXIMUM,
            row: MAXIMUM_ROW,
        };
        let load = Load {
            rate: Some(rate),
            // Room for twice as many as under way at the maximum: more would only let a client send smaller requests.
            ..kilobyte().each_on_its_own(4).in_batches(64, 8)
        };
        plan.row(format!("{percent} %"), Work::Append(load))
    })
}

fn many_shards() -> Plan {
    let plan = Plan::new(
        "shards",
        "1 to 10,000 shards at the same rate",
        "5,000 records of 1 KB a second in all, in turn over all shards, from four producers. Ropewalk's and etcd's drivers put one record \
         into a request; Kafka's clients put what falls due while requests are under way into one.",
    );
    let plan = Plan {
        source: Some(
            "OpenMessaging Benchmark, after the shape of 1-topic-1-partition-1kb, 1-topic-100-partitions-1kb-4p-4c-200k and \
             1-topic-10000-partitions-1kb-4p-4c-200k; rate (there 200,000/s and more), length (there minutes) and consumers (here none) differ",
        ),
        loop_kind: LoopKind::Open,
        metrics: &[
            "p50_us",
            "p99_us",
            "max_us",
            "records_per_s",
            "server_cpu_us_per_record",
            "server_rss_mb",
            "written_per_byte",
        ],
        plot: Some(Plot::Lines {
            x: "shards".to_owned(),
            metric: "p99_us".to_owned(),
            by: None,
        }),
        ..plan
    };
    let shards = [
        (1, " (after 1-topic-1-partition-1kb)"),
        (100, " (after 1-topic-100-partitions-1kb-4p-4c-200k)"),
        (1_000, ""),
        (10_000, " (after 1-topic-10000-partitions-1kb-4p-4c-200k)"),
    ];
    shards.into_iter().fold(plan, |plan, (shards, after)| {
        let load = Load {
            shards,
            producers: 4,
            rate: Some(Rate::Fixed(5_000.0)),
            ..kilobyte().in_batches(1, 64)
        };
        let noun = if shards == 1 { "shard" } else { "shards" };
        let name = format!("{} {noun}{after}", number::count(u64::from(shards)));
        plan.row(name, Work::Append(load))
    })
}

fn many_producers() -> Plan {
    let plan = Plan::new(
        "producers",
        "16 and 64 producers, one by one",
        "Each sends 1 KB when its record before is acknowledged; 16 shards.",
    );
    let plan = Plan {
        metrics: &[
            "records_per_s",
            "p50_us",
            "p99_us",
            "p999_us",
            "server_cpu_us_per_record",
        ],
        plot: Some(Plot::Percentiles),
        ..plan
    };
    [16, 64].into_iter().fold(plan, |plan, producers| {
        let load = Load {
            shards: 16,
            producers,
            amount: Amount::Time(ONE_BY_ONE_TIMES),
            ..kilobyte()
        };
        plan.row(format!("{producers} producers"), Work::Append(load))
    })
}

fn end_to_end() -> Plan {
    let plan = Plan::new(
        "end-to-end",
        "From when a record is due until a consumer has it",
        "1 producer and 1 consumer on each of 4 shards, 1 KB, fixed rates. Requests are as in the table of shards.",
    );
    let plan = Plan {
        source: Some(
            "OpenMessaging Benchmark, after the shape of its end-to-end latency at a fixed rate on one topic with records of 1 KB; \
             partitions, rate, length and consumers differ",
        ),
        loop_kind: LoopKind::Open,
        metrics: &[
            "delivery_p50_us",
            "delivery_p99_us",
            "delivery_max_us",
            "p50_us",
            "p99_us",
        ],
        plot: Some(Plot::DeliveryPercentiles),
        ..plan
    };
    [(400, SLOW_RATE_TIMES), (4_000, 1.0)]
        .into_iter()
        .fold(plan, |plan, (rate, times)| {
            let load = Load {
                rate: Some(Rate::Fixed(f64::from(rate))),
                amount: Amount::Time(times),
                follow: true,
                ..kilobyte().each_on_its_own(4).in_batches(1, 64)
            };
            plan.row(format!("{rate}/s"), Work::Append(load))
        })
}

fn read_meanwhile(name: &'static str, title: &str, about: &str, cold: bool) -> Plan {
    let plan = Plan {
        loop_kind: LoopKind::Open,
        metrics: &[
            "read_records_per_s",
            "read_mb_per_s",
            "stored_mb",
            "beside_reads_percent",
            "p50_us",
            "p99_us",
            "max_us",
        ],
        plot: Some(Plot::Percentiles),
        ..Plan::new(name, title, about)
    };
    let stored = kilobyte().in_batches(64, 8).filled_with(OLD_BYTES, OLD_TIMES);
    let load = Load {
        rate: Some(Rate::Fixed(2_000.0)),
        ..kilobyte().in_batches(1, 64)
    };
    plan.row(
        "2,000/s beside one reader",
        Work::ReadMeanwhile { stored, load, cold },
    )
}

fn backlog() -> Plan {
    let about = "2,000 records of 1 KB a second are appended while another client reads 1 GB of older ones, pass after pass; a system that has not written \
                 that in 120 times a run's seconds has less, as the column says. Latencies of runs that had a reader beside them for less than \
                 90 % of their time decide nothing.";
    let plan = read_meanwhile(
        "backlog",
        "Draining a backlog while writing goes on (after backlog-1-topic-1-partition-1kb)",
        about,
        false,
    );
    Plan {
        source: Some(
            "OpenMessaging Benchmark, after the shape of backlog-1-topic-1-partition-1kb; rate, length, backlog and consumers differ",
        ),
        ..plan
    }
}

fn cold_reads() -> Plan {
    let about = "The same, but before each run the system is ended in order and started again, warmed up with other records, and the kernel's page cache emptied (where \
                 that is allowed; else the row says so). What was stored is read in one pass, which begins with the first of the new records. What reads of old \
                 records do to the latency of new ones.";
    read_meanwhile("cold-reads", "Cold reads against the tail's latency", about, true)
}

fn restart() -> Plan {
    let plan = Plan::new(
        "restart",
        "From a crash to the next acknowledged record",
        "Everything is killed at once with SIGKILL and started again on the same data. Ready is what the system says of itself; the first acknowledgement is that of \
         one record from a client that is started when the system says so; the client's own start is left out, its first connection is not. \
         The times of two systems contain time-outs of theirs: a bookie waits until ZooKeeper has forgotten its earlier self (BookKeeper: a session \
         of 10 s), and a Kafka node that is broker and controller in one, about 9 s until its earlier registration has lapsed (KAFKA-19130).",
    );
    let plan = Plan {
        loop_kind: LoopKind::None,
        metrics: &["ready_s", "first_ack_s"],
        plot: Some(Plot::Bars {
            metric: "first_ack_s".to_owned(),
        }),
        ..plan
    };
    [10_000u64, 100_000].into_iter().fold(plan, |plan, records| {
        let load = Load {
            amount: Amount::Records(records),
            ..kilobyte().in_batches(64, 8)
        };
        let name = format!("{} records of 1 KB stored", number::count(records));
        plan.row(name, Work::Restart(load))
    })
}
