//! What is done with every request, whichever path it asks for: its path and origin are checked, it is counted, and it
//! has a line in the log, also if its client does not wait for the answer.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::App;
use super::problem::{Kind, Problem};
use super::uri::check_path;

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// See the module.
pub(super) async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut asked = Asked {
        app,
        began: Instant::now(),
        method: request.method().clone(),
        // The query is left out: it may hold keys of records.
        path: request.uri().path().to_owned(),
        peer: request.extensions().get::<Peer>().map(|peer| peer.0),
        status: None,
    };
    let checked = check_path(&asked.path).and_then(|()| check_origin(&asked.method, request.headers()));
    let response = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    asked.status = Some(response.status().as_u16());
    response
}

/// A request, counted and logged when it ends. It ends without an answer if its client leaves before; what it asked for
/// may be done all the same.
struct Asked {
    app: Arc<App>,
    began: Instant,
    method: Method,
    path: String,
    peer: Option<SocketAddr>,
    /// The answer's, if there was one.
    status: Option<u16>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Asked {
            app,
            began,
            method,
            path,
            peer,
            status,
        } = &*self;
        app.counters.ended(*status);
        let peer = peer.map(tracing::field::display);
        let elapsed_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let outcome = if status.is_some() { "answered" } else { "gone" };
        if app.cores.facts.config.http.request_log {
            tracing::info!(target: "server::http::request", %method, path, status, elapsed_us, peer, "{outcome}");
        } else {
            tracing::debug!(target: "server::http::request", %method, path, status, elapsed_us, peer, "{outcome}");
        }
    }
}

/// Refuses changes that a browser sends on behalf of a page of another origin: whoever opens a page must not thereby append
/// to, or delete from, a node that the page's author cannot reach.
fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN).filter(|_| !method.is_safe()) else {
        return Ok(());
    };
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    match authority.is_some_and(|(_, authority)| Some(authority) == host) {
        true => Ok(()),
        false => Err(Problem::new(
            Kind::CrossOrigin,
            "pages of other origins may not change anything here",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_of_this_origin_may_change_something() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "node:8092".parse().expect("sound"));
        assert!(check_origin(&Method::POST, &headers).is_ok(), "no browser");
        for (origin, allowed) in [
            ("http://node:8092", true),
            ("http://evil", false),
            ("null", false),
        ] {
            headers.insert(header::ORIGIN, origin.parse().expect("sound"));
            assert_eq!(check_origin(&Method::POST, &headers).is_ok(), allowed, "{origin}");
            assert!(check_origin(&Method::GET, &headers).is_ok(), "{origin}");
        }
    }
}
