//! Records that have outlived their topic's retention go, and no others do.

use kafka_wire::ErrorCode;

use crate::support::{TestNode, batch, eventually, now_ms};

const HOUR_MS: i64 = 3_600_000;

#[test]
fn old_records_go_at_the_next_look() {
    let node = TestNode::start_with(&[("retention.check_interval", "10ms")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[("retention.ms", "60000")]);
    wire.create_topic("kept", 1, &[("retention.ms", "-1")]);
    let old = now_ms() - HOUR_MS;
    assert_eq!(wire.produce("kept", 0, batch(&[(old, "kept")])).error_code, 0);
    for index in 0..2 {
        for (time, value) in [(old, "old"), (old + 1, "old as well"), (now_ms(), "new")] {
            assert_eq!(
                wire.produce("orders", index, batch(&[(time, value)])).error_code,
                0
            );
        }
        eventually("the old records go", || {
            wire.fetch("orders", index, 1).error_code == ErrorCode::OffsetOutOfRange.code()
        });
        let left = wire.read_all("orders", index, 2);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].value.as_deref(), Some(&b"new"[..]));
        assert_eq!(wire.fetch("orders", index, 2).log_start_offset, 2);
    }
    assert_eq!(wire.read_all("kept", 0, 0).len(), 1);
    eventually("what has gone is counted", || {
        node.metric("ropewalk_retention_records_total") == 4
    });
    let metrics = node.get("/metrics");
    let by_size = metrics.lines().filter(|line| {
        line.starts_with("ropewalk_retention_records_total{") && line.contains("retention.bytes")
    });
    assert!(by_size.clone().count() > 0 && by_size.clone().all(|line| line.ends_with(" 0")));
    assert!(node.metric("ropewalk_retention_trims_total") >= 2);
}

#[test]
fn a_restart_of_a_quiet_node_is_no_jump_of_the_clock_and_a_start_long_after_the_last_run_is() {
    let looks = [("retention.check_interval", "10ms")];
    let node = TestNode::start_with(&looks);
    let mut wire = node.connect();
    let old = now_ms() - 2 * HOUR_MS;
    // The newest that is stored is two hours old.
    wire.create_topic("kept", 1, &[("retention.ms", "-1")]);
    assert_eq!(wire.produce("kept", 0, batch(&[(old, "kept")])).error_code, 0);
    wire.create_topic("orders", 1, &[("retention.ms", "60000")]);
    eventually("the time is stored", || {
        node.directory().join("clock.toml").exists()
    });
    let node = node.restart_with(&looks, |_| ());
    let mut wire = node.connect();
    assert_eq!(wire.produce("orders", 0, batch(&[(old, "old")])).error_code, 0);
    eventually("the old record goes", || {
        wire.fetch("orders", 0, 0).error_code == ErrorCode::OffsetOutOfRange.code()
    });
    assert_eq!(node.metric("ropewalk_clock_held"), 0);
    let node = node.restart_with(&looks, |directory| {
        let stored = format!("last_ran_ms = {}\n", now_ms() - 2 * HOUR_MS);
        std::fs::write(directory.join("clock.toml"), stored).expect("the directory can be written");
    });
    let mut wire = node.connect();
    eventually("the clock is not believed", || {
        node.metric("ropewalk_clock_held") > 0
    });
    assert_eq!(wire.produce("orders", 0, batch(&[(old, "stays")])).error_code, 0);
    assert_eq!(wire.read_all("orders", 0, 1).len(), 1);
}
