//! Decodes responses and events of both bindings.

use a2a::{Dialect, Event, Reply, ShapeError, Task, Transport, split_event};
use base::json::{self, Limits, encoded_bytes};
use egress::stated_reason;
use http::StatusCode;
use peer::{PeerError, PeerErrorKind, TaskPage, excerpt, is_keep_alive};
use serde::Deserialize;
use serde_json::Value;

use super::error::{
    MAX_ERROR_DATA, code, kind_of, names_a2a_error, names_protocol_error, parse, reason_in,
    status_of,
};
use super::peer_secrets::PeerSecrets;
use super::response_json::unreadable;

/// The JSON-RPC id of every request. Each HTTP exchange carries one request, so one id suffices.
pub(super) const ID: u32 = 1;

/// Decodes the responses of a binding in a version.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    pub(super) transport: Transport,
    pub(super) dialect: Dialect,
}

impl Decoder {
    /// Returns the result of a response. JSON-RPC wraps it, and some servers wrap it over HTTP+JSON too.
    pub(super) fn result(
        self,
        answer: Value,
        check_id: bool,
        secrets: &PeerSecrets,
    ) -> Result<Value, PeerError> {
        match self.transport {
            Transport::HttpJson if answer.get("jsonrpc").is_none() => Ok(answer),
            Transport::HttpJson => unwrap(answer, false, secrets),
            _ => unwrap(answer, check_id, secrets),
        }
    }

    /// Returns the result in a response of JSON-RPC with no members but those of its specification; `None` of any other text.
    /// Most responses have this form, and their envelope needs no values of its own.
    pub(super) fn enveloped(self, text: &[u8], limits: Limits, check_id: bool) -> Option<Value> {
        if self.transport != Transport::JsonRpc {
            return None;
        }
        let envelope: Envelope = json::from_slice(text, limits).ok()?;
        let is_foreign = check_id && envelope.id.is_some_and(|id| id != ID);
        (!is_foreign).then_some(envelope.result)
    }

    /// Returns the error in a successful body or an event: a bare error of A2A, or `error` of HTTP+JSON. In JSON-RPC,
    /// [`result`](Self::result) finds `error`.
    fn error(self, answer: &Value, secrets: &PeerSecrets) -> Option<PeerError> {
        let error = answer.get("error").filter(|error| !error.is_null());
        if self.transport != Transport::HttpJson && error.is_some() {
            return None;
        }
        if error.is_none() && !names_a2a_error(answer) {
            return None;
        }
        parse(answer, None, secrets).or_else(|| {
            let is_task = answer.get("status").is_some_and(Value::is_object);
            Some(rpc_error(error.filter(|_| !is_task)?.clone(), secrets))
        })
    }

    pub(super) fn task(self, result: Value, secrets: &PeerSecrets) -> Result<Task, PeerError> {
        match self.error(&result, secrets) {
            Some(error) => Err(error),
            None => {
                let text = stated(&result, secrets);
                let task = self.dialect.read_task(result).map_err(shape_error);
                task.map_err(|error| stating(error, text))
            }
        }
    }

    /// Decodes a page of tasks. Some servers send the bare list. Elements that are no tasks are counted, unless all are.
    pub(super) fn task_page(
        self,
        mut result: Value,
        secrets: &PeerSecrets,
    ) -> Result<TaskPage, PeerError> {
        if let Some(error) = self.error(&result, secrets) {
            return Err(error);
        }
        let mut names = ["nextPageToken", "next_page_token"].into_iter();
        let next = names.find_map(|name| result.get(name)?.as_str());
        let next = next.filter(|token| !token.is_empty()).map(str::to_owned);
        let elements = match result.get_mut("tasks").map(Value::take) {
            Some(Value::Array(elements)) => elements,
            // ProtoJSON may omit an empty list.
            None if result.is_object() || result.is_null() => Vec::new(),
            Some(Value::Null) => Vec::new(),
            Some(other) => {
                let error = ShapeError::here("a list of tasks", Some(&other)).under("tasks");
                return Err(shape_error(error));
            }
            None => match result {
                Value::Array(elements) => elements,
                other => {
                    let error = ShapeError::here("a list of tasks", Some(&other));
                    return Err(shape_error(error));
                }
            },
        };
        let (mut page, mut first_error) = (TaskPage::default(), None);
        page.next_page_token = next;
        for element in elements {
            match self.dialect.read_task(element) {
                Ok(task) => page.tasks.push(task),
                Err(error) => {
                    page.unreadable += 1;
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error.filter(|_| page.tasks.is_empty()) {
            Some(error) => Err(shape_error(error)),
            None => Ok(page),
        }
    }

    pub(super) fn reply(self, result: Value, secrets: &PeerSecrets) -> Result<Reply, PeerError> {
        match self.error(&result, secrets) {
            Some(error) => Err(error),
            None => {
                let text = stated(&result, secrets);
                let reply = self.dialect.read_reply(result).map_err(shape_error);
                reply.map_err(|error| stating(error, text))
            }
        }
    }

    /// Returns whether a result is the answer to a message, or to a request for a task.
    pub(super) fn is_reply(self, result: Value) -> bool {
        self.dialect.read_reply(result).is_ok()
    }

    /// Returns the error of an event that is named `error` and is no event of A2A: JSON, or a text.
    pub(super) fn named_error(
        self,
        data: &str,
        limits: Limits,
        secrets: &PeerSecrets,
    ) -> PeerError {
        let error = json::from_str(data, limits).unwrap_or_else(|_| Value::from(data));
        parse(&error, None, secrets).unwrap_or_else(|| rpc_error(error, secrets))
    }

    /// Decodes the data of a server-sent event, which may hold several events of A2A. Returns none for data that holds none, such
    /// as `ping`, `[DONE]`, `{}` or `{"type": "heartbeat"}`: servers send these to keep a connection open. Every event is
    /// an object, so data that does not begin like one loses nothing.
    pub(super) fn event(
        self,
        data: &str,
        limits: Limits,
        secrets: &PeerSecrets,
    ) -> Result<Vec<Event>, PeerError> {
        if !data
            .trim_start_matches(['\u{FEFF}', ' ', '\t', '\n'])
            .starts_with('{')
        {
            return Ok(Vec::new());
        }
        let enveloped = self.enveloped(data.as_bytes(), limits, false);
        let is_whole = enveloped.is_none();
        let event = enveloped.map_or_else(|| json::from_str(data, limits), Ok);
        let mut event: Value =
            event.map_err(|error| unreadable("an event of the stream", &error))?;
        secrets.scrub_response(&mut event);
        if names_keep_alive(&event) {
            return Ok(Vec::new());
        }
        // Some servers omit the envelope of JSON-RPC.
        if is_whole && (event.get("result").is_some() || event.get("error").is_some()) {
            event = self.result(event, false, secrets)?;
            if names_keep_alive(&event) {
                return Ok(Vec::new());
            }
        }
        match self.error(&event, secrets) {
            Some(error) => Err(error),
            None => split_event(event)
                .into_iter()
                .filter_map(|event| self.dialect.read_event(event).transpose())
                .collect::<Result<_, _>>()
                .map_err(shape_error),
        }
    }
}

/// A JSON-RPC response with a result (JSON-RPC 2.0 §5).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion,
    id: Option<u32>,
    result: Value,
}

#[derive(Deserialize)]
enum JsonRpcVersion {
    #[serde(rename = "2.0")]
    V2,
}

/// Returns the text in JSON that is no event, answer or task, shortened, without secrets.
fn stated(json: &Value, secrets: &PeerSecrets) -> Option<String> {
    stated_reason(json).map(|text| excerpt(&secrets.scrub(text)))
}

/// Returns the text in the data of an event that is no event of A2A, shortened, without secrets. A word that keeps the
/// connection open is none.
pub(super) fn stated_in(data: &str, limits: Limits, secrets: &PeerSecrets) -> Option<String> {
    match json::from_str(data, limits) {
        Ok(json) => stated(&json, secrets),
        Err(_) => {
            let text = data.trim();
            let is_word = text.is_empty() || is_keep_alive(text) || text == "[DONE]";
            (!is_word).then(|| excerpt(&secrets.scrub(text)))
        }
    }
}

/// Adds the text of the peer to an error.
pub(super) fn stating(mut error: PeerError, text: Option<String>) -> PeerError {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        error.message = format!("{}; the peer says: {text}", error.message);
    }
    error
}

/// Returns whether an event names itself as one that keeps the connection open.
fn names_keep_alive(event: &Value) -> bool {
    let named = ["type", "event", "kind"]
        .into_iter()
        .find_map(|member| event.get(member)?.as_str());
    named.is_some_and(is_keep_alive)
}

/// Unwraps a JSON-RPC response (JSON-RPC 2.0 §5). Does not check the id of an event, which belongs to the request of its
/// connection. Some servers send the bare result.
fn unwrap(answer: Value, check_id: bool, secrets: &PeerSecrets) -> Result<Value, PeerError> {
    let Value::Object(mut answer) = answer else {
        return Err(shape_error(ShapeError::here(
            "a JSON-RPC response",
            Some(&answer),
        )));
    };
    let members = ["jsonrpc", "result", "error"];
    if !members.iter().any(|member| answer.contains_key(*member)) {
        return Ok(Value::Object(answer));
    }
    if let Some(error) = answer.remove("error").filter(|error| !error.is_null()) {
        return Err(rpc_error(error, secrets));
    }
    if check_id && is_foreign_id(answer.get("id")) {
        let message = "the JSON-RPC id of the response differs from that of the request";
        return Err(PeerError::new(PeerErrorKind::InvalidResponse, message));
    }
    Ok(answer.remove("result").unwrap_or_default())
}

/// Returns whether a response has the id of another request. Some peers omit the id or send it as a string.
fn is_foreign_id(id: Option<&Value>) -> bool {
    match id {
        None | Some(Value::Null) => false,
        Some(Value::String(id)) => *id != ID.to_string(),
        Some(id) => id.as_f64() != Some(ID.into()),
    }
}

/// Returns the error in the body of an error status: that of JSON-RPC, or one without its envelope whose code or reason only
/// agents send.
pub(super) fn parse_error(
    mut body: Value,
    status: StatusCode,
    secrets: &PeerSecrets,
) -> Option<PeerError> {
    if let Some(error) = body.get_mut("error").filter(|error| error.is_object()) {
        return Some(rpc_error(error.take(), secrets));
    }
    match names_protocol_error(&body) {
        true => parse(&body, Some(status), secrets),
        false => None,
    }
}

fn rpc_error(mut error: Value, secrets: &PeerSecrets) -> PeerError {
    secrets.scrub_error(&mut error);
    let code = code(&error);
    let text = match error.get("message").unwrap_or(&error) {
        Value::String(text) => excerpt(text),
        // The error has no message.
        Value::Null | Value::Object(_) if error.get("message").is_none_or(Value::is_null) => {
            String::new()
        }
        other => excerpt(&other.to_string()),
    };
    let http_status = status_of(code);
    let rpc_code = code.filter(|_| http_status.is_none());
    let code_text = match (rpc_code, http_status) {
        (Some(code), _) => format!("JSON-RPC error {code}"),
        (None, Some(status)) => format!("error {status}"),
        (None, None) => "an error".to_owned(),
    };
    let text = match text.is_empty() {
        true => " without a message".to_owned(),
        false => format!(": {text}"),
    };
    let mut peer_error = PeerError::new(
        PeerErrorKind::Rpc,
        format!("the peer responded with {code_text}{text}"),
    );
    peer_error.kind = kind_of(error.get("data").and_then(reason_in), http_status);
    peer_error.rpc_code = rpc_code;
    peer_error.http_status = http_status;
    peer_error.rpc_data = error
        .get("data")
        .filter(|data| !data.is_null() && encoded_bytes(data) <= MAX_ERROR_DATA)
        .cloned();
    peer_error
}

pub(super) fn shape_error(error: ShapeError) -> PeerError {
    PeerError::new(PeerErrorKind::InvalidResponse, error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use a2a::{V03Dialect, Version};
    use peer::{CardLocation, PeerConfig};
    use serde_json::json;

    fn secrets() -> PeerSecrets {
        let url = url::Url::parse("http://a.example/").unwrap();
        PeerSecrets::new(&PeerConfig::new(url, CardLocation::Path("/card".into())))
    }

    fn decoder(transport: Transport) -> Decoder {
        let dialect = Dialect::new(Version::V1_0, transport);
        Decoder { transport, dialect }
    }

    const ALL: [Transport; 2] = [Transport::JsonRpc, Transport::HttpJson];

    fn task(transport: Transport, answer: Value) -> Result<Task, PeerError> {
        let result = decoder(transport).result(answer, true, &secrets())?;
        decoder(transport).task(result, &secrets())
    }

    #[test]
    fn task_is_read_bare_and_in_an_envelope() {
        let bare = json!({"id": "t", "status": {"state": "TASK_STATE_WORKING"}});
        let wrapped = json!({"jsonrpc": "2.0", "id": 1, "result": bare});
        for transport in ALL {
            for answer in [bare.clone(), wrapped.clone()] {
                assert_eq!(task(transport, answer).unwrap().id(), Some("t"));
            }
        }
    }

    #[test]
    fn event_is_read_in_an_envelope_of_any_form() {
        let result =
            r#""result": {"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}}"#;
        for envelope in [
            r#"{"jsonrpc": "2.0", "id": 1, RESULT}"#,
            r#"{RESULT, "id": 7, "jsonrpc": "2.0"}"#,
            r#"{"jsonrpc": "2.0", "id": "one", RESULT}"#,
            r#"{"jsonrpc": "2.0", "id": null, RESULT}"#,
            r#"{"jsonrpc": "2.0", RESULT}"#,
            r#"{"jsonrpc": "1.0", "id": 1, RESULT}"#,
            r#"{"id": 1, RESULT}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "error": null, RESULT, "trace": [1]}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "result": {}, RESULT}"#,
        ] {
            let data = envelope.replace("RESULT", result);
            let event = decoder(Transport::JsonRpc).event(&data, Limits::NONE, &secrets());
            let event = event.unwrap().remove(0);
            assert!(
                matches!(&event, Event::Task(task) if task.id() == Some("t")),
                "{data}"
            );
        }
    }

    #[test]
    fn envelope_with_a_foreign_id_has_no_result_for_a_request() {
        let rpc = decoder(Transport::JsonRpc);
        for (id, is_own) in [("1", true), ("7", false), ("null", true)] {
            let text = format!(r#"{{"jsonrpc": "2.0", "id": {id}, "result": {{}}}}"#);
            let result = |check_id| rpc.enveloped(text.as_bytes(), Limits::NONE, check_id);
            assert_eq!(
                (result(true).is_some(), result(false).is_some()),
                (is_own, true),
                "{id}"
            );
        }
    }

    #[test]
    fn list_of_tasks_is_read_without_what_is_no_task() {
        let good = json!({"id": "t", "status": {"state": "TASK_STATE_WORKING"}});
        let page = |result| {
            let page = decoder(Transport::JsonRpc).task_page(result, &secrets());
            page.map(|page| (page.tasks.len(), page.unreadable, page.next_page_token))
        };
        for (result, expected) in [
            (
                json!({"tasks": [good], "nextPageToken": "p2"}),
                (1, 0, Some("p2".to_owned())),
            ),
            (
                json!({"tasks": [good], "next_page_token": "p2"}),
                (1, 0, Some("p2".to_owned())),
            ),
            (json!([good]), (1, 0, None)),
            (
                json!({"tasks": [good, "x", {"id": "u"}], "nextPageToken": ""}),
                (1, 2, None),
            ),
            (json!({}), (0, 0, None)),
            (json!({"tasks": null, "nextPageToken": 5}), (0, 0, None)),
            (json!(null), (0, 0, None)),
        ] {
            assert_eq!(page(result.clone()).unwrap(), expected, "{result}");
        }
        for result in [json!("x"), json!(5), json!({"tasks": 5}), json!(["x"])] {
            let error = page(result.clone()).unwrap_err();
            assert_eq!(error.kind, PeerErrorKind::InvalidResponse, "{result}");
        }
    }

    #[test]
    fn keep_alive_is_no_event_in_an_envelope_either() {
        for keep_alive in [json!({"kind": "heartbeat"}), json!({"type": "ping"})] {
            let wrapped = json!({"jsonrpc": "2.0", "id": 1, "result": keep_alive});
            for (transport, data) in ALL.into_iter().flat_map(|transport| {
                [&keep_alive, &wrapped].map(|data| (transport, data.to_string()))
            }) {
                let limits = Limits::NONE;
                let event = decoder(transport).event(&data, limits, &secrets());
                assert_eq!(event.unwrap(), [], "{data}");
            }
        }
    }

    #[test]
    fn object_with_several_events_is_all_of_them_and_ends_with_the_state() {
        let status = json!({"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}});
        let artifact = json!({"artifactId": "a", "parts": [{"text": "hello"}]});
        let data = json!({
            "statusUpdate": status,
            "artifactUpdate": {"taskId": "t", "artifact": artifact},
        });
        let wrapped = json!({"jsonrpc": "2.0", "id": 1, "result": data});
        for transport in ALL {
            for data in [&data, &wrapped] {
                let events = decoder(transport).event(&data.to_string(), Limits::NONE, &secrets());
                let events = events.unwrap();
                assert!(
                    matches!(events[..], [Event::Artifact(_), Event::Status(_)]),
                    "{events:?}"
                );
            }
        }
    }

    #[test]
    fn empty_or_repeated_member_is_no_event() {
        let status = json!({"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}});
        for data in [
            json!({"statusUpdate": status, "artifactUpdate": {}, "message": null}),
            json!({"statusUpdate": status, "status_update": status}),
        ] {
            let rpc = decoder(Transport::JsonRpc);
            let events = rpc.event(&data.to_string(), Limits::NONE, &secrets());
            let events = events.unwrap();
            assert!(matches!(events[..], [Event::Status(_)]), "{events:?}");
        }
    }

    #[test]
    fn error_in_a_success_is_one_in_both_bindings() {
        for (error, status, text) in [
            (json!({"code": 503, "message": "busy"}), Some(503), "busy"),
            (json!({"code": 429, "message": "slow"}), Some(429), "slow"),
            (json!("gone wrong"), None, "gone wrong"),
            (json!({}), None, "an error without a message"),
            (json!({"message": null}), None, "an error without a message"),
            (
                json!({"message": {"why": "full"}}),
                None,
                r#"{"why":"full"}"#,
            ),
            (json!(["full"]), None, r#"["full"]"#),
        ] {
            for transport in ALL {
                let answer = json!({"jsonrpc": "2.0", "id": 1, "error": error});
                let bare = json!({"error": error});
                for answer in [answer, bare] {
                    let found = task(transport, answer).unwrap_err();
                    assert_eq!(found.kind, PeerErrorKind::Rpc, "{}", found.message);
                    assert_eq!(found.http_status, status, "{}", found.message);
                    assert_eq!(found.rpc_code, None, "{}", found.message);
                    assert!(!found.message.contains("JSON-RPC"), "{}", found.message);
                    assert!(found.message.contains(text), "{}", found.message);
                }
            }
        }
    }

    #[test]
    fn error_with_the_code_401_or_403_requires_a_credential() {
        use PeerErrorKind::{AuthRequired, Rpc};
        let known = json!([{"reason": "TASK_NOT_FOUND"}]);
        for (error, kind) in [
            (json!({"code": 401, "message": "no"}), AuthRequired),
            (json!({"code": "403", "message": "no"}), AuthRequired),
            (
                json!({"code": 403, "message": "no", "data": known, "details": known}),
                Rpc,
            ),
            (json!({"code": 404, "message": "no"}), Rpc),
        ] {
            for transport in ALL {
                let found = task(transport, json!({ "error": error })).unwrap_err();
                assert_eq!(found.kind, kind, "{transport:?} {error}");
            }
        }
    }

    #[test]
    fn success_without_an_error_is_an_unreadable_answer_in_both_bindings() {
        for answer in [
            json!({"message": "Workflow was started"}),
            json!({"detail": "the task is gone"}),
            json!({"success": false, "message": "no"}),
            json!({"code": 0, "message": "ok"}),
            json!({"code": 500, "message": "failed"}),
            json!({"title": "Gone", "detail": "no"}),
            json!({"error": null, "message": "ok"}),
        ] {
            for transport in ALL {
                let found = task(transport, answer.clone()).unwrap_err();
                assert_eq!(found.kind, PeerErrorKind::InvalidResponse, "{answer}");
                let reply = decoder(transport).reply(answer.clone(), &secrets());
                let kind = reply.unwrap_err().kind;
                assert_eq!(kind, PeerErrorKind::InvalidResponse, "{answer}");
                let limits = json::Limits {
                    depth: 8,
                    values: 64,
                    memory: 1 << 16,
                };
                let event = decoder(transport).event(&answer.to_string(), limits, &secrets());
                let kind = event.err().map(|error| error.kind);
                assert_ne!(kind, Some(PeerErrorKind::Rpc), "{answer}");
            }
        }
    }

    #[test]
    fn bare_error_of_a2a_in_a_success_is_one() {
        for answer in [
            json!({"code": -32603, "message": "crashed"}),
            json!({"message": "crashed", "details": [{"reason": "TASK_NOT_FOUND"}]}),
            json!({"type": "https://a2a-protocol.org/errors/task-not-found", "detail": "crashed"}),
        ] {
            for transport in ALL {
                let found = task(transport, answer.clone()).unwrap_err();
                assert_eq!(found.kind, PeerErrorKind::Rpc, "{answer}");
                assert!(found.message.contains("crashed"), "{answer}");
            }
        }
    }

    #[test]
    fn failed_task_with_an_error_of_its_own_is_a_task() {
        let dialect = Dialect::V0_3(V03Dialect::Rest);
        let decoder = Decoder {
            transport: Transport::HttpJson,
            dialect,
        };
        let answer = json!({"id": "t", "status": {"state": "failed"}, "error": "why"});
        assert!(decoder.task(answer, &secrets()).is_ok());
    }
}
