//! A node over a directory of its own, and a client that sends exactly the bytes it is told to.
//!
//! Nothing here is clever on the client's side: frames go out as they are given and come back whole, so that a test can
//! send what no sound client would.

mod flushes;
mod patience;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use kafka_wire::create_topics::{CreatableTopic, CreatableTopicConfig};
use kafka_wire::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData};
use kafka_wire::produce::{PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData};
use kafka_wire::{CreateTopicsRequest, Decode, Reader, Request, ResponseHeader, Text, Writer, frame_request};
use platform::disk::SimulatedDisk;
use record::{BatchBuilder, Compression, Limits, Record};
use server::config::Config;
use server::{Node, StartError};
use tempfile::TempDir;

pub(crate) use flushes::Flushes;
pub(crate) use patience::{PATIENCE, eventually};

/// A configuration for tests: two cores, small files, any free port.
pub(crate) fn config(directory: &Path, sets: &[(&str, &str)]) -> Config {
    let directory = directory
        .to_str()
        .expect("temporary directories have plain names");
    let own = [
        ("data", directory),
        ("cores", "2"),
        ("pin_threads", "false"),
        ("kafka.listen", "127.0.0.1:0"),
        ("http.listen", "127.0.0.1:0"),
        ("journal.file_bytes", "4MiB"),
        ("journal.bytes_max", "24MiB"),
        ("journal.layout_trigger", "8MiB"),
        ("disk.reserve_bytes", "0B"),
    ];
    let sets: Vec<(String, String)> = own
        .iter()
        .chain(sets)
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    Config::load(None, &sets, &[]).expect("the test's configuration is sound")
}

/// A running node and its directory.
pub(crate) struct TestNode {
    node: Option<Node>,
    directory: TempDir,
}

impl TestNode {
    /// A node over a new directory.
    pub(crate) fn start() -> TestNode {
        TestNode::start_with(&[])
    }

    /// The same with some keys set.
    pub(crate) fn start_with(sets: &[(&str, &str)]) -> TestNode {
        let directory = tempfile::tempdir().expect("there is room for a temporary directory");
        let node = Node::start(config(directory.path(), sets)).expect("the node starts");
        TestNode {
            node: Some(node),
            directory,
        }
    }

    /// A node over a simulated disk. Its directory stays empty.
    pub(crate) fn start_on(disk: &SimulatedDisk, sets: &[(&str, &str)]) -> TestNode {
        let directory = tempfile::tempdir().expect("there is room for a temporary directory");
        let config = config(directory.path(), sets);
        let node = Node::start_on(config, Arc::new(disk.clone())).expect("the node starts");
        TestNode {
            node: Some(node),
            directory,
        }
    }

    /// Drains the node and starts another over the same directory.
    pub(crate) fn restart(mut self) -> TestNode {
        self.stop();
        let node = Node::start(config(self.directory.path(), &[])).expect("the node starts again");
        TestNode {
            node: Some(node),
            directory: self.directory,
        }
    }

    /// Stops the node without draining and starts another over the same directory.
    pub(crate) fn kill_and_restart(mut self) -> TestNode {
        drop(self.node.take());
        let node = Node::start(config(self.directory.path(), &[])).expect("the node starts again");
        TestNode {
            node: Some(node),
            directory: self.directory,
        }
    }

    /// Drains the node.
    pub(crate) fn stop(&mut self) {
        let drained = self.node.take().expect("it runs").drain(PATIENCE);
        assert!(drained, "everything under way ends in time");
    }

    /// The data directory.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Tries to start one more node over the directory.
    pub(crate) fn start_another(&self, sets: &[(&str, &str)]) -> Result<Node, StartError> {
        Node::start(config(self.directory.path(), sets))
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.node.as_ref().expect("it runs").kafka_address()
    }

    /// Where HTTP is.
    pub(crate) fn http_address(&self) -> SocketAddr {
        self.node.as_ref().expect("it runs").http_address()
    }

    /// Status line, head and body of what the node answers over HTTP.
    pub(crate) fn get(&self, path: &str) -> String {
        http_get(self.http_address(), path)
    }

    /// A figure of the node by its name in /metrics, summed over its labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics");
        let of_name = |line: &&str| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        let value = |line: &str| {
            line.rsplit(' ')
                .next()
                .and_then(|value| value.parse::<u64>().ok())
        };
        text.lines()
            .filter(of_name)
            .map(|line| value(line).expect("a whole number"))
            .sum()
    }

    /// The node itself.
    pub(crate) fn take(&mut self) -> Node {
        self.node.take().expect("it runs")
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Wire {
        Wire::connect(self.address())
    }
}

/// Status line, head and body of what is answered over HTTP.
pub(crate) fn http_get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// One connection.
pub(crate) struct Wire {
    stream: TcpStream,
    writer: Writer,
    correlation_id: i32,
}

impl Wire {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr) -> Wire {
        let stream = TcpStream::connect(address).expect("the node listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("the timeout is not zero");
        stream.set_nodelay(true).expect("the stream is open");
        Wire {
            stream,
            writer: Writer::new(),
            correlation_id: 100,
        }
    }

    /// A request as one frame, with the next correlation id.
    pub(crate) fn frame<R: Request>(&mut self, version: i16, request: &R) -> Vec<u8> {
        self.correlation_id += 1;
        let client = Text::from_static("test");
        frame_request(
            &mut self.writer,
            version,
            self.correlation_id,
            Some(&client),
            request,
        )
        .joined()
        .to_vec()
    }

    /// Sends bytes as they are. A peer that has hung up already is no failure: what is read next tells.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a request and takes its answer.
    pub(crate) fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let frame = self.frame(version, request);
        self.send(&frame);
        let (correlation_id, response) = self.receive::<R>(version);
        assert_eq!(
            correlation_id, self.correlation_id,
            "the answer is to this request"
        );
        response
    }

    /// Takes the next answer and its correlation id.
    pub(crate) fn receive<R: Request>(&mut self, version: i16) -> (i32, R::Response) {
        let frame = self.receive_frame().expect("an answer comes");
        let mut reader = Reader::new(frame);
        let header = ResponseHeader::decode(&mut reader, R::API_KEY, version).expect("a sound header");
        let response = R::Response::decode(&mut reader, version).expect("a sound answer");
        assert_eq!(reader.remaining(), 0, "nothing follows the answer");
        (header.correlation_id, response)
    }

    /// Takes the next frame without its size; `None` if the node has hung up.
    pub(crate) fn receive_frame(&mut self) -> Option<Bytes> {
        let mut size = [0; 4];
        if !self.fill(&mut size) {
            return None;
        }
        let mut frame = vec![0; i32::from_be_bytes(size) as usize];
        assert!(self.fill(&mut frame), "the node hangs up between answers only");
        Some(Bytes::from(frame))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        match self.stream.read_exact(bytes) {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("nothing came within {PATIENCE:?}")
            }
            Err(_) => false,
        }
    }

    /// Waits until the node hangs up, and fails if it answers.
    pub(crate) fn expect_hang_up(&mut self) {
        assert!(
            self.receive_frame().is_none(),
            "the node hangs up without an answer"
        );
    }

    /// Says that nothing more will be sent. A peer that has hung up already is no failure here, either.
    pub(crate) fn finish_sending(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Creates a topic.
    pub(crate) fn create_topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
            name: (*name).into(),
            value: Some((*value).into()),
        });
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: -1,
            configs: configs.collect(),
            ..CreatableTopic::default()
        };
        let response = self.call(
            7,
            &CreateTopicsRequest {
                topics: vec![topic],
                ..CreateTopicsRequest::default()
            },
        );
        assert_eq!(
            response.topics[0].error_code, 0,
            "{:?}",
            response.topics[0].error_message
        );
    }

    /// Produces one batch and answers what became of it.
    pub(crate) fn produce(
        &mut self,
        topic: &str,
        index: i32,
        batch: impl Into<Bytes>,
    ) -> PartitionProduceResponse {
        let request = produce_request(topic, index, batch.into(), -1);
        let mut response = self.call(9, &request);
        response.responses.remove(0).partition_responses.remove(0)
    }

    /// Fetches from one offset on, waiting for nothing.
    pub(crate) fn fetch(&mut self, topic: &str, index: i32, from: i64) -> PartitionData {
        let mut response = self.call(12, &fetch_request(topic, index, from));
        response.responses.remove(0).partitions.remove(0)
    }

    /// All records from an offset on.
    pub(crate) fn read_all(&mut self, topic: &str, index: i32, from: i64) -> Vec<Record> {
        let mut from = from;
        let mut records = Vec::new();
        loop {
            let fetched = self.fetch(topic, index, from);
            assert_eq!(fetched.error_code, 0, "fetch from {from}");
            let found = records_of(&fetched);
            let Some(last) = found.last() else { return records };
            let next = last.offset.0 + 1;
            records.extend(found.into_iter().filter(|record| record.offset.0 >= from));
            from = next;
        }
    }
}

/// The records of a fetched partition.
pub(crate) fn records_of(fetched: &PartitionData) -> Vec<Record> {
    let bytes: Vec<u8> = fetched
        .records
        .chunks
        .iter()
        .flat_map(|chunk| chunk.iter().copied())
        .collect();
    let mut records = Vec::new();
    for batch in record::batches(&bytes) {
        let (_, batch) = batch.expect("whole batches");
        assert!(record::checksum_holds(batch), "a checksum that holds");
        records.extend(
            record::records(batch, &Limits::default())
                .expect("sound")
                .map(|record| record.expect("sound")),
        );
    }
    records
}

/// A Produce of one batch.
pub(crate) fn produce_request(topic: &str, index: i32, batch: Bytes, acks: i16) -> ProduceRequest {
    let partition = PartitionProduceData {
        index,
        records: Some(batch),
    };
    let topic = TopicProduceData {
        name: topic.into(),
        partition_data: vec![partition],
        ..TopicProduceData::default()
    };
    ProduceRequest {
        transactional_id: None,
        acks,
        timeout_ms: 30_000,
        topic_data: vec![topic],
    }
}

/// A Fetch of one partition that waits for nothing.
pub(crate) fn fetch_request(topic: &str, index: i32, from: i64) -> FetchRequest {
    let partition = FetchPartition {
        partition: index,
        fetch_offset: from,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    let topic = FetchTopic {
        topic: topic.into(),
        partitions: vec![partition],
        ..FetchTopic::default()
    };
    FetchRequest {
        max_bytes: 8 << 20,
        session_epoch: -1,
        topics: vec![topic],
        ..FetchRequest::default()
    }
}

/// A batch of these values, with one timestamp for each.
pub(crate) fn batch(records: &[(i64, &str)]) -> Bytes {
    compressed_batch(Compression::None, records)
}

/// The same, compressed.
pub(crate) fn compressed_batch(compression: Compression, records: &[(i64, &str)]) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    for (timestamp_ms, value) in records {
        builder.append(*timestamp_ms, None, Some(value.as_bytes()), &[]);
    }
    builder.build()
}

/// A batch of an idempotent producer.
pub(crate) fn stamped_batch(producer: i64, epoch: i16, first_sequence: i32, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(producer, epoch, first_sequence);
    for value in values {
        builder.append(now_ms(), None, Some(value.as_bytes()), &[]);
    }
    builder.build()
}

/// Now, as producers stamp it.
pub(crate) fn now_ms() -> i64 {
    use platform::clock::Clock;
    platform::clock::SystemClock::new().wall_ms()
}
