//! The figures that a node counts of its clients' work: by topic, and by error.

use kafka_wire::{DeleteTopicsRequest, ErrorCode};

use crate::support::{TestNode, batch, eventually, now_ms};

/// One line of the metrics of a node with one core.
fn line(name: &str, labels: &str, value: u64) -> String {
    format!("\nropewalk_{name}{{core=\"0\",{labels}}} {value}\n")
}

#[test]
fn the_first_topics_that_are_used_are_counted_each_and_the_rest_together() {
    let node = TestNode::start_with(&[("cores", "1"), ("metrics.topics_max", "2")]);
    let mut wire = node.connect();
    let sound = batch(&[(now_ms(), "one"), (now_ms(), "two")]);
    let bytes = sound.len() as u64;
    for topic in ["never-used", "orders", "bills", "late", "later"] {
        wire.create_topic(topic, 2, &[]);
    }
    for (topic, index) in [
        ("orders", 0),
        ("orders", 1),
        ("bills", 0),
        ("late", 0),
        ("later", 1),
    ] {
        assert_eq!(wire.produce(topic, index, sound.clone()).error_code, 0);
    }
    let mut torn = sound.to_vec();
    torn[30] ^= 1;
    assert_ne!(wire.produce("orders", 1, torn).error_code, 0);
    assert_eq!(wire.read_all("orders", 1, 0).len(), 2);

    let metrics = node.get("/metrics");
    let appended = |topic: &str, batches: u64| {
        let topic = format!("topic=\"{topic}\"");
        [
            line("topic_appended_records_total", &topic, 2 * batches),
            line("topic_appended_bytes_total", &topic, batches * bytes),
        ]
    };
    let expected = [
        appended("orders", 2),
        appended("bills", 1),
        appended("(others)", 2),
    ];
    for line in expected.as_flattened() {
        assert!(metrics.contains(line), "no {line:?} in:\n{metrics}");
    }
    let of_orders = [
        line("topic_failed_appends_total", "topic=\"orders\"", 1),
        line("topic_read_bytes_total", "topic=\"orders\"", bytes),
    ];
    for line in of_orders {
        assert!(metrics.contains(&line), "no {line:?} in:\n{metrics}");
    }
    for absent in ["never-used", "\"late\"", "__cluster_metadata"] {
        assert!(!metrics.contains(absent), "{absent} in:\n{metrics}");
    }
}

#[test]
fn a_deleted_topic_makes_place_for_another() {
    let node = TestNode::start_with(&[("cores", "1"), ("metrics.topics_max", "1")]);
    let mut wire = node.connect();
    let batch = || batch(&[(now_ms(), "value")]);
    wire.create_topic("first", 3, &[]);
    for index in 0..3 {
        assert_eq!(wire.produce("first", index, batch()).error_code, 0);
    }
    let request = DeleteTopicsRequest {
        topic_names: vec!["first".into()],
        timeout_ms: 10_000,
        ..DeleteTopicsRequest::default()
    };
    assert_eq!(wire.call(5, &request).responses[0].error_code, 0);
    eventually("the topic is not told of any more", || {
        !node.get("/metrics").contains("topic=\"first\"")
    });
    wire.create_topic("second", 1, &[]);
    assert_eq!(wire.produce("second", 0, batch()).error_code, 0);
    let expected = line("topic_appended_records_total", "topic=\"second\"", 1);
    assert!(node.get("/metrics").contains(&expected));
}

#[test]
fn answers_with_an_error_are_counted_by_what_was_asked_for_and_the_error() {
    let node = TestNode::start_with(&[("cores", "1")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    for _ in 0..3 {
        let answer = wire.fetch("orders", 7, 0);
        assert_eq!(answer.error_code, ErrorCode::UnknownTopicOrPartition.code());
    }
    let answer = wire.produce("orders", 0, "no batch");
    let refusal = ErrorCode::from_code(answer.error_code).expect("one of Kafka's");
    assert_eq!(
        wire.produce("orders", 0, batch(&[(now_ms(), "sound")]))
            .error_code,
        0
    );
    let metrics = node.get("/metrics");
    let refused = format!("api=\"Produce\",error=\"{}\"", refusal.name());
    for line in [
        line(
            "api_errors_total",
            "api=\"Fetch\",error=\"UNKNOWN_TOPIC_OR_PARTITION\"",
            3,
        ),
        line("api_errors_total", &refused, 1),
    ] {
        assert!(metrics.contains(&line), "no {line:?} in:\n{metrics}");
    }
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("ropewalk_api_errors_total{"));
    assert_eq!(lines.count(), 2, "{metrics}");
}
