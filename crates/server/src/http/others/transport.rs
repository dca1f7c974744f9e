//! Requests to other nodes, each on a connection of its own, and their answers.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::{self, HeaderValue};
use axum::http::{Method, Uri, Version};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use protocol::leader::NodeId;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::caller::Caller;
use crate::config::HostPort;
use crate::mailbox::Stopping;
use crate::peers::connect;

use super::super::App;
use super::super::body::busy;
use super::super::connection::Connection;
use super::super::cores::Cores;
use super::super::follow::find_seat;
use super::super::media_type::MediaType;
use super::super::problem::Problem;
use super::super::refusal::outcome_unknown;
use super::passing::Passing;
use super::{HANDED_ON, Other};

/// Connections to one other node, for each purpose; those for parts of answers to all of them. Together they are as many as a node takes
/// from one address.
const HANDED_ON_MAX: usize = 160;
const BATCHES_MAX: usize = 24;
const PARTS_MAX: usize = 8;
/// The time that connecting to another node may take.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// The time that another node may take to tell a part of this one's answer.
const PART_WAIT: Duration = Duration::from_secs(3);
/// Bytes that such a part may have.
const PART_BYTES_MAX: usize = 4 << 20;
const SMALL_BYTES: usize = 64 << 10;
/// Bytes that are read from another node and not yet understood.
const BUFFER_BYTES: usize = 32 << 10;
/// The lines of a head that are meant for one connection, or for one host: not for the next (RFC 9110, section 7.6.1).
const OF_THIS_CONNECTION: [&str; 11] = [
    "connection",
    "expect",
    "host",
    "keep-alive",
    "origin",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Room for connections to other nodes. Each has its own: one that hangs holds up no other.
pub(in super::super) struct Lines {
    of_nodes: Mutex<BTreeMap<NodeId, LinesOfNode>>,
    /// None of these is held for long.
    parts: Semaphore,
}

#[derive(Clone)]
struct LinesOfNode {
    handed_on: Arc<Semaphore>,
    batches: Arc<Semaphore>,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines {
            of_nodes: Mutex::default(),
            parts: Semaphore::new(PARTS_MAX),
        }
    }
}

impl Lines {
    fn of(&self, node: NodeId) -> LinesOfNode {
        let mut of_nodes = self.of_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || LinesOfNode {
            handed_on: Arc::new(Semaphore::new(HANDED_ON_MAX)),
            batches: Arc::new(Semaphore::new(BATCHES_MAX)),
        };
        of_nodes.entry(node).or_insert_with(new).clone()
    }
}

/// Why another node has not answered.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    /// It was not asked.
    #[error("{0}")]
    Unreached(io::Error),
    /// It may have done what was asked.
    #[error("{0}")]
    Lost(hyper::Error),
}

impl Cores {
    /// Asks another node for something that becomes a part of this one's answer.
    ///
    /// # Errors
    /// It does not answer in time, or refuses.
    pub(in super::super) async fn ask_other<T: DeserializeOwned + Send + 'static>(
        &self,
        other: &Other,
        path_and_query: &str,
    ) -> Result<T, Problem> {
        let request = self.own_request(other, Method::GET, path_and_query, Body::empty());
        let asking = async {
            let _line = self.lines.parts.acquire().await;
            self.send_own(other, request).await
        };
        let asked = timeout(PART_WAIT, asking).await;
        asked.unwrap_or_else(|_| Err(other.unavailable(format!("nothing came within {PART_WAIT:?}"))))
    }

    /// Has another node do something with a body of this one's making.
    ///
    /// # Errors
    /// It does not answer, and may have done it; or it refuses.
    pub(in super::super) async fn tell_other<T: DeserializeOwned + Send + 'static>(
        &self,
        other: &Other,
        path: &str,
        media_type: &'static str,
        body: Bytes,
    ) -> Result<T, Problem> {
        let mut request = self.own_request(other, Method::POST, path, body.into());
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        let lines = self.lines.of(other.node);
        let _line = lines.batches.acquire().await;
        self.send_own(other, request).await
    }

    fn own_request(&self, other: &Other, method: Method, path_and_query: &str, body: Body) -> Request {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path_and_query.parse().expect("names in paths are plain");
        self.address(other, &mut request);
        request
    }

    async fn send_own<T: DeserializeOwned + Send + 'static>(
        &self,
        other: &Other,
        request: Request,
    ) -> Result<T, Problem> {
        let is_change = !request.method().is_safe();
        let answer = self.send(other, request).await;
        let answer = answer.map_err(|unanswered| other.problem(&unanswered, is_change))?;
        let status = answer.status();
        let lost = || match is_change {
            true => outcome_unknown().with("node", other.node.0),
            false => other.unavailable("its answer was cut off, is too long, or cannot be read"),
        };
        let body = collect(answer.into_body()).await.ok_or_else(lost)?;
        // Long ones are not read on the thread that answers health.
        let is_small = body.len() <= SMALL_BYTES;
        if !status.is_success() {
            return Err(Problem::read(&body).unwrap_or_else(lost));
        }
        let read = move || serde_json::from_slice(&body);
        let told = match is_small {
            true => read(),
            false => self.facts.pool.run(read).await,
        };
        told.map_err(|_| lost())
    }

    /// Makes a request one for another node.
    fn address(&self, other: &Other, request: &mut Request) {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        *request.version_mut() = Version::HTTP_11;
        let headers = request.headers_mut();
        for name in OF_THIS_CONNECTION {
            headers.remove(name);
        }
        let host = HeaderValue::from_str(&other.at.to_string());
        headers.insert(
            header::HOST,
            host.unwrap_or_else(|_| HeaderValue::from_static("")),
        );
        headers.insert(HANDED_ON, HeaderValue::from(self.facts.node.0));
    }

    async fn send(&self, other: &Other, request: Request) -> Result<Response<Incoming>, Unanswered> {
        let connecting = async {
            let addresses = self.addresses(&other.at).await?;
            let stream = connect(&self.facts.net, &addresses).await?;
            stream.set_nodelay()?;
            let mut http = http1::Builder::new();
            let handshake = http.max_buf_size(BUFFER_BYTES).handshake(TokioIo::new(stream));
            handshake.await.map_err(io::Error::other)
        };
        let connected = timeout(CONNECT_WAIT, connecting).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (mut sender, serving) = connected.map_err(Unanswered::Unreached)?;
        // It ends with the answer, or when nobody wants that any more.
        tokio::spawn(serving);
        sender.send_request(request).await.map_err(Unanswered::Lost)
    }

    /// A name is looked up on another thread, however long it takes.
    async fn addresses(&self, at: &HostPort) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = at.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, at.port)]);
        }
        let (net, at) = (Arc::clone(&self.facts.net), at.clone());
        self.facts.pool.run(move || net.resolve(&at.host, at.port)).await
    }
}

impl App {
    /// Hands a request on as it came, and gives the answer as it comes.
    ///
    /// # Errors
    /// The other node does not answer; a change may be done all the same.
    pub(in super::super) async fn hand_on(
        &self,
        other: &Other,
        mut request: Request,
    ) -> Result<Response, Problem> {
        let is_change = !request.method().is_safe();
        let extensions = request.extensions();
        let connection = extensions.get::<Connection>().expect("it came on one").clone();
        let caller = extensions.get::<Arc<Caller>>().expect("somebody asks").clone();
        let line = self.cores.lines.of(other.node).handed_on.try_acquire_owned();
        let line = line.map_err(|_| {
            let node = other.node;
            busy(&format!(
                "{HANDED_ON_MAX} requests are handed on to node {node}, which is the most"
            ))
        })?;
        self.cores.address(other, &mut request);
        let mut stopped = self.stopped.clone();
        let answer = tokio::select! {
            biased;
            answer = self.cores.send(other, request) => answer,
            // Reads may wait for long.
            _ = stopped.changed(), if !is_change => return Err(Stopping.into()),
        };
        let mut answer = answer.map_err(|unanswered| other.problem(&unanswered, is_change))?;
        for name in OF_THIS_CONNECTION {
            answer.headers_mut().remove(name);
        }
        let media_type = answer.headers().get(header::CONTENT_TYPE);
        let follows = media_type.is_some_and(|found| found == MediaType::EventStream.name());
        let seat = follows.then(|| find_seat(self, &caller)).transpose()?;
        Ok(answer.map(|body| {
            let passing = Passing::of(body, connection, self.limits, stopped, seat);
            Body::new(passing.holding(line))
        }))
    }
}

impl Other {
    fn problem(&self, unanswered: &Unanswered, is_change: bool) -> Problem {
        match (unanswered, is_change) {
            (Unanswered::Lost(_), true) => outcome_unknown().with("node", self.node.0),
            _ => self.unavailable(unanswered),
        }
    }
}

/// A body, if all of it comes and it is not too long.
async fn collect(body: Incoming) -> Option<Bytes> {
    if body.size_hint().lower() > PART_BYTES_MAX as u64 {
        return None;
    }
    let (mut pieces, mut read) = (Body::new(body).into_data_stream(), BytesMut::new());
    while let Some(piece) = pieces.next().await {
        let piece = piece.ok()?;
        if read.len() + piece.len() > PART_BYTES_MAX {
            return None;
        }
        read.extend_from_slice(&piece);
    }
    Some(read.freeze())
}
