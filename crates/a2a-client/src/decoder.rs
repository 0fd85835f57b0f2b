//! Reads what comes over either binding: results out of answers, events out of streams, and errors out of both.

use serde_json::Value;

use a2a::{Dialect, Event, Reply, ShapeError, Transport};
use peer::{PeerError, PeerErrorKind, excerpt};

use super::error_body::{KEPT_DATA, explained, kind_of, reason_in};
use super::secrets::Secrets;

/// Each exchange has a connection of its own, so one id tells every answer from noise, and an answer without one is its own.
pub(super) const ID: u32 = 1;

/// Reads what comes over a binding in a version.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    pub(super) transport: Transport,
    pub(super) dialect: Dialect,
}

impl Decoder {
    /// What an answer holds. JSON-RPC wraps it.
    pub(super) fn result(
        self,
        answer: Value,
        check_id: bool,
        secrets: &Secrets,
    ) -> Result<Value, PeerError> {
        match self.transport {
            Transport::HttpJson => Ok(answer),
            _ => unwrapped(answer, check_id, secrets),
        }
    }

    /// HTTP+JSON says in an answer's body alone that it is an error, whatever its status.
    fn error(self, answer: &Value, secrets: &Secrets) -> Option<PeerError> {
        match self.transport {
            Transport::HttpJson => explained(answer, secrets),
            _ => None,
        }
    }

    pub(super) fn reply(self, result: Value, secrets: &Secrets) -> Result<Reply, PeerError> {
        match self.error(&result, secrets) {
            Some(error) => Err(error),
            None => self.dialect.read_reply(result).map_err(misshapen),
        }
    }

    /// Reads the data of one server-sent event.
    pub(super) fn event(self, data: &str, secrets: &Secrets) -> Result<Event, PeerError> {
        let mut json: Value = serde_json::from_str(data).map_err(|e| {
            let message = format!("an event of the stream is not JSON: {e}");
            PeerError::new(PeerErrorKind::InvalidResponse, message)
        })?;
        secrets.scrub_answer(&mut json);
        let event = self.result(json, false, secrets)?;
        match self.error(&event, secrets) {
            Some(error) => Err(error),
            None => self.dialect.read_event(event).map_err(misshapen),
        }
    }
}

/// What is inside a JSON-RPC answer (JSON-RPC 2.0 §5). In a stream the id is not held against an event: its connection
/// tells what it belongs to.
fn unwrapped(answer: Value, check_id: bool, secrets: &Secrets) -> Result<Value, PeerError> {
    let Value::Object(mut answer) = answer else {
        return Err(misshapen(ShapeError::here(
            "a JSON-RPC answer",
            Some(&answer),
        )));
    };
    if let Some(error) = answer.remove("error").filter(|error| !error.is_null()) {
        return Err(rpc_error(error, secrets));
    }
    if check_id && is_another(answer.get("id")) {
        let message = "the answer's JSON-RPC id is not the request's, so it answers something else";
        return Err(PeerError::new(PeerErrorKind::InvalidResponse, message));
    }
    Ok(answer.remove("result").unwrap_or_default())
}

/// The id of an answer is that of another request. Some peers leave it out or write it as a string.
fn is_another(id: Option<&Value>) -> bool {
    match id {
        None | Some(Value::Null) => false,
        Some(Value::String(id)) => *id != ID.to_string(),
        Some(id) => id.as_f64() != Some(ID.into()),
    }
}

/// The error in a body that came with an error status.
pub(super) fn explain(mut body: Value, secrets: &Secrets) -> Option<PeerError> {
    let error = body.get_mut("error").filter(|error| error.is_object())?;
    Some(rpc_error(error.take(), secrets))
}

fn rpc_error(mut error: Value, secrets: &Secrets) -> PeerError {
    secrets.scrub_failure(&mut error);
    let code = error.get("code").and_then(Value::as_i64);
    let said = error
        .get("message")
        .or(Some(&error))
        .and_then(Value::as_str)
        .map(excerpt)
        .unwrap_or_default();
    let code_text = code.map_or_else(
        || "an error".into(),
        |code| format!("JSON-RPC error {code}"),
    );
    let mut told = PeerError::new(
        PeerErrorKind::Rpc,
        format!("the peer answered with {code_text}: {said}"),
    );
    told.kind = kind_of(error.get("data").and_then(reason_in));
    told.rpc_code = code;
    told.rpc_data = error
        .get("data")
        .filter(|data| !data.is_null() && data.to_string().len() <= KEPT_DATA)
        .cloned();
    told
}

pub(super) fn misshapen(wrong: ShapeError) -> PeerError {
    PeerError::new(PeerErrorKind::InvalidResponse, wrong.to_string())
}
