//! The steps that every request goes through, whichever path it asks for. Its path and origin are checked, and whether its
//! connection may ask for it. It is counted, and has a line in the log, also if its client does not wait for the answer.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::App;
use super::places::Crowded;
use super::problem::{Kind, Problem};
use super::uri::check_path;
use crate::caller::Caller;
use crate::config::Config;

/// See the module.
pub(super) async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut asked = Asked {
        app,
        began: Instant::now(),
        method: request.method().clone(),
        // The query is left out: it may hold keys of records.
        path: request.uri().path().to_owned(),
        caller: request.extensions().get().cloned(),
        status: None,
    };
    let config = &asked.app.cores.facts.config;
    let crowded = request.extensions().get::<Crowded>();
    let checked = check_path(&asked.path)
        .and_then(|()| check_origin(&asked.method, request.headers(), config))
        .and_then(|()| crowded.map_or(Ok(()), |crowded| crowded.check(&asked.path)));
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
    caller: Option<Arc<Caller>>,
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
            caller,
            status,
        } = &*self;
        app.counters.ended(*status);
        let peer = caller.as_ref().map(|caller| tracing::field::display(caller.peer));
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
/// to, or delete from, a node that the page's author cannot reach. Nor does it help to have the name that the page came from
/// lead here afterwards (DNS rebinding): it must be one that is this node's.
fn check_origin(method: &Method, headers: &HeaderMap, config: &Config) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN).filter(|_| !method.is_safe()) else {
        return Ok(());
    };
    let refused = |detail: &str| Err(Problem::new(Kind::CrossOrigin, detail));
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    match (authority, host) {
        (Some((_, authority)), Some(host)) if authority == host => match is_own(host, config) {
            true => Ok(()),
            false => refused(
                "pages may change something here only under an IP address, localhost, or the host of http.listen, \
                 http.advertised or kafka.advertised: another origin may have this name",
            ),
        },
        _ => refused("pages of other origins may not change anything here"),
    }
}

/// Says whether `authority` names this node, and nobody else can have made it do so.
fn is_own(authority: &str, config: &Config) -> bool {
    let Some(host) = host_of(authority) else {
        return false;
    };
    let listens = host_of(&config.http.listen);
    let advertised = [&config.http.advertised, &config.kafka.advertised];
    let advertised = advertised
        .into_iter()
        .flatten()
        .map(|advertised| advertised.host.as_str());
    let mut names = ["localhost"]
        .into_iter()
        .chain(listens.as_deref())
        .chain(advertised);
    host.parse::<IpAddr>().is_ok() || names.any(|name| name.eq_ignore_ascii_case(&host))
}

/// The host of `host:port`, IPv6 without its brackets.
fn host_of(authority: &str) -> Option<String> {
    let authority: Authority = authority.parse().ok()?;
    Some(authority.host().trim_matches(['[', ']']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HostPort;

    fn may_post(config: &Config, host: &str, origin: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("sound"));
        headers.insert(header::ORIGIN, origin.parse().expect("sound"));
        assert!(check_origin(&Method::GET, &headers, config).is_ok(), "{origin}");
        check_origin(&Method::POST, &headers, config).is_ok()
    }

    #[test]
    fn only_a_page_of_this_origin_may_change_something() {
        let config = Config::default();
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "localhost:8092".parse().expect("sound"));
        assert!(
            check_origin(&Method::POST, &headers, &config).is_ok(),
            "no browser"
        );
        for (origin, allowed) in [
            ("http://localhost:8092", true),
            ("http://localhost", false),
            ("http://evil", false),
            ("null", false),
        ] {
            assert_eq!(may_post(&config, "localhost:8092", origin), allowed, "{origin}");
        }
    }

    #[test]
    fn a_name_that_was_made_to_lead_here_is_no_origin() {
        let mut config = Config::default();
        config.http.listen = "log.internal:8092".to_owned();
        config.kafka.advertised = Some(HostPort {
            host: "log.example".to_owned(),
            port: 9092,
        });
        for (host, allowed) in [
            ("127.0.0.1:8092", true),
            ("10.1.2.3", true),
            ("[::1]:8092", true),
            ("LocalHost:8092", true),
            ("log.internal:8092", true),
            ("log.example", true),
            ("evil.example:8092", false),
            ("log.example.evil:8092", false),
            ("127.0.0.1.evil:8092", false),
        ] {
            assert_eq!(
                may_post(&config, host, &format!("http://{host}")),
                allowed,
                "{host}"
            );
        }
    }
}
