//! Connections that come, stay and end: their places, and the end of those that are too slow.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Extension, Router};
use platform::clock::{Clock, SystemClock};
use platform::net::{Net, Tcp};

use crate::seats::SeatLimits;

use super::super::App;
use super::super::body::HeldBody;
use super::super::connection::Connection;
use super::super::limits::HttpLimits;
use super::super::routes::finish;
use super::{AT_ONCE, PATIENCE, ask, connect, converse, request, serve, serve_plain};

/// More than the network holds for a client that does not read.
const ANSWER_BYTES: usize = 64 << 20;

/// Asks until an answer is the right one.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    while !holds() {
        assert!(clock.monotonic() < PATIENCE, "{what}");
    }
}

/// A large answer; and whether all room for answers is free, with the count of connections that were cut off.
fn large_answers(app: Arc<App>) -> Router {
    let large = |State(app): State<Arc<App>>, Extension(connection): Extension<Connection>| async move {
        let room = app.answers.room(ANSWER_BYTES).await;
        HeldBody::hold(vec![0; ANSWER_BYTES], room, &connection, &app.limits)
    };
    let left = |State(app): State<Arc<App>>| async move {
        let mut room = app.answers.no_room();
        let all = app.answers.resize(&mut room, usize::MAX);
        format!("{all} {}", app.counters.figures().cut_off)
    };
    let paths = Router::new()
        .route("/large", get(large))
        .route("/left", get(left));
    finish(paths, app)
}

#[test]
fn an_answer_that_is_not_taken_in_time_has_its_connection_cut_and_gives_its_room_back() {
    let limits = HttpLimits {
        taken_wait: Duration::from_millis(200),
        taken_bytes_per_second_min: u64::MAX,
        ..HttpLimits::default()
    };
    let (server, address) = serve(limits, 0, large_answers);
    let mut slow = connect(address);
    slow.write_all(request("GET", "/large").as_bytes()).expect("sent");
    eventually("it is cut off", || {
        converse(address, &request("GET", "/left")).ends_with("true 1")
    });
    let mut taken = Vec::new();
    // Cut, not ended: whether that is an error is the network's to say.
    let _ = slow.read_to_end(&mut taken);
    assert!(taken.len() < ANSWER_BYTES, "{} bytes", taken.len());
    server.stop();
}

#[test]
fn a_head_that_does_not_come_whole_is_not_waited_for() {
    let (server, address) = serve_plain(HttpLimits {
        head_wait: AT_ONCE,
        ..HttpLimits::default()
    });
    for part in ["", "GET /well HTT"] {
        let answer = converse(address, part);
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    server.stop();
}

#[test]
fn a_connection_is_not_kept_for_ever() {
    let limits = HttpLimits {
        connection_age_max: AT_ONCE,
        grace: AT_ONCE,
        ..HttpLimits::default()
    };
    let (server, address) = serve_plain(limits);
    assert_eq!(converse(address, ""), "");
    server.stop();
}

#[test]
fn what_is_under_way_when_its_connection_grows_old_is_answered_whole() {
    const AGE: Duration = Duration::from_millis(50);
    let limits = HttpLimits {
        connection_age_max: AGE,
        grace: AT_ONCE,
        ..HttpLimits::default()
    };
    let (server, address) = serve(limits, 0, large_answers);
    eventually("an answer comes whole", || {
        let mut slow = connect(address);
        let asked = slow.write_all(request("GET", "/large").as_bytes());
        // It was old before it asked.
        if asked.is_err() || slow.read_exact(&mut [0]).is_err() {
            return false;
        }
        let clock = SystemClock::new();
        while clock.monotonic() < 4 * AGE {
            std::thread::yield_now();
        }
        let mut rest = Vec::new();
        slow.read_to_end(&mut rest).is_ok() && rest.len() > ANSWER_BYTES
    });
    server.stop();
}

/// Limits of `all` places, fewer than one address may have, and of one visitor's.
fn places(all: usize) -> HttpLimits {
    HttpLimits {
        connections: SeatLimits {
            all,
            per_address: all + 1,
        },
        visitors_max: 1,
        ..HttpLimits::default()
    }
}

#[test]
fn whoever_waits_longest_makes_way_when_all_places_are_taken() {
    let (server, address) = serve_plain(places(2));
    let mut silent = connect(address);
    let mut asking = connect(address);
    // It waits again from now on; the other has waited since it came.
    assert!(ask(&mut asking, "/well").starts_with("HTTP/1.1 200 "));
    let mut third = connect(address);
    assert!(ask(&mut third, "/well").starts_with("HTTP/1.1 200 "));
    assert_eq!(silent.read(&mut [0]).expect("closed in good order"), 0);
    assert!(ask(&mut asking, "/well").starts_with("HTTP/1.1 200 "));
    server.stop();
}

/// Connections of which so many are under way with a request that is never answered.
fn stuck(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut stuck = Vec::new();
    eventually("requests are under way", || {
        // One whose request has not been read yet may have made way.
        let mut next = connect(address);
        let sent = next.write_all(request("GET", "/stuck").as_bytes());
        sent.expect("sent");
        stuck.push(next);
        converse(address, &request("GET", "/ready")).ends_with(&format!("\r\n{count}"))
    });
    stuck
}

#[test]
fn when_all_places_are_taken_probes_are_answered_and_others_are_told_so() {
    let (server, address) = serve_plain(places(2));
    let stuck = stuck(address, 2);
    let mut silent = Vec::new();
    for _ in 0..20 {
        // Neither those that ask for nothing nor each other keep probes out.
        silent.push(connect(address));
        assert!(converse(address, &request("GET", "/health")).ends_with("well"));
    }
    let refused = converse(address, "GET /well HTTP/1.1\r\nhost: node\r\n\r\n");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    for said in [
        "retry-after: 1",
        "connection: close",
        "2 HTTP connections are being answered",
    ] {
        assert!(refused.contains(said), "{said:?} in {refused}");
    }
    drop(stuck);
    eventually("the place comes back", || {
        converse(address, &request("GET", "/well")).ends_with("well")
    });
    server.stop();
}

#[test]
fn one_address_has_its_share_and_only_its_own_connections_make_way_for_it() {
    let limits = HttpLimits {
        connections: SeatLimits {
            all: 3,
            per_address: 1,
        },
        ..places(3)
    };
    let (server, address) = serve_plain(limits);
    let mut idle = connect(address);
    assert!(ask(&mut idle, "/well").starts_with("HTTP/1.1 200 "));
    let _stuck = stuck(address, 1);
    assert_eq!(idle.read(&mut [0]).expect("closed in good order"), 0);
    let refused = converse(address, &request("GET", "/well"));
    assert!(
        refused.contains("1 HTTP connections from this address"),
        "{refused}"
    );
    server.stop();
}

#[test]
fn nobody_makes_way_who_is_being_answered_and_places_come_back() {
    let (server, address) = serve(places(1), 0, large_answers);
    let mut answered = connect(address);
    let asked = answered.write_all(request("GET", "/large").as_bytes());
    asked.expect("sent");
    answered.read_exact(&mut [0]).expect("an answer begins");
    let refused = converse(address, &request("GET", "/left"));
    assert!(refused.starts_with("HTTP/1.1 503 "), "there is no second place");
    drop(answered);
    // The server learns of the end when it writes; until then others are turned away.
    eventually("the place comes back", || {
        let mut next = connect(address);
        let sent = next.write_all(request("GET", "/left").as_bytes());
        let mut answer = String::new();
        sent.is_ok() && next.read_to_string(&mut answer).is_ok() && answer.ends_with("true 0")
    });
    server.stop();
}

#[test]
fn a_stop_closes_idle_connections_and_takes_no_more() {
    let (server, address) = serve_plain(HttpLimits::default());
    let mut idle = connect(address);
    assert!(ask(&mut idle, "/well").starts_with("HTTP/1.1 200 "));
    server.stop();
    assert_eq!(idle.read(&mut [0]).expect("closed in good order"), 0);
    Tcp.listen(&address.to_string()).expect("the port is free again");
}
