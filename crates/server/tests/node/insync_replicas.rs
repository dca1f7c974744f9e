//! `min.insync.replicas`: a partition that has fewer replicas than are wanted is written to all the same, as in Kafka. That
//! no fewer will do where there are more is for the leader's own tests.

use kafka_wire::ErrorCode;

use crate::ask::code;
use crate::ask::configs::{BROKER, TOPIC, set, told};
use crate::support::{TestNode, Wire, batch, now_ms, produce_request};

const CONFIG: &str = "min.insync.replicas";

/// The answer to a producer that waits for this number of replicas.
fn produce(wire: &mut Wire, topic: &str, acks: i16) -> (ErrorCode, String) {
    let request = produce_request(topic, 0, batch(&[(now_ms(), "x")]), acks);
    let told = wire.call(9, &request).responses.remove(0);
    let told = &told.partition_responses[0];
    (
        code(told.error_code),
        told.error_message.as_deref().unwrap_or_default().to_owned(),
    )
}

#[test]
fn who_waits_for_more_replicas_than_there_are_waits_for_those_that_there_are() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[(CONFIG, "2")]);
    wire.create_topic("events", 1, &[]);
    let done = (ErrorCode::None, String::new());
    for topic in ["orders", "events"] {
        for acks in [-1, 1] {
            assert_eq!(produce(&mut wire, topic, acks), done, "{topic}, acks={acks}");
        }
    }
    set(&mut wire, BROKER, "", CONFIG, "3");
    for topic in ["orders", "events"] {
        assert_eq!(produce(&mut wire, topic, -1), done, "{topic}");
        assert_eq!(wire.read_all(topic, 0, 0).len(), 3, "{topic}");
    }

    // The config stays, for when there are more.
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    for (topic, wanted) in [("orders", "2"), ("events", "3")] {
        assert_eq!(produce(&mut wire, topic, -1), done, "{topic}");
        assert_eq!(wire.read_all(topic, 0, 0).len(), 4, "{topic}");
        assert_eq!(told(&mut wire, TOPIC, topic, CONFIG).0, wanted);
    }
}
