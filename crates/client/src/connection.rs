//! One connection to one broker: versions agreed on, requests out, answers in, in the order of the requests.
//!
//! Requests are pipelined: `send` as many as you like, then `receive` as many. After an error of the connection itself it
//! answers nothing more. Never used by two threads.

mod sockets;

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_wire::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, Decode, ErrorCode, Reader, Request, ResponseHeader,
    Text, VersionRange, WireError, Writer, frame_request,
};

pub(crate) use self::sockets::wait_readable;
use self::sockets::{open_stream, write_frame};
use crate::error::{ClientError, Result};
use crate::inbound::{Inbound, InboundError};

/// Options of a connection.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// The time that a connection may take to be made.
    pub connect_timeout: Duration,
    /// The time that an answer may take, counted from when it is waited for.
    pub request_timeout: Duration,
    /// The client's name for itself, for the broker's logs.
    pub client_id: String,
    /// The longest answer that is taken, in bytes.
    pub response_bytes_max: usize,
}

impl Default for ConnectionOptions {
    /// 5 s to connect, 30 s for an answer of at most 256 MiB.
    fn default() -> ConnectionOptions {
        ConnectionOptions {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            client_id: "ropewalk".to_owned(),
            response_bytes_max: 256 << 20,
        }
    }
}

/// A request that waits for its answer.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    correlation_id: i32,
    api: ApiKey,
    version: i16,
}

/// A connection that has agreed on versions.
#[derive(Debug)]
pub struct Connection {
    address: String,
    stream: TcpStream,
    request_timeout: Duration,
    client_id: Text,
    writer: Writer,
    inbound: Inbound,
    in_flight: VecDeque<InFlight>,
    next_correlation_id: i32,
    /// The versions that the broker offers, sorted as it sent them.
    offered: Vec<(i16, VersionRange)>,
    /// Why the connection answers nothing more.
    ended: Option<String>,
}

impl Connection {
    /// Connects to `host:port` and agrees on versions.
    ///
    /// # Errors
    /// `Address`, `Connect`, and whatever the first request meets.
    pub fn connect(address: &str, options: &ConnectionOptions) -> Result<Connection> {
        let stream = open_stream(address, options)?;
        let mut connection = Connection {
            address: address.to_owned(),
            stream,
            request_timeout: options.request_timeout,
            client_id: Text::from(options.client_id.as_str()),
            writer: Writer::new(),
            inbound: Inbound::new(options.response_bytes_max),
            in_flight: VecDeque::new(),
            next_correlation_id: 0,
            offered: Vec::new(),
            ended: None,
        };
        connection.agree_on_versions()?;
        Ok(connection)
    }

    /// The broker's address as it was given to `connect`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Requests sent and not yet answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Says if the connection answers nothing more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The version in which requests of `api` are sent: the highest that both sides have.
    ///
    /// # Errors
    /// `Versions`.
    pub fn version_of(&self, api: ApiKey) -> Result<i16> {
        let offered = self
            .offered
            .iter()
            .find(|(key, _)| *key == api.code())
            .map(|(_, range)| *range);
        offered
            .and_then(|range| api.valid_versions().highest_common(range))
            .ok_or_else(|| ClientError::Versions {
                address: self.address.clone(),
                api,
                offered,
            })
    }

    /// Sends a request and gives its number. The answer is fetched with `receive`, oldest request first.
    ///
    /// # Errors
    /// `Versions` (nothing was sent), `Disconnected`, `Timeout`.
    pub fn send<R: Request>(&mut self, request: &R) -> Result<i32> {
        let version = self.version_of(R::API_KEY)?;
        self.send_versioned(request, version)
    }

    /// Sends a request that the broker does not answer: a produce request with `acks=0`.
    ///
    /// # Errors
    /// As `send`.
    pub fn send_unanswered<R: Request>(&mut self, request: &R) -> Result<()> {
        self.send(request)?;
        self.in_flight.pop_back();
        Ok(())
    }

    /// Waits for the answer to the oldest request in flight.
    ///
    /// # Errors
    /// `Disconnected`, `Timeout`, `Wire`, `FrameLength`, `Correlation`. The connection has then ended.
    ///
    /// # Panics
    /// If nothing is in flight, or the oldest request is of another API.
    pub fn receive<R: Request>(&mut self) -> Result<R::Response> {
        let (asked, mut reader) = self.receive_header()?;
        assert_eq!(asked.api, R::API_KEY, "answers come in the order of the requests");
        let response = R::Response::decode(&mut reader, asked.version);
        let whole = response.and_then(|response| reader.finish().map(|()| response));
        whole.map_err(|source| self.unreadable(asked.api, source))
    }

    /// Says if bytes of an answer are here, waiting for them at most `wait`. The end of the stream counts as one.
    ///
    /// # Errors
    /// `Disconnected` if the system cannot say.
    pub fn is_readable(&mut self, wait: Duration) -> Result<bool> {
        wait_readable(&[self], wait).map_err(|error| self.end(format!("poll failed: {error}")))
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// As `send` and `receive`.
    ///
    /// # Panics
    /// If something is in flight, whose answer would come first.
    pub fn call<R: Request>(&mut self, request: &R) -> Result<R::Response> {
        assert!(
            self.in_flight.is_empty(),
            "an earlier answer must be received first"
        );
        self.send(request)?;
        self.receive::<R>()
    }

    fn send_versioned<R: Request>(&mut self, request: &R, version: i16) -> Result<i32> {
        if let Some(reason) = &self.ended {
            return Err(self.disconnected(reason.clone()));
        }
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = (correlation_id + 1) & i32::MAX;
        let frame = frame_request(
            &mut self.writer,
            version,
            correlation_id,
            Some(&self.client_id),
            request,
        );
        if let Err(error) = write_frame(&mut self.stream, &frame) {
            return Err(self.failed_write(R::API_KEY, &error));
        }
        self.in_flight.push_back(InFlight {
            correlation_id,
            api: R::API_KEY,
            version,
        });
        Ok(correlation_id)
    }

    /// The next frame, which must answer the oldest request, read up to behind its header.
    fn receive_header(&mut self) -> Result<(InFlight, Reader)> {
        if let Some(reason) = &self.ended {
            return Err(self.disconnected(reason.clone()));
        }
        let asked = self
            .in_flight
            .pop_front()
            .expect("an answer is awaited only after a request");
        let frame = self.receive_frame(asked.api)?;
        let mut reader = Reader::new(frame);
        let header = ResponseHeader::decode(&mut reader, asked.api, asked.version)
            .map_err(|source| self.unreadable(asked.api, source))?;
        if header.correlation_id != asked.correlation_id {
            let error = ClientError::Correlation {
                address: self.address.clone(),
                expected: asked.correlation_id,
                received: header.correlation_id,
            };
            self.ended = Some(error.to_string());
            return Err(error);
        }
        Ok((asked, reader))
    }

    fn receive_frame(&mut self, api: ApiKey) -> Result<Bytes> {
        let deadline = Instant::now() + self.request_timeout;
        let failed = match self.inbound.next_frame(&mut self.stream, deadline) {
            Ok(frame) => return Ok(frame),
            Err(failed) => failed,
        };
        let address = self.address.clone();
        let error = match failed {
            InboundError::Ended { inside_frame: false } => {
                self.disconnected("the broker closed it".to_owned())
            }
            InboundError::Ended { inside_frame: true } => {
                self.disconnected("the broker closed it inside an answer".to_owned())
            }
            InboundError::Io(error) => self.disconnected(error.to_string()),
            InboundError::Late => ClientError::Timeout {
                address,
                api,
                after: self.request_timeout,
            },
            InboundError::Length(length_bytes) => ClientError::FrameLength {
                address,
                length_bytes,
                limit_bytes: self.inbound.frame_bytes_max(),
            },
        };
        self.ended = Some(error.to_string());
        Err(error)
    }

    /// Asks what the broker offers. One that is older than the question answers with an error in version 0, which
    /// already tells what it has (KIP-511).
    fn agree_on_versions(&mut self) -> Result<()> {
        let request = ApiVersionsRequest {
            client_software_name: Text::from_static("ropewalk-client"),
            client_software_version: Text::from_static(env!("CARGO_PKG_VERSION")),
        };
        let mut version = ApiKey::ApiVersions.valid_versions().last;
        for _ in 0..2 {
            self.send_versioned(&request, version)?;
            let response = self.receive_versions()?;
            let offered: Vec<(i16, VersionRange)> = response
                .api_keys
                .iter()
                .map(|api| {
                    let range = VersionRange {
                        first: api.min_version,
                        last: api.max_version,
                    };
                    (api.api_key, range)
                })
                .collect();
            self.offered = offered;
            match ErrorCode::from_code(response.error_code) {
                Some(ErrorCode::None) => return Ok(()),
                Some(ErrorCode::UnsupportedVersion) if version > 0 => {
                    // Brokers from before KIP-511 do not say what they have, but all have version 0.
                    version = self.version_of(ApiKey::ApiVersions).unwrap_or(0);
                }
                _ => break,
            }
        }
        Err(self.version_of(ApiKey::ApiVersions).err().unwrap_or_else(|| {
            ClientError::broker(
                "asking for API versions",
                ErrorCode::UnsupportedVersion.code(),
                None,
            )
        }))
    }

    fn receive_versions(&mut self) -> Result<ApiVersionsResponse> {
        let asked = self.in_flight.pop_front().expect("sent just now");
        let frame = self.receive_frame(asked.api)?;
        // The error code follows the four bytes of the header in every version.
        let refused = frame.get(4..6) == Some(&ErrorCode::UnsupportedVersion.code().to_be_bytes()[..]);
        let version = if refused { 0 } else { asked.version };
        let mut reader = Reader::new(frame);
        let response = ResponseHeader::decode(&mut reader, asked.api, version)
            .and_then(|_| ApiVersionsResponse::decode(&mut reader, version));
        response.map_err(|source| self.unreadable(asked.api, source))
    }

    fn unreadable(&mut self, api: ApiKey, source: WireError) -> ClientError {
        let error = ClientError::Wire {
            address: self.address.clone(),
            api,
            source,
        };
        self.ended = Some(error.to_string());
        error
    }

    fn failed_write(&mut self, api: ApiKey, error: &io::Error) -> ClientError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                self.ended = Some("the broker did not take a request in time".to_owned());
                ClientError::Timeout {
                    address: self.address.clone(),
                    api,
                    after: self.request_timeout,
                }
            }
            _ => self.end(error.to_string()),
        }
    }

    fn end(&mut self, reason: String) -> ClientError {
        self.ended = Some(reason.clone());
        self.disconnected(reason)
    }

    fn disconnected(&self, reason: String) -> ClientError {
        ClientError::Disconnected {
            address: self.address.clone(),
            reason,
        }
    }
}
