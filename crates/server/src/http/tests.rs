//! The paths without a node behind them, and every limit on what a client may do.

mod connections;
mod request_log;
mod turns;

use std::future::pending;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use platform::clock::ManualClock;
use platform::net::{Net, Tcp};
use platform::random::Random;
use platform::work::{Pool, Threads};
use protocol::NodeId;
use record::{ClusterId, DirectoryId};
use serde_json::Value;
use tokio::sync::watch;

use crate::config::Config;
use crate::core::NodeFacts;
use crate::mailbox::mailboxes;

use super::limits::HttpLimits;
use super::routes::{Bounds, OPERATIONS, Operation, finish, router, within_bounds};
use super::{App, HttpServer};

/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// So short that it has passed when it is waited for, in tests where nothing else can happen.
const AT_ONCE: Duration = Duration::from_millis(10);

/// A node whose `cores` have all gone.
fn app(cores: usize, limits: HttpLimits, stopped: watch::Receiver<()>) -> Arc<App> {
    app_with(cores, limits, stopped, |_| {})
}

/// The same with another configuration.
pub(super) fn app_with(
    cores: usize,
    limits: HttpLimits,
    stopped: watch::Receiver<()>,
    configure: impl FnOnce(&mut Config),
) -> Arc<App> {
    let (mailboxes, _) = mailboxes(cores);
    let mut config = Config::default();
    configure(&mut config);
    let facts = NodeFacts {
        change_log: Arc::default(),
        node: NodeId(1),
        cluster: ClusterId::default(),
        directory: DirectoryId::default(),
        is_member: false,
        incarnation: 0,
        net: Arc::new(Tcp),
        config: Arc::new(config),
        clock: Arc::new(ManualClock::new(0)),
        last_ran_ms: None,
        mailboxes,
        shards: cores,
        version: "0.0.0 (a test)",
        pool: Pool::of(&Threads),
        random: Random::SYSTEM,
    };
    Arc::new(App::new(facts, limits, Duration::from_secs(3_600), stopped))
}

fn serve(
    limits: HttpLimits,
    cores: usize,
    routes: impl FnOnce(Arc<App>) -> Router,
) -> (HttpServer, SocketAddr) {
    let listener = Tcp.listen("127.0.0.1:0").expect("a free port");
    let address = listener.address().expect("bound");
    let server = HttpServer::start_with(listener, |stopped| {
        let app = app(cores, limits, stopped);
        (routes(Arc::clone(&app)), app)
    });
    (server.expect("started"), address)
}

/// The paths over a node whose `cores` have all gone.
fn serve_gone(cores: usize) -> (HttpServer, SocketAddr) {
    serve(HttpLimits::default(), cores, router)
}

/// The operation whose bounds the paths below have.
static PLAIN: Operation = Operation {
    method: Method::GET,
    path: "/well",
    produces: &[],
    takes: &[],
    wait: |limits| limits.request_wait,
    answer: || get(|| async { "well" }),
    describe: || Value::Null,
};

/// Serves a path that answers, and another one like it for probes; a path that never answers; and for probes, the number of
/// requests to that one that are under way.
fn serve_plain(limits: HttpLimits) -> (HttpServer, SocketAddr) {
    let stuck = |State(app): State<Arc<App>>| async move {
        let _under_way = app.counters.follower();
        pending::<&'static str>().await
    };
    let stuck_count =
        |State(app): State<Arc<App>>| async move { app.counters.figures().followers.to_string() };
    serve(limits, 0, move |app| {
        let bounds = Bounds {
            app: Arc::clone(&app),
            operation: &PLAIN,
        };
        let paths = Router::new()
            .route("/well", (PLAIN.answer)())
            .route("/health", (PLAIN.answer)())
            .route("/stuck", any(stuck))
            .route("/ready", get(stuck_count))
            .route_layer(from_fn_with_state(bounds, within_bounds));
        finish(paths, app)
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test is the client, outside the node"
)]
fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream
}

/// Sends `bytes` and reads until the server closes the connection.
fn converse(address: SocketAddr, bytes: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(bytes.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("closed in good order");
    answer
}

fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n")
}

/// Asks on a connection that stays open, and reads the answer's head.
fn ask(stream: &mut TcpStream, path: &str) -> String {
    write!(stream, "HEAD {path} HTTP/1.1\r\nhost: node\r\n\r\n").expect("sent");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}

#[test]
fn a_node_without_trouble_is_healthy_and_ready() {
    let (server, address) = serve_gone(0);
    let health = converse(address, &request("GET", "/health"));
    assert!(
        health.starts_with("HTTP/1.1 200 ") && health.ends_with("{\"status\":\"ok\"}"),
        "{health}"
    );
    let ready = converse(address, &request("GET", "/ready"));
    assert!(
        ready.starts_with("HTTP/1.1 200 ") && ready.ends_with("{\"status\":\"ready\"}"),
        "{ready}"
    );
    server.stop();
}

#[test]
fn a_core_that_is_gone_is_named_and_metrics_go_on() {
    let (server, address) = serve_gone(1);
    for (path, status) in [("/health", "failing"), ("/ready", "not ready")] {
        let answer = converse(address, &request("GET", path));
        let expected =
            format!("{{\"status\":\"{status}\",\"reasons\":[\"core 0 is not running any more\"]}}");
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.ends_with(&expected),
            "{answer}"
        );
    }
    let metrics = converse(address, &request("GET", "/metrics"));
    assert!(metrics.starts_with("HTTP/1.1 200 "), "{metrics}");
    assert!(
        metrics.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{metrics}"
    );
    assert!(metrics.contains("ropewalk_core_up{core=\"0\"} 0\n"), "{metrics}");
    server.stop();
}

#[test]
fn groups_and_configs_are_not_waited_for_when_the_cores_are_gone() {
    let (server, address) = serve_gone(1);
    for (method, path) in [
        ("GET", "/v1/configs"),
        ("GET", "/v1/groups"),
        ("GET", "/v1/groups/g"),
        ("DELETE", "/v1/groups/g"),
    ] {
        let answer = converse(address, &request(method, path));
        assert!(answer.starts_with("HTTP/1.1 503 "), "{path}: {answer}");
        assert!(answer.contains("the node is stopping"), "{path}: {answer}");
    }
    server.stop();
}

#[test]
fn an_unknown_path_is_told_the_known_ones() {
    let (server, address) = serve_gone(0);
    let answer = converse(address, &request("GET", "/nothing"));
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(
        answer.contains("content-type: application/problem+json"),
        "{answer}"
    );
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let problem: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(problem["type"], "urn:ropewalk:problem:unknown-path");
    assert_eq!(
        (&problem["title"], &problem["status"]),
        (&"unknown path".into(), &404.into())
    );
    let paths = problem["paths"].as_array().expect("a list");
    assert!(
        OPERATIONS
            .iter()
            .all(|operation| paths.contains(&operation.path.into())),
        "{problem}"
    );
    server.stop();
}

#[test]
fn a_wrong_method_is_told_the_right_ones() {
    let (server, address) = serve_gone(0);
    for path in ["/health", "/metrics", "/ready"] {
        let answer = converse(address, &request("DELETE", path));
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert_eq!(answer.matches("allow: ").count(), 1, "{answer}");
        assert!(answer.to_lowercase().contains("allow: get, head"), "{answer}");
    }
    for (path, allowed) in [
        ("/v1/topics", "get, head, post"),
        ("/v1/topics/x", "get, head, patch, delete"),
        ("/v1/topics/x/partitions/0/records", "get, head, post, delete"),
        ("/v1/topics/x/records", "get, head, post, delete"),
    ] {
        let answer = converse(address, &request("PUT", path)).to_lowercase();
        assert!(answer.starts_with("http/1.1 405 "), "{answer}");
        assert!(answer.contains(&format!("allow: {allowed}\r\n")), "{answer}");
    }
    let head = converse(address, &request("HEAD", "/health"));
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    server.stop();
}

#[test]
fn a_head_beyond_the_limits_is_refused() {
    let limits = HttpLimits {
        head_bytes_max: 1 << 10,
        headers_max: 4,
        ..HttpLimits::default()
    };
    let (server, address) = serve_plain(limits);
    let long = format!("GET /well HTTP/1.1\r\nlong: {}\r\n\r\n", "x".repeat(1 << 10));
    let many = format!("GET /well HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5));
    for head in [long, many] {
        let answer = converse(address, &head);
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    server.stop();
}

#[test]
fn what_is_not_http_ends_its_connection_only() {
    let (server, address) = serve_plain(HttpLimits::default());
    let answer = converse(address, "\u{1}\u{2}\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(converse(address, &request("GET", "/well")).ends_with("well"));
    server.stop();
}

#[test]
fn a_large_body_is_refused_before_it_comes() {
    let limits = HttpLimits {
        unread_bytes_max: 100,
        ..HttpLimits::default()
    };
    let (server, address) = serve_plain(limits);
    let head = |bytes: u64| format!("GET /well HTTP/1.1\r\nhost: node\r\ncontent-length: {bytes}\r\n\r\n");
    for bytes in [101, u64::from(u32::MAX)] {
        let answer = converse(address, &head(bytes));
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
    server.stop();
}

#[test]
fn a_request_that_takes_too_long_is_answered_all_the_same() {
    let (server, address) = serve_plain(HttpLimits {
        request_wait: AT_ONCE,
        ..HttpLimits::default()
    });
    let answer = converse(address, &request("GET", "/stuck"));
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("within 10ms"),
        "{answer}"
    );
    server.stop();
}

#[test]
fn a_change_that_takes_too_long_may_be_done_yet() {
    let (server, address) = serve_plain(HttpLimits {
        request_wait: AT_ONCE,
        ..HttpLimits::default()
    });
    let answer = converse(address, &request("POST", "/stuck"));
    assert!(
        answer.starts_with("HTTP/1.1 504 ") && answer.contains("urn:ropewalk:problem:outcome-unknown"),
        "{answer}"
    );
    assert!(!answer.contains("retry-after"), "{answer}");
    server.stop();
}
