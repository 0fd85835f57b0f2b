//! The error of a failed call.

use std::borrow::Cow;

use serde_json::{Map, Value};

use peer::{Delivered, PeerError, PeerErrorKind};

use super::{PeerCause, Reason};
use crate::targets::{CardError, PinError, add_changes};

/// The message of an error for an invalid request; `details.errors` lists the violations.
const INVALID: &str = "remote_agent input validation failed";

/// The longest name of a member that `error.path` repeats, in bytes.
const MAX_MEMBER_BYTES: usize = 128;

#[derive(Debug, Clone)]
pub struct ToolError {
    pub reason: Reason,
    /// The failed operation and its cause, as a sentence without a full stop.
    pub message: String,
    /// Further members of `details`. `hint` comes from the table unless it is here.
    pub details: Map<String, Value>,
    /// What a peer's error says of its cause.
    cause: Option<PeerCause>,
    /// Whether a later call may succeed.
    pub retryable: bool,
    /// Whether the peer has received the request that failed.
    pub delivered: Delivered,
    /// Whether `message` may quote a peer. A message that may is shown as the peer's text.
    pub quotes_peer: bool,
}

impl ToolError {
    /// Creates an error whose message may quote a peer.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            details: Map::new(),
            cause: None,
            retryable: reason.retryable(),
            delivered: Delivered::Unknown,
            quotes_peer: true,
        }
    }

    /// Creates an error whose message quotes no peer: the tool's own words, and those of the request and the
    /// configuration.
    pub fn local(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            quotes_peer: false,
            ..Self::new(reason, message)
        }
    }

    /// Returns the error for a request with these violations, in Ajv's form, and `more` that are not listed. The hint
    /// ends with the first one.
    pub fn invalid(errors: Vec<Value>, more: usize) -> Self {
        let reason = Reason::InvalidRequest;
        let hint = match errors.first() {
            Some(first) => format!("{} First: {}.", reason.hint(), violation_sentence(first)),
            None => reason.hint().to_owned(),
        };
        let error = Self::local(reason, INVALID)
            .with("hint", hint)
            .with("source", "ajv")
            .with("tool", "remote_agent")
            .with("errors", errors);
        if more > 0 {
            error.with("more_errors", more)
        } else {
            error
        }
    }

    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    #[must_use]
    pub fn delivered(mut self, delivered: Delivered) -> Self {
        self.delivered = delivered;
        self
    }

    /// Returns the place of the fault in the request as a JSON Pointer, of an error that the request caused.
    #[must_use]
    pub fn path(&self) -> Option<Cow<'static, str>> {
        match self.reason {
            Reason::InvalidRequest => {
                Some(violation_path(self.details.get("errors")?.get(0)?).into())
            }
            Reason::Contradiction | Reason::UnknownHandle | Reason::ExpiredHandle => {
                Some("/task_handle".into())
            }
            Reason::AmbiguousTarget => Some("/target_url".into()),
            _ => None,
        }
    }

    /// Adapts the error to sending: a message that the peer may have received must not be sent again unchanged.
    #[must_use]
    pub fn for_send(mut self) -> Self {
        let delivered = self.delivered.as_str();
        self.details.insert("delivered".into(), delivered.into());
        if self.delivered != Delivered::No {
            self.retryable = false;
        }
        let task = self.details.get("latest_event_summary");
        let has_task = task.is_some_and(|summary| {
            let known = &summary["continuation"];
            known["task"].is_object() || known["group"].is_object()
        });
        // The hint of a person's answer that the agent did not take is about the answer.
        let is_answer = task.is_some_and(|summary| summary["person"]["outcome"] == "unsent");
        let (reason, delivered) = (self.reason, self.delivered);
        if let Some(hint) = reason.hint_after_delivery(delivered, has_task, self.cause)
            && !is_answer
            // The hint about the local gateway says more.
            && !(self.reason == Reason::InvalidResponse && self.details.contains_key("hint"))
        {
            self.details.insert("hint".into(), hint.into());
        }
        self
    }

    /// Removes the advice that the call has followed from the hint: to follow updates, and to require a task, which gives
    /// an id at once.
    #[must_use]
    pub fn without_advice(mut self, follows: bool, requires_task: bool) -> Self {
        const BOTH: &str = " With follow_updates or task_requirement";
        if let Some(Value::String(hint)) = self.details.get_mut("hint")
            && let Some(advice) = hint.find(BOTH)
        {
            if requires_task {
                hint.truncate(advice);
            } else if follows {
                hint.replace_range(advice..advice + BOTH.len(), " With task_requirement");
            }
        }
        self
    }

    /// Adapts the hint to the local gateway.
    #[must_use]
    pub fn for_gateway(mut self) -> Self {
        if let Some(hint) = self.reason.gateway_hint() {
            self.details.entry("hint").or_insert_with(|| hint.into());
        }
        self
    }
}

/// Returns the place that a violation is about. Ajv names a missing or additional member beside the place of its object.
fn violation_path(error: &Value) -> String {
    let object = error["instancePath"].as_str().unwrap_or_default();
    let params = &error["params"];
    let member = ["missingProperty", "additionalProperty"]
        .iter()
        .find_map(|name| params[*name].as_str())
        .filter(|member| member.len() <= MAX_MEMBER_BYTES);
    match member {
        Some(member) => format!("{object}/{}", member.replace('~', "~0").replace('/', "~1")),
        None => object.to_owned(),
    }
}

/// Formats a violation as the end of a sentence.
fn violation_sentence(error: &Value) -> String {
    let [place, message] =
        ["instancePath", "message"].map(|field| error[field].as_str().unwrap_or_default());
    match place {
        // The schema's sentences lack a subject.
        "" if message.starts_with("must ") => format!("the request {message}"),
        "" => message.to_owned(),
        place => format!("{place} {message}"),
    }
}

impl From<CardError> for ToolError {
    fn from(error: CardError) -> Self {
        let error = match error {
            CardError::Peer(error) => return error.into(),
            CardError::Pin(error) => error,
        };
        let (reason, message) = match &error {
            PinError::Changed(_) => (Reason::CardChanged, error.to_string()),
            PinError::Unusable(message) => (Reason::PinUnusable, message.clone()),
        };
        let mut result = Self::local(reason, message).delivered(Delivered::No);
        if let PinError::Changed(state) = error {
            let mut details = Value::Object(std::mem::take(&mut result.details));
            add_changes(&mut details, &state.changes);
            if let Value::Object(details) = details {
                result.details = details;
            }
        }
        result
    }
}

impl From<PeerError> for ToolError {
    fn from(error: PeerError) -> Self {
        let cause = PeerCause::in_error(&error);
        let mut result = Self::new(error.kind.into(), error.message);
        if let Some(cause) = cause {
            result = result.with("hint", cause.as_str());
            result.cause = Some(cause);
        }
        if let PeerErrorKind::Gateway(code) = error.kind {
            result = result.with("gateway_code", code.number()).for_gateway();
        }
        if let Some(code) = error.rpc_code {
            result = result.with("rpcCode", code);
        }
        if let Some(data) = error.rpc_data {
            result = result.with("rpcData", data);
        }
        if let Some(status) = error.http_status {
            result = result.with("http_status", status);
        }
        if !error.auth_schemes.is_empty() {
            result = result.with("auth_schemes", error.auth_schemes);
        }
        if let Some(transports) = error.transports {
            result = result
                .with("unsupported", transports.unsupported)
                .with("supported", transports.supported);
        }
        result.delivered(error.delivered)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::HAS_TASK;
    use super::*;

    /// Returns the hint that the caller sees.
    fn hint(error: &ToolError) -> &str {
        let own = error.details.get("hint").and_then(Value::as_str);
        own.unwrap_or(error.reason.hint())
    }

    fn with_task(error: ToolError) -> ToolError {
        let task = json!({"continuation": {"task": {"task_id": "t"}}});
        error.with("latest_event_summary", task)
    }

    #[test]
    fn call_that_follows_gets_no_advice_to_follow() {
        for (follows, requires_task) in [(false, false), (true, false), (true, true)] {
            let error = ToolError::new(Reason::ConnectionCut, "no").for_send();
            let error = error.without_advice(follows, requires_task);
            let hint = error.details["hint"].as_str().unwrap_or_default();
            assert_eq!(hint.contains("follow_updates"), !follows, "{hint}");
            assert_eq!(hint.contains("task_requirement"), !requires_task, "{hint}");
        }
    }

    #[test]
    fn hint_of_a_peers_error_follows_its_code_and_else_its_status() {
        use PeerErrorKind::{HttpStatus, Rpc};
        let [_, _, unsupported, failed, quota] = PeerCause::NAMES;
        const MAYBE: &str = "find out before you send it again";
        for (kind, code, status, alone, of_send) in [
            (Rpc, Some(-32603), None, failed, failed),
            (Rpc, Some(-32603), Some(200), failed, failed),
            (Rpc, Some(429), Some(429), quota, quota),
            (Rpc, None, Some(429), quota, quota),
            (HttpStatus, None, Some(429), quota, quota),
            (Rpc, Some(503), Some(503), failed, failed),
            (Rpc, None, Some(500), failed, failed),
            (Rpc, None, Some(501), unsupported, unsupported),
            (Rpc, Some(-32004), Some(501), unsupported, unsupported),
            (
                HttpStatus,
                None,
                Some(503),
                "The message has the status",
                MAYBE,
            ),
            (Rpc, Some(-32602), Some(500), "change", "change"),
            (Rpc, None, Some(400), "change", "change"),
        ] {
            let mut error = PeerError::new(kind, "no");
            (error.rpc_code, error.http_status) = (code, status);
            let error = ToolError::from(error);
            let place = format!("{kind:?} {code:?} {status:?}");
            assert!(hint(&error).contains(alone), "{place}: {}", hint(&error));
            let sent = error.for_send();
            assert!(hint(&sent).contains(of_send), "{place}: {}", hint(&sent));
        }
    }

    #[test]
    fn quota_does_not_hide_the_task_of_a_message() {
        let mut error = PeerError::new(PeerErrorKind::HttpStatus, "no");
        error.http_status = Some(429);
        let error = with_task(ToolError::from(error)).for_send();
        assert!(hint(&error).contains("became a task"), "{}", hint(&error));
    }

    #[test]
    fn error_about_a_known_task_leads_to_the_task_unless_it_names_its_cause() {
        let unknown = PeerCause::UnknownTask.as_str();
        let request = Reason::RpcError.hint();
        for (code, status, known, expected) in [
            (Some(-32600), None, true, HAS_TASK),
            (Some(-32602), None, true, HAS_TASK),
            (Some(-32700), None, true, HAS_TASK),
            (Some(0), None, true, HAS_TASK),
            (None, Some(409), true, HAS_TASK),
            (Some(-32602), None, false, request),
            (None, Some(409), false, request),
            (Some(-32001), None, true, unknown),
        ] {
            let mut error = PeerError::new(PeerErrorKind::Rpc, "no");
            (error.rpc_code, error.http_status) = (code, status);
            let mut error = ToolError::from(error);
            if known {
                error = with_task(error);
            }
            let error = error.for_send();
            assert_eq!(hint(&error), expected, "{code:?} {status:?} {known}");
        }
    }

    #[test]
    fn unreadable_answer_to_a_message_may_mean_work() {
        let error = || ToolError::new(Reason::InvalidResponse, "no");
        for (error, expected) in [
            (error(), "may have the message"),
            (with_task(error()), "call status or watch"),
        ] {
            let error = error.for_send();
            assert!(hint(&error).contains(expected), "{}", hint(&error));
        }
    }

    #[test]
    fn no_hint_leads_to_a_second_send_of_a_delivered_message() {
        use crate::remote_agent::error::Code;
        for reason in Reason::ALL {
            let is_of_the_request =
                matches!(reason.code(), Code::Validation | Code::ExpiredTaskHandle);
            for delivered in [Delivered::Unknown, Delivered::Yes] {
                for has_task in [false, true] {
                    let mut error = ToolError::new(*reason, "no").delivered(delivered);
                    if has_task {
                        error = with_task(error);
                    }
                    let error = error.for_gateway().for_send();
                    let hint = hint(&error).to_lowercase();
                    const INVITATIONS: [&str; 4] = [
                        "call again",
                        "send again if",
                        "send without",
                        "retry with the same",
                    ];
                    assert!(
                        is_of_the_request
                            || *reason == Reason::TaskForgotten
                            || !INVITATIONS.iter().any(|words| hint.contains(words)),
                        "{reason:?} {delivered:?} {has_task}: {hint}"
                    );
                    assert!(!error.retryable, "{reason:?}");
                }
            }
            let unsent = ToolError::new(*reason, "no").delivered(Delivered::No);
            let unsent = unsent.for_send();
            assert!(!unsent.details.contains_key("hint"), "{reason:?}");
            assert_eq!(unsent.retryable, reason.retryable());
        }
    }
}
