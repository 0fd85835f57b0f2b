//! Reads the outcome of a run from the gateway's records, and caches the runs that were started on a connection.
//!
//! Four records describe a finished run: the final response to `agent`, which is complete; the response to `agent.wait`,
//! which the gateway keeps for a while; the gateway's task ledger on disk; and the history of the session.

use std::num::NonZeroUsize;

use lru::LruCache;
use serde_json::{Map, Value, json};
use url::{Position, Url};

use a2a::{Task, data_url, spell, text_part};
use peer::{PeerError, excerpt};

use super::protocol::error_text;

/// The id of the artifact with the answer.
pub(super) const ARTIFACT_ID: &str = "reply";

/// The ledger's text for a run whose process exited; see [`from_record`].
const EXITED_BEFORE_RESTART_TEXT: &str = "exited before restart";

/// The text for a failed run without a reason.
const FAILED_TEXT: &str = "the agent's run failed";

/// The text for a run that was aborted, without a reason.
const ABORTED_TEXT: &str = "the agent's run was aborted";

/// The text for a run that timed out, without a reason.
const TIMED_OUT_TEXT: &str = "the agent's run timed out";

/// The maximum number of cached runs. The least recently queried one is evicted.
const MAX_RUNS: usize = 128;

/// The maximum size of a cached response, in bytes. Longer responses are requested from the gateway again.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// The state and the result of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunOutcome {
    /// The state of the task, as A2A 0.3 names it.
    pub state: &'static str,
    /// The reason or summary.
    pub text: Option<String>,
    /// The agent's answer, as parts.
    pub parts: Vec<Value>,
    /// Further information from the gateway about the run.
    pub metadata: Map<String, Value>,
}

impl RunOutcome {
    fn new(state: &'static str) -> Self {
        Self {
            state,
            text: None,
            parts: Vec::new(),
            metadata: Map::new(),
        }
    }

    fn with_text(mut self, text: Option<&str>) -> Self {
        self.text = text.filter(|text| !text.is_empty()).map(str::to_owned);
        self
    }

    /// Adds a text answer, if there is one.
    #[must_use]
    pub(super) fn with_answer(mut self, text: Option<&str>) -> Self {
        let text = text.filter(|text| !text.is_empty());
        self.parts.extend(text.map(text_part));
        self
    }

    /// Returns the outcome of an accepted run that has not started.
    pub(super) fn submitted() -> Self {
        Self::new("submitted")
    }

    /// Returns the outcome of a running run.
    pub(super) fn working() -> Self {
        Self::new("working")
    }

    /// Returns the outcome of a run that was canceled on request.
    pub(super) fn canceled() -> Self {
        Self::new("canceled").with_text(Some("The run was aborted on request."))
    }

    /// Returns the outcome of a failed run.
    pub(super) fn failed(reason: &str) -> Self {
        Self::new("failed").with_text(Some(reason))
    }

    /// Returns whether the run has ended.
    pub(super) fn is_terminal(&self) -> bool {
        !matches!(self.state, "working" | "submitted")
    }

    /// Returns the task status in the names of A2A 0.3.
    pub(super) fn status(&self) -> Value {
        let mut status = json!({ "state": self.state });
        if let Some(text) = &self.text {
            status["message"] = message(text);
        }
        status
    }

    /// Returns the run as a task.
    ///
    /// # Errors
    /// The run or context id is invalid.
    pub(super) fn task(&self, run: &str, context: &str) -> Result<Task, PeerError> {
        let mut task = json!({
            "kind": "task",
            "id": run,
            "contextId": context,
            "status": self.status(),
        });
        if !self.parts.is_empty() {
            task["artifacts"] = json!([artifact(&self.parts)]);
        }
        if !self.metadata.is_empty() {
            task["metadata"] = json!({ "openclaw": self.metadata });
        }
        Task::read(task).map_err(super::protocol::invalid_shape)
    }
}

/// Returns the artifact of an answer.
pub(super) fn artifact(parts: &[Value]) -> Value {
    json!({ "artifactId": ARTIFACT_ID, "name": ARTIFACT_ID, "parts": parts })
}

/// Returns an agent message with a status text.
pub(super) fn message(text: &str) -> Value {
    json!({ "kind": "message", "role": "agent", "messageId": "status", "parts": [text_part(text)] })
}

/// Reads the final response to `agent`.
pub(super) fn from_response(response: &Value) -> RunOutcome {
    let payloads = response.pointer("/result/payloads");
    let payloads = payloads
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let (errors, answers): (Vec<_>, Vec<_>) = payloads
        .iter()
        // Channels show these two beside the answer, or not at all.
        .filter(|payload| payload["isReasoning"] != true && payload["isCommentary"] != true)
        .partition(|payload| payload["isError"] == true);
    let reason = errors.iter().find_map(|payload| payload["text"].as_str());
    let mut outcome = end(response, reason).unwrap_or_else(|| unclear_end(response, reason));
    if outcome.state == "completed" {
        let has_only_errors = answers.is_empty() && !errors.is_empty();
        outcome = match failure(response, has_only_errors) {
            Some(text) => RunOutcome::failed(reason.unwrap_or(text)),
            // An agent that reports a problem beside its answer has completed the run.
            None => outcome.with_answer(reason),
        };
    }
    outcome.parts.extend(answers.into_iter().flat_map(parts_of));
    outcome.metadata = metadata(response);
    outcome
}

/// Returns why a run failed whose final response has the status of a completed one: the gateway gives that status to every run
/// that it has carried out. The result's metadata has its error, whether it was aborted, and why the model stopped.
fn failure(response: &Value, has_only_errors: bool) -> Option<&str> {
    let meta = &response["result"]["meta"];
    let stops_by_error = [&response["stopReason"], &meta["stopReason"]]
        .into_iter()
        .any(|reason| reason == "error");
    if meta["error"].is_null() && meta["aborted"] != true && !stops_by_error && !has_only_errors {
        return None;
    }
    let text = error_text(&meta["error"]).or_else(|| error_text(&response["error"]));
    Some(text.unwrap_or(match meta["aborted"] == true {
        true => ABORTED_TEXT,
        false => FAILED_TEXT,
    }))
}

/// Reads a response to `agent.wait`; `None` if the run has not ended or the gateway does not know it.
pub(super) fn from_wait(response: &Value) -> Option<RunOutcome> {
    let mut outcome = end(response, None)?;
    outcome.metadata = metadata(response);
    Some(
        outcome.with_answer(
            response
                .pointer("/terminalReply/text")
                .and_then(Value::as_str),
        ),
    )
}

/// Returns whether a response to `agent.wait` reports a completed run without saying what its answer is.
pub(super) fn lacks_answer(outcome: &RunOutcome, response: &Value) -> bool {
    outcome.state == "completed" && response["terminalReply"].is_null()
}

/// Returns whether a response to `agent` says that the run goes on, so that another response follows.
pub(super) fn goes_on(response: &Value) -> bool {
    matches!(
        RunWord::read(&response["status"]),
        Some(RunWord::Queued | RunWord::Running)
    )
}

/// Reads an entry of the task ledger.
pub(super) fn from_record(entry: &Value) -> RunOutcome {
    let reason = error_text(&entry["error"]).or(entry["terminalSummary"].as_str());
    match RunWord::read(&entry["status"]) {
        Some(RunWord::Queued) => RunOutcome::submitted(),
        Some(RunWord::Done) => RunOutcome::new("completed"),
        Some(RunWord::Failed | RunWord::TimedOut) => {
            RunOutcome::failed(reason.unwrap_or(FAILED_TEXT))
        }
        Some(RunWord::Canceled) => match reason {
            Some(reason) if reason.contains(EXITED_BEFORE_RESTART_TEXT) => RunOutcome::failed(
                "the gateway restarted during this run and ended it. The gateway may continue the conversation \
                 in a new run; ask for its progress with the same context_id",
            ),
            _ => RunOutcome::canceled(),
        },
        Some(RunWord::Running) | None => RunOutcome::working(),
    }
}

/// What the gateway's word for the state of a run means.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RunWord {
    Queued,
    Running,
    Done,
    Failed,
    TimedOut,
    Canceled,
}

impl RunWord {
    /// Reads a word by its value: its case and separators do not count. Returns `None` for an unknown word.
    fn read(status: &Value) -> Option<Self> {
        Some(match &*spell(status.as_str()?.trim()) {
            "accepted" | "queued" | "pending" | "submitted" => Self::Queued,
            "started" | "running" | "working" | "inflight" | "inprogress" => Self::Running,
            "ok" | "completed" | "complete" | "done" | "success" | "succeeded" | "finished" => {
                Self::Done
            }
            "error" | "failed" | "failure" | "lost" => Self::Failed,
            "timeout" | "timedout" => Self::TimedOut,
            "aborted" | "canceled" | "cancelled" | "killed" | "stopped" => Self::Canceled,
            _ => return None,
        })
    }
}

/// Reads the end of a run from a response to `agent` or `agent.wait`, without its answer. `reason` is the reason in the
/// answer, if any. Returns `None` if the response does not say that the run has ended.
fn end(response: &Value, reason: Option<&str>) -> Option<RunOutcome> {
    let aborted = matches!(
        response["stopReason"].as_str(),
        Some("rpc" | "aborted" | "user" | "stop-command")
    );
    let timed_out = response["timeoutPhase"].is_string();
    let has_ended = response["endedAt"].is_number();
    let failed = |text: &str| RunOutcome::failed(reason_of(response, reason).unwrap_or(text));
    Some(match RunWord::read(&response["status"]) {
        Some(RunWord::Done) => RunOutcome::new("completed"),
        Some(RunWord::Failed | RunWord::TimedOut) if aborted && !timed_out => {
            RunOutcome::canceled()
        }
        Some(RunWord::Canceled) if !timed_out => RunOutcome::canceled(),
        Some(RunWord::Failed) => failed(FAILED_TEXT),
        Some(RunWord::Canceled) => failed(TIMED_OUT_TEXT),
        // A timeout of `agent.wait` itself has no `endedAt` either.
        Some(RunWord::TimedOut) if timed_out || has_ended => failed(TIMED_OUT_TEXT),
        Some(RunWord::TimedOut) if response["summary"] == "aborted" => RunOutcome::canceled(),
        None if has_ended && response["status"].is_string() => unclear_end(response, reason),
        _ => return None,
    })
}

/// Returns the end of a run whose final response does not say how it ended. An unknown word never means success.
fn unclear_end(response: &Value, reason: Option<&str>) -> RunOutcome {
    let status = &response["status"];
    let text = match (RunWord::read(status), status.as_str()) {
        (None, None) if status.is_null() && response["result"].is_object() => {
            return RunOutcome::new("completed");
        }
        (Some(RunWord::TimedOut), _) => {
            let reason = reason_of(response, reason);
            return RunOutcome::failed(reason.unwrap_or(TIMED_OUT_TEXT));
        }
        (_, Some(word)) => format!(
            "the gateway reports the end of the run with the status `{}`, which is not one of an ended run",
            excerpt(word)
        ),
        (_, None) => "the gateway reports the end of the run without a status".to_owned(),
    };
    RunOutcome::failed(reason.or(error_text(&response["error"])).unwrap_or(&text))
}

/// Returns why a run ended: `reason`, the error of the response, or its summary.
fn reason_of<'a>(response: &'a Value, reason: Option<&'a str>) -> Option<&'a str> {
    reason
        .or_else(|| error_text(&response["error"]))
        .or(response["summary"].as_str())
}

/// Returns the metadata of a run for results. No field contains a path of the gateway's machine.
fn metadata(response: &Value) -> Map<String, Value> {
    let meta = |pointer: &str| response.pointer(pointer).filter(|value| !value.is_null());
    let fields = [
        (
            "stopReason",
            meta("/stopReason").or(meta("/result/meta/stopReason")),
        ),
        ("durationMs", meta("/result/meta/durationMs")),
        (
            "provider",
            meta("/result/meta/agentMeta/provider").or(meta("/terminalReceipt/effective/provider")),
        ),
        (
            "model",
            meta("/result/meta/agentMeta/model").or(meta("/terminalReceipt/effective/model")),
        ),
        ("usage", meta("/result/meta/agentMeta/usage")),
        ("toolSummary", meta("/result/meta/toolSummary")),
    ];
    fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.clone())))
        .collect()
}

/// Finds the answer of a run in the history of its session: the text of the run's last message.
pub(super) fn find_answer(history: &Value, run: &str) -> Option<String> {
    let messages = history["messages"].as_array()?;
    let of_run = |message: &&Value| {
        message["role"] == "assistant"
            && message.pointer("/__openclaw/runId").and_then(Value::as_str) == Some(run)
    };
    let last = messages.iter().rev().find(of_run)?;
    let text = match &last["content"] {
        Value::String(text) => text.clone(),
        content => {
            let parts = content.as_array()?.iter();
            parts.filter_map(|part| part["text"].as_str()).collect()
        }
    };
    (!text.is_empty()).then_some(text)
}

/// Returns the parts of a payload `{text, mediaUrl, mediaUrls}`.
fn parts_of(payload: &Value) -> Vec<Value> {
    let text = payload["text"].as_str().filter(|text| !text.is_empty());
    let several = payload["mediaUrls"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let mut media: Vec<&str> = several.iter().filter_map(Value::as_str).collect();
    if let Some(one) = payload["mediaUrl"].as_str()
        && !media.contains(&one)
    {
        media.insert(0, one);
    }
    text.map(text_part)
        .into_iter()
        .chain(media.into_iter().map(file_part))
        .collect()
}

/// Returns the part of a file. Paths on the gateway's machine are private, so such a file is shown by name only.
fn file_part(media: &str) -> Value {
    let guess = |name: &str| mime_guess::from_path(name).first_raw();
    match Url::parse(media) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => {
            let name = last_of(url.path());
            let mut file = json!({ "uri": media });
            if let Some(mime_type) = guess(name) {
                file["mimeType"] = mime_type.into();
            }
            if !name.is_empty() {
                file["name"] = name.into();
            }
            json!({ "kind": "file", "file": file })
        }
        Ok(url) if url.scheme() == "data" => match data_url(&url[..Position::AfterPath]) {
            Some(("", bytes)) => json!({ "kind": "file", "file": { "bytes": bytes } }),
            Some((mime_type, bytes)) => {
                json!({ "kind": "file", "file": { "bytes": bytes, "mimeType": mime_type } })
            }
            None => text_part("[The agent made a file in an unreadable encoding.]"),
        },
        _ => text_part(format!(
            "[The agent made the file {}. It stays on the gateway's machine; the gateway does not transfer it.]",
            last_of(media)
        )),
    }
}

/// Returns the text after the last `/` or `\`.
fn last_of(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// A cached run.
#[derive(Debug, Clone)]
pub(super) struct CachedRun {
    /// The session of the run.
    pub session_key: String,
    /// The conversation of the run.
    pub context: String,
    /// The last response to the request that started the run.
    pub response: Option<Value>,
}

/// The cached runs by id. They outlive the connection that started them.
#[derive(Debug)]
pub(crate) struct RunCache(LruCache<String, CachedRun>);

impl Default for RunCache {
    fn default() -> Self {
        Self(LruCache::new(
            NonZeroUsize::new(MAX_RUNS).unwrap_or(NonZeroUsize::MIN),
        ))
    }
}

impl RunCache {
    /// Adds a run that starts.
    pub(super) fn insert(&mut self, run: &str, session_key: &str, context: &str) {
        let entry = CachedRun {
            session_key: session_key.to_owned(),
            context: context.to_owned(),
            response: None,
        };
        self.0.push(run.to_owned(), entry);
    }

    /// Stores the final response of a run and its size in bytes.
    pub(super) fn set_response(&mut self, run: &str, response: &Value, bytes: usize) {
        if let Some(run) = self.0.get_mut(run).filter(|_| bytes <= MAX_RESPONSE_BYTES) {
            run.response = Some(response.clone());
        }
    }

    /// Returns a cached run.
    pub(super) fn get(&mut self, run: &str) -> Option<&CachedRun> {
        self.0.get(run)
    }
}

#[cfg(test)]
mod tests;
