//! One message to several targets: ordinary calls side by side, and what their answers decide.
//!
//! Each member of a group is a call like any other, through [`RemoteAgent::run`]: its own admission, limits, budget, breaker and
//! line in the audit log. Every id is made before the first of them (`plan.rs`) and stands in the first update. `vote.rs` counts, and
//! `report.rs` writes what is known.
//! The continuation of a group has all that another process needs; nothing here sends a message again.

mod plan;
mod report;
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
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::call_audit::CallAudit;
use super::caller::Caller;
use super::deadline::Deadline;
use super::envelope::{self, UpdateWriter};
use super::error::{Code, Reason, ToolError};
use super::question::{Answer as PersonAnswer, Person, Question};
use super::request::Action;
use super::{RemoteAgent, ToolCall, action_name};
use crate::handles::Handle;
use plan::{Group, Member, Plan};
use report::{Answer, Board, Seen, Written};

/// How many groups are remembered by their handle.
const MAX_GROUPS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// The least interval between two updates of one member: each is read for its state.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);

/// How long the cancellation of a task may take whose answer is not needed any more.
const CANCEL_TIMEOUT_MS: u64 = 3000;

/// The error codes of A2A for a task that cannot be cancelled, and for one that the agent does not know (A2A 1.0 §5.4).
const NOT_CANCELABLE: i64 = -32002;
const TASK_NOT_FOUND: i64 = -32001;

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

    /// Remembers a group that `is_new`, or what is known now of one that was remembered. A continuation, which may come from
    /// anywhere, adds none and replaces none.
    fn remember(&self, group: &Group, is_new: bool) {
        let Ok(handle) = group.id.parse::<Handle>() else {
            return;
        };
        let mut groups = self.0.lock();
        if is_new
            || groups
                .peek(&handle)
                .is_some_and(|known| known.has_members_of(group))
        {
            groups.put(handle, group.clone());
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
        let shows_answers = request.get("follow_updates") == Some(&Value::Bool(true));
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
        let answers = requests.iter();
        let answers = answers.map(|request| Answer::new(request.is_some()));
        let answers = answers.collect();
        let group_call = GroupCall {
            tool,
            tool_call,
            action,
            caller,
            person: turns.as_ref().map(|turns| turns as &dyn Person),
            board: Mutex::new(Board { group, answers }),
            shows_answers,
        };
        group_call.announce(None);
        group_call.run(requests).await
    })
}

/// Lets a person answer one question at a time, of all members.
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
    /// Whether updates have the answers: the request asks for updates.
    shows_answers: bool,
}

/// How a call ended.
struct Ended {
    place: usize,
    took: Duration,
    outcome: Result<String, ToolError>,
}

impl GroupCall<'_> {
    /// Runs the calls, and stops those whose answer is not needed any more.
    async fn run(&self, requests: Vec<Option<Value>>) -> Result<String, ToolError> {
        let stops: Vec<_> = requests
            .iter()
            .map(|_| self.tool_call.cancel.child_token())
            .collect();
        let calls = requests.into_iter().zip(&stops).enumerate();
        let calls = calls.filter_map(|(place, (request, stop))| {
            Some(self.settle(place, request?, stop.clone()))
        });
        let mut running: FuturesUnordered<_> = calls.collect();
        let mut is_decided = false;
        while let Some(ended) = running.next().await {
            let place = ended.place;
            self.record(ended);
            if self.board.lock().decide() && self.may_cancel() {
                is_decided = true;
                stops.iter().for_each(CancellationToken::cancel);
            }
            self.announce(Some(place));
        }
        drop(running);
        // A group that goes on may be decided already.
        self.board.lock().decide();
        let (cancel, closing) = (&self.tool_call.cancel, &self.tool_call.closing);
        let deadline = Deadline::new(Duration::ZERO, cancel.clone(), closing.clone());
        let cut = deadline.check_cancelled();
        if is_decided && cut.is_ok() {
            self.cancel_losers().await;
            self.announce(None);
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

    /// Runs the call of the member at `place`. Reads the state of a task that has ended before its cancellation.
    async fn settle(&self, place: usize, request: Value, stop: CancellationToken) -> Ended {
        let mut look = request.clone();
        look["action"] = Action::Status.as_str().into();
        let ended = self.call(place, request, stop.clone()).await;
        let has_ended = |error| refused_cancellation(error) == "not_cancelable";
        if self.action != Action::Cancel || !ended.outcome.as_ref().is_err_and(has_ended) {
            return ended;
        }
        let looked = self.call(place, look, stop).await;
        match looked.outcome.is_ok() {
            true => looked,
            false => ended,
        }
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
        let action = action_name(&request).to_owned();
        let run = self.tool.run(&action, request, &tool_call, call_audit);
        let outcome = run.await;
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
            self.announce(None);
        }
    }

    /// Sends an update with every handle that is known, and remembers them. `ended` is the place of the member whose call has ended.
    /// Updates are best effort.
    fn announce(&self, ended: Option<usize>) {
        let board = self.board.lock();
        let is_new = self.action == Action::Send;
        self.tool.groups.remember(&board.group, is_new);
        let Some(updates) = self.tool_call.updates else {
            return;
        };
        let ended = ended.filter(|_| self.shows_answers);
        let mut writer = UpdateWriter::new(self.action.as_str(), board.update(ended));
        let raw = ended.map(|place| board.raw(|other| other == place));
        let update = writer.write(None, &raw);
        drop(board);
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
                answer.read(&envelope, group, ended.place, share);
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
                if action != Action::Send && is_forgotten(&error) {
                    "forgotten".clone_into(&mut member.state);
                }
                if action == Action::Cancel {
                    answer.canceled = Some(refused_cancellation(&error));
                }
                // A call that the group stopped did not fail.
                let is_stopped =
                    error.reason == Reason::Aborted && !self.tool_call.cancel.is_cancelled();
                answer.error = (!is_stopped).then(|| envelope::error_json(error));
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

/// Returns what became of a cancellation after which the task has this state.
fn cancellation(state: &str) -> &'static str {
    match state {
        "canceled" => "canceled",
        "completed" | "failed" | "rejected" => "not_cancelable",
        _ => "unknown",
    }
}

fn rpc_code(error: &ToolError) -> Option<i64> {
    error.details.get("rpcCode").and_then(Value::as_i64)
}

/// Returns whether the agent, or its gateway, says that it does not know the task any more.
fn is_forgotten(error: &ToolError) -> bool {
    error.reason == Reason::TaskForgotten || rpc_code(error) == Some(TASK_NOT_FOUND)
}

fn refused_cancellation(error: &ToolError) -> &'static str {
    match rpc_code(error) {
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
