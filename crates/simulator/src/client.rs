//! A Kafka client for simulations: one connection, requests out, answers in their order, and a patience after which it is given up.
//!
//! Versions are fixed: what they mean is tried elsewhere.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::{ApiKey, Decode, Reader, Request, ResponseHeader, Text, Writer, frame_request};
use platform::net::{Net, ReadHalf, WriteHalf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// How long an answer may take before the connection is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// The version in which requests of an API are sent.
fn version_of(api: ApiKey) -> i16 {
    match api {
        ApiKey::Produce => 9,
        ApiKey::Fetch => 12,
        ApiKey::ListOffsets => 6,
        ApiKey::OffsetCommit => 8,
        ApiKey::JoinGroup => 7,
        ApiKey::SyncGroup => 5,
        ApiKey::Heartbeat | ApiKey::LeaveGroup => 4,
        ApiKey::OffsetFetch | ApiKey::CreateTopics => 7,
        ApiKey::DeleteTopics => 5,
        ApiKey::Metadata => 9,
        ApiKey::InitProducerId => 4,
        ApiKey::DeleteRecords | ApiKey::ElectLeaders => 2,
        ApiKey::IncrementalAlterConfigs | ApiKey::AlterPartitionReassignments => 1,
        ApiKey::ListPartitionReassignments => 0,
        ApiKey::FindCoordinator => 4,
        other => unreachable!("the simulation sends no {other:?}"),
    }
}

/// One connection.
pub(crate) struct Client {
    input: ReadHalf,
    output: WriteHalf,
    writer: Writer,
    next_correlation_id: i32,
    /// Requests that wait for an answer: number, API and version.
    in_flight: VecDeque<(i32, ApiKey, i16)>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens, or nobody answers.
    pub(crate) async fn connect(net: &Arc<dyn Net>, address: SocketAddr) -> io::Result<Client> {
        let (input, output) = net.connect(address).await?.split();
        Ok(Client {
            input,
            output,
            writer: Writer::new(),
            next_correlation_id: 0,
            in_flight: VecDeque::new(),
        })
    }

    /// Sends a request in its usual version.
    ///
    /// # Errors
    /// The connection is over.
    pub(crate) async fn send<R: Request>(&mut self, request: &R) -> io::Result<()> {
        self.send_as(version_of(R::API_KEY), request).await
    }

    async fn send_as<R: Request>(&mut self, version: i16, request: &R) -> io::Result<()> {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id += 1;
        let client_id = Text::from("simulated");
        let frame = frame_request(
            &mut self.writer,
            version,
            correlation_id,
            Some(&client_id),
            request,
        );
        self.in_flight.push_back((correlation_id, R::API_KEY, version));
        for chunk in &frame.chunks {
            let written = timeout(PATIENCE, self.output.write_all(chunk)).await;
            written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        }
        Ok(())
    }

    /// Takes note that the request sent last is not answered.
    pub(crate) fn expect_no_answer(&mut self) {
        self.in_flight.pop_back();
    }

    /// The answer to the oldest request that waits for one.
    ///
    /// # Errors
    /// The connection is over, or the answer does not come.
    pub(crate) async fn receive<R: Request>(&mut self) -> io::Result<R::Response> {
        let (correlation_id, api, version) = self.in_flight.pop_front().expect("a request waits");
        let frame = timeout(PATIENCE, self.frame()).await;
        let frame = frame.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let mut reader = Reader::new(frame);
        let header =
            ResponseHeader::decode(&mut reader, api, version).expect("an answer of the node is sound");
        assert_eq!(
            header.correlation_id, correlation_id,
            "answers come in the order of their requests"
        );
        Ok(R::Response::decode(&mut reader, version).expect("an answer of the node is sound"))
    }

    async fn frame(&mut self) -> io::Result<Bytes> {
        let length = self.input.read_i32().await?;
        let mut frame = vec![0; usize::try_from(length).expect("a length is not negative")];
        self.input.read_exact(&mut frame).await?;
        Ok(frame.into())
    }

    /// Sends a request and returns its answer.
    ///
    /// # Errors
    /// See `send` and `receive`.
    pub(crate) async fn call<R: Request>(&mut self, request: &R) -> io::Result<R::Response> {
        self.send(request).await?;
        self.receive::<R>().await
    }

    /// The same in another version than the usual one.
    ///
    /// # Errors
    /// See `send` and `receive`.
    pub(crate) async fn call_as<R: Request>(&mut self, version: i16, request: &R) -> io::Result<R::Response> {
        self.send_as(version, request).await?;
        self.receive::<R>().await
    }
}
