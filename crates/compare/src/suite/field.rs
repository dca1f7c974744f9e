//! The suite `field`: what users of logs ask. Where the OpenMessaging Benchmark has a workload of that shape, the row or the table
//! has its name.

use super::{bars, lines};
use crate::plan::{Amount, Load, Plan, Rate, Work};
use crate::results::{LoopKind, Plot};

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

/// 1 KB as the OpenMessaging Benchmark means it.
fn kilobyte() -> Load {
    Load::one_by_one(1_024)
}

fn timed(load: Load, times: f64) -> Work {
    Work::Append(Load {
        amount: Amount::Time(times),
        ..load
    })
}

pub(super) fn plans() -> Vec<Plan> {
    let four = kilobyte().each_on_its_own(4).in_batches(64, 4);
    let share = |percent: u32| Load {
        rate: Some(Rate::OfMaximum {
            share: f64::from(percent) / 100.0,
            experiment: MAXIMUM,
            row: MAXIMUM_ROW,
        }),
        // Room for twice as many as under way at the maximum: more would only let a client send smaller requests.
        ..kilobyte().each_on_its_own(4).in_batches(64, 8)
    };
    let paced = |rate: f64| Load {
        rate: Some(Rate::Fixed(rate)),
        ..kilobyte().in_batches(1, 64)
    };
    let over = |shards| {
        Work::Append(Load {
            shards,
            producers: 4,
            ..paced(5_000.0)
        })
    };
    let followed = |rate| Load {
        follow: true,
        ..paced(rate).each_on_its_own(4)
    };
    let one_by_one = |producers| {
        timed(
            Load {
                shards: 16,
                producers,
                ..kilobyte()
            },
            ONE_BY_ONE_TIMES,
        )
    };
    let restart = |records| {
        Work::Restart(Load {
            amount: Amount::Records(records),
            ..kilobyte().in_batches(64, 8)
        })
    };
    let stored = kilobyte().in_batches(64, 8).filled_with(OLD_BYTES, OLD_TIMES);
    let read_meanwhile = |name, title, about, cold| Plan {
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
        ..Plan::new(name, title, about).rows([(
            "2,000/s beside one reader",
            Work::ReadMeanwhile {
                stored,
                load: paced(2_000.0),
                cold,
            },
        )])
    };
    vec![
        Plan {
            source: Some(
                "OpenMessaging Benchmark, after the shape of 1-topic-1-partition-100b, 1-topic-1-partition-1kb and 1-topic-16-partitions-1kb; \
                 rate (here the maximum), length and consumers (here none) differ",
            ),
            metrics: &[
                "records_per_s", "mb_per_s", "p50_us", "p99_us", "server_cpu_s_per_gb", "client_cpu_s_per_gb", "server_rss_mb",
                "written_per_byte",
            ],
            plot: bars("mb_per_s"),
            ..Plan::new(
                MAXIMUM,
                "Maximum throughput, and what it costs",
                "Closed loop: the next batch is sent when one of those under way is acknowledged. What servers and clients used for each GB of payloads, \
                 and what went to the disk for each byte appended.",
            )
            .rows([
                (
                    "1 producer, 1 shard, 100 B (after 1-topic-1-partition-100b)",
                    timed(Load::one_by_one(100).in_batches(1_000, 8), MAXIMUM_TIMES),
                ),
                (
                    "1 producer, 1 shard, 1 KB (after 1-topic-1-partition-1kb)",
                    timed(kilobyte().in_batches(128, 8), MAXIMUM_TIMES),
                ),
                (MAXIMUM_ROW, timed(four, MAXIMUM_TIMES)),
                (
                    "4 producers, 16 shards, 1 KB (after 1-topic-16-partitions-1kb)",
                    timed(Load { shards: 16, ..four }, MAXIMUM_TIMES),
                ),
            ])
        },
        Plan {
            loop_kind: LoopKind::Open,
            metrics: &["p50_us", "p99_us", "p999_us", "max_us", "records_per_s", "due_per_s"],
            plot: Some(Plot::Percentiles),
            ..Plan::new(
                "shares",
                "Latency at 10, 50 and 80 % of each system's own maximum",
                "4 producers on 4 shards of 1 KB records, due one by one at fixed times; the latency of each record counts from its own time, so that a stall is not \
                 left out. Clients put up to 64 records into a request as each does by itself: Ropewalk's and etcd's what is due when there is room for \
                 a request, Kafka's (without a linger) what comes while requests are under way, the others single records. The maximum is that of the same system and client in the table before.",
            )
            .rows([10, 50, 80].map(|percent| (format!("{percent} %"), Work::Append(share(percent)))))
        },
        Plan {
            source: Some(
                "OpenMessaging Benchmark, after the shape of 1-topic-1-partition-1kb, 1-topic-100-partitions-1kb-4p-4c-200k and \
                 1-topic-10000-partitions-1kb-4p-4c-200k; rate (there 200,000/s and more), length (there minutes) and consumers (here none) differ",
            ),
            loop_kind: LoopKind::Open,
            metrics: &[
                "p50_us", "p99_us", "max_us", "records_per_s", "server_cpu_us_per_record", "server_rss_mb", "written_per_byte",
            ],
            plot: lines("shards", "p99_us", None),
            ..Plan::new(
                "shards",
                "1 to 10,000 shards at the same rate",
                "5,000 records of 1 KB a second in all, in turn over all shards, from four producers. Ropewalk's and etcd's drivers put one record \
                 into a request; Kafka's clients put what falls due while requests are under way into one.",
            )
            .rows([
                ("1 shard (after 1-topic-1-partition-1kb)", over(1)),
                ("100 shards (after 1-topic-100-partitions-1kb-4p-4c-200k)", over(100)),
                ("1,000 shards", over(1_000)),
                ("10,000 shards (after 1-topic-10000-partitions-1kb-4p-4c-200k)", over(10_000)),
            ])
        },
        Plan {
            metrics: &["records_per_s", "p50_us", "p99_us", "p999_us", "server_cpu_us_per_record"],
            plot: Some(Plot::Percentiles),
            ..Plan::new(
                "producers",
                "16 and 64 producers, one by one",
                "Each sends 1 KB when its record before is acknowledged; 16 shards.",
            )
            .rows([16, 64].map(|producers| (format!("{producers} producers"), one_by_one(producers))))
        },
        Plan {
            source: Some(
                "OpenMessaging Benchmark, after the shape of its end-to-end latency at a fixed rate on one topic with records of 1 KB; \
                 partitions, rate, length and consumers differ",
            ),
            loop_kind: LoopKind::Open,
            metrics: &["delivery_p50_us", "delivery_p99_us", "delivery_max_us", "p50_us", "p99_us"],
            plot: Some(Plot::DeliveryPercentiles),
            ..Plan::new(
                "end-to-end",
                "From when a record is due until a consumer has it",
                "1 producer and 1 consumer on each of 4 shards, 1 KB, fixed rates. Requests are as in the table of shards.",
            )
            .rows([
                ("400/s", timed(followed(400.0), SLOW_RATE_TIMES)),
                ("4000/s", timed(followed(4_000.0), 1.0)),
            ])
        },
        Plan {
            source: Some(
                "OpenMessaging Benchmark, after the shape of backlog-1-topic-1-partition-1kb; rate, length, backlog and consumers differ",
            ),
            ..read_meanwhile(
                "backlog",
                "Draining a backlog while writing goes on (after backlog-1-topic-1-partition-1kb)",
                "2,000 records of 1 KB a second are appended while another client reads 1 GB of older ones, pass after pass; a system that has not written \
                 that in 120 times a run's seconds has less, as the column says. Latencies of runs that had a reader beside them for less than \
                 90 % of their time decide nothing.",
                false,
            )
        },
        read_meanwhile(
            "cold-reads",
            "Cold reads against the tail's latency",
            "The same, but before each run the system is ended in order and started again, warmed up with other records, and the kernel's page cache emptied (where \
             that is allowed; else the row says so). What was stored is read in one pass, which begins with the first of the new records. What reads of old \
             records do to the latency of new ones.",
            true,
        ),
        Plan {
            loop_kind: LoopKind::None,
            metrics: &["ready_s", "first_ack_s"],
            plot: bars("first_ack_s"),
            ..Plan::new(
                "restart",
                "From a crash to the next acknowledged record",
                "Everything is killed at once with SIGKILL and started again on the same data. Ready is what the system says of itself; the first acknowledgement is that of \
                 one record from a client that is started when the system says so; the client's own start is left out, its first connection is not. \
                 The times of two systems contain time-outs of theirs: a bookie waits until ZooKeeper has forgotten its earlier self (BookKeeper: a session \
                 of 10 s), and a Kafka node that is broker and controller in one, about 9 s until its earlier registration has lapsed (KAFKA-19130).",
            )
            .rows([
                ("10,000 records of 1 KB stored", restart(10_000)),
                ("100,000 records of 1 KB stored", restart(100_000)),
            ])
        },
    ]
}
