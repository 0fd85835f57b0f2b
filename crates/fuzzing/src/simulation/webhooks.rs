//! The receiver of push notifications.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::routing::post;
use bytes::Bytes;
use serde_json::Value;

/// The host of the webhooks. The path is the id of the message.
pub(super) const HOOKS_HOST: &str = "hooks.example";

/// The response to a notification.
pub(super) const RECEIPT: &str = r#"{"ok":true}"#;

/// Marks a request that the network delivered after the sender had given up.
#[derive(Clone, Copy)]
pub(super) struct Late;

/// A completely received notification.
#[derive(Debug, Clone)]
pub(super) struct Notification {
    /// The state of the task; `None` for an artifact.
    pub(super) state: Option<String>,
    /// The time of the status, in a format that sorts as text.
    pub(super) timestamp: String,
    /// The id of the task. A message that the network duplicated can have two.
    task: String,
    body: Bytes,
}

impl Notification {
    /// Parses a body of A2A 0.3 or 1.0; `None` for any other body.
    fn parse(body: Bytes) -> Option<Self> {
        let value: Value = serde_json::from_slice(&body).ok()?;
        let update = value.get("statusUpdate").or(value.get("artifactUpdate"));
        // A2A 0.3 sends the task.
        let (task, status) = match update {
            Some(update) => (&update["taskId"], &update["status"]),
            None => (&value["id"], &value["status"]),
        };
        let state = status["state"].as_str();
        let state = state.map(|state| {
            let name = state.trim_start_matches("TASK_STATE_");
            name.to_ascii_lowercase().replace('_', "-")
        });
        let is_known = match &state {
            Some(state) => STATES.contains(&state.as_str()),
            None => value["artifactUpdate"]["artifact"].is_object(),
        };
        let timestamp = status["timestamp"].as_str().unwrap_or_default();
        let timestamp = timestamp.trim_end_matches('Z').to_owned();
        is_known.then_some(Self {
            state,
            timestamp,
            task: task.as_str().unwrap_or_default().to_owned(),
            body,
        })
    }

    pub(super) fn is_terminal(&self) -> bool {
        let state = self.state.as_deref().unwrap_or_default();
        TERMINAL_STATES.contains(&state)
    }
}

const TERMINAL_STATES: [&str; 4] = ["completed", "failed", "rejected", "canceled"];
const STATES: [&str; 8] = [
    "completed",
    "failed",
    "rejected",
    "canceled",
    "submitted",
    "working",
    "input-required",
    "auth-required",
];

/// The notifications of each webhook, in the order of arrival.
#[derive(Default)]
pub(super) struct Webhooks {
    received: Mutex<BTreeMap<String, Vec<Notification>>>,
    violations: Mutex<Vec<String>>,
}

impl Webhooks {
    pub(super) fn received(&self, id: &str) -> Vec<Notification> {
        let received = self.received.lock().unwrap();
        received.get(id).cloned().unwrap_or_default()
    }

    /// Returns the number of notifications that arrived more than once.
    pub(super) fn repeated(&self, id: &str) -> usize {
        let received = self.received(id);
        let bodies: std::collections::BTreeSet<_> =
            received.iter().map(|received| &received.body).collect();
        received.len() - bodies.len()
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.violations.lock().unwrap().clone()
    }

    pub(super) fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/{id}", post(receive))
            .with_state(Arc::clone(self))
    }

    /// Records a notification. An earlier state must not follow the end of its task, unless the network delayed the
    /// notification.
    fn record(&self, id: &str, notification: Notification, late: bool) {
        let mut received = self.received.lock().unwrap();
        let before = received.entry(id.to_owned()).or_default();
        let mut earlier = before.iter().rev();
        let last = earlier.find(|earlier| earlier.task == notification.task);
        if let Some(end) = last.filter(|last| last.is_terminal())
            && !late
            && !notification.is_terminal()
        {
            let mut violations = self.violations.lock().unwrap();
            violations.push(format!("{notification:?} after the end: {end:?}"));
        }
        before.push(notification);
    }
}

async fn receive(
    State(webhooks): State<Arc<Webhooks>>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> (StatusCode, &'static str) {
    let late = request.extensions().get::<Late>().is_some();
    let body = to_bytes(request.into_body(), usize::MAX).await;
    let Some(notification) = body.ok().and_then(Notification::parse) else {
        return (StatusCode::BAD_REQUEST, "");
    };
    webhooks.record(&id, notification, late);
    (StatusCode::OK, RECEIPT)
}
