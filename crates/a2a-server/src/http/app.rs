//! The router of the whole server: the endpoints of the protocol and of the operator, behind the access control.
//!
//! The operator has an API for the page of tasks, and endpoints for health checks and metrics.

use std::sync::Arc;

use a2a::v0_3::state_name;
use a2a::v1_0::{Artifact, Message, Part, PartContent, Role};
use a2a::{A2aError, ErrorReason};
use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base::text::shortened;
use http_server::operator_html::Page;
use serde::Deserialize;
use serde_json::{Value, json};

use super::access_control::{AccessControl, RequestContext, control};
use super::error::PlainError;
use super::request;
use crate::metrics::CONTENT_TYPE;
use crate::service::Service;
use crate::store::{Cursor, Filter, Summary};
use crate::task_record::TaskRecord;

/// Merges the routes of the operator and of the protocol, and applies the access control to both.
pub fn router(wire: Router, operator: Operator, access: Arc<AccessControl>) -> Router {
    let page = Page::new(
        include_str!("operator_page/page.html"),
        include_str!("operator_page/page.js"),
    );
    let shown = get(move || async move { page.response() }).layer(from_fn(require_direct));
    let api = Router::new()
        .route("/api/tasks", get(tasks))
        .route("/api/tasks/{id}", get(task).delete(delete))
        .route("/api/tasks/{id}/cancel", post(cancel))
        .layer(from_fn(require_operator));
    let health = Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .layer(from_fn(require_client));
    let own = Router::new()
        .route("/", shown)
        .merge(api)
        .merge(health)
        .with_state(Arc::new(operator));
    wire.merge(own).layer(from_fn_with_state(access, control))
}

/// Rejects requests that do not come directly from this machine.
async fn require_direct(request: Request, next: Next) -> Result<Response, PlainError> {
    if !RequestContext::get(request.extensions())?.direct {
        return Err(denied(
            "the operator's page is only available from localhost; from elsewhere, forward the port (`ssh -L`)",
        ));
    }
    Ok(next.run(request).await)
}

/// Rejects requests that are not the operator's. Without tokens, the operator is every client on this machine.
/// Otherwise, the request needs a token of an operator.
async fn require_operator(request: Request, next: Next) -> Result<Response, PlainError> {
    let context = RequestContext::get(request.extensions())?;
    let principal = context.principal.clone()?;
    match (principal.authenticated, principal.operator, context.direct) {
        (true, true, _) | (false, _, true) => Ok(next.run(request).await),
        (true, false, _) => Err(denied(
            "only available to the operator; create an operator's token with `remote-agent serve clients add NAME --operator`",
        )),
        (false, _, false) => Err(denied("only available to the operator, from localhost")),
    }
}

/// Rejects requests that neither come from this machine nor have a valid token.
async fn require_client(request: Request, next: Next) -> Result<Response, PlainError> {
    let context = RequestContext::get(request.extensions())?;
    if !context.direct && !context.principal.clone()?.authenticated {
        return Err(denied("only available from localhost"));
    }
    Ok(next.run(request).await)
}

fn denied(text: &'static str) -> PlainError {
    A2aError::new(ErrorReason::PermissionDenied, text).into()
}

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
struct ListQuery {
    /// The field `next` of the previous response.
    after: Option<String>,
}

/// Lists the tasks of all clients, the last changed first.
async fn tasks(
    State(operator): State<Arc<Operator>>,
    Query(query): Query<ListQuery>,
    headers: HeaderMap,
) -> Result<Response, PlainError> {
    let after = query.after.map(|after| after.parse::<Cursor>());
    let after = after.transpose().map_err(|error| {
        A2aError::new(ErrorReason::InvalidParams, error.to_string()).at("after")
    })?;
    let filter = Filter {
        owner: None,
        context_id: None,
        state: None,
        changed_after: None,
        page_size: PAGE_SIZE,
        after,
    };
    let listed = operator.service.tasks(&filter).await?;
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
    let tag = request::entity_tag(&body);
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    if request::matches_entity_tag(known.filter_map(|line| line.to_str().ok()), &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let content_type = "application/json".to_owned();
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, body).into_response())
}

/// Returns a task of any client with its messages and artifacts.
async fn task(
    State(operator): State<Arc<Operator>>,
    Path(id): Path<String>,
) -> Result<impl IntoResponse, PlainError> {
    let record = operator.service.task(&id).await?;
    let headers = [(header::CACHE_CONTROL, "no-store")];
    let task = task_json(&Summary::new(&record));
    Ok((headers, Json(json(task, &record))))
}

/// Cancels a task of any client.
async fn cancel(
    State(operator): State<Arc<Operator>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<Value>, PlainError> {
    require_page_header(&headers)?;
    operator.service.stop(&id).await?;
    Ok(Json(json!({"canceled": true})))
}

/// Deletes a task of any client.
async fn delete(
    State(operator): State<Arc<Operator>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<Value>, PlainError> {
    require_page_header(&headers)?;
    if !operator.service.delete(&id).await? {
        let text = "unknown task; it may be deleted already";
        return Err(A2aError::new(ErrorReason::TaskNotFound, text).into());
    }
    Ok(Json(json!({"deleted": true})))
}

fn require_page_header(headers: &HeaderMap) -> Result<(), PlainError> {
    let (name, value) = PAGE_HEADER;
    match headers.get(name) {
        Some(header) if header == value => Ok(()),
        _ => Err(denied(
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
async fn alive() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// Responds with 200 if the executor and the store are ready, else with 503. Only this machine and operators see the cause, which
/// may name local addresses.
async fn ready(
    State(operator): State<Arc<Operator>>,
    request: Request,
) -> Result<Response, PlainError> {
    let context = RequestContext::get(request.extensions())?;
    let is_operator = context.principal.as_ref().is_ok_and(|one| one.operator);
    Ok(match operator.service.ready().await {
        Ok(()) => Json(json!({"status": "ok"})).into_response(),
        Err(error) => {
            let why = match context.direct || is_operator {
                true => &*error,
                false => {
                    "only the operator sees the cause: from localhost, or with an operator's token"
                }
            };
            let body = Json(json!({"status": "unavailable", "why": why}));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    })
}

/// Responds with the metrics in the text format of Prometheus.
async fn metrics(State(operator): State<Arc<Operator>>) -> Response {
    let content_type = [(header::CONTENT_TYPE, CONTENT_TYPE)];
    (content_type, operator.service.metrics().text()).into_response()
}

/// The maximum length of one text, in characters.
const MAX_TEXT_CHARS: usize = 20_000;

/// The maximum number of messages and of artifacts, the newest.
const MAX_ITEMS: usize = 100;

/// Adds the messages and artifacts to the JSON of a task. Files are named with their sizes, without their contents.
fn json(mut task: Value, record: &TaskRecord) -> Value {
    let status = &record.task.status;
    let history = record.task.history.iter().flatten();
    // The history lacks the message of the current status.
    let messages: Vec<Value> = history
        .chain(status.message.as_ref())
        .map(message_json)
        .collect();
    let artifacts = record.task.artifacts.iter().flatten();
    let artifacts: Vec<Value> = artifacts.map(artifact_json).collect();
    task["messages"] = newest(messages);
    task["artifacts"] = newest(artifacts);
    task["statusMs"] = status.timestamp.map(|time| time.timestamp_millis()).into();
    task
}

fn newest(mut items: Vec<Value>) -> Value {
    let excess = items.len().saturating_sub(MAX_ITEMS);
    items.drain(..excess).for_each(drop);
    items.into()
}

fn message_json(message: &Message) -> Value {
    let from = match message.role {
        Role::User => "client",
        _ => "agent",
    };
    json!({"from": from, "parts": parts_json(&message.parts)})
}

fn artifact_json(artifact: &Artifact) -> Value {
    let name = artifact.name.as_deref().unwrap_or(&artifact.artifact_id);
    json!({"name": name, "parts": parts_json(&artifact.parts)})
}

/// Returns the parts. Joins texts, because a streamed text arrives in many parts.
fn parts_json(parts: &[Part]) -> Value {
    let mut all: Vec<Value> = Vec::new();
    let mut text = String::new();
    for part in parts {
        if let PartContent::Text(more) = &part.content {
            text += more;
            continue;
        }
        flush(&mut all, &mut text);
        all.push(match &part.content {
            PartContent::Raw(bytes) => {
                json!({"file": part.filename, "type": part.media_type, "bytes": bytes.len()})
            }
            PartContent::Url(url) => {
                json!({"file": part.filename, "type": part.media_type, "url": url})
            }
            PartContent::Data(data) => {
                json!({"data": shortened(&data.to_string(), MAX_TEXT_CHARS)})
            }
            PartContent::Text(_) => continue,
        });
    }
    flush(&mut all, &mut text);
    newest(all)
}

fn flush(all: &mut Vec<Value>, text: &mut String) {
    if !text.is_empty() {
        all.push(json!({"text": shortened(&std::mem::take(text), MAX_TEXT_CHARS)}));
    }
}

#[cfg(test)]
mod detail_tests {
    use super::*;

    #[test]
    fn texts_are_joined_and_cut_and_files_have_sizes() {
        let mut file = Part::raw(vec![0; 7]);
        file.filename = Some("a.png".to_owned());
        let parts = [
            Part::text("one "),
            Part::text("two"),
            file,
            Part::text("x".repeat(MAX_TEXT_CHARS + 1)),
        ];
        let json = parts_json(&parts);
        assert_eq!(json[0]["text"], "one two");
        assert_eq!(json[1], json!({"file": "a.png", "type": null, "bytes": 7}));
        let cut = json[2]["text"].as_str().map(|text| text.chars().count());
        assert_eq!(cut, Some(MAX_TEXT_CHARS + 1));
    }
}

#[cfg(test)]
mod tests;
