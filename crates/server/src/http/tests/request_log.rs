//! The line that each request has in the log.

use std::fmt::{Debug, Write};
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::get;
use futures_util::FutureExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::super::App;
use super::super::limits::HttpLimits;
use super::super::routes::{finish, router};
use super::app_with;
use crate::caller::{Caller, Listener};

/// Keeps what is logged, as `LEVEL field=value …`.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("memory takes it");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "server::http::request"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn request(path: &str) -> Request {
    let caller = Caller::at(SocketAddr::from(([127, 0, 0, 1], 7)), Listener::Http);
    let request = Request::builder().uri(path).extension(Arc::new(caller));
    let request = request.body(Body::empty());
    request.expect("a request")
}

/// The lines that are logged while somebody asks.
fn logged(request_log: bool, ask: impl AsyncFnOnce(Arc<App>)) -> Vec<String> {
    let lines = Lines::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    tracing::subscriber::with_default(lines.clone(), || {
        runtime.block_on(async {
            let (_stop, stopped) = watch::channel(());
            let app = app_with(1, HttpLimits::default(), stopped, |config| {
                config.http.request_log = request_log;
            });
            ask(app).await;
        });
    });
    lines.all()
}

#[test]
fn each_request_is_a_line_without_its_query() {
    for (request_log, level) in [(true, "INFO"), (false, "DEBUG")] {
        let lines = logged(request_log, async |app| {
            let paths = TowerToHyperService::new(router(app));
            let answered = paths.call(request("/v1/topics?after=secret")).await;
            answered.expect("there is always an answer");
        });
        let [line] = lines.as_slice() else {
            panic!("one line, not {lines:?}")
        };
        let expected = format!("{level} message=answered method=GET path=\"/v1/topics\" status=");
        assert!(line.starts_with(&expected), "{line}");
        assert!(
            line.contains(" elapsed_us=") && line.ends_with(" peer=127.0.0.1:7") && !line.contains("secret"),
            "{line}"
        );
    }
}

#[test]
fn a_request_whose_client_leaves_is_a_line_and_is_counted() {
    let lines = logged(true, async |app| {
        let stuck = Router::new().route("/stuck", get(|| async { pending::<&'static str>().await }));
        let paths = TowerToHyperService::new(finish(stuck, Arc::clone(&app)));
        assert!(paths.call(request("/stuck")).now_or_never().is_none());
        let figures = app.counters.figures();
        assert_eq!((figures.requests, figures.gone), (1, 1));
    });
    let [line] = lines.as_slice() else {
        panic!("one line, not {lines:?}")
    };
    let expected = "INFO message=gone method=GET path=\"/stuck\" elapsed_us=";
    assert!(line.starts_with(expected), "{line}");
}
