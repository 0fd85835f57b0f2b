//! The HTTP API of the tool: one route for actions that read, one for actions that change something, and the error
//! envelope of Centraid API, "Error codes". Pure functions, for any HTTP server: [`ApiRequest::parse`] turns a body into
//! a request of the tool, and [`ApiResponse::new`] turns the tool's envelope into a response.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::remote_agent::{ApiCode, REQUEST_LIMITS, Reason};
use base::{json, named};

/// The largest body of a request, in bytes.
pub const MAX_BODY_BYTES: usize = 1 << 20;

/// How much longer than the time limit of its route a call may take to end by itself.
const EXPIRY_GRACE: Duration = Duration::from_millis(500);

/// The header of an error response with the reason of the tool's table of errors.
pub const REASON_HEADER: &str = "remote-agent-reason";

/// The header of an error response that says whether a later call may succeed: `true` or `false`.
pub const RETRYABLE_HEADER: &str = "remote-agent-retryable";

named! {
    /// A route of the API.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Route {
        /// `POST /remote_agent/read`.
        Read = "read",
        /// `POST /remote_agent/write`.
        Write = "write",
    }
}

impl Route {
    fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }

    /// Returns the actions of the route.
    pub fn actions(self) -> &'static [&'static str] {
        match self {
            Self::Read => &["list_targets", "status", "watch"],
            Self::Write => &["send", "cancel"],
        }
    }

    /// Returns the member of a body that names the action.
    fn action_member(self) -> &'static str {
        match self {
            Self::Read => "query",
            Self::Write => "action",
        }
    }

    /// Returns the default time limit of a call (Centraid API, "When you'll see each").
    pub const fn default_timeout(self) -> Duration {
        match self {
            Self::Read => Duration::from_secs(10),
            Self::Write => Duration::from_secs(30),
        }
    }
}

/// An error of the API. Serializes to its envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "Envelope")]
pub struct ApiError {
    pub code: ApiCode,
    /// A sentence without text of a peer.
    pub message: String,
    /// The place of the fault in the input, as a JSON Pointer; only for `INVALID_INPUT`.
    pub path: Option<String>,
}

#[derive(Serialize)]
struct Envelope {
    #[serde(rename = "isError")]
    is_error: bool,
    error: Fields,
}

#[derive(Serialize)]
struct Fields {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl From<ApiError> for Envelope {
    fn from(error: ApiError) -> Self {
        Self {
            is_error: true,
            error: Fields {
                code: error.code.as_str(),
                message: error.message,
                path: error.path,
            },
        }
    }
}

impl ApiError {
    fn new(code: ApiCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            path: None,
        }
    }

    /// Returns the error of a server that cannot make the call. `message` names what to correct.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ApiCode::HandlerError, message)
    }

    /// Returns the error of an invalid input. `path` is the place of the fault as a JSON Pointer.
    pub fn invalid(path: &str, message: impl Into<String>) -> Self {
        Self {
            path: Some(path.to_owned()),
            ..Self::new(ApiCode::InvalidInput, message)
        }
    }

    /// Returns the error of an envelope of the tool; `None` of a successful call.
    pub fn of_envelope(envelope: &Value) -> Option<Self> {
        if envelope["ok"] == true {
            return None;
        }
        let error = &envelope["error"];
        let Some(reason) = Reason::in_error(error) else {
            return Some(Self::new(
                ApiCode::HandlerError,
                Reason::InternalFault.meaning(),
            ));
        };
        let code = match unknown_name_code(reason, error) {
            Some(code) => code,
            None => reason.api_code(),
        };
        let path = error["path"].as_str().unwrap_or_default();
        Some(Self {
            code,
            message: error_message(reason, code, error),
            path: (code == ApiCode::InvalidInput).then(|| path.to_owned()),
        })
    }
}

/// Returns the code of an invalid request with an unknown target or action.
fn unknown_name_code(reason: Reason, error: &Value) -> Option<ApiCode> {
    if reason != Reason::InvalidRequest {
        return None;
    }
    let violations = error["details"]["errors"].as_array()?;
    // A value of another type is no name at all.
    let is_unknown = |code: &ApiCode| {
        let mut violations = violations.iter();
        violations.any(|violation| {
            violation["instancePath"] == name_path(*code) && violation["keyword"] != "type"
        })
    };
    [ApiCode::UnknownApp, ApiCode::UnknownAction]
        .into_iter()
        .find(is_unknown)
}

/// Returns the place of the name that a code is about.
fn name_path(code: ApiCode) -> &'static str {
    match code {
        ApiCode::UnknownApp => "/target_alias",
        _ => "/action",
    }
}

/// Returns what failed. A message that may quote a peer is replaced by the meaning of its reason.
fn error_message(reason: Reason, code: ApiCode, error: &Value) -> String {
    let details = &error["details"];
    if reason == Reason::InvalidRequest {
        let mut violations = details["errors"].as_array().into_iter().flatten();
        let is_unknown = |violation: &&Value| {
            code == ApiCode::InvalidInput || violation["instancePath"] == name_path(code)
        };
        let none = Value::Null;
        let first = violations.find(is_unknown).unwrap_or(&none);
        let [place, message] =
            ["instancePath", "message"].map(|field| first[field].as_str().unwrap_or_default());
        return match place {
            "" => format!("the input {message}"),
            place => format!("{place} {message}"),
        };
    }
    let quotes_peer = error["quotes_peer"] != false;
    let text = error["message"].as_str().filter(|_| !quotes_peer);
    let mut message = text.unwrap_or(reason.meaning()).to_owned();
    for (field, label) in [("http_status", "HTTP status"), ("rpcCode", "JSON-RPC code")] {
        if let Some(number) = details[field].as_i64() {
            message += &format!(" ({label} {number})");
        }
    }
    message
}

/// A request of the API.
#[derive(Debug, PartialEq, Eq)]
pub struct ApiRequest {
    /// The request of the tool.
    pub request: Value,
    /// The action.
    pub action: &'static str,
    /// The time after which the server cancels the call.
    pub expires_after: Duration,
}

impl ApiRequest {
    /// Parses a body: `{"app"?, "query" or "action", "input"?}`, or the request of the tool itself. An action that reads
    /// gets `timeout` where it has no `timeout_ms`; a `send` ends earlier by itself, with a task.
    ///
    /// # Errors
    /// The body is invalid, or the action is not one of the route's.
    pub fn parse(route: Route, body: &[u8], timeout: Duration) -> Result<Self, ApiError> {
        let body = if body.trim_ascii().is_empty() {
            Ok(Value::Object(Map::new()))
        } else {
            json::from_slice(body, REQUEST_LIMITS)
        };
        let body =
            body.map_err(|error| ApiError::invalid("", format!("the body is not JSON: {error}")))?;
        let Value::Object(body) = body else {
            return Err(ApiError::invalid("", "the body is not a JSON object"));
        };
        let nested = ["app", "input", "query"];
        // The tool's own request to list targets has a `query`, too.
        let nested = match body.get("action").and_then(Value::as_str) {
            Some("list_targets") => &nested[..2],
            _ => &nested[..],
        };
        let is_flat = !nested.iter().any(|name| body.contains_key(*name));
        let (name, mut input) = if is_flat {
            parse_flat(body)?
        } else {
            parse_nested(route, body)?
        };
        let action = route.find(&name)?;
        if route == Route::Read && action != "list_targets" {
            let timeout_ms = input.entry("timeout_ms");
            timeout_ms.or_insert_with(|| base::environment::millis(timeout).into());
        }
        input.insert("action".to_owned(), action.into());
        Ok(Self {
            request: Value::Object(input),
            action,
            expires_after: timeout + EXPIRY_GRACE,
        })
    }
}

impl Route {
    fn find(self, name: &str) -> Result<&'static str, ApiError> {
        let known = |route: Self| {
            route
                .actions()
                .iter()
                .copied()
                .find(|action| *action == name)
        };
        if let Some(action) = known(self) {
            return Ok(action);
        }
        if let Some(action) = known(self.other()) {
            let message = format!(
                "`{action}` belongs to remote_agent/{}",
                self.other().as_str()
            );
            return Err(ApiError::new(ApiCode::WrongKind, message));
        }
        let (code, noun) = match self {
            Self::Read => (ApiCode::UnknownQuery, "query"),
            Self::Write => (ApiCode::UnknownAction, "action"),
        };
        let known = self.actions().join(", ");
        Err(ApiError::new(
            code,
            format!("no such {noun}; known are {known}"),
        ))
    }
}

fn parse_flat(mut body: Map<String, Value>) -> Result<(String, Map<String, Value>), ApiError> {
    match body.remove("action") {
        Some(Value::String(name)) => Ok((name, body)),
        Some(_) => Err(ApiError::invalid("/action", "/action must be string")),
        None => Err(ApiError::invalid("", "the body names no action")),
    }
}

fn parse_nested(
    route: Route,
    mut body: Map<String, Value>,
) -> Result<(String, Map<String, Value>), ApiError> {
    let member = route.action_member();
    let app = body.remove("app");
    let name = body.remove(member);
    let other = body.remove(route.other().action_member());
    let input = body.remove("input");
    // `path` points into `input`, so it is the whole for a fault of the body around it.
    if let Some(name) = body.keys().next() {
        let message = format!("the body has the unknown member `{}`", name.escape_debug());
        return Err(ApiError::invalid("", message));
    }
    let name = match (name, other) {
        (Some(Value::String(name)), None) | (None, Some(Value::String(name))) => name,
        (None, None) => {
            return Err(ApiError::invalid("", format!("the body has no `{member}`")));
        }
        (Some(_), Some(_)) => {
            let message = "the body has `query` and `action`; leave one out";
            return Err(ApiError::invalid("", message));
        }
        _ => return Err(ApiError::invalid("", format!("`{member}` must be string"))),
    };
    let mut input = match input {
        None => Map::new(),
        Some(Value::Object(input)) => input,
        Some(_) => return Err(ApiError::invalid("", "`input` must be object")),
    };
    if input.contains_key("action") {
        let message = "/action must not be in `input`; name it beside `input`";
        return Err(ApiError::invalid("/action", message));
    }
    match app {
        None => {}
        Some(Value::String(alias)) => {
            if input.contains_key("target_alias") {
                let message = "/target_alias must not be in `input` beside `app`";
                return Err(ApiError::invalid("/target_alias", message));
            }
            input.insert("target_alias".to_owned(), alias.into());
        }
        Some(_) => return Err(ApiError::invalid("", "`app` must be string")),
    }
    Ok((name, input))
}

/// A response of the API.
#[derive(Debug, PartialEq, Eq)]
pub struct ApiResponse {
    pub status: u16,
    /// The body, as JSON.
    pub body: String,
    /// The reason of an error of the tool.
    pub reason: Option<&'static str>,
    /// Whether a later call may succeed, of an error of the tool.
    pub retryable: Option<bool>,
}

impl From<&ApiError> for ApiResponse {
    fn from(error: &ApiError) -> Self {
        Self {
            status: error.code.status(),
            // A code and two strings are always written.
            body: serde_json::to_string(error).unwrap_or_default(),
            reason: None,
            retryable: None,
        }
    }
}

impl ApiResponse {
    /// Returns the response with the tool's envelope of `action`. `has_expired` says that the server cancelled the call
    /// at its time limit.
    pub fn new(action: &str, envelope: &str, has_expired: bool) -> Self {
        let mut envelope: Value = serde_json::from_str(envelope).unwrap_or_default();
        if has_expired && envelope["ok"] != true {
            let reason = Reason::Timeout;
            return Self {
                reason: Some(reason.as_str()),
                retryable: Some(action != "send"),
                ..Self::from(&ApiError::new(reason.api_code(), reason.meaning()))
            };
        }
        if let Some(error) = ApiError::of_envelope(&envelope) {
            return Self {
                reason: Reason::in_error(&envelope["error"]).map(Reason::as_str),
                retryable: envelope["error"]["retryable"].as_bool(),
                ..Self::from(&error)
            };
        }
        if action == "send"
            && let Some(state) = failed_state(&envelope)
        {
            let message =
                format!("the task ended as {state}; query its status for the agent's text");
            return Self::from(&ApiError::new(ApiCode::HandlerError, message));
        }
        let [summary, raw] = ["summary", "raw"].map(|member| envelope[member].take());
        Self {
            status: 200,
            body: format!(
                r#"{{"isError":false,"data":{}}}"#,
                json!({ "summary": summary, "raw": raw })
            ),
            reason: None,
            retryable: None,
        }
    }
}

/// Returns the state of an envelope's task that failed: `failed` or `rejected`.
pub fn failed_state(envelope: &Value) -> Option<&'static str> {
    let state = &envelope["summary"]["continuation"]["task"]["status"];
    ["failed", "rejected"]
        .into_iter()
        .find(|failed| state == failed)
}

#[cfg(test)]
mod tests;
