//! Other nodes: a request that only one of them can answer is handed on to it as it came, and its answer given as it comes. So
//! whoever asks need not know which node leads a partition, or coordinates a group.
//!
//! A request is handed on once: a node that another one asks answers for itself, or refuses. Nothing is kept here: bodies pass through
//! as fast as both ends take them, and the limits of the node that answers hold.

mod passing;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::{self, HeaderValue};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::future::join_all;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use protocol::leader::NodeId;
use record::{Offset, PartitionId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::caller::Caller;
use crate::config::HostPort;
use crate::core::Core;
use crate::log_bounds::LogBounds;
use crate::peers::connect;

use super::App;
use super::connection::Connection;
use super::cores::Cores;
use super::follow::find_seat;
use super::media_type::MediaType;
use super::problem::{Kind, Problem};
use super::refusal::outcome_unknown;

/// Names the node that has handed a request on.
const HANDED_ON: &str = "ropewalk-handed-on";
/// The time that connecting to another node may take.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// Bytes that are read from another node and not yet understood.
const BUFFER_BYTES: usize = 32 << 10;
/// Bytes that another node's answer may have where it becomes a part of this one's.
const PART_BYTES_MAX: usize = 8 << 20;
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

/// Another node of the cluster, and where it serves HTTP.
#[derive(Debug, Clone)]
pub(super) struct Other {
    node: NodeId,
    at: HostPort,
}

/// Says whether a request comes from another node.
pub(super) fn is_handed_on(headers: &HeaderMap) -> bool {
    headers.contains_key(HANDED_ON)
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
    /// The node that leads a partition, if that is another and the request has not come from one.
    ///
    /// # Errors
    /// Another leads it, and is not there or has not said where it serves HTTP.
    pub(super) async fn leader_elsewhere(
        &self,
        partition: PartitionId,
        headers: &HeaderMap,
    ) -> Result<Option<Other>, Problem> {
        if is_handed_on(headers) {
            return Ok(None);
        }
        let mut found = self.leaders_elsewhere(vec![partition]).await?;
        found.remove(0)
    }

    /// The same of each of some partitions, for a request of this node's own.
    ///
    /// # Errors
    /// The node is stopping.
    pub(super) async fn leaders_elsewhere(
        &self,
        partitions: Vec<PartitionId>,
    ) -> Result<Vec<Result<Option<Other>, Problem>>, Problem> {
        if !self.facts.is_member {
            return Ok(partitions.iter().map(|_| Ok(None)).collect());
        }
        let find = |core: &Core, partition| {
            let leader = core.with_metadata(|metadata| Some(metadata.partition(partition)?.leader));
            elsewhere(core, leader, "leads this partition")
        };
        Ok(self
            .ask_metadata(move |core| async move {
                let partitions = partitions.into_iter();
                partitions.map(|partition| find(&core, partition)).collect()
            })
            .await?)
    }

    /// The node that coordinates a group, if that is another and the request has not come from one.
    ///
    /// # Errors
    /// As `leader_elsewhere`.
    pub(super) async fn coordinator_elsewhere(
        &self,
        group: &str,
        headers: &HeaderMap,
    ) -> Result<Option<Other>, Problem> {
        if !self.facts.is_member || is_handed_on(headers) {
            return Ok(None);
        }
        let group = group.to_owned();
        self.ask_metadata(move |core| async move {
            elsewhere(&core, core.coordinator_of(&group), "coordinates this group")
        })
        .await?
    }

    /// All other nodes that are there and have said where they serve HTTP; and the numbers of those of the cluster that are not, or have not.
    pub(super) async fn others(&self) -> Result<(Vec<Other>, Vec<i32>), Problem> {
        if !self.facts.is_member {
            return Ok((Vec::new(), Vec::new()));
        }
        let own = self.facts.node;
        let found = self.ask_metadata(move |core| async move {
            let nodes: Vec<NodeId> =
                core.with_metadata(|metadata| metadata.nodes().map(|(node, _)| node).collect());
            let (mut others, mut missing) = (Vec::new(), Vec::new());
            for node in nodes.into_iter().filter(|node| *node != own) {
                match Other::of(&core, node) {
                    Some(other) => others.push(other),
                    None => missing.push(node.0),
                }
            }
            (others, missing)
        });
        Ok(found.await?)
    }

    /// The bounds of those partitions of a topic that other nodes lead, as these tell them. There are none of a node that does not answer.
    pub(super) async fn bounds_elsewhere(
        &self,
        topic: &str,
        mut leaders: Vec<NodeId>,
    ) -> Result<BTreeMap<i32, LogBounds>, Problem> {
        leaders.sort_unstable();
        leaders.dedup();
        let own = self.facts.node;
        let others = self.ask_metadata(move |core| async move {
            let others = leaders.into_iter().filter(|node| *node != own);
            others
                .filter_map(|node| Other::of(&core, node))
                .collect::<Vec<_>>()
        });
        let path = format!("/v1/topics/{topic}");
        let others = others.await?;
        let asked = others.iter().map(|other| async {
            let told = self.ask_other::<TopicTold>(other, &path).await;
            told.map_or_else(|_| Vec::new(), |told| told.bounds().collect())
        });
        Ok(join_all(asked).await.into_iter().flatten().collect())
    }

    /// The offset of the first record with this time or a later one, of a partition that another node leads; `None` if there is none.
    pub(super) async fn first_since(
        &self,
        leader: &Other,
        topic: &str,
        partition: i32,
        timestamp_ms: i64,
    ) -> Result<Option<Offset>, Problem> {
        let path = format!(
            "/v1/topics/{topic}/partitions/{partition}/records?timestamp_ms={timestamp_ms}&limit=1&bytes=1"
        );
        let found: RecordsTold = self.ask_other(leader, &path).await?;
        Ok(found.records.first().map(|record| Offset(record.offset)))
    }

    /// Asks another node for something that becomes a part of this one's answer.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub(super) async fn ask_other<T: DeserializeOwned>(
        &self,
        other: &Other,
        path_and_query: &str,
    ) -> Result<T, Problem> {
        let request = self.own_request(other, Method::GET, path_and_query, Body::empty());
        self.ask_for_part(other, request).await
    }

    /// Has another node do something with a body of this one's making.
    ///
    /// # Errors
    /// It does not answer, and may have done it; or it refuses.
    pub(super) async fn tell_other<T: DeserializeOwned>(
        &self,
        other: &Other,
        path: &str,
        media_type: &'static str,
        body: Bytes,
    ) -> Result<T, Problem> {
        let mut request = self.own_request(other, Method::POST, path, body.into());
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        self.ask_for_part(other, request).await
    }

    fn own_request(&self, other: &Other, method: Method, path_and_query: &str, body: Body) -> Request {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path_and_query.parse().expect("names in paths are plain");
        self.address(other, &mut request);
        request
    }

    async fn ask_for_part<T: DeserializeOwned>(&self, other: &Other, request: Request) -> Result<T, Problem> {
        let is_change = !request.method().is_safe();
        let answer = self.send(other, request).await;
        let answer = answer.map_err(|unanswered| other.problem(&unanswered, is_change))?;
        let status = answer.status();
        let lost = || match is_change {
            true => outcome_unknown(),
            false => other.unavailable("its answer was cut off"),
        };
        let body = collect(answer.into_body()).await.ok_or_else(lost)?;
        if !status.is_success() {
            return Err(Problem::read(&body).unwrap_or_else(lost));
        }
        serde_json::from_slice(&body).map_err(|_| lost())
    }

    /// Makes a request one for another node.
    fn address(&self, other: &Other, request: &mut Request) {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
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
        let HostPort { host, port } = other.at.clone();
        let net = Arc::clone(&self.facts.net);
        let resolving = Arc::clone(&net);
        let connecting = async {
            let addresses = self
                .facts
                .pool
                .run(move || resolving.resolve(&host, port))
                .await?;
            let stream = connect(&net, &addresses).await?;
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
}

impl App {
    /// Hands a request on as it came, and gives the answer as it comes.
    ///
    /// # Errors
    /// The other node does not answer; a change may be done all the same.
    pub(super) async fn hand_on(&self, other: &Other, mut request: Request) -> Result<Response, Problem> {
        let is_change = !request.method().is_safe();
        let extensions = request.extensions();
        let connection = extensions.get::<Connection>().expect("it came on one").clone();
        let caller = extensions.get::<Arc<Caller>>().expect("somebody asks").clone();
        self.cores.address(other, &mut request);
        let answer = self.cores.send(other, request).await;
        let mut answer = answer.map_err(|unanswered| other.problem(&unanswered, is_change))?;
        for name in OF_THIS_CONNECTION {
            answer.headers_mut().remove(name);
        }
        let media_type = answer.headers().get(header::CONTENT_TYPE);
        let follows =
            media_type.is_some_and(|found| found.as_bytes() == MediaType::EventStream.name().as_bytes());
        let seat = follows.then(|| find_seat(self, &caller)).transpose()?;
        Ok(answer.map(|body| Body::new(passing::Passing::of(body, connection, self.limits, seat))))
    }
}

/// Another node than this, if there is one.
fn elsewhere(core: &Core, node: Option<NodeId>, does: &str) -> Result<Option<Other>, Problem> {
    let Some(node) = node.filter(|node| *node != core.facts.node) else {
        return Ok(None);
    };
    let unknown = || {
        let detail = format!(
            "node {node} {does}; it is not there now, or has not said where it serves HTTP (http.advertised of that node)"
        );
        Problem::new(Kind::Unavailable, detail).with("node", node.0)
    };
    Other::of(core, node).map(Some).ok_or_else(unknown)
}

impl Other {
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    fn of(core: &Core, node: NodeId) -> Option<Other> {
        let address = core.peers.http_of(node)?;
        let at = HostPort {
            host: address.host.to_string(),
            port: address.port,
        };
        Some(Other { node, at })
    }

    fn problem(&self, unanswered: &Unanswered, is_change: bool) -> Problem {
        match (unanswered, is_change) {
            (Unanswered::Lost(_), true) => outcome_unknown().with("node", self.node.0),
            _ => self.unavailable(unanswered),
        }
    }

    /// The problem of a node that does not answer.
    pub(super) fn unavailable(&self, why: impl std::fmt::Display) -> Problem {
        let Other { node, at } = self;
        let detail = format!("node {node}, which can answer this, does not answer at {at}: {why}");
        Problem::new(Kind::Unavailable, detail).with("node", node.0)
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

/// The records that another node tells.
#[derive(Deserialize)]
struct RecordsTold {
    records: Vec<RecordTold>,
}

#[derive(Deserialize)]
struct RecordTold {
    offset: i64,
}

/// What another node tells of a topic.
#[derive(Deserialize)]
struct TopicTold {
    partitions: Vec<PartitionTold>,
}

#[derive(Deserialize)]
struct PartitionTold {
    partition: i32,
    first_offset: Option<i64>,
    tail: Option<i64>,
}

impl TopicTold {
    /// The bounds that it knows, which are those of the partitions that it leads.
    fn bounds(self) -> impl Iterator<Item = (i32, LogBounds)> {
        self.partitions.into_iter().filter_map(|told| {
            let bounds = LogBounds {
                log_start: Offset(told.first_offset?),
                tail: Offset(told.tail?),
            };
            Some((told.partition, bounds))
        })
    }
}
