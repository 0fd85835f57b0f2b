//! One instance in this process, and peers for it.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base::log::Log;
use openclaw_remote_agent::plugin::{CallInput, Plugin};
use serde_json::{Value, json};
use testkit::conformance::Peers;
use tokio_util::sync::CancellationToken;

use crate::support::in_process::RecordedLog;

/// The timeout of a wait. It is long enough for a busy machine.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The delay of a peer that never answers, longer than any test.
pub(crate) const NEVER_MS: u64 = 3_600_000;

/// Waits for a future within the timeout.
pub(crate) async fn within_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WAIT_TIMEOUT, future)
        .await
        .expect("the future completes before the timeout")
}

/// An instance with its log.
pub(crate) struct ToolFixture {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) log: Arc<RecordedLog>,
}

impl ToolFixture {
    pub(crate) fn new(config: &Value) -> Self {
        let log = Arc::<RecordedLog>::default();
        let plugin = Plugin::new(&config.to_string(), Arc::clone(&log) as Arc<dyn Log>);
        Self {
            plugin: Arc::new(plugin.unwrap_or_else(|error| panic!("{error}"))),
            log,
        }
    }

    /// Returns an instance with one target, `main`, which is the default.
    pub(crate) fn with_target(target: Value) -> Self {
        let mut target = target;
        target["alias"] = json!("main");
        target["default"] = json!(true);
        Self::new(&json!({"targets": [target]}))
    }

    pub(crate) fn with_peers(peers: &Peers) -> Self {
        Self::with_target(json!({"baseUrl": peers.origin("main")}))
    }

    /// Starts a call and passes each update to `on_update`.
    pub(crate) fn start(
        &self,
        request: &Value,
        cancel: &CancellationToken,
        on_update: impl Fn(Value) + Send + Sync + 'static,
    ) -> impl Future<Output = Value> + Send + 'static {
        let envelope = self.plugin.start(CallInput {
            request: request.to_string(),
            updates: Some(Arc::new(move |update: &str| on_update(parse(update)))),
            cancel: cancel.clone(),
            ..CallInput::default()
        });
        async move { parse(&envelope.await) }
    }

    /// Runs a call to its end.
    pub(crate) async fn call(&self, request: &Value) -> Value {
        within_timeout(self.start(request, &CancellationToken::new(), |_| ())).await
    }

    /// Runs a call to its end, and returns its updates as well.
    pub(crate) async fn call_with_updates(&self, request: &Value) -> (Value, Vec<Value>) {
        let updates = Arc::<Mutex<Vec<Value>>>::default();
        let on_update = {
            let updates = Arc::clone(&updates);
            move |update| updates.lock().unwrap().push(update)
        };
        let envelope =
            within_timeout(self.start(request, &CancellationToken::new(), on_update)).await;
        let updates = std::mem::take(&mut *updates.lock().unwrap_or_else(PoisonError::into_inner));
        (envelope, updates)
    }
}

/// Parses an envelope or an update.
pub(crate) fn parse(text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let is_envelope = value["ok"].is_boolean()
        && value["operation"] == "remote_agent"
        && value["action"].is_string()
        && (value["ok"] == true || value["error"]["reason"].is_string());
    assert!(is_envelope, "not an envelope: {text}");
    value
}

/// Starts peers with these scripts, see `fixtures/README.md`.
pub(crate) async fn peers(script: Value) -> Peers {
    Peers::start(&json!({"peers": script})).await.unwrap()
}

/// Returns the card of a JSON-RPC peer that streams.
pub(crate) fn card() -> Value {
    json!({
        "protocolVersion": "0.3.0", "name": "Desk", "description": "Answers.", "version": "1.0.0",
        "url": "{{origin}}/a2a/jsonrpc", "preferredTransport": "JSONRPC", "capabilities": {"streaming": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
    })
}

pub(crate) fn message(text: &str) -> Value {
    json!({"kind": "message", "messageId": "m-1", "role": "agent", "parts": [{"kind": "text", "text": text}]})
}

pub(crate) fn task(state: &str) -> Value {
    json!({"kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": state}})
}

pub(crate) fn status(state: &str, last: bool) -> Value {
    json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1", "status": {"state": state}, "final": last})
}

/// Returns a response or event with this JSON-RPC result.
pub(crate) fn result(result: Value) -> Value {
    json!({"result": result})
}

pub(crate) fn send_request() -> Value {
    json!({"action": "send", "parts": [{"kind": "text", "text": "hello"}]})
}

pub(crate) fn stream_request() -> Value {
    let mut request = send_request();
    request["follow_updates"] = json!(true);
    request
}

pub(crate) fn reason(envelope: &Value) -> &str {
    envelope["error"]["reason"].as_str().unwrap_or("none")
}
