//! One call: its progress, its cancellation, and when it becomes a task.

use std::future::pending;
use std::time::Duration;

use a2a::TaskState;
use openclaw_remote_agent_interface::{AskerBox, Call, CallOptions, updates_to};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::tool::Tool;

/// The interval of progress notifications while the agent is silent, so that the host does not time out.
const SILENCE_INTERVAL: Duration = Duration::from_secs(5);

/// How long the server waits for a client that does not read its notifications.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a call with a working task may still end before the client gets the task.
const TASK_DELAY: Duration = Duration::from_secs(1);

/// How long a cancellation of an agent's task may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// How a call ended for its client.
pub(crate) enum Outcome {
    /// With the tool's envelope.
    Envelope(String),
    /// The client follows the task of this continuation.
    Task(Value),
}

/// A call that runs.
pub(crate) struct RunningCall<'a> {
    pub(crate) tool: &'a Tool,
    pub(crate) request: &'a Value,
    pub(crate) caller: &'a Value,
    /// The receiver of progress, if the client requested it.
    pub(crate) progress: Option<(Peer<RoleServer>, ProgressToken)>,
    /// Whether the client may get a task.
    pub(crate) becomes_task: bool,
    /// The person at the client.
    pub(crate) person: Option<AskerBox>,
    /// Cancels the call.
    pub(crate) stop: CancellationToken,
}

impl RunningCall<'_> {
    /// Runs the call. A client that does not read holds up only its own call, and of its updates only the last is kept.
    ///
    /// # Errors
    /// The tool has no configuration; a sentence for the caller.
    pub(crate) async fn run(mut self) -> Result<Outcome, String> {
        let (sender, mut latest) = watch::channel(String::new());
        let updates = move |update: &str| {
            sender.send_replace(update.to_owned());
        };
        let options = CallOptions {
            caller: Some(self.caller.to_string()),
            updates: Some(updates_to(updates)),
            person: self.person.take(),
        };
        let call = self.tool.start(self.request, options)?;
        let Call { mut future, cancel } = call;
        let mut is_open = true;
        let mut is_stopped = false;
        let mut count = 0;
        let mut next = Instant::now() + SILENCE_INTERVAL;
        let mut task_at = None;
        loop {
            tokio::select! {
                biased;
                envelope = &mut future => {
                    let envelope = String::from(envelope);
                    if is_stopped {
                        self.abandon(&envelope, &latest).await;
                    }
                    return Ok(Outcome::Envelope(envelope));
                }
                () = self.stop.cancelled(), if !is_stopped => {
                    is_stopped = true;
                    cancel.cancel();
                }
                changed = latest.changed(), if is_open => {
                    is_open = changed.is_ok();
                    // The tool paces its updates.
                    next = Instant::now();
                    if self.becomes_task && task_at.is_none() && is_working(&parse(&latest)) {
                        task_at = Some(Instant::now() + TASK_DELAY);
                    }
                }
                () = sleep_until_some(task_at), if !is_stopped => {
                    return Ok(Outcome::Task(continuation_of(&latest)));
                }
                () = sleep_until(next), if !is_stopped => {
                    count += 1;
                    self.notify(count, &latest).await;
                    next = Instant::now() + SILENCE_INTERVAL;
                }
            }
        }
    }

    async fn notify(&self, count: u32, latest: &watch::Receiver<String>) {
        let Some((peer, token)) = &self.progress else {
            return;
        };
        let progress = ProgressNotificationParam::new(token.clone(), count.into())
            .with_message(progress_message(&parse(latest)));
        let _ = timeout(NOTIFY_TIMEOUT, peer.notify_progress(progress)).await;
    }

    /// Cancels the agent's task, or those of a group, that a cancelled `send` began: its client does not read the result,
    /// so nothing could follow it.
    async fn abandon(&self, envelope: &str, latest: &watch::Receiver<String>) {
        let is_new = self.request["action"] == "send"
            && ["continuation", "task_handle", "task_id"]
                .iter()
                .all(|name| self.request[*name].is_null());
        let continuation = match continuation_in(envelope) {
            Value::Null => continuation_of(latest),
            continuation => continuation,
        };
        let can_cancel =
            continuation["task"]["can_cancel"] == true || continuation["group"].is_object();
        if is_new && can_cancel {
            let request = json!({ "action": "cancel", "continuation": continuation });
            let options = CallOptions {
                caller: Some(self.caller.to_string()),
                ..CallOptions::default()
            };
            if let Ok(call) = self.tool.start(&request, options) {
                let _ = timeout(CANCEL_TIMEOUT, call.future).await;
            }
        }
    }
}

/// Returns the continuation in an envelope, or the one that its error kept; null without one.
fn continuation_in(envelope: &str) -> Value {
    let mut envelope: Value = serde_json::from_str(envelope).unwrap_or_default();
    let summary = match envelope["ok"] == true {
        true => &mut envelope["summary"],
        false => &mut envelope["error"]["details"]["latest_event_summary"],
    };
    summary["continuation"].take()
}

/// Parses the latest update; null before the first one.
fn parse(latest: &watch::Receiver<String>) -> Value {
    serde_json::from_str(&latest.borrow()).unwrap_or_default()
}

fn continuation_of(latest: &watch::Receiver<String>) -> Value {
    parse(latest)["summary"]["continuation"].take()
}

/// Waits until `instant`, or forever without one.
async fn sleep_until_some(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

fn is_working(update: &Value) -> bool {
    let task = &update["summary"]["continuation"]["task"];
    task["task_id"].is_string() && matches!(task["status"].as_str(), Some("submitted" | "working"))
}

/// Returns the state of an update. Text of agents stays in the fenced result.
fn progress_message(update: &Value) -> String {
    let summary = &update["summary"];
    if let Some(results) = summary["group"]["results"].as_array() {
        let states = results.iter().filter_map(|result| result["state"].as_str());
        let answered = states.filter(|state| matches!(*state, "completed" | "answered"));
        return format!("{} of {} agents answered", answered.count(), results.len());
    }
    let state = summary["continuation"]["task"]["status"].as_str();
    // An agent of the gateway chose its name itself, and hosts show progress outside of any fence.
    let alias = summary["target_alias"].as_str();
    let alias = alias.filter(|alias| !alias.starts_with("gateway:"));
    let alias = alias.unwrap_or("the agent");
    match state.map(TaskState::from_name) {
        Some(state) if state.is_foreign() => format!("{alias}: unknown state"),
        Some(state) => format!("{alias}: {}", state.as_str()),
        None => "waiting for the agent".to_owned(),
    }
}

/// Prepares a request whose call may become a task: the tool follows the agent's task, so that the server knows it early.
pub(crate) fn follow(request: &mut Map<String, Value>) {
    let is_send = request.get("action").is_some_and(|action| action == "send");
    if is_send && !request.contains_key("blocking") {
        request.entry("follow_updates").or_insert(Value::Bool(true));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn result_and_error_name_the_task_of_a_call() {
        let continuation = json!({"task": {"task_id": "t", "can_cancel": true}});
        let summary = json!({"continuation": continuation});
        let error = json!({"details": {"latest_event_summary": summary}});
        for envelope in [
            json!({"ok": true, "summary": summary}),
            json!({"ok": false, "error": error}),
        ] {
            assert_eq!(continuation_in(&envelope.to_string()), continuation);
        }
        for envelope in [
            "",
            r#"{"ok": true, "summary": {}}"#,
            r#"{"ok": false, "error": {"details": {}}}"#,
        ] {
            assert_eq!(continuation_in(envelope), Value::Null, "{envelope}");
        }
    }
}
