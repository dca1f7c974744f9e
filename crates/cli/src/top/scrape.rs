//! Asks a node over HTTP for its metrics, for whose they are, or for a change: one request on a connection of its own.
//!
//! HTTP/1.0, so that the answer ends where the connection does. Nothing is believed beyond a limit of size and time.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use crate::address::host_and_port;

/// The time that connecting, and each read and write, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer: that of a node with hundreds of cores is well below.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScrapeError {
    /// Nobody answers there.
    #[error(
        "the metrics of http://{address} cannot be read: {source}; `ropewalk serve` starts a node, --http names another address"
    )]
    Unreachable {
        /// As it was given.
        address: String,
        /// The system's words.
        source: io::Error,
    },
    /// It is another cluster's node than the one that Kafka's protocol reaches.
    #[error(
        "http://{address} is a node of cluster {http}, and {bootstrap} one of cluster {kafka}; --http and --bootstrap (or ROPEWALK_HTTP and ROPEWALK_BOOTSTRAP) must name the same node"
    )]
    Other {
        /// As it was given.
        address: String,
        /// The cluster of the node there.
        http: String,
        /// Where Kafka's protocol is spoken.
        bootstrap: String,
        /// The cluster of the node there.
        kafka: String,
    },
    /// Something else than metrics came.
    #[error(
        "http://{address}/metrics is not what a node of Ropewalk serves: {what}; --http names the node's HTTP address, not Kafka's"
    )]
    Strange {
        /// As it was given.
        address: String,
        /// The bytes that came.
        what: String,
    },
}

/// Takes `host:port`, also as a URL.
///
/// # Errors
/// What is expected, for the command line.
pub(crate) fn http_address(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix("http://").unwrap_or(text);
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    host_and_port(bare).map_err(|expected| expected.replace("9092", "8092"))
}

/// The text of the metrics of the node at `address`.
pub(super) fn scrape(address: &str) -> Result<String, ScrapeError> {
    look(address, "/metrics")
}

/// The identity of the cluster that the node at `address` belongs to.
pub(super) fn cluster_of(address: &str) -> Result<String, ScrapeError> {
    let status = look(address, "/v1/status")?;
    let status: Option<serde_json::Value> = serde_json::from_str(&status).ok();
    let cluster = status.as_ref().and_then(|status| status["cluster"].as_str());
    cluster.map(str::to_owned).ok_or_else(|| ScrapeError::Strange {
        address: address.to_owned(),
        what: "its status names no cluster".to_owned(),
    })
}

/// The answer of the node at `address` to a GET.
pub(crate) fn look(address: &str, path: &str) -> Result<String, ScrapeError> {
    let answer = ask(address, "GET", path, "").map_err(|source| ScrapeError::Unreachable {
        address: address.to_owned(),
        source,
    })?;
    body_of(&answer).map_err(|what| ScrapeError::Strange {
        address: address.to_owned(),
        what,
    })
}

/// Has the node at `address` change something. Returns what it answers, or null where that is nothing.
///
/// # Errors
/// The node's own words where it refuses, or why nobody answers.
pub(crate) fn change(address: &str, method: &str, path: &str, body: &Value) -> Result<Value> {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let answer = ask(address, method, path, &body)
        .with_context(|| format!("http://{address} cannot be asked; --http names another address"))?;
    let (status, content) = parts(&answer).map_err(anyhow::Error::msg)?;
    let content: Value = match content.is_empty() {
        true => Value::Null,
        false => serde_json::from_str(&content)
            .with_context(|| format!("http://{address}{path} is not what a node of Ropewalk serves"))?,
    };
    if !status.starts_with('2') {
        let detail = content["detail"].as_str().map(str::to_owned);
        return Err(anyhow!(detail.unwrap_or_else(|| format!("it answers {status}"))));
    }
    Ok(content)
}

fn ask(address: &str, method: &str, path: &str, body: &str) -> io::Result<Vec<u8>> {
    let mut stream = connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let of_body = match body.len() {
        0 => String::new(),
        length => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
    };
    let request =
        format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n{of_body}\r\n{body}");
    let mut answer = Vec::new();
    let mut converse = || -> io::Result<()> {
        stream.write_all(request.as_bytes())?;
        let mut input = (&mut stream).take(ANSWER_BYTES_MAX + 1);
        input.read_to_end(&mut answer).map(drop)
    };
    match converse() {
        // A peer that hangs up in the middle of a question speaks another protocol: its answer is judged.
        Err(error) if is_hung_up(&error) => Ok(answer),
        outcome => outcome.map(|()| answer),
    }
}

fn is_hung_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// Tries every address that the name stands for.
fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for candidate in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&candidate, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The body of an answer that says 200.
fn body_of(answer: &[u8]) -> Result<String, String> {
    match parts(answer)? {
        (status, body) if status.starts_with("200") => Ok(body),
        (status, _) => Err(format!("it answers {status:?}")),
    }
}

/// The status of an answer, with its reason, and its body.
fn parts(answer: &[u8]) -> Result<(String, String), String> {
    if answer.len() as u64 > ANSWER_BYTES_MAX {
        return Err(format!(
            "its answer is longer than {} MiB",
            ANSWER_BYTES_MAX >> 20
        ));
    }
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end else {
        return Err("it does not answer as HTTP does".to_owned());
    };
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head.lines().next().unwrap_or_default();
    let Some((_, status)) = status
        .split_once(' ')
        .filter(|(protocol, _)| protocol.starts_with("HTTP/1."))
    else {
        return Err(format!(
            "it answers {:?}",
            status.chars().take(60).collect::<String>()
        ));
    };
    let status: String = status.chars().take(60).collect();
    let body = &answer[end + 4..];
    let announced = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    if announced.is_some_and(|announced| announced != body.len()) {
        return Err("its answer ends early".to_owned());
    }
    let body = String::from_utf8(body.to_vec()).map_err(|_| "its answer is no text".to_owned())?;
    Ok((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_a_url() {
        for text in ["h:1", "http://h:1", "http://h:1/"] {
            assert_eq!(http_address(text).as_deref(), Ok("h:1"), "{text}");
        }
        assert_eq!(http_address("[::1]:8092").as_deref(), Ok("[::1]:8092"));
        for text in [
            "",
            "h",
            ":1",
            "h:x",
            "h:70000",
            "https://h:1",
            "http://h:1/metrics",
        ] {
            assert!(http_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_whole_answer_of_200_is_taken() {
        let whole = b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(body_of(whole).as_deref(), Ok("abc"));
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\n\r\n").as_deref(), Ok(""));
        for (answer, expected) in [
            (
                &b"HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\nabc"[..],
                "its answer ends early",
            ),
            (b"HTTP/1.0 404 Not Found\r\n\r\n", "it answers \"404 Not Found\""),
            (b"\0\0\0\x05junk", "it does not answer as HTTP does"),
            (b"", "it does not answer as HTTP does"),
            (b"SSH-2.0 200 x\r\n\r\n", "it answers \"SSH-2.0 200 x\""),
            (b"HTTP/1.0 200 OK\r\n\r\n\xff", "its answer is no text"),
        ] {
            assert_eq!(body_of(answer).expect_err("not whole"), expected);
        }
    }
}
