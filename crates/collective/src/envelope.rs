//! The envelope that every message is in (Heretek A2A §4), its time, and envelopes that answer others.

use std::borrow::Cow;
use std::time::UNIX_EPOCH;

use serde_json::{Map, Value, json};

use base::json::{self, Limits};
use base::text::first_chars;

use super::{ErrorCode, Kind};

/// The limits of a frame. A parsed frame of small values would otherwise take hundreds of times the memory of its text.
pub const FRAME_LIMITS: Limits = Limits {
    memory: 32 << 20,
    ..Limits::NONE
};

/// The longest name of an error that is not one of the registry, in bytes.
const MAX_ERROR_NAME_BYTES: usize = 64;

/// The sender of the messages of a gateway (Heretek A2A §10.5).
pub const GATEWAY: &str = "gateway";

/// An envelope of a known type. It keeps every field it came with.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    kind: Kind,
    fields: Map<String, Value>,
}

/// What an error message states. A gateway may use numbers and names of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatedError<'a> {
    /// The error of the registry, if it is one.
    pub code: Option<ErrorCode>,
    /// The number, which the registry may lack.
    pub number: Option<u64>,
    /// The name, which the registry may lack.
    pub name: Option<&'a str>,
    /// The reason, for people.
    pub text: Option<&'a str>,
}

impl StatedError<'_> {
    /// Returns the number and the name: those of the registry, otherwise those of the message, if it has any.
    pub fn label(&self) -> Option<String> {
        match (self.code, self.number, self.name) {
            (Some(code), _, _) => Some(code.to_string()),
            (None, Some(number), Some(name)) => Some(format!("{number} {name}")),
            (None, Some(number), None) => Some(number.to_string()),
            (None, None, name) => name.map(str::to_owned),
        }
    }
}

/// The reason why a frame is not an envelope.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvelopeError {
    /// The error of the registry.
    pub code: ErrorCode,
    /// The fault, as a sentence without a full stop.
    pub message: String,
    /// The correlation id of the message (`metadata.correlationId`), if it could be read.
    pub correlation_id: Option<String>,
    /// The id of the message, where that could be read.
    pub id: Option<String>,
}

impl Envelope {
    /// Creates an envelope with a type and content.
    pub fn new(kind: Kind, content: Value) -> Self {
        let mut fields = Map::new();
        fields.insert("type".into(), kind.as_str().into());
        fields.insert("content".into(), content);
        Self { kind, fields }
    }

    /// Parses a frame: an object with a known `type`. Does not check the fields of the type.
    ///
    /// # Errors
    /// 2001 for invalid JSON, 2003 for other values than objects, 2002 without a type, 2004 for an unknown type.
    pub fn parse(frame: &str) -> Result<Self, EnvelopeError> {
        let value: Value = json::from_str(frame, FRAME_LIMITS).map_err(|e| EnvelopeError {
            code: ErrorCode::InvalidJson,
            message: format!("the message is not JSON: {e}"),
            correlation_id: None,
            id: None,
        })?;
        Self::from_value(value)
    }

    /// Reads an envelope from parsed JSON, with the rules of [`parse`](Self::parse).
    ///
    /// # Errors
    /// Same as [`parse`](Self::parse).
    pub fn from_value(value: Value) -> Result<Self, EnvelopeError> {
        let Value::Object(fields) = value else {
            return Err(EnvelopeError {
                code: ErrorCode::InvalidType,
                message: "the message is no object".into(),
                correlation_id: None,
                id: None,
            });
        };
        let invalid = |code, message| {
            Err(EnvelopeError {
                code,
                message,
                correlation_id: correlation(&fields).map(str::to_owned),
                id: text(&fields, "id").map(str::to_owned),
            })
        };
        let kind = match fields.get("type") {
            Some(Value::String(name)) => match Kind::from_name(name) {
                Some(kind) => kind,
                None => {
                    let name = first_chars(name, 64);
                    return invalid(
                        ErrorCode::UnknownType,
                        format!("`{name}` is no type of message"),
                    );
                }
            },
            Some(_) => return invalid(ErrorCode::InvalidType, "`type` is no text".into()),
            None => return invalid(ErrorCode::MissingField, "`type` is missing".into()),
        };
        Ok(Self { kind, fields })
    }

    /// Returns its type.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns its content; null if it has none.
    pub fn content(&self) -> &Value {
        self.fields.get("content").unwrap_or(&Value::Null)
    }

    /// Returns a text of its content.
    pub fn content_str(&self, field: &str) -> Option<&str> {
        self.content().get(field).and_then(Value::as_str)
    }

    /// Returns a field beside its content.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// Returns its id.
    pub fn id(&self) -> Option<&str> {
        text(&self.fields, "id")
    }

    /// Returns the agent that receives it.
    pub fn agent(&self) -> Option<&str> {
        text(&self.fields, "agent")
    }

    /// Returns the sender. Only a gateway that sets it is trustworthy.
    pub fn from(&self) -> Option<&str> {
        text(&self.fields, "from")
    }

    /// Returns its session.
    pub fn session_id(&self) -> Option<&str> {
        text(&self.fields, "sessionId")
    }

    /// Returns a field of its metadata.
    pub fn metadata(&self, field: &str) -> Option<&Value> {
        self.fields.get("metadata")?.get(field)
    }

    /// Returns the correlation id: `metadata.correlationId`, or else the field beside the content.
    pub fn correlation_id(&self) -> Option<&str> {
        correlation(&self.fields)
    }

    /// Returns the message it answers.
    pub fn parent_id(&self) -> Option<&str> {
        self.metadata("parentId").and_then(Value::as_str)
    }

    /// Returns the time of writing, in milliseconds since 1970. Ignores a value that is neither a number nor a time.
    pub fn timestamp(&self) -> Option<u64> {
        self.field("timestamp").and_then(time_millis)
    }

    /// Returns whether its `ttl`, in seconds (Heretek A2A §4.3), has passed at `now`, in milliseconds since 1970.
    /// Without a `ttl` and a time it never has.
    pub fn is_expired(&self, now: u64) -> bool {
        let ttl = self.metadata("ttl").and_then(Value::as_f64);
        match (self.timestamp(), ttl) {
            (Some(written), Some(seconds)) => {
                now.saturating_sub(written) as f64 > seconds.max(0.0) * 1000.0
            }
            _ => false,
        }
    }

    /// Sets a field beside the content; null removes it.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        match value.into() {
            Value::Null => drop(self.fields.remove(field)),
            value => drop(self.fields.insert(field.to_owned(), value)),
        }
        self
    }

    /// Sets a field of the content, if that is an object; null removes it.
    #[must_use]
    pub fn with_content(mut self, field: &str, value: impl Into<Value>) -> Self {
        if let Some(content) = self
            .fields
            .get_mut("content")
            .and_then(Value::as_object_mut)
        {
            match value.into() {
                Value::Null => drop(content.remove(field)),
                value => drop(content.insert(field.to_owned(), value)),
            }
        }
        self
    }

    /// Sets a field of the metadata; null removes it.
    #[must_use]
    pub fn with_metadata(mut self, field: &str, value: impl Into<Value>) -> Self {
        let metadata = self.fields.entry("metadata").or_insert(Value::Null);
        if metadata.is_null() {
            *metadata = json!({});
        }
        if let Some(metadata) = metadata.as_object_mut() {
            match value.into() {
                Value::Null => drop(metadata.remove(field)),
                value => drop(metadata.insert(field.to_owned(), value)),
            }
        }
        self
    }

    /// Returns the envelope as a frame.
    pub fn to_text(&self) -> String {
        // A map whose keys are texts is always JSON.
        serde_json::to_string(&self.fields).unwrap_or_default()
    }

    /// Returns the envelope as JSON.
    pub fn into_json(self) -> Value {
        self.fields.into()
    }
}

/// Returns the number of an error: a number, or a text of one.
fn error_number(code: &Value) -> Option<u64> {
    code.as_u64().or_else(|| code.as_str()?.trim().parse().ok())
}

/// Returns whether a text is the name of an error and no sentence.
fn is_error_name(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    is_word && !is_number && text.len() <= MAX_ERROR_NAME_BYTES
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

fn correlation(fields: &Map<String, Value>) -> Option<&str> {
    let metadata = fields.get("metadata").and_then(Value::as_object);
    metadata
        .and_then(|metadata| text(metadata, "correlationId"))
        .or_else(|| text(fields, "correlationId"))
}

impl Envelope {
    /// Returns an envelope that says which message it answers: `metadata.correlationId` is that of the request if
    /// it has one, `metadata.parentId` its id.
    pub fn answer(kind: Kind, content: Value, request: &Self) -> Self {
        Self::new(kind, content).refers_to(request.correlation_id(), request.id())
    }

    /// Returns an error message of a gateway (Heretek A2A, "Error Message Format"), with the message that it answers,
    /// if known. `message` is a sentence without credentials.
    pub fn error(code: ErrorCode, message: &str, request: Option<&Self>) -> Self {
        let correlation_id = request.and_then(Self::correlation_id);
        Self::failure(code, message).refers_to(correlation_id, request.and_then(Self::id))
    }

    /// Returns the error of the registry that an error message states; see [`stated_error`](Self::stated_error).
    pub fn error_code(&self) -> Option<ErrorCode> {
        self.stated_error().code
    }

    /// Returns what an error message states: in its content, in an object `error` there, or beside the content.
    pub fn stated_error(&self) -> StatedError<'_> {
        let (content, beside) = (self.content(), self.field("error"));
        let members = |name: &str| {
            let nested = [Some(&content["error"]), beside];
            let nested = nested.map(|error| error.and_then(|error| error.get(name)));
            let members = [content.get(name), nested[0], self.field(name), nested[1]];
            members.into_iter().flatten()
        };
        let names = || {
            members("error")
                .chain(members("code"))
                .filter_map(Value::as_str)
        };
        let by_number = || members("code").find_map(error_number);
        let in_content = content["error"].as_str().and_then(ErrorCode::from_name);
        let code = in_content
            .or_else(|| by_number().and_then(ErrorCode::from_number))
            .or_else(|| names().find_map(ErrorCode::from_name));
        let name = names().find(|name| is_error_name(name));
        let details = self.field("details");
        let texts = members("message").chain(
            [Some(content), details, beside, content.get("error")]
                .into_iter()
                .flatten(),
        );
        let text = texts
            .filter_map(Value::as_str)
            .find(|text| !text.trim().is_empty() && Some(*text) != name);
        StatedError {
            code,
            number: by_number(),
            name,
            text,
        }
    }

    fn failure(code: ErrorCode, message: &str) -> Self {
        let content = json!({"error": code.name(), "message": message, "code": code.number()});
        Self::new(Kind::Error, content).with("from", GATEWAY)
    }

    /// Adds which message the envelope answers: its correlation id and its id, as far as they are known.
    #[must_use]
    pub fn refers_to(self, correlation_id: Option<&str>, id: Option<&str>) -> Self {
        let fields = [("correlationId", correlation_id), ("parentId", id)];
        let known = fields
            .into_iter()
            .filter_map(|(field, value)| Some((field, value?)));
        known.fold(self, |answer, (field, value)| {
            answer.with_metadata(field, value)
        })
    }
}

/// Returns the text of a message's content: the content itself if it is a text, else its text parts, else its JSON.
pub fn text_of(content: &Value) -> Cow<'_, str> {
    if let Value::String(text) = content {
        return text.into();
    }
    let parts = content["parts"].as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    match texts.is_empty() {
        true => content.to_string().into(),
        false => texts.join("\n").into(),
    }
}

impl EnvelopeError {
    /// Returns the error message of a gateway for it.
    pub fn answer(&self) -> Envelope {
        Envelope::failure(self.code, &self.message)
            .refers_to(self.correlation_id.as_deref(), self.id.as_deref())
    }
}

/// Returns a `timestamp` in milliseconds since 1970: a number of them (Heretek A2A §4.1), or a text of ISO 8601 as some
/// gateways write; `None` for anything else.
pub(super) fn time_millis(timestamp: &Value) -> Option<u64> {
    match timestamp {
        // A 64-bit integer unchanged; any other number without its fraction.
        Value::Number(number) => number.as_u64().or_else(|| {
            let whole = number.as_f64()?.trunc();
            // Beyond 2^53 a double does not express every millisecond.
            ((0.0..9e15).contains(&whole)).then_some(whole as u64)
        }),
        Value::String(text) => parse_iso_8601(text),
        _ => None,
    }
}

/// Parses `2026-03-31T00:00:00` with an optional fraction, and `Z` or an offset such as `+02:00`.
fn parse_iso_8601(text: &str) -> Option<u64> {
    let (clock, rest) = text.split_at_checked("2026-03-31T00:00:00".len())?;
    let zone = rest.strip_prefix('.').map_or(rest, |rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
    });
    let fraction = &rest[..rest.len() - zone.len()];
    if fraction == "." {
        return None;
    }
    // Digits after the ninth are less than a nanosecond and do not affect milliseconds.
    let fraction = &fraction[..fraction.len().min(10)];
    let at = humantime::parse_rfc3339(&format!("{clock}{fraction}Z")).ok()?;
    let millis = at.duration_since(UNIX_EPOCH).ok()?.as_millis();
    let millis = i64::try_from(millis).ok()?;
    u64::try_from(millis - utc_offset_seconds(zone)?).ok()
}

/// Returns the offset of a time zone from UTC, in milliseconds.
fn utc_offset_seconds(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => return Some(0),
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some(both) => both,
        None => rest.split_at_checked(2)?,
    };
    let two_digits = |text: &str| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<i64>().ok()).flatten()
    };
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

#[cfg(test)]
mod tests;
