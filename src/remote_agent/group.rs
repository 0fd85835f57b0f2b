//! One message to several targets: ordinary calls side by side, and what their answers decide.
//!
//! Each member of a group is a call like any other, through [`RemoteAgent::run`]: its own admission, limits, budget, breaker and
//! line in the audit log. Every id is made before the first of them (`plan.rs`) and stands in the first update. `vote.rs` counts.
//! The continuation of a group has all that another process needs; nothing here sends a message again.

mod plan;
#[cfg(test)]
mod tests;
mod vote;

use std::num::NonZeroUsize;
use std::time::Duration;

use base::panics;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use lru::LruCache;
use parking_lot::Mutex;
use peer::{BoxFuture, Delivered};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::call_audit::CallAudit;
use super::caller::Caller;
use super::deadline::Deadline;
use super::envelope::{self, UpdateWriter};
use super::error::{Code, ToolError};
use super::question::{Answer as PersonAnswer, Person, Question};
use super::request::Action;
use super::{RemoteAgent, ToolCall};
use crate::handles::Handle;
use plan::{Group, Member, Mode, Plan};

pub(super) use plan::{continuation_violations, violations};

/// How many groups are remembered by their handle.
const MAX_GROUPS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// The least interval between two updates of one member: each is read for its state.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);

/// How long the cancellation of a task may take whose answer is not needed any more.
const CANCEL_TIMEOUT_MS: u64 = 3000;

/// The least size of an answer that stays whole, in bytes.
const MIN_SHARE_BYTES: usize = 64 << 10;

/// The error code of A2A for a task that cannot be cancelled.
const NOT_CANCELABLE: i64 = -32002;

const NEXT_OPEN: &str = "Some agents have not answered. Call watch with the task_handle of the group, or its continuation, to wait for more, or status to look once. Do not send again.";
const NEXT_ASKS: &str =
    "An agent asks: answer it with send and the task_handle or continuation of its own result.";

/// The groups of this process, by handle.
pub(super) struct Groups(Mutex<LruCache<Handle, Group>>);

impl Default for Groups {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_GROUPS)))
    }
}

impl Groups {
    /// Returns whether `request` is about a group. Replaces the handle of one with its continuation.
    pub(super) fn resolve(&self, request: &mut Value) -> bool {
        if request.get("target_aliases").is_some() || request["continuation"]["group"].is_object() {
            return true;
        }
        let handle = request["task_handle"].as_str();
        let Some(handle) = handle.and_then(|text| text.parse::<Handle>().ok()) else {
            return false;
        };
        let Some(group) = self.0.lock().get(&handle).map(|group| json!(group)) else {
            return false;
        };
        if let Some(fields) = request.as_object_mut() {
            fields.remove("task_handle");
            let continuation = fields.entry("continuation").or_insert_with(|| json!({}));
            *continuation = json!({ "group": group });
        }
        true
    }

    fn remember(&self, group: &Group) {
        if let Ok(handle) = group.id.parse() {
            self.0.lock().put(handle, group.clone());
        }
    }
}

/// Runs a request about a group.
pub(super) fn run<'a>(
    tool: &'a RemoteAgent,
    mut request: Map<String, Value>,
    tool_call: &'a ToolCall<'a>,
    call_audit: &'a mut CallAudit<'_>,
) -> BoxFuture<'a, Result<String, ToolError>> {
    Box::pin(async move {
        let Plan {
            action,
            group,
            requests,
        } = Plan::read(tool, &mut request, &call_audit.caller)?;
        drop(request);
        call_audit.group = Some(group.id.clone());
        let caller = Caller {
            // The host follows one task of a call.
            can_notify: false,
            traceparent: Some(call_audit.trace.traceparent()),
            update_interval: call_audit.caller.update_interval.max(UPDATE_INTERVAL),
            ..call_audit.caller.clone()
        };
        let turns = tool_call.person.map(|person| Turns {
            person,
            turn: tokio::sync::Mutex::default(),
        });
        let answers = requests.iter().map(|request| Answer {
            has_ended: request.is_none(),
            ..Answer::default()
        });
        let answers = answers.collect();
        let group_call = GroupCall {
            tool,
            tool_call,
            action,
            caller,
            person: turns.as_ref().map(|turns| turns as &dyn Person),
            board: Mutex::new(Board { group, answers }),
        };
        group_call.announce();
        group_call.run(requests).await
    })
}

/// Lets a person answer one question at a time, whoever asks.
struct Turns<'a> {
    person: &'a dyn Person,
    turn: tokio::sync::Mutex<()>,
}

impl Person for Turns<'_> {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, PersonAnswer> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            self.person.ask(question).await
        })
    }

    fn withdraw(&self, id: &str) {
        self.person.withdraw(id);
    }
}

/// A group under way.
struct GroupCall<'a> {
    tool: &'a RemoteAgent,
    tool_call: &'a ToolCall<'a>,
    action: Action,
    caller: Caller,
    person: Option<&'a dyn Person>,
    board: Mutex<Board>,
}

/// What is known of the members.
struct Board {
    group: Group,
    answers: Vec<Answer>,
}

/// How the call of one member ended.
#[derive(Default)]
struct Answer {
    /// Its call has ended, or it needs none.
    has_ended: bool,
    took: Option<Duration>,
    summary: Option<Box<RawValue>>,
    raw: Option<Box<RawValue>>,
    error: Option<Value>,
    /// What became of the cancellation of its task.
    canceled: Option<&'static str>,
    wait_expired: bool,
    is_truncated: bool,
}

/// How a call ended.
struct Ended {
    place: usize,
    took: Duration,
    outcome: Result<String, ToolError>,
}

/// An envelope as it was written.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    summary: &'a RawValue,
    #[serde(borrow, default)]
    raw: Option<&'a RawValue>,
}

/// What a group reads of a summary.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Seen {
    continuation: Value,
    response_kind: Option<String>,
    message_text: Option<String>,
    wait_expired: bool,
}

impl GroupCall<'_> {
    /// Runs the calls, and stops those whose answer is not needed any more.
    async fn run(&self, requests: Vec<Option<Value>>) -> Result<String, ToolError> {
        let stops: Vec<_> = requests
            .iter()
            .map(|_| self.tool_call.cancel.child_token())
            .collect();
        let calls = requests.into_iter().zip(&stops).enumerate();
        let calls = calls
            .filter_map(|(place, (request, stop))| Some(self.call(place, request?, stop.clone())));
        let mut running: FuturesUnordered<_> = calls.collect();
        let mut is_decided = false;
        while let Some(ended) = running.next().await {
            self.record(ended);
            if self.board.lock().decide() && self.may_cancel() {
                is_decided = true;
                stops.iter().for_each(CancellationToken::cancel);
            }
            self.announce();
        }
        drop(running);
        // A group that goes on may be decided already.
        self.board.lock().decide();
        let (cancel, closing) = (&self.tool_call.cancel, &self.tool_call.closing);
        let deadline = Deadline::new(Duration::ZERO, cancel.clone(), closing.clone());
        let cut = deadline.check_cancelled();
        if is_decided && cut.is_ok() {
            self.cancel_losers().await;
            self.announce();
        }
        let board = self.board.lock();
        let is_done = board.group.members.iter().all(Member::is_done);
        match cut {
            Err(error) if !is_done && !is_decided => Err(board.failure(error, self.action)),
            _ => Ok(board.envelope(self.action)),
        }
    }

    fn may_cancel(&self) -> bool {
        matches!(self.action, Action::Send | Action::Watch)
    }

    /// Runs the call of the member at `place`.
    async fn call(&self, place: usize, request: Value, stop: CancellationToken) -> Ended {
        let observe = |update: &str| self.observe(place, update);
        let tool_call = ToolCall {
            request: "",
            caller: None,
            updates: Some(&observe),
            person: self.person,
            cancel: stop,
            closing: self.tool_call.closing.clone(),
        };
        let closing = tool_call.closing.clone();
        let mut call_audit = CallAudit::open(self.tool, self.caller.clone(), closing);
        call_audit.group = Some(self.board.lock().group.id.clone());
        let began = self.tool.env.now();
        let outcome = self.tool.run(request, &tool_call, call_audit).await;
        Ended {
            place,
            took: self.tool.env.now().saturating_duration_since(began),
            outcome,
        }
    }

    /// Notes the task and the state in an update of a member.
    fn observe(&self, place: usize, update: &str) {
        let Ok(written) = serde_json::from_str::<Written<'_>>(update) else {
            return;
        };
        let seen: Seen = serde_json::from_str(written.summary.get()).unwrap_or_default();
        let is_new = self.board.lock().group.members[place].learn(seen.continuation);
        if is_new {
            self.announce();
        }
    }

    /// Sends an update with every handle that is known, and remembers them. Updates are best effort.
    fn announce(&self) {
        let board = self.board.lock();
        self.tool.groups.remember(&board.group);
        let Some(updates) = self.tool_call.updates else {
            return;
        };
        let mut writer = UpdateWriter::new(self.action.as_str(), board.summary(false));
        drop(board);
        let update = writer.write(None, &Value::Null);
        let _ = panics::catch(|| updates(update));
    }

    /// Records how a member's call ended.
    fn record(&self, ended: Ended) {
        let mut board = self.board.lock();
        let share = self.tool.limits.response_bytes / board.group.members.len().max(1);
        let Board { group, answers } = &mut *board;
        let (Some(answer), action) = (answers.get_mut(ended.place), self.action) else {
            return;
        };
        answer.has_ended = true;
        answer.took = Some(ended.took);
        match ended.outcome {
            Ok(envelope) => {
                answer.read(&envelope, group, ended.place, share.max(MIN_SHARE_BYTES));
                let member = &group.members[ended.place];
                if action == Action::Cancel {
                    answer.canceled = Some(cancellation(&member.state));
                }
            }
            Err(error) => {
                let member = &mut group.members[ended.place];
                let latest = error.details.get("latest_event_summary");
                if let Some(latest) = latest {
                    member.learn(latest["continuation"].clone());
                }
                if action == Action::Send && member.task.is_none() {
                    let word = if was_unsent(&error) {
                        "not_sent"
                    } else {
                        "unknown"
                    };
                    word.clone_into(&mut member.state);
                }
                if action == Action::Cancel {
                    answer.canceled = Some(refused_cancellation(&error));
                }
                answer.error = Some(envelope::error_json(error));
            }
        }
    }

    /// Cancels the tasks whose answers are not needed any more, as far as they are known and the agents do it in time.
    async fn cancel_losers(&self) {
        let open: Vec<_> = {
            let board = self.board.lock();
            let members = board.group.members.iter().enumerate();
            let open = members.filter(|(_, member)| !member.is_done());
            let request = |member: &Member| {
                member.task.as_ref()?;
                let continuation = member.continuation();
                Some(
                    json!({"action": "cancel", "continuation": continuation, "timeout_ms": CANCEL_TIMEOUT_MS}),
                )
            };
            open.map(|(place, member)| (place, request(member)))
                .collect()
        };
        let cancelled = join_all(open.into_iter().map(async |(place, request)| {
            let Some(request) = request else {
                // Its message may have arrived, and no task of it is known.
                return (place, "unknown", None);
            };
            let stop = self.tool_call.cancel.child_token();
            match self.call(place, request, stop).await.outcome {
                Ok(envelope) => {
                    let seen = Seen::of_envelope(&envelope);
                    let state = seen.continuation["task"]["status"].as_str();
                    let word = cancellation(state.unwrap_or_default());
                    (place, word, Some(seen.continuation))
                }
                Err(error) => (place, refused_cancellation(&error), None),
            }
        }))
        .await;
        let mut board = self.board.lock();
        for (place, word, continuation) in cancelled {
            if let Some(continuation) = continuation {
                board.group.members[place].learn(continuation);
            }
            board.answers[place].canceled = Some(word);
        }
    }
}

impl Seen {
    fn of_envelope(envelope: &str) -> Self {
        let written = serde_json::from_str::<Written<'_>>(envelope).ok();
        let seen = written.and_then(|written| serde_json::from_str(written.summary.get()).ok());
        seen.unwrap_or_default()
    }
}

/// Returns what became of a cancellation after which the task has this state.
fn cancellation(state: &str) -> &'static str {
    match state {
        "canceled" => "canceled",
        "completed" | "failed" | "rejected" => "not_cancelable",
        _ => "unknown",
    }
}

fn refused_cancellation(error: &ToolError) -> &'static str {
    match error.details.get("rpcCode").and_then(Value::as_i64) {
        Some(NOT_CANCELABLE) => "not_cancelable",
        _ => "unknown",
    }
}

/// Returns whether the message of a failed `send` did not leave.
fn was_unsent(error: &ToolError) -> bool {
    let is_refused = matches!(
        error.reason.code(),
        Code::Validation | Code::TargetResolution
    );
    error.delivered == Delivered::No
        || (is_refused && !error.details.contains_key("latest_event_summary"))
}

impl Answer {
    /// Reads the answer of the member at `place`, and its vote. Of one with more than `share` bytes only the beginning stays.
    fn read(&mut self, envelope: &str, group: &mut Group, place: usize, share: usize) {
        let Ok(written) = serde_json::from_str::<Written<'_>>(envelope) else {
            return;
        };
        let (summary, raw) = (written.summary.get(), written.raw.map_or("", RawValue::get));
        let seen: Seen = serde_json::from_str(summary).unwrap_or_default();
        self.wait_expired = seen.wait_expired;
        group.members[place].learn(seen.continuation.clone());
        if seen.response_kind.as_deref() == Some("message") {
            "answered".clone_into(&mut group.members[place].state);
        }
        if group.is_counted() && group.members[place].has_answer() {
            let vote = vote::read(group, seen.message_text.as_deref(), summary, raw);
            let member = &mut group.members[place];
            member.vote = vote.or(member.vote.take());
        }
        self.is_truncated = envelope.len() > share;
        if self.is_truncated {
            let text = seen.message_text.unwrap_or_default();
            let text = &text[..text.floor_char_boundary(share / 4)];
            let short = json!({"target_alias": group.members[place].alias(), "target_url": group.members[place].target["target_url"],
                "message_text": text, "continuation": seen.continuation});
            self.summary = serde_json::value::to_raw_value(&short).ok();
        } else {
            self.summary = Some(written.summary.to_owned());
            self.raw = written.raw.map(ToOwned::to_owned);
        }
    }
}

/// `summary` of a group.
#[derive(Serialize)]
struct Summary<'a> {
    group: Report<'a>,
    #[serde(skip_serializing_if = "is_false")]
    wait_expired: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step: Option<&'static str>,
    continuation: Continuation<'a>,
}

#[derive(Serialize)]
struct Continuation<'a> {
    group: &'a Group,
}

/// `summary.group`.
#[derive(Serialize)]
struct Report<'a> {
    id: &'a str,
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    winner: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    votes: Vec<vote::Count<'a>>,
    results: Vec<MemberReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<Vec<Missing<'a>>>,
}

/// One of `summary.group.results`.
#[derive(Serialize)]
struct MemberReport<'a> {
    target_alias: &'a str,
    message_id: &'a str,
    state: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    vote: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canceled: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u128>,
    #[serde(skip_serializing_if = "is_false")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Value>,
}

/// One of `summary.group.missing`.
#[derive(Serialize)]
struct Missing<'a> {
    target_alias: &'a str,
    reason: &'static str,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Returns whether a task in this state waits for its caller.
fn asks(member: &Member) -> bool {
    matches!(member.state.as_str(), "input-required" | "auth-required")
}

/// Returns why a member has no answer.
fn missing_reason(member: &Member) -> Option<&'static str> {
    match member.state.as_str() {
        "completed" | "answered" | "failed" | "rejected" => None,
        _ if asks(member) => None,
        "canceled" => Some("canceled"),
        "not_sent" => Some("not_sent"),
        _ if member.task.is_some() => Some("working"),
        _ => Some("unknown"),
    }
}

impl Board {
    fn decide(&mut self) -> bool {
        let Self { group, answers } = self;
        vote::decide(group, |place| {
            answers.get(place).is_none_or(|answer| answer.has_ended)
        })
    }

    /// Returns the summary; of an update only what is known of the members, without their answers.
    fn summary(&self, is_result: bool) -> Summary<'_> {
        let Self { group, answers } = self;
        let members = || group.members.iter();
        let results = members().zip(answers).map(|(member, answer)| MemberReport {
            target_alias: member.alias(),
            message_id: &member.message_id,
            state: &member.state,
            vote: member.vote.as_deref(),
            canceled: answer.canceled,
            duration_ms: answer.took.map(|took| took.as_millis()),
            truncated: answer.is_truncated,
            summary: answer.summary.as_deref().filter(|_| is_result),
            error: answer.error.as_ref().filter(|_| is_result),
        });
        let missing = members().filter_map(|member| {
            Some(Missing {
                target_alias: member.alias(),
                reason: missing_reason(member)?,
            })
        });
        let is_open = |member: &Member| member.task.is_some() && !member.is_done() && !asks(member);
        let is_undecided = group.winner.is_none();
        let next_step = match () {
            () if is_undecided && members().any(is_open) => Some(NEXT_OPEN),
            () if members().any(asks) && is_undecided => Some(NEXT_ASKS),
            () => None,
        };
        Summary {
            group: Report {
                id: &group.id,
                mode: group.mode,
                decided_by: is_result.then(|| self.decided_by()),
                winner: group.winner.as_deref(),
                votes: vote::counts(group),
                results: results.collect(),
                missing: is_result.then(|| missing.collect()),
            },
            wait_expired: is_result && is_undecided && answers.iter().any(|one| one.wait_expired),
            next_step: next_step.filter(|_| is_result),
            continuation: Continuation { group },
        }
    }

    fn decided_by(&self) -> &'static str {
        let group = &self.group;
        let is_counted = group.mode == Mode::First || group.is_counted();
        match (&group.winner, group.mode) {
            (Some(_), Mode::First) => "first",
            (Some(_), _) => "quorum",
            (None, _) if !is_counted && group.members.iter().all(Member::is_done) => "all",
            (None, _) => "none",
        }
    }

    fn envelope(&self, action: Action) -> String {
        let raw: Vec<_> = self.answers.iter().map(|one| one.raw.as_deref()).collect();
        envelope::success(action.as_str(), self.summary(true), raw)
    }

    /// Adds what is known to the error of a call that was stopped.
    fn failure(&self, error: ToolError, action: Action) -> ToolError {
        let members = &self.group.members;
        let answered = members.iter().filter(|member| member.has_answer()).count();
        let delivered = match () {
            () if members.iter().all(|member| member.state == "not_sent") => Delivered::No,
            () if members
                .iter()
                .any(|one| one.task.is_some() || one.has_answer()) =>
            {
                Delivered::Yes
            }
            () => Delivered::Unknown,
        };
        let error = match answered {
            0 => error,
            _ => error.with("partial_event_count", answered),
        };
        let error = error
            .with("latest_event_summary", json!(self.summary(true)))
            .delivered(delivered);
        match action {
            Action::Send => error.for_send(),
            _ => error,
        }
    }
}
