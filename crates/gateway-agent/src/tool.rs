//! A backend that calls an agent with the tool `remote_agent`: an A2A agent, or an agent of a local OpenClaw.

use std::borrow::Cow;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lru::LruCache;
use openclaw_remote_agent_interface::{Call, RSome, ToolBox, updates_to};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use gateway_bridge::openclaw::{neutralize_image_paths, sanitize};

use super::backend::{AgentBackend, BackendError, ProgressSink, Turn};

/// The maximum number of conversations with the agent.
const MAX_CONVERSATIONS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The total timeout for the end of a call and the cancellation of its task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(3);

/// The part of [`CANCEL_TIMEOUT`] that is reserved for the cancellation of the task.
const TASK_CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Calls one target of the tool. Each thread is one conversation with it.
pub struct ToolBackend {
    tool: Arc<ToolBox>,
    alias: String,
    openclaw: Option<OpenClawHost>,
    /// The continuations by thread.
    conversations: Mutex<LruCache<String, Value>>,
}

/// The OpenClaw that hosts the target agent.
struct OpenClawHost {
    /// The state directory, if it is on this machine.
    state_dir: Option<PathBuf>,
}

impl ToolBackend {
    /// Creates the backend of the target with this alias.
    pub fn new(tool: Arc<ToolBox>, alias: impl Into<String>) -> Self {
        Self {
            tool,
            alias: alias.into(),
            openclaw: None,
            conversations: Mutex::new(LruCache::new(MAX_CONVERSATIONS)),
        }
    }

    /// Disables commands and paths in untrusted text, for an agent of OpenClaw. `state_dir` is the state directory of an
    /// OpenClaw on this machine, which stores the delegation of each session.
    #[must_use]
    pub fn for_openclaw(mut self, state_dir: Option<PathBuf>) -> Self {
        self.openclaw = Some(OpenClawHost { state_dir });
        self
    }

    /// Sends the message, and follows its task until it ends or requires input.
    async fn call(
        &self,
        turn: &Turn,
        progress: ProgressSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<String, BackendError> {
        let mut caller = json!({"agent_id": turn.agent});
        if let Some(delegation) = &turn.delegation {
            caller["chain"] = delegation.json();
        }
        let mut text = Cow::Borrowed(turn.text.as_str());
        if let Some(openclaw) = &self.openclaw {
            caller["session_key"] = format!("gateway-agent:{}:{}", turn.agent, turn.thread).into();
            let state_dir = openclaw.state_dir.as_ref();
            caller["state_dir"] = state_dir.and_then(|path| path.to_str()).into();
            text = sanitize(&neutralize_image_paths(&text)).into_owned().into();
        }
        let mut request = json!({
            "action": "send", "parts": [{"kind": "text", "text": text}], "follow_updates": true,
        });
        let conversation = self.conversations.lock().get(&turn.thread).cloned();
        match conversation {
            Some(continuation) => request["continuation"] = continuation,
            None => request["target_alias"] = self.alias.as_str().into(),
        }
        loop {
            let envelope = self.execute(&request, &caller, progress, cancel).await?;
            let summary = &envelope["summary"];
            if envelope["ok"] != true {
                let error = failure(&envelope);
                if !error.is_busy {
                    // The agent may have forgotten the conversation. The next message starts a new one.
                    self.conversations.lock().pop(&turn.thread);
                }
                return Err(error);
            }
            let continuation = &summary["continuation"];
            if continuation.is_object() {
                let continuation = continuation.clone();
                self.conversations
                    .lock()
                    .put(turn.thread.clone(), continuation);
            }
            let state = continuation["task"]["status"].as_str();
            if matches!(state, Some("submitted" | "working")) {
                request = json!({"action": "watch", "continuation": continuation});
                continue;
            }
            let text = summary["message_text"].as_str().unwrap_or_default().trim();
            let question = summary["status_message"].as_str().unwrap_or_default();
            return match state {
                // The text is that of the artifacts, if there are any.
                Some("input-required") if !text.contains(question.trim()) => {
                    Ok(format!("{text}\n\n{}", question.trim()).trim().to_owned())
                }
                Some("failed" | "rejected" | "canceled" | "auth-required") => {
                    let state = state.unwrap_or_default();
                    Err(BackendError::new(format!(
                        "the task of `{}` is {state}: {text}",
                        self.alias
                    )))
                }
                _ if text.is_empty() => Err(BackendError::new(format!(
                    "`{}` answered without text",
                    self.alias
                ))),
                _ => Ok(text.to_owned()),
            };
        }
    }

    /// Runs one call of the tool. On cancellation, also cancels the agent's task.
    async fn execute(
        &self,
        request: &Value,
        caller: &Value,
        progress: ProgressSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Value, BackendError> {
        let latest = Arc::new(Mutex::new(Value::Null));
        let on_update = Arc::clone(&latest);
        let (reported, mut report) = watch::channel(String::new());
        let updates = move |update: &str| {
            let update: Value = serde_json::from_str(update).unwrap_or_default();
            let summary = &update["summary"];
            let continuation = &summary["continuation"];
            if continuation.is_object() {
                *on_update.lock() = continuation.clone();
            }
            if let Some(text) = summary["status_message"].as_str() {
                reported.send_replace(text.to_owned());
            }
        };
        let call = self.start(request, caller, updates);
        let Call {
            mut future,
            cancel: stop,
        } = call;
        let pass_reports = async {
            while report.changed().await.is_ok() {
                let text = report.borrow_and_update().clone();
                progress(&text);
            }
            std::future::pending::<Infallible>().await
        };
        let envelope = tokio::select! {
            envelope = &mut future => envelope,
            never = pass_reports => match never {},
            () = cancel.cancelled() => {
                stop.cancel();
                let until = Instant::now() + CANCEL_TIMEOUT;
                let envelope = timeout_at(until - TASK_CANCEL_TIMEOUT, future).await;
                let envelope: Value = envelope
                    .ok()
                    .and_then(|envelope| serde_json::from_str(&envelope).ok())
                    .unwrap_or_default();
                let mut continuation = envelope["summary"]["continuation"].clone();
                if !continuation.is_object() {
                    continuation = latest.lock().clone();
                }
                if !continuation.is_object() {
                    continuation = request["continuation"].clone();
                }
                if continuation["task"]["can_cancel"] == true {
                    let request = json!({"action": "cancel", "continuation": continuation});
                    let call = self.start(&request, caller, |_| {});
                    let _ = timeout_at(until, call.future).await;
                }
                return Err(BackendError::new(format!("the call of `{}` was cancelled", self.alias)));
            }
        };
        serde_json::from_str(&envelope).map_err(|error| {
            BackendError::new("the tool gave no result").with_detail(error.to_string())
        })
    }

    fn start(
        &self,
        request: &Value,
        caller: &Value,
        updates: impl Fn(&str) + Send + Sync + 'static,
    ) -> Call {
        self.tool.execute(
            request.to_string().into(),
            RSome(caller.to_string().into()),
            RSome(updates_to(updates)),
        )
    }
}

impl AgentBackend for ToolBackend {
    fn answer<'a>(
        &'a self,
        turn: &'a Turn,
        progress: ProgressSink<'a>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, BackendError>> {
        Box::pin(self.call(turn, progress, cancel))
    }
}

/// Converts the error of a failed call. Only the operator receives the tool's text, because it may contain addresses.
fn failure(envelope: &Value) -> BackendError {
    let error = &envelope["error"];
    let reason = error["reason"].as_str().unwrap_or("unknown");
    let message = match reason {
        "delegation_too_deep" => error["message"].as_str().unwrap_or(reason).to_owned(),
        _ => format!("the call of the agent failed: {reason}"),
    };
    let made = match reason {
        "agent_busy" | "rate_limited" => BackendError::busy(message),
        _ => BackendError::new(message),
    };
    made.with_detail(error["message"].as_str().unwrap_or_default())
}
