//! The suite `quick`: where a system stands, in some minutes.

use crate::plan::{Load, Plan, Rate, Work};
use crate::results::{LoopKind, Plot};

use super::{bars, size};

pub(super) fn plans() -> Vec<Plan> {
    let batches = Load::one_by_one(100).in_batches(1_000, 8);
    let rate = Load {
        rate: Some(Rate::Fixed(1_000.0)),
        follow: true,
        ..Load::one_by_one(1_000).in_batches(1, 64)
    };
    vec![
        Plan {
            metrics: &["p50_us", "p99_us", "p999_us", "records_per_s", "written_per_byte"],
            plot: Some(Plot::Percentiles),
            ..Plan::new(
                "one-by-one",
                "One record after the other",
                "One producer sends a record when the one before is acknowledged.",
            )
            .rows([100, 50_000].map(|bytes| (size(bytes), Work::Append(Load::one_by_one(bytes)))))
        },
        Plan {
            metrics: &["records_per_s", "p50_us", "p99_us", "server_cpu_s_per_gb", "server_rss_mb", "written_per_byte"],
            plot: bars("records_per_s"),
            ..Plan::new(
                "batches",
                "Records of 100 B in batches",
                "Producers send batches of 1,000 records, eight of which may wait for their acknowledgement.",
            )
            .rows([
                ("1 producer", Work::Append(batches)),
                ("4 producers, 4 shards", Work::Append(batches.each_on_its_own(4))),
            ])
        },
        Plan {
            metrics: &["records_per_s", "mb_per_s", "server_cpu_s_per_gb", "stored_mb"],
            plot: bars("records_per_s"),
            ..Plan::new(
                "read-back",
                "Reading back records of 100 B",
                "One consumer reads from the first record what was appended in batches: the same volume for every system (one that writes it too slowly \
                 has what it wrote in 120 times a run's seconds, as the column says), pass after pass until a run's seconds of reading are over, in requests of 1 MiB.",
            )
            .rows([("1 consumer", Work::read(batches.to_read(), 1))])
        },
        Plan {
            loop_kind: LoopKind::Open,
            metrics: &["p50_us", "p99_us", "max_us", "delivery_p50_us", "delivery_p99_us", "server_cpu_us_per_record"],
            plot: Some(Plot::DeliveryPercentiles),
            ..Plan::new(
                "rate",
                "1,000 records of 1 KB a second, and their way to a consumer",
                "Records are due at fixed times; a consumer reads at the tail. Ropewalk's and etcd's drivers put one record into a request; Kafka's \
                 clients put what falls due while requests are under way into one.",
            )
            .rows([("1,000/s", Work::Append(rate))])
        },
    ]
}
