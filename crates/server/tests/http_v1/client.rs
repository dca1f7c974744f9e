//! A client over plain sockets that sends what it is told to, and compares every answer with the OpenAPI document.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::schema;
use crate::support::{PATIENCE, TestNode};

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| known == name);
        header.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The kind of problem that this is.
    pub(crate) fn kind(&self) -> String {
        let problem = self.json();
        let kind = problem["type"].as_str().expect("problems have a type");
        assert_eq!(problem["status"], self.status);
        kind.strip_prefix("urn:ropewalk:problem:")
            .expect("our own")
            .to_owned()
    }
}

/// A node, seen over HTTP.
pub(crate) struct Http {
    address: SocketAddr,
    document: Value,
}

impl Http {
    pub(crate) fn of(node: &TestNode) -> Http {
        let address = node.http_address();
        let answer = exchange(
            address,
            b"GET /v1/openapi.json HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n",
        );
        Http {
            address,
            document: answer.json(),
        }
    }

    pub(crate) fn document(&self) -> &Value {
        &self.document
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn get_as(&self, path: &str, media_type: &str) -> Answer {
        self.send("GET", path, &[("accept", media_type)], b"")
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, media_type: &str, body: impl AsRef<[u8]>) -> Answer {
        self.send("POST", path, &[("content-type", media_type)], body.as_ref())
    }

    pub(crate) fn patch(&self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.send(
            "PATCH",
            path,
            &[("content-type", "application/json")],
            body.as_ref(),
        )
    }

    /// Creates a topic of one partition, or says what is wrong.
    pub(crate) fn create(&self, name: &str, partitions: i32) {
        let body = format!("{{\"name\":\"{name}\",\"partitions\":{partitions}}}");
        let answer = self.post("/v1/topics", "application/json", body);
        assert_eq!(answer.status, 201, "{}", answer.text());
    }

    /// Sends a request and takes the answer, which has to be one that is described.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = head(method, path, headers);
        if !body.is_empty() || method == "POST" {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        request.push_str("connection: close\r\n\r\n");
        let answer = exchange(self.address, &[request.as_bytes(), body].concat());
        self.check(method, path, &answer);
        answer
    }

    /// Sends bytes as they are.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Answer {
        exchange(self.address, bytes)
    }

    /// Opens a connection and sends bytes.
    pub(crate) fn open(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = connect(self.address);
        stream.write_all(bytes).expect("sent");
        stream
    }

    /// Follows a partition.
    pub(crate) fn follow(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let all = [&[("accept", "text/event-stream")], headers].concat();
        let stream = self.open(format!("{}\r\n", head("GET", path, &all)).as_bytes());
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader);
        assert!(head[0].contains(" 200 "), "{head:?}");
        assert!(
            head.iter().any(|line| line == "content-type: text/event-stream"),
            "{head:?}"
        );
        Events {
            reader,
            text: String::new(),
            taken: 0,
            pieces: 0,
            ended: false,
        }
    }

    fn check(&self, method: &str, path: &str, answer: &Answer) {
        let path = path.split('?').next().unwrap_or_default();
        // Paths and methods that are not served are not described, either.
        let Some(operation) = schema::operation(&self.document, method, path) else {
            return;
        };
        let status = answer.status.to_string();
        let response = &operation["responses"][&status];
        assert!(
            response.is_object(),
            "{method} {path}: {status} is not described: {}",
            answer.text()
        );
        check_headers(response, answer, &format!("{method} {path}: {status}"));
        let Some(content) = response["content"].as_object() else {
            assert!(
                answer.body.is_empty(),
                "{method} {path}: {status} should have no body"
            );
            return;
        };
        let media_type = answer.header("content-type").expect("a body has a type");
        let media_type = media_type.split(';').next().unwrap_or_default();
        let described = content.get(media_type);
        let described = described.unwrap_or_else(|| panic!("{method} {path}: {media_type} is not described"));
        if matches!(media_type, "application/json" | "application/problem+json") {
            schema::check(&self.document, &described["schema"], &answer.json(), path);
        }
    }
}

/// That headers of our own are described, and that those that an answer always has are there.
fn check_headers(response: &Value, answer: &Answer, place: &str) {
    let described = response["headers"].as_object();
    let described: Vec<(String, &Value)> = described
        .into_iter()
        .flatten()
        .map(|(name, header)| (name.to_lowercase(), header))
        .collect();
    for (name, _) in &answer.headers {
        let is_own = name.starts_with("ropewalk-") || ["location", "retry-after"].contains(&name.as_str());
        let is_described = described.iter().any(|(known, _)| known == name);
        assert!(!is_own || is_described, "{place}: {name} is not described");
    }
    for (name, header) in described {
        let is_needed = header["required"] == true;
        assert!(!is_needed || answer.header(&name).is_some(), "{place}: no {name}");
    }
}

fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: node\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream
}

/// Sends all and reads until the node closes the connection.
fn exchange(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = connect(address);
    // A request that is refused early may find the connection closed before all is sent; the answer is there to be read.
    let _ = stream.write_all(bytes);
    let mut reader = BufReader::new(stream);
    let head = read_head(&mut reader);
    let status = head[0]
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status");
    let headers = head[1..].iter().map(|line| {
        let (name, value) = line.split_once(": ").expect("a header");
        (name.to_owned(), value.to_owned())
    });
    let headers: Vec<_> = headers.collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = Vec::new();
    match length.and_then(|(_, length)| length.parse::<usize>().ok()) {
        Some(length) => {
            body.resize(length, 0);
            reader.read_exact(&mut body).expect("a whole body");
        }
        None => {
            reader.read_to_end(&mut body).expect("closed in good order");
        }
    }
    Answer {
        status,
        headers,
        body,
    }
}

fn read_head(reader: &mut impl BufRead) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        match line.trim_end() {
            "" if lines.is_empty() => panic!("the connection was closed without an answer"),
            "" => return lines,
            line => lines.push(line.to_owned()),
        }
    }
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<i64>,
    pub(crate) name: Option<String>,
    pub(crate) data: Value,
}

/// A stream of events.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    text: String,
    /// Of the text, in bytes.
    taken: usize,
    /// The number that have come.
    pub(crate) pieces: usize,
    ended: bool,
}

impl Events {
    /// The next block of lines: an event, a comment, or the first line; `None` at the end of the stream.
    pub(crate) fn next_block(&mut self) -> Option<String> {
        loop {
            if let Some((block, _)) = self.text[self.taken..].split_once("\n\n") {
                let block = block.to_owned();
                self.taken += block.len() + 2;
                return Some(block);
            }
            self.text.drain(..self.taken);
            self.taken = 0;
            if self.ended {
                assert_eq!(self.text, "", "nothing is cut in the middle");
                return None;
            }
            self.read_chunk();
        }
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            let block = self.next_block()?;
            let field = |name: &str| {
                block
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .map(str::to_owned)
            };
            let Some(data) = field("data: ") else { continue };
            return Some(Event {
                id: field("id: ").map(|id| id.parse().expect("an offset")),
                name: field("event: "),
                data: serde_json::from_str(&data).expect("JSON"),
            });
        }
    }

    /// Says if the node has closed the connection without ending the stream.
    pub(crate) fn is_cut(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => !rest.ends_with(b"0\r\n\r\n"),
            Err(error) => {
                let late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!late, "nothing came within {PATIENCE:?}");
                true
            }
        }
    }

    /// Takes one chunk of the transfer coding (RFC 9112, section 7.1).
    fn read_chunk(&mut self) {
        let mut size = String::new();
        self.reader.read_line(&mut size).expect("a chunk");
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).expect("a whole chunk");
        self.pieces += 1;
        self.ended = size == 0;
        self.text
            .push_str(std::str::from_utf8(&chunk[..size]).expect("text"));
    }
}
