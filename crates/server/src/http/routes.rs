//! Every operation there is: its path, what it takes and gives, who answers it, how it is described. The router and the
//! OpenAPI document are both made from this table, so they cannot differ.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use serde_json::Value;
use tokio::time::timeout;

use super::limits::HttpLimits;
use super::media_type::{MediaType, choose};
use super::openapi::operations as described;
use super::problem::{Kind, Problem};
use super::refusal::outcome_unknown;
use super::{
    App, append, body, cluster, configs, groups, in_order, nodes, observe, openapi, read, status, topics,
    transactions, trim,
};

/// One operation.
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// The forms of its answers, the usual one first; empty if they have no body.
    pub(super) produces: &'static [MediaType],
    /// The forms of its body; empty if it wants none.
    pub(super) takes: &'static [MediaType],
    /// The time that it may take in all.
    pub(super) wait: fn(&HttpLimits) -> Duration,
    pub(super) answer: fn() -> MethodRouter<Arc<App>>,
    /// Its OpenAPI operation object, but for what this table says.
    pub(super) describe: fn() -> Value,
}

/// The usual wait: for what asks the cores and has no wait of its own.
fn short(limits: &HttpLimits) -> Duration {
    limits.request_wait
}

fn change(limits: &HttpLimits) -> Duration {
    limits.request_wait + limits.body_wait + limits.change_wait
}

fn append_wait(limits: &HttpLimits) -> Duration {
    limits.request_wait + limits.body_wait + limits.append_wait
}

fn read_wait(limits: &HttpLimits) -> Duration {
    limits.request_wait + limits.read_wait_max
}

const JSON: &[MediaType] = &[MediaType::Json];
const NOTHING: &[MediaType] = &[];

/// All operations.
pub(super) static OPERATIONS: &[Operation] = &[
    Operation {
        method: Method::GET,
        path: "/health",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(status::health),
        describe: described::health,
    },
    Operation {
        method: Method::GET,
        path: "/metrics",
        produces: &[MediaType::OpenMetrics],
        takes: NOTHING,
        wait: short,
        answer: || get(status::metrics),
        describe: described::metrics,
    },
    Operation {
        method: Method::GET,
        path: "/ready",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(status::ready),
        describe: described::ready,
    },
    Operation {
        method: Method::GET,
        path: "/v1/cluster",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(cluster::cluster),
        describe: described::cluster,
    },
    Operation {
        method: Method::POST,
        path: "/v1/cluster/upgrade",
        produces: JSON,
        takes: NOTHING,
        wait: change,
        answer: || post(nodes::upgrade),
        describe: described::upgrade_cluster,
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/cluster/nodes/{node}",
        produces: NOTHING,
        takes: NOTHING,
        wait: change,
        answer: || delete(nodes::remove),
        describe: described::remove_node,
    },
    Operation {
        method: Method::PUT,
        path: "/v1/cluster/nodes/{node}/drain",
        produces: JSON,
        takes: JSON,
        wait: change,
        answer: || put(nodes::drain),
        describe: described::drain_node,
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/cluster/nodes/{node}/drain",
        produces: JSON,
        takes: NOTHING,
        wait: change,
        answer: || delete(nodes::undrain),
        describe: described::undrain_node,
    },
    Operation {
        method: Method::GET,
        path: "/v1/configs",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(configs::of_node),
        describe: described::configs::of_node,
    },
    Operation {
        method: Method::PATCH,
        path: "/v1/configs",
        produces: JSON,
        takes: JSON,
        wait: change,
        answer: || patch(configs::change_nodes),
        describe: described::configs::change_nodes,
    },
    Operation {
        method: Method::GET,
        path: "/v1/groups",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(groups::list),
        describe: described::groups::list,
    },
    Operation {
        method: Method::GET,
        path: "/v1/groups/{group}",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(groups::describe),
        describe: described::groups::describe,
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/groups/{group}",
        produces: NOTHING,
        takes: NOTHING,
        wait: change,
        answer: || delete(groups::delete),
        describe: described::groups::delete,
    },
    Operation {
        method: Method::GET,
        path: "/v1/groups/{group}/configs",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(configs::of_group),
        describe: described::configs::of_group,
    },
    Operation {
        method: Method::PATCH,
        path: "/v1/groups/{group}/configs",
        produces: JSON,
        takes: JSON,
        wait: change,
        answer: || patch(configs::change_group),
        describe: described::configs::change_group,
    },
    Operation {
        method: Method::PATCH,
        path: "/v1/groups/{group}/offsets",
        produces: JSON,
        takes: JSON,
        wait: change,
        answer: || patch(groups::set_offsets),
        describe: described::groups::set_offsets,
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/groups/{group}/offsets",
        produces: JSON,
        takes: NOTHING,
        wait: change,
        answer: || delete(groups::forget_offsets),
        describe: described::groups::forget_offsets,
    },
    Operation {
        method: Method::GET,
        path: "/v1/openapi.json",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(openapi::document),
        describe: described::openapi,
    },
    Operation {
        method: Method::GET,
        path: "/v1/status",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(status::status),
        describe: described::status,
    },
    Operation {
        method: Method::GET,
        path: "/v1/topics",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(topics::list),
        describe: described::list_topics,
    },
    Operation {
        method: Method::POST,
        path: "/v1/topics",
        produces: JSON,
        takes: JSON,
        wait: change,
        answer: || post(topics::create),
        describe: described::create_topic,
    },
    Operation {
        method: Method::GET,
        path: "/v1/topics/{topic}",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(topics::describe),
        describe: described::describe_topic,
    },
    Operation {
        method: Method::PATCH,
        path: "/v1/topics/{topic}",
        produces: JSON,
        takes: JSON,
        wait: change,
        answer: || patch(topics::grow),
        describe: described::grow_topic,
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/topics/{topic}",
        produces: NOTHING,
        takes: NOTHING,
        wait: change,
        answer: || delete(topics::delete),
        describe: described::delete_topic,
    },
    Operation {
        method: Method::PUT,
        path: "/v1/topics/{topic}/replicas",
        produces: JSON,
        takes: JSON,
        wait: change,
        answer: || put(topics::set_replicas),
        describe: described::set_replicas,
    },
    Operation {
        method: Method::POST,
        path: "/v1/topics/{topic}/unclean-opening",
        produces: JSON,
        takes: JSON,
        wait: change,
        answer: || post(topics::open_uncleanly),
        describe: described::open_uncleanly,
    },
    Operation {
        method: Method::GET,
        path: "/v1/topics/{topic}/configs",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(configs::of_topic),
        describe: described::configs::of_topic,
    },
    Operation {
        method: Method::PATCH,
        path: "/v1/topics/{topic}/configs",
        produces: JSON,
        takes: JSON,
        wait: change,
        answer: || patch(configs::change_topic),
        describe: described::configs::change_topic,
    },
    Operation {
        method: Method::GET,
        path: "/v1/topics/{topic}/records",
        produces: in_order::PRODUCES,
        takes: NOTHING,
        wait: read_wait,
        answer: || get(in_order::records),
        describe: described::read_in_order,
    },
    Operation {
        method: Method::POST,
        path: "/v1/topics/{topic}/records",
        produces: JSON,
        takes: append::TAKES,
        wait: append_wait,
        answer: || post(append::to_topic),
        describe: described::append_to_topic,
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/topics/{topic}/records",
        produces: JSON,
        takes: NOTHING,
        wait: change,
        answer: || delete(trim::in_order),
        describe: described::trim_in_order,
    },
    Operation {
        method: Method::GET,
        path: "/v1/topics/{topic}/cut",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(in_order::cut),
        describe: described::cut,
    },
    Operation {
        method: Method::GET,
        path: "/v1/topics/{topic}/partitions/{partition}/records",
        produces: read::PRODUCES,
        takes: NOTHING,
        wait: read_wait,
        answer: || get(read::from_partition),
        describe: described::read,
    },
    Operation {
        method: Method::POST,
        path: "/v1/topics/{topic}/partitions/{partition}/records",
        produces: JSON,
        takes: append::TAKES,
        wait: append_wait,
        answer: || post(append::to_partition),
        describe: described::append_to_partition,
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/topics/{topic}/partitions/{partition}/records",
        produces: JSON,
        takes: NOTHING,
        wait: change,
        answer: || delete(trim::before),
        describe: described::trim,
    },
    Operation {
        method: Method::GET,
        path: "/v1/topics/{topic}/partitions/{partition}/transactions",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(transactions::of_partition),
        describe: described::transactions::of_partition,
    },
    Operation {
        method: Method::POST,
        path: "/v1/topics/{topic}/partitions/{partition}/transactions/{first_offset}/abort",
        produces: JSON,
        takes: NOTHING,
        wait: change,
        answer: || post(transactions::abort_hanging),
        describe: described::transactions::abort_hanging,
    },
    Operation {
        method: Method::GET,
        path: "/v1/transactions",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(transactions::list),
        describe: described::transactions::list,
    },
    Operation {
        method: Method::GET,
        path: "/v1/transactions/{transaction}",
        produces: JSON,
        takes: NOTHING,
        wait: short,
        answer: || get(transactions::describe),
        describe: described::transactions::describe,
    },
    Operation {
        method: Method::POST,
        path: "/v1/transactions/{transaction}/abort",
        produces: JSON,
        takes: NOTHING,
        wait: change,
        answer: || post(transactions::abort),
        describe: described::transactions::abort,
    },
];

/// The operations over a node.
pub(super) fn router(app: Arc<App>) -> Router {
    let mut routes = Router::new();
    for operation in OPERATIONS {
        let bounds = Bounds {
            app: Arc::clone(&app),
            operation,
        };
        let answer = (operation.answer)().route_layer(from_fn_with_state(bounds, within_bounds));
        routes = routes.route(operation.path, answer);
    }
    finish(routes, app)
}

/// Gives routes the answers to requests that none of them serves, and what is done with every request.
pub(super) fn finish(routes: Router<Arc<App>>, app: Arc<App>) -> Router {
    routes
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(&app), observe::observe))
        .with_state(app)
}

/// An operation and the limits it is under.
#[derive(Clone)]
pub(super) struct Bounds {
    pub(super) app: Arc<App>,
    pub(super) operation: &'static Operation,
}

/// Refuses a body that is too large before anything of it is read, an answer that the client would not take, and a
/// request that takes too long.
pub(super) async fn within_bounds(
    State(Bounds { app, operation }): State<Bounds>,
    mut request: Request,
    next: Next,
) -> Response {
    let bytes_max = match operation.takes {
        [] => app.limits.unread_bytes_max,
        _ => app.body_bytes_max(),
    };
    if let Err(problem) = body::check_announced(request.body(), bytes_max) {
        return problem.into_response();
    }
    // Scrapers and probes ask for all sorts of things and take what they get.
    if operation.path.starts_with("/v1/") && !operation.produces.is_empty() {
        match choose(request.headers(), operation.produces) {
            Ok(media_type) => request.extensions_mut().insert(media_type),
            Err(problem) => return problem.into_response(),
        };
    }
    let wait = (operation.wait)(&app.limits);
    let is_change = !request.method().is_safe();
    match timeout(wait, next.run(request)).await {
        Ok(response) => response,
        Err(_) if is_change => outcome_unknown().into_response(),
        Err(_) => {
            let detail = format!("no answer was ready within {wait:?}");
            Problem::new(Kind::Unavailable, detail).into_response()
        }
    }
}

async fn unknown_path(uri: Uri) -> Problem {
    let mut paths: Vec<&str> = OPERATIONS.iter().map(|operation| operation.path).collect();
    paths.dedup();
    let detail = format!("{} is not served here", uri.path());
    Problem::new(Kind::UnknownPath, detail).with("paths", paths)
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let mut methods: Vec<&str> = Vec::new();
    for operation in OPERATIONS
        .iter()
        .filter(|operation| is_at(operation.path, uri.path()))
    {
        methods.push(operation.method.as_str());
        if operation.method == Method::GET {
            methods.push("HEAD");
        }
    }
    let methods = methods.join(", ");
    let detail = format!("{} takes {methods}, not {method}", uri.path());
    Problem::new(Kind::MethodNotAllowed, detail).allowing(&methods)
}

/// Says if a path is one of those that a template stands for.
fn is_at(template: &str, path: &str) -> bool {
    let (mut template, mut path) = (template.split('/'), path.split('/'));
    loop {
        match (template.next(), path.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == given || wanted.starts_with('{') => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_every_operation() {
        const PAGE: &str = include_str!("../../../../docs/http.md");
        let rows = PAGE.split("\n| operation |").nth(1).expect("the table");
        let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
        let listed: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        let served: Vec<String> = OPERATIONS
            .iter()
            .map(|operation| format!("{} {}", operation.method, operation.path))
            .collect();
        assert_eq!(listed, served);
    }
}
