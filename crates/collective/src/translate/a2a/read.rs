//! Converts A2A to envelopes.

use base::text::first_chars;
use serde_json::{Map, Value, json};

use super::{EXTENSION_FIELD, METADATA_FIELD, TRANSLATED_FIELDS, TranslationContext, parts};
use crate::{
    Decision, Envelope, EnvelopeError, ErrorCode, Kind,
    translate::{refused, without_credential},
};

/// The agent that votes. A message for it is a proposal.
const TRIAD: &str = "triad";

/// Returns an A2A message, task or update of a task as an envelope.
///
/// # Errors
/// The fault, with a code of the registry.
pub fn from_a2a(
    object: &Value,
    fill: &mut TranslationContext<'_>,
) -> Result<Envelope, EnvelopeError> {
    if !object.is_object() {
        return refused(
            ErrorCode::InvalidType,
            "an A2A message or task must be an object",
        );
    }
    let envelope = match object["kind"].as_str() {
        Some(kind @ ("message" | "task" | "status-update")) => match extension(object) {
            Some((of, extension)) => from_extension(object, of, extension)?,
            None if kind == "message" => message(object, fill)?,
            None => task(object, fill)?,
        },
        Some("artifact-update") => {
            let artifact = &object["artifact"];
            let content =
                json!({"event": "artifact", "name": artifact["name"], METADATA_FIELD: object});
            task_envelope(object, Kind::Event, content, fill)
        }
        Some(kind) => {
            let kind = first_chars(kind, 64);
            let message = format!(
                "unknown kind `{kind}`: use message, task, status-update or artifact-update"
            );
            return refused(ErrorCode::UnknownType, message);
        }
        None => {
            let message = "`kind` is missing: A2A 0.3 requires it in messages and tasks";
            return refused(ErrorCode::MissingField, message);
        }
    };
    without_credential(&envelope)?;
    Ok(envelope)
}

/// Returns the stored rest of the original envelope, and the type of the envelope.
fn extension(object: &Value) -> Option<(Kind, &Map<String, Value>)> {
    let extension = object["metadata"][EXTENSION_FIELD].as_object()?;
    let kind = Kind::from_name(extension.get("type")?.as_str()?)?;
    // The task itself has precedence over a stored envelope of another type.
    let fits = match kind {
        Kind::Vote => object["kind"] == "status-update",
        Kind::Decision | Kind::Response | Kind::Error => object["kind"] == "task",
        _ => object["kind"] == "message",
    };
    fits.then_some((kind, extension))
}

fn list<'a>(value: &'a Value, place: &str) -> Result<&'a [Value], EnvelopeError> {
    match value.as_array() {
        Some(parts) => Ok(parts),
        None => refused(ErrorCode::InvalidType, format!("`{place}` must be a list")),
    }
}

/// Restores the original envelope.
fn from_extension(
    object: &Value,
    kind: Kind,
    extension: &Map<String, Value>,
) -> Result<Envelope, EnvelopeError> {
    let shape = extension.get("shape").and_then(Value::as_str);
    let mut content = match extension.get("content") {
        Some(Value::Object(extension_metadata)) => extension_metadata.clone(),
        _ => Map::new(),
    };
    let message = &object["status"]["message"];
    let (parts, id) = match kind {
        Kind::Vote => (
            list(&message["parts"], "status.message.parts")?,
            &message["messageId"],
        ),
        Kind::Error => (
            list(&message["parts"], "status.message.parts")?,
            &Value::Null,
        ),
        Kind::Decision | Kind::Response => {
            let artifact = &object["artifacts"][0];
            (
                list(&artifact["parts"], "artifacts[0].parts")?,
                &Value::Null,
            )
        }
        _ => (list(&object["parts"], "parts")?, &object["messageId"]),
    };
    let data = parts.iter().find_map(|part| part["data"].as_object());
    match kind {
        Kind::Message => {
            let role = extension.get("role").unwrap_or(&object["role"]);
            content.insert("role".into(), role.clone());
            content.insert("content".into(), parts::read_as(parts, shape));
        }
        Kind::Response => drop(content.insert("result".into(), parts::read_as(parts, shape))),
        _ => {
            content.extend(data.cloned().unwrap_or_default());
            let text = parts.iter().find_map(|part| part.get("text"));
            match (kind, text) {
                (Kind::Error, Some(text)) => drop(content.insert("message".into(), text.clone())),
                (Kind::Proposal, Some(text)) => {
                    content.insert("proposal".into(), text.clone());
                }
                _ => {}
            }
        }
    }
    let mut fields = extension.clone();
    for extension_metadata in ["shape", "role", "content"] {
        fields.remove(extension_metadata);
    }
    if !(parts.is_empty() && content.is_empty()) {
        fields.insert("content".into(), content.into());
    }
    for (field, value) in [("id", id.as_str()), ("sessionId", context(object))] {
        if let Some(value) = value {
            fields.entry(field).or_insert_with(|| value.into());
        }
    }
    let metadata = peer_metadata(object);
    if !metadata.is_empty() {
        fields.insert("metadata".into(), metadata.into());
    }
    // A2A requires these members, and the envelope lacked them.
    fields
        .retain(|field, value| !(value.is_null() && matches!(field.as_str(), "id" | "sessionId")));
    Envelope::from_value(fields.into())
}

/// Returns the metadata without the members that the translation added.
fn peer_metadata(object: &Value) -> Map<String, Value> {
    let mut metadata = object["metadata"].as_object().cloned().unwrap_or_default();
    metadata.remove(EXTENSION_FIELD);
    metadata
}

/// Converts a message that did not come from an envelope.
fn message(object: &Value, fill: &mut TranslationContext<'_>) -> Result<Envelope, EnvelopeError> {
    let parts = list(&object["parts"], "parts")?;
    let role = match object["role"].as_str() {
        Some(role @ ("user" | "agent")) => role,
        _ => return refused(ErrorCode::InvalidContent, "`role` must be user or agent"),
    };
    let (kind, content) = match fill.agent {
        Some(TRIAD) => (Kind::Proposal, proposal(parts)),
        _ => {
            let content = json!({"role": role, "content": parts::read(parts)});
            (Kind::Message, content)
        }
    };
    let mut metadata = peer_metadata(object);
    let fields = object.as_object().into_iter().flatten();
    let unmapped: Map<_, _> = fields
        .filter(|(name, _)| !TRANSLATED_FIELDS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !unmapped.is_empty() {
        metadata.insert(METADATA_FIELD.into(), unmapped.into());
    }
    let mut envelope = Envelope::new(kind, content)
        .with("id", object["messageId"].clone())
        .with("sessionId", context(object))
        .with("agent", fill.agent)
        .with("timestamp", fill.now);
    if !metadata.is_empty() || object.get("metadata").is_some() {
        envelope = envelope.with("metadata", Value::from(metadata));
    }
    Ok(envelope)
}

/// Returns the data of a proposal unchanged, else the texts.
fn proposal(parts: &[Value]) -> Value {
    let data = parts.iter().map(|part| &part["data"]);
    let own = data.into_iter().find(|data| data["proposal"].is_string());
    own.cloned()
        .unwrap_or_else(|| json!({"proposal": parts::text(parts)}))
}

/// Converts a task, or an update of its status, that did not come from an envelope.
fn task(object: &Value, fill: &mut TranslationContext<'_>) -> Result<Envelope, EnvelopeError> {
    let status = &object["status"];
    let Some(state) = status["state"].as_str() else {
        return refused(ErrorCode::MissingField, "`status.state` is missing");
    };
    let status_parts = match status["message"]["parts"].as_array() {
        Some(parts) => parts.as_slice(),
        None => &[],
    };
    let text = parts::text(status_parts);
    let artifacts = object["artifacts"].as_array();
    let made: Vec<Value> = artifacts
        .into_iter()
        .flatten()
        .filter_map(|artifact| artifact["parts"].as_array())
        .flatten()
        .cloned()
        .collect();
    let error = |code: ErrorCode| {
        let message = text
            .clone()
            .unwrap_or_else(|| format!("the task is {state}"));
        (
            Kind::Error,
            json!({"error": code.name(), "message": message, "code": code.number()}),
        )
    };
    let status_content = |status: &str| {
        let content = match &text {
            Some(text) => json!({"status": status, "message": text}),
            None => json!({"status": status}),
        };
        (Kind::Status, content)
    };
    let (kind, mut content) = match state {
        "completed" => match made.iter().find_map(|part| decision(&part["data"])) {
            Some(decision) => (Kind::Decision, decision.clone()),
            None => {
                let parts = if made.is_empty() { status_parts } else { &made };
                (Kind::Response, json!({"result": parts::read(parts)}))
            }
        },
        "failed" | "rejected" => error(ErrorCode::AgentError),
        "auth-required" => error(ErrorCode::AuthRequired),
        "canceled" => (Kind::Event, json!({"event": "canceled"})),
        "submitted" | "working" => status_content("busy"),
        "input-required" => status_content("idle"),
        _ => status_content("unknown"),
    };
    content[METADATA_FIELD] = object.clone();
    Ok(task_envelope(object, kind, content, fill))
}

/// Returns the context of an object. Some clients send an empty text instead of none.
fn context(object: &Value) -> Option<&str> {
    object["contextId"].as_str().filter(|id| !id.is_empty())
}

/// Returns the data of a triad's decision.
fn decision(data: &Value) -> Option<&Value> {
    let result = data["result"].as_str().and_then(Decision::read_result);
    (result.is_some() && data["proposalId"].is_string()).then_some(data)
}

/// Creates an envelope about a task.
fn task_envelope(
    object: &Value,
    kind: Kind,
    content: Value,
    fill: &mut TranslationContext<'_>,
) -> Envelope {
    let id = match &object["kind"] {
        kind if kind == "task" => &object["id"],
        _ => &object["taskId"],
    };
    let at = &object["status"]["timestamp"];
    let timestamp = match at {
        Value::Null => fill.now.into(),
        at => at.clone(),
    };
    let envelope = Envelope::new(kind, content)
        .with("timestamp", timestamp)
        .with("agent", fill.agent)
        .with("sessionId", context(object));
    match id.is_string() {
        true => envelope.with_metadata("correlationId", id.clone()),
        false => envelope,
    }
}
