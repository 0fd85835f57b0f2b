//! The subscriptions to tasks, observed outside the SDK.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use a2a::TaskId;
use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderName, HeaderValue, header::CONTENT_TYPE},
    middleware::Next,
    response::Response,
};
use serde_json::Value;
use tokio::sync::Notify;

/// The header with the HTTP path of a message.
pub const PATH: HeaderName = HeaderName::from_static("x-path");

const LARGEST_BODY: usize = 64 << 20;

/// The subscriptions, for which agents can wait.
#[derive(Clone, Default)]
pub struct Watchers(Arc<Mutex<HashMap<TaskId, Arc<Notify>>>>);

impl Watchers {
    pub fn of(&self, task: &str) -> Arc<Notify> {
        let mut tasks = self.0.lock().expect("no panic under the lock");
        Arc::clone(tasks.entry(task.to_owned()).or_default())
    }
}

/// Adds the path to requests and records subscriptions. A subscription exists once its stream begins.
pub async fn observe(State(watchers): State<Watchers>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    head.headers
        .insert(PATH, HeaderValue::from_str(&path).expect("a path"));
    let body = to_bytes(body, LARGEST_BODY).await.unwrap_or_default();
    let subscribed = subscription(&path, &body);
    let response = next.run(Request::from_parts(head, Body::from(body))).await;
    let streams = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if let (Some(task), true) = (subscribed, streams) {
        watchers.of(&task).notify_one();
    }
    response
}

/// Returns the task of a subscription request.
fn subscription(path: &str, body: &[u8]) -> Option<TaskId> {
    if let Some(task) = path.strip_suffix(":subscribe") {
        return task.rsplit('/').next().map(str::to_owned);
    }
    let call: Value = serde_json::from_slice(body).ok()?;
    let task = call["params"]["id"].as_str()?;
    (call["method"] == "SubscribeToTask").then(|| task.to_owned())
}
