//! A2A messages and tasks, in the JSON of A2A 0.3.
//!
//! | envelope | A2A |
//! |---|---|
//! | `message` | `message`; `user` stays `user`, every other role is `agent` |
//! | `proposal` | `message`: a text, or data if the content has further fields |
//! | `vote` | `status-update` of the proposal's task: `working`, the vote as data |
//! | `decision` | `task` of the proposal: `completed`, the decision as data and text of an artifact, whatever its result |
//! | `response` | `task`: `completed`, the result as an artifact |
//! | `error` | `task`: `failed`, its message as text, its name and number as data |
//! | every other type but `auth` | `message`, the content as data |
//!
//! The reverse direction, for objects that did not come from an envelope:
//!
//! | A2A | envelope |
//! |---|---|
//! | `message` | `message`, or `proposal` if the receiver is the triad |
//! | `completed` | `response` with the parts of all artifacts, else of the status; `decision` if an artifact contains one |
//! | `failed`, `rejected` | `error` 3004 |
//! | `auth-required` | `error` 5001 |
//! | `canceled` | `event` `canceled` |
//! | `submitted`, `working` | `status` `busy` |
//! | `input-required` | `status` `idle`, with the question |
//! | any other state | `status` `unknown` |
//! | `artifact-update` | `event` `artifact` |
//!
//! One text part is a text, anything else `{"parts": […]}`. `contextId` is `sessionId`, and for a task without a session the
//! task's id, because A2A requires one. A task's id is the correlation id. Both sides share `metadata`: fields of an envelope
//! without a field in A2A are below `a2a-v1`, and fields of A2A without a field in an envelope below `a2a`. A task that did
//! not come from an envelope stays whole in `content.a2a`.

mod parts;
mod read;

use serde_json::{Map, Value, json};

use crate::translate::without_credential;
use crate::{Envelope, EnvelopeError, Kind};

pub use read::from_a2a;

/// The member of A2A's `metadata` with the fields of an envelope that A2A lacks.
const EXTENSION_FIELD: &str = crate::SUBPROTOCOL;

/// The member of an envelope's `metadata` with the fields of an A2A message that envelopes lack; in `content`, a whole task.
const METADATA_FIELD: &str = "a2a";

/// The fields of an A2A message that its own translation writes.
const TRANSLATED_FIELDS: &[&str] = &[
    "kind",
    "messageId",
    "role",
    "parts",
    "contextId",
    "metadata",
];

/// Values that a translation needs from its caller.
pub struct TranslationContext<'a> {
    /// The time in milliseconds since 1970, for envelopes without one.
    pub now: u64,
    /// Generates missing ids that A2A requires.
    pub new_id: &'a mut dyn FnMut() -> String,
    /// The receiver of a message that names none.
    pub agent: Option<&'a str>,
}

base::debug_fields!(self: TranslationContext<'_> { now, agent });

/// Returns the envelope as an A2A message, task or update of a task.
///
/// # Errors
/// The envelope is not valid, or holds a credential.
pub fn to_a2a(
    envelope: &Envelope,
    fill: &mut TranslationContext<'_>,
) -> Result<Value, EnvelopeError> {
    without_credential(envelope)?;
    // An envelope from an A2A task still contains the whole task.
    if let Some(whole @ Value::Object(fields)) = envelope.content().get(METADATA_FIELD)
        && fields.contains_key("kind")
    {
        let mut whole = whole.clone();
        if whole["contextId"] == "" {
            let ids = ["id", "taskId"].into_iter().map(|field| &whole[field]);
            let task = ids.filter_map(Value::as_str).find(|id| !id.is_empty());
            let context = task.map_or_else(|| (fill.new_id)(), str::to_owned);
            whole["contextId"] = context.into();
        }
        return Ok(whole);
    }
    let letter = Source::new(envelope);
    Ok(match envelope.kind() {
        Kind::Vote => letter.vote(fill),
        Kind::Decision => letter.decision(fill),
        Kind::Response => letter.response(fill),
        Kind::Error => letter.error(fill),
        _ => letter.message(fill),
    })
}

/// An envelope during its conversion to A2A.
struct Source<'a> {
    envelope: &'a Envelope,
    /// Its metadata, without the parts in A2A fields.
    metadata: Map<String, Value>,
    /// The fields without a place in A2A.
    extension: Map<String, Value>,
    /// The unknown fields of a foreign message.
    stored_metadata: Map<String, Value>,
}

impl<'a> Source<'a> {
    fn new(envelope: &'a Envelope) -> Self {
        let mut extension = match envelope.clone().into_json() {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        for placed in ["content", "id", "sessionId"] {
            extension.remove(placed);
        }
        let metadata = extension.remove("metadata");
        let mut metadata = match metadata {
            // An empty object, not a missing one.
            Some(Value::Object(fields)) if fields.is_empty() => {
                extension.insert("metadata".into(), json!({}));
                fields
            }
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let stored_metadata = match metadata.remove(METADATA_FIELD) {
            Some(Value::Object(stored_metadata)) => stored_metadata,
            Some(other) => {
                metadata.insert(METADATA_FIELD.into(), other);
                Map::new()
            }
            None => Map::new(),
        };
        Self {
            envelope,
            metadata,
            extension,
            stored_metadata,
        }
    }

    fn content(&self) -> Map<String, Value> {
        let fields = self.envelope.content().as_object();
        fields.cloned().unwrap_or_default()
    }

    fn message(mut self, fill: &mut TranslationContext<'_>) -> Value {
        let mut content = self.content();
        let mut role = match self.envelope.kind() {
            Kind::Proposal | Kind::Request | Kind::Broadcast => "user",
            _ => "agent",
        };
        let parts = match self.envelope.kind() {
            Kind::Message => {
                let text = content.remove("content").unwrap_or_default();
                let own = content.remove("role").unwrap_or_default();
                if own == "user" {
                    role = "user";
                } else if own != "agent" {
                    self.extension.insert("role".into(), own);
                }
                self.store_rest(content);
                self.parts(&text)
            }
            Kind::Proposal if content.len() == 1 => {
                let proposal = content.remove("proposal").unwrap_or_default();
                self.parts(&proposal)
            }
            _ if self.envelope.content().is_null() => Vec::new(),
            _ => vec![parts::data_part(content.into())],
        };
        let id = self.id(fill);
        let mut message = json!({"kind": "message", "messageId": id, "role": role, "parts": parts});
        if let Some(session) = self.envelope.session_id() {
            message["contextId"] = session.into();
        }
        for (name, value) in std::mem::take(&mut self.stored_metadata) {
            if !TRANSLATED_FIELDS.contains(&name.as_str()) {
                message[name] = value;
            }
        }
        self.with_metadata(message)
    }

    fn vote(mut self, fill: &mut TranslationContext<'_>) -> Value {
        let parts = [parts::data_part(self.content().into())];
        let id = self.id(fill);
        let message = json!({"kind": "message", "messageId": id, "role": "agent", "parts": parts});
        let task = self.task_id(fill);
        let context = self.context(&task);
        self.with_metadata(json!({
            "kind": "status-update", "taskId": task, "contextId": context,
            "status": {"state": "working", "message": message}, "final": false,
        }))
    }

    fn decision(self, fill: &mut TranslationContext<'_>) -> Value {
        let content = self.content();
        let text = parts::text_part(&summary(&content));
        let parts = json!([parts::data_part(content.into()), text]);
        let artifact = json!({"artifactId": "decision", "name": "decision", "parts": parts});
        self.task(fill, json!({"state": "completed"}), Some(artifact))
    }

    fn response(mut self, fill: &mut TranslationContext<'_>) -> Value {
        let mut content = self.content();
        let result = content.remove("result").unwrap_or_default();
        let parts = self.parts(&result);
        self.store_rest(content);
        let artifact = json!({"artifactId": "result", "name": "result", "parts": parts});
        self.task(fill, json!({"state": "completed"}), Some(artifact))
    }

    fn error(self, fill: &mut TranslationContext<'_>) -> Value {
        let mut content = self.content();
        let mut parts = Vec::new();
        if let Some(Value::String(message)) = content.remove("message") {
            parts.push(parts::text_part(&message));
        }
        parts.push(parts::data_part(content.into()));
        let id = (fill.new_id)();
        let message = json!({"kind": "message", "messageId": id, "role": "agent", "parts": parts});
        self.task(fill, json!({"state": "failed", "message": message}), None)
    }

    fn task(
        mut self,
        fill: &mut TranslationContext<'_>,
        status: Value,
        artifact: Option<Value>,
    ) -> Value {
        if let Some(id) = self.envelope.id() {
            self.extension.insert("id".into(), id.into());
        }
        let id = self.task_id(fill);
        let context = self.context(&id);
        let mut task = json!({"kind": "task", "id": id, "contextId": context, "status": status});
        if let Some(artifact) = artifact {
            task["artifacts"] = json!([artifact]);
        }
        self.with_metadata(task)
    }

    /// Stores the fields of the content that A2A lacks.
    fn store_rest(&mut self, content: Map<String, Value>) {
        if !content.is_empty() {
            self.extension.insert("content".into(), content.into());
        }
    }

    fn parts(&mut self, value: &Value) -> Vec<Value> {
        let (parts, shape) = parts::write(value);
        if let Some(shape) = shape {
            self.extension.insert("shape".into(), shape.into());
        }
        parts
    }

    fn id(&mut self, fill: &mut TranslationContext<'_>) -> String {
        match self.envelope.id() {
            Some(id) => id.to_owned(),
            None => {
                self.extension.insert("id".into(), Value::Null);
                (fill.new_id)()
            }
        }
    }

    /// Returns the task id that reply, votes and decision share.
    fn task_id(&self, fill: &mut TranslationContext<'_>) -> String {
        let of_proposal = self.envelope.content_str("proposalId");
        let ids = [
            of_proposal,
            self.envelope.correlation_id(),
            self.envelope.parent_id(),
            self.envelope.id(),
        ];
        let id = ids.into_iter().flatten().find(|id| !id.is_empty());
        id.map_or_else(|| (fill.new_id)(), str::to_owned)
    }

    /// Returns the session, else the id of the task: A2A requires a context, and all objects of one task share it.
    fn context(&mut self, task: &str) -> String {
        match self.envelope.session_id() {
            Some(session) => session.to_owned(),
            None => {
                self.extension.insert("sessionId".into(), Value::Null);
                task.to_owned()
            }
        }
    }

    fn with_metadata(self, mut object: Value) -> Value {
        let mut metadata = self.metadata;
        metadata.insert(EXTENSION_FIELD.into(), self.extension.into());
        object["metadata"] = metadata.into();
        object
    }
}

/// Formats a decision for people.
fn summary(decision: &Map<String, Value>) -> String {
    let result = decision.get("result").and_then(Value::as_str);
    let mut text = result.unwrap_or("no result").to_owned();
    if decision.get("consensus") == Some(&false.into()) {
        text += " (no consensus)";
    }
    let votes = decision.get("votes").and_then(Value::as_object);
    let votes = votes.into_iter().flatten().filter_map(|(name, vote)| {
        let vote = vote.as_str()?;
        Some(format!("{name} {vote}"))
    });
    let missing = decision.get("missing").and_then(Value::as_array);
    let missing = missing.into_iter().flatten().filter_map(|name| {
        let name = name.as_str()?;
        Some(format!("{name} did not vote"))
    });
    let all: Vec<String> = votes.chain(missing).collect();
    if !all.is_empty() {
        text += &format!(": {}", all.join(", "));
    }
    text
}

#[cfg(test)]
mod tests;
