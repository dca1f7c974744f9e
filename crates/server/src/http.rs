//! The node's HTTP interface: the log under /v1 for whoever has no Kafka client, and health, readiness and metrics for
//! operators. It has a thread of its own, so that it answers also when a core does not, and says which.
//!
//! Anyone may ask here: connections, heads, bodies, answers and every wait are bounded before they cost
//! anything. No core's state is touched: the cores are asked by mailbox (`cores`).

mod append;
mod body;
mod cluster;
mod configs;
mod connection;
mod cores;
mod counters;
mod follow;
mod groups;
mod in_order;
mod json_body;
mod json_words;
mod limits;
mod loading;
mod media_type;
mod nodes;
mod observe;
mod openapi;
mod others;
mod paging;
mod places;
mod problem;
mod read;
mod refusal;
mod routes;
mod status;
mod topics;
mod transactions;
mod trim;
mod uri;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use platform::net::{Bound, Listener, Stream};
use platform::slices::{Origin, work_for};
use platform::threads;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::budget::Budget;
use crate::caller::{self, Caller};
use crate::core::NodeFacts;
use crate::metrics::{ANSWER_WAIT, Gatherer};
use crate::seats::Seats;
use connection::Connection;
use cores::Cores;
use limits::HttpLimits;
use others::Lines;
use places::{Place, Places, Served};

pub(crate) use counters::{HttpCounters, HttpFigures};
pub(crate) use json_body::{Items, Object};
pub(crate) use json_words::in_words;

/// Threads for what takes long: understanding large bodies, writing large answers.
const WORKERS: usize = 2;

/// The state that all requests share.
struct App {
    cores: Cores,
    gatherer: Gatherer,
    limits: HttpLimits,
    counters: Arc<HttpCounters>,
    /// Memory for bodies that are not appended yet.
    bodies: Budget,
    /// Memory for answers that are not taken yet.
    answers: Budget,
    /// Places of those that follow a partition.
    followers: Mutex<Seats>,
    /// Closed when the node stops.
    stopped: watch::Receiver<()>,
}

impl App {
    fn new(
        facts: NodeFacts,
        limits: HttpLimits,
        answer_wait: std::time::Duration,
        stopped: watch::Receiver<()>,
    ) -> App {
        let counters = Arc::new(HttpCounters::default());
        let gatherer = Gatherer::new(
            facts.mailboxes.clone(),
            facts.clock.clone(),
            Arc::clone(&counters),
            facts.config.disk.reserve_bytes,
            answer_wait,
        );
        App {
            gatherer,
            limits,
            counters,
            bodies: Budget::new(facts.config.limits.in_flight_bytes_per_core),
            answers: Budget::new(facts.config.limits.answer_bytes_per_core),
            followers: Mutex::default(),
            stopped,
            cores: Cores {
                facts,
                lines: Lines::default(),
            },
        }
    }

    /// Bytes that a body may have where one is wanted.
    fn body_bytes_max(&self) -> usize {
        let limits = &self.cores.facts.config.limits;
        limits.request_bytes.min(limits.in_flight_bytes_per_core)
    }
}

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
    pub(crate) fn start(listener: Bound, facts: NodeFacts) -> io::Result<HttpServer> {
        HttpServer::start_with(listener, |stopped| {
            let app = Arc::new(App::new(facts, HttpLimits::default(), ANSWER_WAIT, stopped));
            (routes::router(Arc::clone(&app)), app)
        })
    }

    fn start_with(
        listener: Bound,
        make: impl FnOnce(watch::Receiver<()>) -> (Router, Arc<App>),
    ) -> io::Result<HttpServer> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WORKERS)
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            listener.attach()?
        };
        let (stop, stopped) = watch::channel(());
        let (router, app) = make(stopped.clone());
        let thread = threads::spawn("http", move || run(&runtime, listener, router, &app, stopped))?;
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
fn run(runtime: &Runtime, listener: Listener, router: Router, app: &Arc<App>, stopped: watch::Receiver<()>) {
    let limits = app.limits;
    runtime.block_on(async {
        let mut places = Places::new(&limits);
        accept(listener, router, app, &mut places, stopped).await;
        // A connection that still holds a place is being answered. Answers that are not done in time are cut off with the
        // runtime.
        let _ = timeout(limits.grace, places.all_free()).await;
    });
}

/// Lets connections in until the node stops.
async fn accept(
    listener: Listener,
    router: Router,
    app: &Arc<App>,
    places: &mut Places,
    mut stopped: watch::Receiver<()>,
) {
    let told = stopped.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopped.changed() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let place = find_place(app, places, peer).await;
                let connection = Connection::new(Arc::clone(&app.counters));
                let is_visitor = place.crowded.is_some();
                let door = Door {
                    app: Arc::clone(app),
                    connection: connection.clone(),
                    peer,
                    stopped: told.clone(),
                    place,
                };
                let task = tokio::spawn(serve(stream, router.clone(), door));
                places.take(Served {
                    address: peer.ip(),
                    connection,
                    is_visitor,
                    task,
                });
            }
            Err(error) => {
                tracing::warn!(%error, "an HTTP connection could not be accepted");
                // Out of descriptors: a rest, so that the loop does not spin. Being told to stop is seen after it.
                sleep(app.limits.accept_rest).await;
            }
        }
    }
}

/// A place for a connection. If there is one less than clients want, that is counted.
async fn find_place(app: &App, places: &mut Places, peer: SocketAddr) -> Place {
    let (place, another_made_way) = places.find(peer.ip()).await;
    if another_made_way {
        tracing::debug!(%peer, "another HTTP connection made way for this one");
    }
    if place.crowded.is_some() {
        tracing::debug!(%peer, "too many HTTP connections: on this one, only probes are answered");
    }
    if another_made_way || place.crowded.is_some() {
        app.counters.refused_connection();
    }
    place
}

/// The rights that a connection comes in with.
struct Door {
    app: Arc<App>,
    connection: Connection,
    peer: SocketAddr,
    stopped: watch::Receiver<()>,
    place: Place,
}

/// Serves one connection until it ends, is cut off, grows old, or the node stops.
async fn serve(stream: Stream, router: Router, mut door: Door) {
    let app = Arc::clone(&door.app);
    let limits = app.limits;
    let _present = app.counters.connection();
    // Small answers, and events one by one, must not wait for more to be sent with them.
    let _ = stream.set_nodelay();
    let crowded = door.place.crowded;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head_wait)
        .max_headers(limits.headers_max)
        .max_header_size(limits.head_bytes_max)
        .max_buf_size(limits.buffer_bytes_max)
        .keep_alive(crowded.is_none());
    let router = TowerToHyperService::new(router);
    let connection = door.connection.clone();
    let caller = Arc::new(Caller::at(door.peer, caller::Listener::Http));
    let clock = Arc::clone(&door.app.cores.facts.clock);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let under_way = connection.begin();
        request.extensions_mut().insert(connection.clone());
        request.extensions_mut().insert(caller.clone());
        if let Some(crowded) = crowded {
            request.extensions_mut().insert(crowded);
        }
        let origin = Origin {
            client: caller.address(),
            since: clock.monotonic(),
        };
        let answer = work_for(Some(origin), router.call(request));
        async move {
            let answer = answer.await;
            drop(under_way);
            answer
        }
    });
    let serving = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let mut is_old = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = serving.as_mut() => break ended,
            () = door.connection.until_cut() => break Ok(()),
            // A request under way is answered: it has bounds of its own.
            () = until_old(limits, &door.connection), if !is_old => {
                is_old = true;
                serving.as_mut().graceful_shutdown();
            }
            _ = door.stopped.changed() => {
                serving.as_mut().graceful_shutdown();
                break timeout(limits.grace, serving).await.unwrap_or(Ok(()));
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection was closed");
    }
}

/// Returns when the connection should end for its age, if it is no follower's.
async fn until_old(limits: HttpLimits, connection: &Connection) {
    loop {
        sleep(limits.connection_age_max).await;
        if !connection.follows() {
            return;
        }
    }
}
