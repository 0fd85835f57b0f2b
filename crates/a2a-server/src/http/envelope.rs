//! The envelope of JSON-RPC requests and responses.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use a2a::{A2aError, ErrorReason};
use base::json;

/// The maximum length of an id as JSON. The server stores it during a stream and repeats it in every event.
const MAX_ID_BYTES: usize = 1024;

/// The id of a request as raw JSON; `null` if the request has none.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Id(Option<Box<RawValue>>);

impl Id {
    /// Returns the id for the response to an unreadable request.
    pub(crate) fn null() -> Self {
        Self(None)
    }
}

/// A successful response.
#[derive(Serialize)]
pub(crate) struct Success<'a, T> {
    jsonrpc: &'static str,
    id: &'a Id,
    result: &'a T,
}

impl<'a, T> Success<'a, T> {
    /// Creates the response to the request with the id `id`.
    pub(crate) fn new(id: &'a Id, result: &'a T) -> Self {
        Self {
            jsonrpc: "2.0",
            id,
            result,
        }
    }
}

/// A request.
pub(crate) struct Request {
    /// `None` for a notification, which gets no answer.
    pub(crate) id: Option<Id>,
    pub(crate) method: String,
    /// `null` if the request has no parameters.
    pub(crate) params: Value,
}

#[derive(Deserialize)]
struct RawRequest {
    jsonrpc: Option<Value>,
    /// `Some(None)` for `null`.
    #[serde(default, deserialize_with = "json::present")]
    id: Option<Option<Box<RawValue>>>,
    method: Option<Value>,
    #[serde(default)]
    params: Value,
}

impl Request {
    /// Parses a body.
    ///
    /// # Errors
    /// The body is not JSON or not a JSON-RPC request. The error contains the id if it is readable.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, (Id, A2aError)> {
        let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
        if first != Some(&b'{') {
            return Err((Id::null(), no_object(body, first)));
        }
        // From a `str`, because otherwise the parser checks the encoding of each string.
        let raw = match std::str::from_utf8(body) {
            Ok(text) => serde_json::from_str::<RawRequest>(text),
            Err(_) => serde_json::from_slice(body),
        };
        let raw = raw.map_err(|error| {
            let error = if error.is_data() {
                invalid("the body is not a JSON-RPC request: it has a duplicate field")
            } else {
                no_json(&error)
            };
            (Id::null(), error)
        })?;
        let id = match raw.id {
            Some(Some(id))
                if !matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9')) =>
            {
                let error = invalid("`id` must be a string, a number or null");
                return Err((Id::null(), error.at("id")));
            }
            Some(Some(id)) if id.get().len() > MAX_ID_BYTES => {
                let error = invalid("`id` is longer than 1024 bytes; choose a shorter one");
                return Err((Id::null(), error.at("id")));
            }
            id => id.map(Id),
        };
        let or_null = |id: Option<Id>| id.unwrap_or_else(Id::null);
        if raw.jsonrpc.as_ref().and_then(Value::as_str) != Some("2.0") {
            let error = invalid("`jsonrpc` must be \"2.0\"").at("jsonrpc");
            return Err((or_null(id), error));
        }
        match raw.method {
            Some(Value::String(method)) => Ok(Self {
                id,
                method,
                params: raw.params,
            }),
            _ => Err((
                or_null(id),
                invalid("`method` must be a string").at("method"),
            )),
        }
    }
}

fn no_object(body: &[u8], first: Option<&u8>) -> A2aError {
    match serde_json::from_slice::<IgnoredAny>(body) {
        Err(error) => no_json(&error),
        Ok(_) if first == Some(&b'[') => {
            invalid("batches are not supported; send one request at a time")
        }
        Ok(_) => invalid("the body is not a JSON-RPC request: it must be an object"),
    }
}

fn no_json(error: &serde_json::Error) -> A2aError {
    let text = format!("the body is not JSON: {error}");
    A2aError::new(ErrorReason::ParseError, text)
}

fn invalid(text: &'static str) -> A2aError {
    A2aError::new(ErrorReason::InvalidRequest, text)
}
