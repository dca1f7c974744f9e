//! Transactions over HTTP are those of Kafka's clients: listed, described and aborted, and told by the partitions that wait for them.

use kafka_wire::add_partitions_to_txn::AddPartitionsToTxnTopic;
use kafka_wire::{
    AddPartitionsToTxnRequest, EndTxnRequest, ErrorCode, FindCoordinatorRequest, FindCoordinatorResponse,
    InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, Text,
};
use record::{BatchBuilder, Compression};
use serde_json::{Value, json};

use crate::client::{Answer, Http};
use crate::refusals::expect;
use crate::support::{TestNode, Wire, eventually, now_ms, produce_request};

const OF_PARTITION: &str = "/v1/topics/orders/partitions/1/transactions";
/// The type of coordinators that transactions have.
const OF_TRANSACTIONS: i8 = 1;
const TIMEOUT_MS: i32 = 60_000;

/// A producer with a transactional id, as clients before transaction version 2 are.
struct Producer {
    id: Text,
    producer: (i64, i16),
    sequence: i32,
}

impl Producer {
    /// Takes an id over, on a connection with its coordinator.
    fn begin(wire: &mut Wire, id: &str) -> Producer {
        let init = InitProducerIdRequest {
            transactional_id: Some(id.into()),
            transaction_timeout_ms: TIMEOUT_MS,
            ..InitProducerIdRequest::default()
        };
        let mut told = InitProducerIdResponse::default();
        eventually("the coordinator has read its log", || {
            told = wire.call(5, &init);
            told.error_code == 0
        });
        Producer {
            id: id.into(),
            producer: (told.producer_id, told.producer_epoch),
            sequence: 0,
        }
    }

    /// Adds a partition to the transaction, on a connection with its coordinator.
    fn add(&self, wire: &mut Wire, topic: &str, index: i32) {
        let (producer, epoch) = self.producer;
        let add = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id.clone(),
            v3_and_below_producer_id: producer,
            v3_and_below_producer_epoch: epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: topic.into(),
                partitions: vec![index],
            }],
            ..AddPartitionsToTxnRequest::default()
        };
        let told = wire.call(3, &add);
        let code = told.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code;
        assert_eq!(code, 0);
    }

    /// Appends a record in the transaction, on a connection with the partition's leader.
    fn append(&mut self, wire: &mut Wire, topic: &str, index: i32) -> i64 {
        let (producer, epoch) = self.producer;
        let mut batch = BatchBuilder::new(Compression::None).with_producer(producer, epoch, self.sequence);
        batch.set_transactional(true);
        batch.append(now_ms(), None, Some(b"x"), &[]);
        self.sequence += 1;
        let request = ProduceRequest {
            transactional_id: Some(self.id.clone()),
            ..produce_request(topic, index, batch.build(), -1)
        };
        let told = wire.call(11, &request);
        let of_partition = &told.responses[0].partition_responses[0];
        assert_eq!(of_partition.error_code, 0);
        of_partition.base_offset
    }

    /// Ends the transaction; gives the error.
    fn end(&self, wire: &mut Wire, committed: bool) -> i16 {
        let (producer_id, producer_epoch) = self.producer;
        let end = EndTxnRequest {
            transactional_id: self.id.clone(),
            producer_id,
            producer_epoch,
            committed,
        };
        wire.call(3, &end).error_code
    }
}

/// The node that coordinates an id. The first who asks makes the topic.
fn coordinator_of(wire: &mut Wire, id: &str) -> i32 {
    let find = FindCoordinatorRequest {
        key: id.into(),
        key_type: OF_TRANSACTIONS,
        ..FindCoordinatorRequest::default()
    };
    let mut node = None;
    eventually("there is a coordinator", || {
        let told: FindCoordinatorResponse = wire.call(3, &find);
        node = (told.error_code == 0).then_some(told.node_id);
        node.is_some()
    });
    node.expect("it was told")
}

/// Has an id begin a transaction of the first partition of a topic, with nothing in it.
pub(crate) fn open_transaction(wire: &mut Wire, id: &str, topic: &str) {
    coordinator_of(wire, id);
    Producer::begin(wire, id).add(wire, topic, 0);
}

fn start() -> (TestNode, Http) {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("orders", 3);
    (node, http)
}

fn ok(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn abort(http: &Http, id: &str) -> Answer {
    http.send("POST", &format!("/v1/transactions/{id}/abort"), &[], b"")
}

fn ids(list: &Value) -> Vec<String> {
    let transactions = list["transactions"].as_array().expect("a list");
    let ids = transactions.iter().map(|one| one["id"].as_str());
    ids.map(|id| id.expect("an id").to_owned()).collect()
}

#[test]
fn transactions_are_listed_described_and_aborted() {
    let (node, http) = start();
    let none = json!({ "transactions": [], "next": null, "missing_nodes": [] });
    assert_eq!(ok(&http.get("/v1/transactions")), none);
    expect(
        &http.get("/v1/transactions/nobody"),
        404,
        "unknown-transaction",
        "nobody",
    );
    let mut wire = node.connect();
    let own = coordinator_of(&mut wire, "payments-1");
    let mut producer = Producer::begin(&mut wire, "payments-1");
    let idle = Producer::begin(&mut wire, "reports");
    assert_eq!(ok(&http.get("/v1/transactions/reports"))["start_ms"], Value::Null);
    let before_ms = now_ms();
    producer.add(&mut wire, "orders", 1);
    producer.add(&mut wire, "orders", 2);
    assert_eq!(producer.append(&mut wire, "orders", 1), 0);
    assert_eq!(producer.append(&mut wire, "orders", 1), 1);

    let list = ok(&http.get("/v1/transactions"));
    assert_eq!(ids(&list), ["payments-1", "reports"]);
    let mut open = list["transactions"][0].clone();
    let start_ms = open["start_ms"].take().as_i64().expect("it has begun");
    let open_ms = open["open_ms"].take().as_i64().expect("it is open");
    let now = now_ms();
    assert!((before_ms..=now).contains(&start_ms) && (0..=now - before_ms).contains(&open_ms));
    let (producer_id, producer_epoch) = producer.producer;
    let expected = json!({
        "id": "payments-1", "state": "Ongoing", "producer_id": producer_id, "producer_epoch": producer_epoch,
        "coordinator": own, "timeout_ms": TIMEOUT_MS, "start_ms": null, "open_ms": null, "partition_count": 2,
    });
    assert_eq!(open, expected);
    let described = ok(&http.get("/v1/transactions/payments-1"));
    let places = json!([{ "topic": "orders", "partition": 1 }, { "topic": "orders", "partition": 2 }]);
    assert_eq!(described["partitions"], places);

    let of_partition = ok(&http.get(OF_PARTITION));
    assert_eq!(
        (&of_partition["stable"], &of_partition["tail"]),
        (&json!(0), &json!(2))
    );
    let told = &of_partition["transactions"][0];
    assert_eq!(
        (&told["first_offset"], &told["producer_id"]),
        (&json!(0), &json!(producer_id))
    );
    assert_eq!(
        (&told["is_hanging"], &told["transaction"]["id"]),
        (&json!(false), &json!("payments-1"))
    );
    assert!(told["last_timestamp_ms"].as_i64() >= Some(before_ms));
    // Nothing was written to this one, and so nobody waits.
    let unwritten = ok(&http.get("/v1/topics/orders/partitions/2/transactions"));
    assert_eq!(unwritten["transactions"], json!([]));

    let aborted = ok(&abort(&http, "payments-1"));
    assert_eq!(
        (&aborted["state"], &aborted["open_ms"]),
        (&json!("CompleteAbort"), &Value::Null)
    );
    assert_eq!(aborted["producer_epoch"], producer_epoch + 1);
    let fenced = [
        ErrorCode::ProducerFenced.code(),
        ErrorCode::InvalidProducerEpoch.code(),
    ];
    assert!(
        fenced.contains(&producer.end(&mut wire, true)),
        "its producer is fenced"
    );
    let after = ok(&http.get(OF_PARTITION));
    assert_eq!(
        (&after["stable"], &after["transactions"]),
        (&after["tail"], &json!([]))
    );
    // Another one begins anew.
    let next = Producer::begin(&mut wire, "payments-1");
    assert_eq!(next.producer, (producer_id, producer_epoch + 2));
    assert_eq!(idle.end(&mut wire, true), ErrorCode::InvalidTxnState.code());
}

#[test]
fn lists_are_filtered_and_come_in_pages() {
    let (node, http) = start();
    let mut wire = node.connect();
    coordinator_of(&mut wire, "a");
    for (at, id) in ["a-1", "a-2", "b &é", "c", "d"].into_iter().enumerate() {
        let producer = Producer::begin(&mut wire, id);
        if at % 2 == 0 {
            producer.add(&mut wire, "orders", at as i32 / 2);
        }
    }
    let listed = |query: &str| ids(&ok(&http.get(&format!("/v1/transactions?{query}"))));
    assert_eq!(listed(""), ["a-1", "a-2", "b &é", "c", "d"]);
    assert_eq!(listed("state=Ongoing"), ["a-1", "b &é", "d"]);
    assert_eq!(listed("state=Empty,PrepareCommit"), ["a-2", "c"]);
    assert_eq!(listed("prefix=a-"), ["a-1", "a-2"]);
    assert_eq!(listed("prefix=b%20%26&state=Ongoing"), ["b &é"]);
    assert_eq!(listed("open_ms=0"), ["a-1", "b &é", "d"]);
    assert_eq!(listed("open_ms=3600000"), [""; 0]);
    assert_eq!(listed("partition=orders:1"), ["b &é"]);
    let first = ok(&http.get("/v1/transactions?limit=3"));
    assert_eq!((ids(&first).len(), &first["next"]), (3, &"b &é".into()));
    let rest = ok(&http.get("/v1/transactions?limit=3&after=b%20%26%C3%A9"));
    assert_eq!(
        (ids(&rest), &rest["next"]),
        (vec!["c".to_owned(), "d".to_owned()], &Value::Null)
    );
    assert_eq!(
        ok(&http.get("/v1/transactions/b%20%26%C3%A9"))["state"],
        "Ongoing"
    );
    for (query, status, kind, word) in [
        ("state=Open", 400, "malformed-query", "Ongoing, PrepareCommit"),
        ("open_ms=soon", 400, "malformed-query", "open_ms"),
        ("partition=orders", 400, "malformed-query", "TOPIC:PARTITION"),
        ("partition=nothing:0", 404, "unknown-topic", "nothing"),
        ("partition=orders:9", 404, "unknown-partition", "9"),
        ("producer=7", 400, "malformed-query", "not known"),
    ] {
        expect(
            &http.get(&format!("/v1/transactions?{query}")),
            status,
            kind,
            word,
        );
    }
}

#[test]
fn what_is_not_open_or_does_not_hang_is_not_aborted() {
    let (node, http) = start();
    expect(&abort(&http, "nobody"), 404, "unknown-transaction", "nobody");
    let mut wire = node.connect();
    coordinator_of(&mut wire, "x");
    let mut producer = Producer::begin(&mut wire, "x");
    expect(&abort(&http, "x"), 409, "transaction-not-open", "Empty");
    producer.add(&mut wire, "orders", 1);
    producer.append(&mut wire, "orders", 1);
    let hanging = |offset: &str| http.send("POST", &format!("{OF_PARTITION}/{offset}/abort"), &[], b"");
    let refused = hanging("0");
    expect(&refused, 409, "transaction-not-hanging", "\"x\"");
    assert_eq!(refused.json()["transaction"], "x");
    for elsewhere in ["1", "-1", "first"] {
        expect(&hanging(elsewhere), 409, "transaction-not-open", elsewhere);
    }
    expect(
        &http.get(&format!("{OF_PARTITION}?after=first")),
        400,
        "malformed-query",
        "offset",
    );
    assert_eq!(producer.end(&mut wire, true), 0);
    eventually("it is committed", || {
        ok(&http.get("/v1/transactions/x"))["state"] == "CompleteCommit"
    });
    expect(&abort(&http, "x"), 409, "transaction-not-open", "CompleteCommit");
    expect(&hanging("0"), 409, "transaction-not-open", "0");
}

#[test]
fn metrics_tell_what_is_open_and_what_has_ended() {
    let (node, http) = start();
    let mut wire = node.connect();
    coordinator_of(&mut wire, "x");
    let mut producer = Producer::begin(&mut wire, "x");
    producer.add(&mut wire, "orders", 1);
    producer.append(&mut wire, "orders", 1);
    let mut other = Producer::begin(&mut wire, "y");
    other.add(&mut wire, "orders", 0);
    other.append(&mut wire, "orders", 0);
    for (name, value) in [
        ("ropewalk_transactional_ids", 2),
        ("ropewalk_open_transactions", 2),
        ("ropewalk_transactions_committed_total", 0),
        ("ropewalk_verifications_total", 2),
        ("ropewalk_refused_verifications_total", 0),
    ] {
        assert_eq!(node.metric(name), value, "{name}");
    }
    let waits = || {
        let text = node.get("/metrics");
        let lines = text.lines().map(str::to_owned);
        let of_topic = lines.filter(|line| line.starts_with("ropewalk_topic_unstable_records{"));
        of_topic
            .filter(|line| line.ends_with("topic=\"orders\"} 1"))
            .count()
    };
    assert!(waits() > 0, "readers wait");
    assert_eq!(producer.end(&mut wire, true), 0);
    ok(&abort(&http, "y"));
    eventually("nothing is open any more", || {
        node.metric("ropewalk_open_transactions") == 0 && node.metric("ropewalk_waiting_markers") == 0
    });
    for (name, value) in [
        ("ropewalk_transactions_committed_total", 1),
        ("ropewalk_transactions_aborted_total", 1),
        ("ropewalk_transactions_timed_out_total", 0),
    ] {
        assert_eq!(node.metric(name), value, "{name}");
    }
    assert_eq!(waits(), 0);
}

/// The number of records in a read of partition 0, and where the next one begins.
fn read(http: &Http, query: &str) -> (usize, i64) {
    let page = ok(&http.get(&format!("/v1/topics/orders/partitions/0/records?{query}")));
    let count = page["records"].as_array().expect("a list").len();
    (count, page["next_offset"].as_i64().expect("an offset"))
}

#[test]
fn reads_show_committed_records_unless_told_otherwise() {
    let (node, http) = start();
    let mut wire = node.connect();
    coordinator_of(&mut wire, "payments-1");
    let mut producer = Producer::begin(&mut wire, "payments-1");
    producer.add(&mut wire, "orders", 0);
    assert_eq!(producer.append(&mut wire, "orders", 0), 0);

    assert_eq!(read(&http, ""), (0, 0), "it is open");
    assert_eq!(read(&http, "isolation=committed"), (0, 0));
    assert_eq!(read(&http, "isolation=uncommitted"), (1, 1));
    assert_eq!(read(&http, "offset=latest"), (0, 0), "it may be committed yet");
    assert_eq!(read(&http, "offset=latest&isolation=uncommitted"), (0, 1));
    let bad = http.get("/v1/topics/orders/partitions/0/records?isolation=some");
    expect(&bad, 400, "malformed-query", "isolation");

    assert_eq!(producer.end(&mut wire, false), 0);
    eventually("its marker is there", || read(&http, "").1 == 2);
    assert_eq!(read(&http, ""), (0, 2), "it was aborted");
    assert_eq!(read(&http, "isolation=uncommitted"), (1, 2));
    assert_eq!(read(&http, "offset=latest"), (0, 2));
}

#[test]
fn transactions_are_at_every_node() {
    let own = [("peer.listen", "127.0.0.1:0"), ("cluster.default_replicas", "1")];
    let first = TestNode::start_with(&own);
    let peers = first.peer_address().to_string();
    let join = [("cluster.join", peers.as_str())];
    let second = TestNode::start_with(&[&own[..], &join].concat());
    let third = TestNode::start_with(&[&own[..], &join].concat());
    let mut nodes = [first, second, third];
    let https = nodes.each_ref().map(Http::of);
    https[0].create("orders", 3);
    eventually("every node knows the topic", || {
        let knows = |http: &Http| http.get("/v1/topics/orders").status == 200;
        https.iter().all(knows)
    });
    let mut wires = nodes.each_ref().map(TestNode::connect);
    let names: Vec<String> = (0..9).map(|number| format!("id-{number}")).collect();
    let mut coordinators = Vec::new();
    for name in &names {
        let node = coordinator_of(&mut wires[0], name);
        let wire = &mut wires[usize::try_from(node).expect("a number") - 1];
        let mut producer = Producer::begin(wire, name);
        producer.add(wire, "orders", 2);
        coordinators.push(node);
        // Node 3 leads the partition.
        producer.append(&mut wires[2], "orders", 2);
    }
    assert!(
        [1, 2].iter().all(|node| coordinators.contains(node)),
        "{coordinators:?}"
    );
    let of_partition = "/v1/topics/orders/partitions/2/transactions";
    for http in &https {
        let list = ok(&http.get("/v1/transactions?partition=orders:2"));
        assert_eq!((ids(&list), &list["missing_nodes"]), (names.clone(), &json!([])));
        let (mut told, mut next) = (Vec::new(), Some(String::new()));
        while let Some(after) = next {
            let page = ok(&http.get(&format!("/v1/transactions?limit=2&after={after}")));
            told.extend(ids(&page));
            next = page["next"].as_str().map(str::to_owned);
        }
        assert_eq!(told, names);
        let open = ok(&http.get(of_partition));
        let open = open["transactions"].as_array().expect("a list");
        assert_eq!(open.len(), 9);
        assert!(open.iter().all(|one| one["is_hanging"] == false), "{open:?}");
    }
    // Any node has them aborted.
    for (name, http) in names.iter().zip(https.iter().cycle()).take(6) {
        let aborted = ok(&abort(http, name));
        assert_eq!(aborted["state"], "CompleteAbort", "{aborted}");
        assert_eq!(ok(&https[2].get(&format!("/v1/transactions/{name}"))), aborted);
    }
    let second = std::mem::replace(&mut nodes[1], TestNode::start());
    drop(second);
    eventually("its absence is seen", || {
        ok(&https[0].get("/v1/transactions"))["missing_nodes"] == json!([2])
    });
    let mut open = Value::Null;
    eventually("who coordinates what it did has read its logs", || {
        open = ok(&https[0].get(of_partition));
        open["missing_nodes"] == json!([2])
    });
    for one in open["transactions"].as_array().expect("a list") {
        let is_known = one["transaction"].is_object();
        assert_eq!(
            one["is_hanging"],
            if is_known { json!(false) } else { Value::Null }
        );
        let path = format!("{of_partition}/{}/abort", one["first_offset"]);
        let refused = https[0].send("POST", &path, &[], b"");
        match is_known {
            true => expect(&refused, 409, "transaction-not-hanging", "node"),
            // The coordinator may have come to a node that is there since the look.
            false if refused.status == 409 => {
                expect(&refused, 409, "transaction-not-hanging", "node");
            }
            false => expect(&refused, 503, "unavailable", "not known"),
        }
    }
}
