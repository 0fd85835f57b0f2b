//! What is known of the members of a group, and the envelopes about it.

use std::ops::Not;
use std::time::Duration;

use base::json;
use peer::Delivered;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::envelope;
use super::super::error::ToolError;
use super::super::request::Action;
use super::plan::{Group, Member, Mode};
use super::vote;

/// The memory that the values of an answer may take, as a multiple of its share: a host parses the answers of all members at once.
const MAX_MEMORY_RATIO: usize = 2;

/// The least size of an answer that stays whole, in bytes.
const MIN_SHARE_BYTES: usize = 64 << 10;

/// The deepest answer that stays whole: readers of JSON often stop at 128 levels, and the group adds some.
const ANSWER_LIMITS: json::Limits = json::Limits {
    depth: 100,
    ..json::Limits::NONE
};

const NEXT_OPEN: &str = "Some agents have not answered. Call watch with the task_handle of the group, or its continuation, to wait for more, or status to look once. Do not send again.";
const NEXT_ASKS: &str =
    "An agent asks: answer it with send and the task_handle or continuation of its own result.";

/// What is known of the members.
pub(super) struct Board {
    pub(super) group: Group,
    pub(super) answers: Vec<Answer>,
}

/// How the call of one member ended.
#[derive(Default)]
pub(super) struct Answer {
    /// Its call has ended, or it needs none.
    pub(super) has_ended: bool,
    pub(super) took: Option<Duration>,
    summary: Option<Box<RawValue>>,
    raw: Option<Box<RawValue>>,
    pub(super) error: Option<Value>,
    /// What became of the cancellation of its task.
    pub(super) canceled: Option<&'static str>,
    wait_expired: bool,
    is_truncated: bool,
}

/// An envelope as it was written.
#[derive(Deserialize)]
pub(super) struct Written<'a> {
    #[serde(borrow)]
    pub(super) summary: &'a RawValue,
    #[serde(borrow, default)]
    raw: Option<&'a RawValue>,
}

/// What a group reads of a summary.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Seen {
    pub(super) continuation: Value,
    response_kind: Option<String>,
    message_text: Option<String>,
    wait_expired: bool,
}

impl Seen {
    pub(super) fn of_envelope(envelope: &str) -> Self {
        let written = serde_json::from_str::<Written<'_>>(envelope).ok();
        let seen = written.and_then(|written| serde_json::from_str(written.summary.get()).ok());
        seen.unwrap_or_default()
    }
}

impl Answer {
    /// Creates the answer of a member, before its call ends, if it `has_call`.
    pub(super) fn new(has_call: bool) -> Self {
        Self {
            has_ended: !has_call,
            ..Self::default()
        }
    }

    /// Reads the answer of the member at `place`, and its vote. Of one that counts more than `share` bytes only the
    /// beginning stays.
    pub(super) fn read(&mut self, envelope: &str, group: &mut Group, place: usize, share: usize) {
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
        let is_deep = json::from_str::<IgnoredAny>(envelope, ANSWER_LIMITS).is_err();
        let memory = json::Structure::of(envelope.as_bytes()).memory;
        let bytes = envelope.len().max(memory / MAX_MEMORY_RATIO);
        self.is_truncated = bytes > share.max(MIN_SHARE_BYTES) || is_deep;
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
pub(super) struct Summary<'a> {
    group: Report<'a>,
    #[serde(skip_serializing_if = "Not::not")]
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
    #[serde(skip_serializing_if = "Not::not")]
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
        "forgotten" => Some("forgotten"),
        _ if member.task.is_some() => Some("working"),
        _ => Some("unknown"),
    }
}

impl Board {
    /// Decides the group, where its answers do. Returns whether they have just done so.
    pub(super) fn decide(&mut self) -> bool {
        let Self { group, answers } = self;
        vote::decide(group, |place| {
            answers.get(place).is_none_or(|answer| answer.has_ended)
        })
    }

    /// Returns the summary of an update: what is known of the members, and the answer of the one that has `ended`.
    pub(super) fn update(&self, ended: Option<usize>) -> Summary<'_> {
        self.summary(false, |place| ended == Some(place))
    }

    /// Returns the summary of a result.
    fn result(&self) -> Summary<'_> {
        self.summary(true, |_| true)
    }

    /// Returns the summary, with the answers of the members at the places that `shows` accepts.
    fn summary(&self, is_result: bool, shows: impl Fn(usize) -> bool) -> Summary<'_> {
        let Self { group, answers } = self;
        let members = || group.members.iter();
        let results = members().zip(answers).enumerate();
        let results = results.map(|(place, (member, answer))| MemberReport {
            target_alias: member.alias(),
            message_id: &member.message_id,
            state: &member.state,
            vote: member.vote.as_deref(),
            canceled: answer.canceled,
            duration_ms: answer.took.map(|took| took.as_millis()),
            truncated: answer.is_truncated,
            summary: answer.summary.as_deref().filter(|_| shows(place)),
            error: answer.error.as_ref().filter(|_| shows(place)),
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

    pub(super) fn envelope(&self, action: Action) -> String {
        envelope::success(action.as_str(), self.result(), self.raw(|_| true))
    }

    /// Returns what the members answered, of those at the places that `shows` accepts.
    pub(super) fn raw(&self, shows: impl Fn(usize) -> bool) -> Vec<Option<&RawValue>> {
        let answers = self.answers.iter().enumerate();
        let raw = answers.map(|(place, one)| one.raw.as_deref().filter(|_| shows(place)));
        raw.collect()
    }

    /// Adds what is known to the error of a call that was stopped.
    pub(super) fn failure(&self, error: ToolError, action: Action) -> ToolError {
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
            .with("latest_event_summary", json!(self.result()))
            .delivered(delivered);
        match action {
            Action::Send => error.for_send(),
            _ => error,
        }
    }
}
