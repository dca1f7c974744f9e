//! A connection of a Kafka client: frames as they are given, and what tests ask again and again.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

use bytes::Bytes;
use kafka_wire::create_topics::{CreatableTopic, CreatableTopicConfig};
use kafka_wire::fetch::PartitionData;
use kafka_wire::produce::PartitionProduceResponse;
use kafka_wire::{CreateTopicsRequest, Decode, Reader, Request, ResponseHeader, Text, Writer, frame_request};
use record::Record;
use socket2::{Domain, Socket, Type};

use super::{PATIENCE, creatable, fetch_request, produce_request, records_of};

/// One connection.
pub(crate) struct Wire {
    stream: TcpStream,
    writer: Writer,
    correlation_id: i32,
}

impl Wire {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr) -> Wire {
        Wire::over(TcpStream::connect(address).expect("the node listens"))
    }

    /// Connects as a client of another address, 127.0.0.`last`.
    pub(crate) fn connect_from(last: u8, address: SocketAddr) -> Wire {
        let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("the system has sockets");
        socket
            .bind(&source.into())
            .expect("all of 127.0.0.0/8 is this machine");
        socket.connect(&address.into()).expect("the node listens");
        Wire::over(socket.into())
    }

    fn over(stream: TcpStream) -> Wire {
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

    /// The same connection, for another thread to send on.
    pub(crate) fn another_end(&self) -> Wire {
        Wire {
            stream: self.stream.try_clone().expect("the system has descriptors"),
            writer: Writer::new(),
            correlation_id: self.correlation_id,
        }
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

    /// Says whether an answer has begun to come.
    pub(crate) fn has_answer(&self) -> bool {
        self.stream.set_nonblocking(true).expect("the stream is open");
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("the stream is open");
        peeked.is_ok()
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
            configs: configs.collect(),
            ..creatable(name, partitions)
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

    /// The values of all records, which are texts.
    pub(crate) fn read_values(&mut self, topic: &str, index: i32) -> Vec<String> {
        let values = self.read_all(topic, index, 0).into_iter();
        values
            .map(|record| record.value.unwrap_or_default().to_vec())
            .map(|value| String::from_utf8(value).expect("text"))
            .collect()
    }
}
