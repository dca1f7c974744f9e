//! The node's HTTP interface for operators: health, readiness, metrics. It has a thread of its own, so that
//! it answers also when a core does not, and says which.
//!
//! Whoever asks here may be anyone: connections, heads, bodies and every wait are bounded before they cost anything.

mod limits;
mod problem;
mod routes;

#[cfg(test)]
mod tests;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use platform::threads;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::core::NodeFacts;
use crate::metrics::{ANSWER_WAIT, Gatherer};
use limits::HttpLimits;

/// The running interface. Dropping it ends it as well, without waiting.
pub(crate) struct HttpServer {
    /// Closed to stop; nothing is ever sent.
    stop: watch::Sender<()>,
    thread: JoinHandle<()>,
}

impl HttpServer {
    /// Serves on `listener` from now on.
    ///
    /// # Errors
    /// The system has no thread or no descriptor left.
    pub(crate) fn start(listener: TcpListener, facts: NodeFacts) -> io::Result<HttpServer> {
        let limits = HttpLimits::default();
        let gatherer = Gatherer::new(facts.mailboxes, facts.clock, ANSWER_WAIT);
        HttpServer::start_with(listener, routes::router(Arc::new(gatherer), limits), limits)
    }

    fn start_with(listener: TcpListener, router: Router, limits: HttpLimits) -> io::Result<HttpServer> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = watch::channel(());
        let thread = threads::spawn("http", move || run(&runtime, listener, router, limits, stopped))?;
        Ok(HttpServer { stop, thread })
    }

    /// Takes no more connections, answers the requests under way and ends. Blocks, for the grace at most.
    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the HTTP thread had panicked");
        }
    }
}

/// The HTTP thread.
fn run(
    runtime: &Runtime,
    listener: tokio::net::TcpListener,
    router: Router,
    limits: HttpLimits,
    stopped: watch::Receiver<()>,
) {
    runtime.block_on(async {
        let places = Arc::new(Semaphore::new(limits.connections_max as usize));
        accept(listener, router, limits, &places, stopped).await;
        // Whoever holds a place still is being answered. What is not done in time is cut off with the runtime.
        let _ = timeout(limits.grace, places.acquire_many(limits.connections_max)).await;
    });
}

/// Lets connections in until the node stops.
async fn accept(
    listener: tokio::net::TcpListener,
    router: Router,
    limits: HttpLimits,
    places: &Arc<Semaphore>,
    mut stopped: watch::Receiver<()>,
) {
    let told = stopped.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        match accepted {
            Ok((stream, peer)) => match places.clone().try_acquire_owned() {
                Ok(place) => {
                    tokio::spawn(serve(stream, router.clone(), limits, told.clone(), place));
                }
                Err(_) => {
                    tracing::debug!(%peer, limits.connections_max, "an HTTP connection was refused: too many")
                }
            },
            Err(error) => {
                tracing::warn!(%error, "an HTTP connection could not be accepted");
                // Out of descriptors: a rest, so that the loop does not spin. Being told to stop is seen after it.
                sleep(limits.accept_rest).await;
            }
        }
    }
}

/// Serves one connection until it ends, grows old, or the node stops.
async fn serve(
    stream: TcpStream,
    router: Router,
    limits: HttpLimits,
    mut stopped: watch::Receiver<()>,
    _place: OwnedSemaphorePermit,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head_wait)
        .max_headers(limits.headers_max)
        .max_header_size(limits.head_bytes_max)
        .max_buf_size(limits.buffer_bytes_max);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // Also the end of a client that takes its answer too slowly: hyper itself waits for it without bound.
        () = until_over(limits, &mut stopped) => {
            connection.as_mut().graceful_shutdown();
            timeout(limits.grace, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection was closed");
    }
}

async fn until_over(limits: HttpLimits, stopped: &mut watch::Receiver<()>) {
    tokio::select! {
        _ = stopped.changed() => {}
        () = sleep(limits.connection_age_max) => {}
    }
}
