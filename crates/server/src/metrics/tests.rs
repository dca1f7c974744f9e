//! Rendering, what a snapshot says of health, and how cores are asked.

mod documentation;

use std::sync::Arc;
use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use platform::clock::ManualClock;
use platform::counters::{Histogram, HistogramFigures};
use platform::process::ProcessUsage;
use protocol::groups::GROUPS_TOPIC;
use protocol::leader::NodeId;
use shard::{AppendRefusal, FollowerFigures, LedFigures};
use storage::StoreStatus;

use crate::groups::{ClosedCoordinator, GroupLag};
use crate::http::{HttpCounters, HttpFigures};
use crate::mailbox::{Mailboxes, mailboxes};
use crate::peers::PeerFigures;

use super::{
    ClusterFigures, CompactionFigures, CoreAnswer, CoreFigures, Gatherer, JournalFigures, RetentionFigures,
    Silence, Snapshot, TopicFigures, render,
};

/// Figures of so many microseconds each.
fn latency(times_us: &[u64]) -> HistogramFigures {
    let histogram = Histogram::default();
    for us in times_us {
        histogram.record(Duration::from_micros(*us));
    }
    histogram.figures()
}

fn journal(index: usize) -> JournalFigures {
    JournalFigures {
        index,
        partitions: 2,
        appended_batches: 3,
        batches_in_place: 1,
        appended_records: 30,
        appended_bytes: 3_000,
        flush_latency: latency(&[1_000, 400, 600, 500]),
        flushed_bytes: 8_192,
        read_bytes: 5,
        disk_reads: 6,
        layout_rounds: 7,
        faults: 8,
        compaction: CompactionFigures {
            passes: 21,
            failures: 22,
            read_bytes: 23,
            written_bytes: 24,
            time: Duration::from_millis(25),
            removed_records: 26,
            removed_tombstones: 27,
            freed_bytes: 28,
            waiting_bytes: 29,
        },
        retention: ["retention.ms", "retention.bytes"].map(|config| RetentionFigures {
            config,
            trims: 32,
            records: 33,
            bytes: 34,
        }),
        producers: 31,
        stalled_appends: 30,
        store: StoreStatus {
            unflushed_bytes: 9,
            journal_bytes: 10,
            journal_bytes_max: 11,
            tail_cache_bytes: 12,
            chunk_cache_bytes: 13,
            partitions: 14,
            chunk_cache_hits: 15,
            chunk_cache_misses: 16,
        },
        refusal: None,
        disk_full: false,
        led: LedFigures {
            open: 41,
            opening: 42,
            short: 43,
            followers: [(
                NodeId(3),
                FollowerFigures {
                    behind: 44,
                    lacks: 45,
                },
            )]
            .into(),
        },
        epochs_opened: 46,
        epochs_ended: 47,
        shipped_bytes: 48,
        scrubbed_bytes: 49,
        scrub_passes: 50,
        damages: 51,
        lent_reads: 52,
        repairs: 53,
        failed_repairs: 54,
        deferred_bytes: 49,
        verifications: 61,
        refused_verifications: 62,
    }
}

fn lag(group: &str, topic: &str, records: u64) -> GroupLag {
    GroupLag {
        records,
        group: group.into(),
        topic: topic.into(),
    }
}

fn core(journals: Vec<JournalFigures>) -> CoreFigures {
    CoreFigures {
        connections: 1,
        connections_opened: 2,
        connections_refused: 3,
        connections_moved: 10,
        connections_cut_off: 11,
        requests: 4,
        requests_by_api: vec![(ApiKey::Produce, 3), (ApiKey::ConsumerGroupHeartbeat, 1)],
        errors: vec![(ApiKey::Produce, ErrorCode::NotLeaderOrFollower, 2)],
        by_topic: vec![TopicFigures {
            topic: "orders".into(),
            appended_records: 13,
            appended_bytes: 14,
            failed_appends: 15,
            read_bytes: 16,
            unstable_records: 63,
        }],
        clock_is_held: false,
        malformed_requests: 5,
        received_bytes: 6,
        sent_bytes: 7,
        produce_latency: latency(&[9, 70, 20_000_000]),
        fetch_latency: latency(&[10]),
        request_bytes: 29,
        answer_bytes: 12,
        fetch_sessions: 8,
        long_turns: 23,
        longest_turn: Duration::from_millis(25),
        groups: 22,
        closed_coordinators: Vec::new(),
        group_lags: [lag("bill\"ing", "orders", 40), lag("audit", "orders", 0)].into(),
        transactions: protocol::transactions::Figures {
            ids: 71,
            open: 72,
            oldest_start_ms: Some(73),
            committed: 74,
            aborted: 75,
            timed_out: 76,
            markers_waiting: 77,
            markers_retried: 78,
        },
        oldest_transaction: Duration::from_secs(79),
        topics: 9,
        partitions: 20,
        disk_free_bytes: Some(21),
        draining: false,
        peers: vec![PeerFigures {
            node: NodeId(2),
            connections: 51,
            lost_connections: 52,
            queued_bytes: 53,
            sent_bytes: 54,
        }],
        cluster: Some(ClusterFigures {
            nodes: 3,
            nodes_away: 1,
            leads_metadata: true,
            leaderless_partitions: 55,
            moving_partitions: 56,
            doubted_replicas: 57,
            unclean_partitions: 58,
        }),
        journals,
    }
}

fn snapshot(outcomes: Vec<Result<CoreFigures, Silence>>) -> Snapshot {
    let cores = outcomes
        .into_iter()
        .enumerate()
        .map(|(index, outcome)| CoreAnswer { index, outcome });
    Snapshot {
        uptime: Duration::from_millis(1_500),
        started_at: Duration::from_millis(1_700_000_000_250),
        disk_reserve_bytes: 39,
        process: Some(ProcessUsage {
            cpu_user: Duration::from_millis(750),
            cpu_system: Duration::from_millis(500),
            rss_bytes: 4_096,
        }),
        http: HttpFigures {
            connections: 31,
            followers: 32,
            requests: 33,
            gone: 38,
            client_errors: 34,
            server_errors: 35,
            refused_connections: 36,
            cut_off: 37,
        },
        cores: cores.collect(),
    }
}

const LATE: Silence = Silence::Late(Duration::from_secs(2));

#[test]
fn a_snapshot_renders_each_metric_once_for_all_its_subjects() {
    let text = render(snapshot(vec![
        Ok(core(vec![journal(0), journal(2)])),
        Ok(core(vec![journal(1)])),
    ]));
    let expected = [
        "# HELP ropewalk_uptime_seconds Time since the node started.\n\
         # TYPE ropewalk_uptime_seconds gauge\n\
         # UNIT ropewalk_uptime_seconds seconds\n\
         ropewalk_uptime_seconds 1.5\n",
        "ropewalk_start_time_seconds 1700000000.25\n",
        "ropewalk_ready 1\n",
        "ropewalk_cores 2\n",
        "ropewalk_topics 9\n",
        "ropewalk_disk_free_bytes 21\n",
        "ropewalk_disk_reserve_bytes 39\n",
        "ropewalk_http_connections 31\n",
        "ropewalk_http_client_errors_total 34\n",
        "ropewalk_process_cpu_seconds_total 1.25\n",
        "ropewalk_process_resident_memory_bytes 4096\n",
        "ropewalk_core_up{core=\"0\"} 1\nropewalk_core_up{core=\"1\"} 1\n",
        "ropewalk_received_bytes_total{core=\"0\"} 6\nropewalk_received_bytes_total{core=\"1\"} 6\n",
        "ropewalk_api_requests_total{core=\"0\",api=\"Produce\"} 3\n\
         ropewalk_api_requests_total{core=\"0\",api=\"ConsumerGroupHeartbeat\"} 1\n\
         ropewalk_api_requests_total{core=\"1\",api=\"Produce\"} 3\n",
        "ropewalk_api_errors_total{core=\"0\",api=\"Produce\",error=\"NOT_LEADER_OR_FOLLOWER\"} 2\n",
        "ropewalk_topic_appended_bytes_total{core=\"0\",topic=\"orders\"} 14\n\
         ropewalk_topic_appended_bytes_total{core=\"1\",topic=\"orders\"} 14\n",
        "ropewalk_retention_bytes_total{core=\"1\",journal=\"1\",config=\"retention.bytes\"} 34\n",
        "ropewalk_flush_seconds_total{core=\"0\",journal=\"0\"} 0.0025\n\
         ropewalk_flush_seconds_total{core=\"0\",journal=\"2\"} 0.0025\n\
         ropewalk_flush_seconds_total{core=\"1\",journal=\"1\"} 0.0025\n",
        "ropewalk_flushes_total{core=\"0\",journal=\"0\"} 4\n",
        "ropewalk_connections_moved_total{core=\"0\"} 10\nropewalk_connections_moved_total{core=\"1\"} 10\n",
        "ropewalk_journal_max_bytes{core=\"1\",journal=\"1\"} 11\n",
        "ropewalk_chunk_cache_misses_total{core=\"1\",journal=\"1\"} 16\n",
        "ropewalk_nodes_away 1\n",
        "ropewalk_metadata_leader 1\n",
        "ropewalk_peer_sent_bytes_total{core=\"0\",node=\"2\"} 54\n",
        "ropewalk_short_partitions{core=\"0\",journal=\"0\"} 43\n",
        "ropewalk_replica_lag_records{core=\"0\",journal=\"0\",node=\"3\"} 45\n",
        "ropewalk_journal_dead{core=\"1\",journal=\"1\"} 0\n",
    ];
    for lines in expected {
        assert!(text.contains(lines), "no {lines:?} in:\n{text}");
    }
    // Names are the clients'.
    let lags = "ropewalk_group_lag_records{group=\"bill\\\"ing\",topic=\"orders\"} 40\n\
                ropewalk_group_lag_records{group=\"audit\",topic=\"orders\"} 0\n";
    assert!(text.contains(lags), "{text}");
    let build = format!(
        "ropewalk_build_info{{version=\"{}\"}} 1\n",
        env!("CARGO_PKG_VERSION")
    );
    assert!(text.contains(&build), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn a_histogram_renders_cumulative_buckets_that_end_with_all() {
    let text = render(snapshot(vec![Ok(core(vec![journal(0)]))]));
    let name = "ropewalk_produce_latency_seconds";
    assert!(
        text.contains(&format!("# TYPE {name} histogram\n# UNIT {name} seconds\n")),
        "{text}"
    );
    let samples: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix("_bucket{le=\""))
        .collect();
    let buckets: Vec<(f64, u64)> = samples
        .iter()
        .map(|sample| {
            let (bound, count) = sample.split_once("\",core=\"0\"} ").expect("its core");
            (bound.parse().expect("a bound"), count.parse().expect("a count"))
        })
        .collect();
    assert_eq!(buckets.len(), 20);
    assert!(buckets.is_sorted(), "bounds and counts rise: {buckets:?}");
    let at = |bound: f64| {
        buckets
            .iter()
            .find(|(le, _)| *le == bound)
            .map(|(_, count)| *count)
    };
    let expected = [
        (0.00001, 1),
        (0.00005, 1),
        (0.0001, 2),
        (10.0, 2),
        (f64::INFINITY, 3),
    ];
    for (bound, count) in expected {
        assert_eq!(at(bound), Some(count), "up to {bound}: {buckets:?}");
    }
    assert!(
        samples.iter().any(|sample| sample.starts_with("+Inf\"")),
        "{text}"
    );
    for line in [
        "ropewalk_produce_latency_seconds_count{core=\"0\"} 3\n",
        "ropewalk_produce_latency_seconds_sum{core=\"0\"} 20.000079\n",
        "ropewalk_flush_latency_seconds_bucket{le=\"0.0005\",core=\"0\",journal=\"0\"} 2\n",
        "ropewalk_flush_latency_seconds_count{core=\"0\",journal=\"0\"} 4\n",
    ] {
        assert!(text.contains(line), "no {line:?} in:\n{text}");
    }
}

#[test]
fn what_is_not_known_is_missing_and_never_zero() {
    let text = render(Snapshot {
        process: None,
        ..snapshot(vec![Err(LATE)])
    });
    assert!(text.contains("ropewalk_core_up{core=\"0\"} 0\n"), "{text}");
    for absent in ["process", "topics", "disk_free", "requests", "journal"] {
        assert!(
            !text.contains(&format!("ropewalk_{absent}")),
            "{absent} in:\n{text}"
        );
    }
}

#[test]
fn a_refusing_journal_shows_why() {
    let dead = JournalFigures {
        refusal: Some(AppendRefusal::JournalDead("flush failed".into())),
        ..journal(0)
    };
    // A full disk shows, also where appends are refused for another reason.
    let full = JournalFigures {
        refusal: Some(AppendRefusal::Starting),
        disk_full: true,
        ..journal(1)
    };
    let text = render(snapshot(vec![Ok(core(vec![dead, full]))]));
    for line in [
        "ropewalk_journal_dead{core=\"0\",journal=\"0\"} 1\nropewalk_journal_dead{core=\"0\",journal=\"1\"} 0\n",
        "ropewalk_disk_full{core=\"0\",journal=\"0\"} 0\nropewalk_disk_full{core=\"0\",journal=\"1\"} 1\n",
    ] {
        assert!(text.contains(line), "no {line:?} in:\n{text}");
    }
}

#[test]
fn a_silent_core_ails_and_a_refusing_journal_only_hinders() {
    let well = snapshot(vec![Ok(core(vec![journal(0)]))]);
    assert_eq!((well.ailments(), well.hindrances()), (vec![], vec![]));

    let stopping = JournalFigures {
        refusal: Some(AppendRefusal::Stopping),
        ..journal(0)
    };
    let ill = snapshot(vec![Ok(core(vec![stopping])), Err(LATE), Err(Silence::Gone)]);
    let ailments = [
        "core 1 has not answered within 2s",
        "core 2 is not running any more",
    ];
    assert_eq!(ill.ailments(), ailments);
    assert_eq!(
        ill.hindrances(),
        [ailments[0], ailments[1], "journal 0: the node is stopping"]
    );
    assert!(render(ill).contains("ropewalk_ready 0\n"));
}

#[test]
fn a_node_that_drains_is_well_and_not_ready() {
    let draining = CoreFigures {
        draining: true,
        ..core(vec![journal(0)])
    };
    // Once, however many cores say so.
    let both = snapshot(vec![Ok(draining.clone()), Ok(draining.clone())]);
    assert_eq!(both.hindrances(), ["the node is draining"]);
    assert_eq!(both.ailments(), Vec::<String>::new());
    let one = snapshot(vec![Ok(core(vec![])), Ok(draining)]);
    assert_eq!(one.hindrances(), ["the node is draining"]);
}

#[test]
fn a_coordinator_that_has_failed_shows_and_hinders() {
    let closed = CoreFigures {
        closed_coordinators: vec![ClosedCoordinator {
            topic: GROUPS_TOPIC,
            partition: 3,
            reason: "their log cannot be read: a chunk is damaged".into(),
        }],
        ..core(vec![journal(0)])
    };
    let snapshot = snapshot(vec![Ok(core(vec![journal(1)])), Ok(closed)]);
    assert_eq!(snapshot.ailments(), Vec::<String>::new());
    assert_eq!(
        snapshot.hindrances(),
        ["the groups of __consumer_offsets-3 are not served: their log cannot be read: a chunk is damaged"]
    );
    let text = render(snapshot);
    let lines = "ropewalk_closed_coordinators{core=\"0\"} 0\nropewalk_closed_coordinators{core=\"1\"} 1\n";
    assert!(text.contains(lines), "{text}");
}

/// Runs `ask` on a runtime as the HTTP thread has it.
fn on_runtime<T>(ask: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(ask)
}

fn gatherer(mailboxes: Mailboxes, answer_wait: Duration) -> Gatherer {
    let http = Arc::new(HttpCounters::default());
    Gatherer::new(mailboxes, Arc::new(ManualClock::new(0)), http, 0, answer_wait)
}

#[test]
fn a_hanging_core_is_asked_once_by_many() {
    let (senders, mut receivers) = mailboxes(2);
    let gatherer = gatherer(senders, Duration::from_millis(1));
    on_runtime(async {
        let (first, second) = tokio::join!(gatherer.gather(), gatherer.gather());
        let third = gatherer.gather().await;
        for snapshot in [first, second, third] {
            let outcomes = snapshot
                .cores
                .iter()
                .map(|core| core.outcome.as_ref().err().copied());
            let late = Some(Silence::Late(Duration::from_millis(1)));
            assert_eq!(outcomes.collect::<Vec<_>>(), [late, late]);
        }
    });
    for receiver in &mut receivers {
        assert!(receiver.try_recv().is_ok(), "it was asked");
        assert!(receiver.try_recv().is_err(), "and only once");
    }
}

#[test]
fn a_core_that_is_gone_is_asked_anew_and_does_not_delay() {
    let (senders, receivers) = mailboxes(1);
    drop(receivers);
    // Longer than any test: an answer can only come from the closed mailbox.
    let gatherer = gatherer(senders, Duration::from_secs(3_600));
    on_runtime(async {
        for _ in 0..2 {
            let snapshot = gatherer.gather().await;
            assert_eq!(snapshot.ailments(), ["core 0 is not running any more"]);
        }
    });
}
