//! The operator's API, and the endpoints for health checks and metrics.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::plain;
use super::{etag, task_detail};
use crate::metrics::CONTENT_TYPE;
use crate::service::Service;
use crate::store::{Cursor, Filter, Summary};
use a2a::v0_3::state_name;
use a2a::{A2aError, ErrorReason};

/// The state of the operator's API.
pub struct Operator {
    /// The service with the tasks that the API shows.
    pub service: Service,
    /// A one-line description of the server for the operator's page.
    pub description: String,
}

/// The maximum number of tasks in one response.
const PAGE_SIZE: usize = 200;

/// A header that web pages of other origins cannot send without a preflight request, and its value (Fetch Standard
/// §4.8).
pub const PAGE_HEADER: (&str, &str) = ("x-requested-with", "remote-agent");

/// The query of a list of tasks.
#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    /// The field `next` of the previous response.
    after: Option<String>,
}

/// Lists the tasks of all clients, the last changed first.
pub(super) async fn tasks(
    State(operator): State<Arc<Operator>>,
    Query(query): Query<ListQuery>,
    headers: HeaderMap,
) -> Response {
    let after = match query.after.map(|after| after.parse::<Cursor>()).transpose() {
        Ok(after) => after,
        Err(error) => {
            return plain(
                &A2aError::new(ErrorReason::InvalidParams, error.to_string()).at("after"),
            );
        }
    };
    let filter = Filter {
        owner: None,
        context_id: None,
        state: None,
        changed_after: None,
        page_size: PAGE_SIZE,
        after,
    };
    let listed = match operator.service.tasks(&filter).await {
        Ok(listed) => listed,
        Err(error) => return plain(&error),
    };
    let ready = match operator.service.ready().await {
        Ok(()) => Value::Bool(true),
        Err(error) => Value::String(error),
    };
    let body = json!({
        "server": operator.description,
        "ready": ready,
        "total": listed.total,
        "next": listed.next.map(|next| next.to_string()),
        "tasks": listed.tasks.iter().map(task_json).collect::<Vec<_>>(),
    });
    let body = Bytes::from(body.to_string());
    let tag = etag::compute(&body);
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    if etag::matches(known.filter_map(|line| line.to_str().ok()), &tag) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    let content_type = "application/json".to_owned();
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (headers, body).into_response()
}

/// Returns a task of any client with its messages and artifacts.
pub(super) async fn task(
    State(operator): State<Arc<Operator>>,
    Path(id): Path<String>,
) -> Response {
    match operator.service.task(&id).await {
        Ok(record) => {
            let headers = [(header::CACHE_CONTROL, "no-store")];
            (
                headers,
                Json(task_detail::json(
                    task_json(&Summary::new(&record)),
                    &record,
                )),
            )
                .into_response()
        }
        Err(error) => plain(&error),
    }
}

/// Cancels a task of any client.
pub(super) async fn cancel(
    State(operator): State<Arc<Operator>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    if let Err(error) = require_page_header(&headers) {
        return plain(&error);
    }
    match operator.service.stop(&id).await {
        Ok(_) => Json(json!({"canceled": true})).into_response(),
        Err(error) => plain(&error),
    }
}

/// Deletes a task of any client.
pub(super) async fn delete(
    State(operator): State<Arc<Operator>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    if let Err(error) = require_page_header(&headers) {
        return plain(&error);
    }
    match operator.service.delete(&id).await {
        Ok(true) => Json(json!({"deleted": true})).into_response(),
        Ok(false) => plain(&A2aError::new(
            ErrorReason::TaskNotFound,
            "unknown task; it may be deleted already",
        )),
        Err(error) => plain(&error),
    }
}

fn require_page_header(headers: &HeaderMap) -> Result<(), A2aError> {
    let (name, value) = PAGE_HEADER;
    match headers.get(name) {
        Some(header) if header == value => Ok(()),
        _ => Err(A2aError::new(
            ErrorReason::PermissionDenied,
            "only the server's own page may do this; send `X-Requested-With: remote-agent`",
        )),
    }
}

/// Returns the JSON of a task for the operator.
pub fn task_json(task: &Summary) -> Value {
    json!({
        "id": task.id,
        "contextId": task.context_id,
        "client": task.owner,
        "agent": task.agent,
        "state": state_name(&task.state),
        "settled": task.is_terminal(),
        "createdMs": task.created_ms,
        "changedMs": task.changed_ms,
        "asked": task.request_excerpt,
        "says": task.status_excerpt,
    })
}

/// Responds with 200 while the process runs.
pub(super) async fn alive() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// Responds with 200 if the executor and the store are ready, else with 503 and the cause.
pub(super) async fn ready(State(operator): State<Arc<Operator>>) -> Response {
    match operator.service.ready().await {
        Ok(()) => Json(json!({"status": "ok"})).into_response(),
        Err(error) => {
            let body = Json(json!({"status": "unavailable", "why": error}));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

/// Responds with the metrics in the text format of Prometheus.
pub(super) async fn metrics(State(operator): State<Arc<Operator>>) -> Response {
    let content_type = [(header::CONTENT_TYPE, CONTENT_TYPE)];
    (content_type, operator.service.metrics().text()).into_response()
}
