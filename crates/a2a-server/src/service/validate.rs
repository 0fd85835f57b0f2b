//! Validates messages, the media types that a client accepts in answers (A2A 1.0 §3.2.2), and the position of a message
//! in a chain of delegations, and selects the context.

use std::collections::HashMap;

use a2a::v1_0::{Message, Role};
use a2a::{A2aError, DELEGATION_KEY, ErrorReason, MAX_CHAIN_BYTES, is_chain_id};
use base::json;
use base::json::encoded_bytes;
use base::text::essence;
use serde_json::{Value, json};

use super::core::{Core, to_a2a_error};
use super::{SendMessage, agents};
use crate::executor::{Agent, OUTPUT_MODES};
use crate::service::CallContext;
use crate::task_record::TaskRecord;

/// The maximum length of an id from a client, in bytes.
const MAX_ID_BYTES: usize = 512;

impl Core {
    /// Checks a message independently of its task.
    pub(super) fn check(&self, message: &Message) -> Result<(), A2aError> {
        let limit = self.settings.limits.parts;
        let ids = [
            ("message.messageId", Some(&message.message_id)),
            ("message.contextId", message.context_id.as_ref()),
            ("message.taskId", message.task_id.as_ref()),
        ];
        for (place, id) in ids {
            if id.is_some_and(|id| id.len() > MAX_ID_BYTES) {
                return Err(invalid(
                    format!("`{place}` is longer than {MAX_ID_BYTES} bytes"),
                    place,
                ));
            }
        }
        if message.message_id.is_empty() {
            let place = "message.messageId";
            return Err(invalid(
                format!("`{place}` is empty; give every message a unique id"),
                place,
            ));
        }
        if message.role != Role::User {
            let text =
                "`message.role` must be the user's; a server does not accept messages of agents";
            return Err(invalid(text.to_owned(), "message.role"));
        }
        if message.parts.is_empty() {
            let text = "`message.parts` is empty; send at least one part";
            return Err(invalid(text.to_owned(), "message.parts"));
        }
        if message.parts.len() > limit {
            return Err(invalid(
                format!(
                    "the message has {} parts, more than the maximum of {limit}; combine them",
                    message.parts.len()
                ),
                "message.parts",
            ));
        }
        Ok(())
    }

    /// Returns the agent that the request names.
    pub(super) async fn agent(
        &self,
        caller: &CallContext,
        send: &SendMessage,
    ) -> Result<Option<String>, A2aError> {
        let Some(name) = agents::named(caller, send)? else {
            return Ok(None);
        };
        let agents = self.agents().await?.agents;
        if agents.iter().any(|agent| agent.name == name) {
            Ok(Some(name))
        } else {
            Err(agents::unknown(&name, &agents))
        }
    }

    /// Returns the context and the session of a message that creates a task.
    pub(super) async fn conversation(
        &self,
        caller: &CallContext,
        context: Option<&str>,
    ) -> Result<(String, String), A2aError> {
        let separate_clients = self.settings.several_clients;
        let client = separate_clients.then_some(caller.client.as_str());
        let default_context = self.default_context();
        let own = default_context
            .as_ref()
            .map(|default_context| match client {
                Some(client) => format!("{default_context}:{client}"),
                None => default_context.clone(),
            });
        // The default context of another client is reserved for that client, even before it exists.
        if let (Some(context), Some(default_context), Some(own)) = (context, &default_context, &own)
            && separate_clients
            && context != own
            && context
                .strip_prefix(default_context.as_str())
                .is_some_and(|rest| rest.starts_with(':'))
        {
            return Err(context_not_found(context));
        }
        let context_id = match (context, &own) {
            (Some(context), _) => context.to_owned(),
            (None, Some(own)) => own.clone(),
            (None, None) => {
                // The store creates the context together with its first task.
                let context_id = self.env.ordered_uuid().to_string();
                let session = self.sessions.session_id(client, &context_id);
                return Ok((context_id, session));
            }
        };
        let session = match (&self.settings.session_id, &own) {
            (Some(session), Some(own)) if !separate_clients && context_id == *own => {
                session.clone()
            }
            _ => self.sessions.session_id(client, &context_id),
        };
        let stored = self
            .store
            .get_or_create_context(&context_id, &caller.client, &session)
            .await
            .map_err(|error| to_a2a_error(error, ""))?;
        if stored.owner != caller.client {
            return Err(context_not_found(&context_id));
        }
        Ok((context_id, stored.session))
    }

    /// Returns the context of messages that name none, if the settings fix the session.
    fn default_context(&self) -> Option<String> {
        let session = self.settings.session_id.as_ref()?;
        Some(
            self.sessions
                .context_id(session)
                .unwrap_or_else(|| session.clone()),
        )
    }
}

/// Checks that the message belongs to the context and the agent of its task.
pub(super) fn check_matches_task(
    record: &TaskRecord,
    context: Option<&str>,
    agent: Option<&str>,
) -> Result<(), A2aError> {
    let id = &record.task.id;
    if context.is_some_and(|context| context != record.task.context_id) {
        return Err(invalid(
            format!(
                "the task `{id}` belongs to another context; omit `contextId`, or send the task's own"
            ),
            "message.contextId",
        ));
    }
    if agent.is_some_and(|agent| record.agent.as_deref().is_some_and(|own| own != agent)) {
        return Err(invalid(
            format!(
                "the task `{id}` belongs to another agent; name that one, or send the message without `taskId`"
            ),
            "metadata",
        ));
    }
    Ok(())
}

/// Checks that the task can accept a message in its current state.
pub(super) fn check_accepts_message(record: &TaskRecord, max: usize) -> Result<(), A2aError> {
    let id = &record.task.id;
    if record.is_terminal() {
        return Err(A2aError::new(
            ErrorReason::UnsupportedOperation,
            format!(
                "the task `{id}` has ended and accepts no messages; send the message without `taskId`, in the same context"
            ),
        ));
    }
    check_has_room(record, max)?;
    if !record.is_interrupted() {
        return Err(A2aError::new(
            ErrorReason::UnsupportedOperation,
            format!(
                "the task `{id}` is working and has no question; wait until it ends or asks, cancel it, or send the message without `taskId`, which queues it in the same context"
            ),
        ));
    }
    Ok(())
}

/// Checks that the task can have another message.
pub(super) fn check_has_room(record: &TaskRecord, max: usize) -> Result<(), A2aError> {
    let id = &record.task.id;
    if record.task.history.as_ref().map_or(0, Vec::len) >= max {
        return Err(A2aError::new(
            ErrorReason::ResourceExhausted,
            format!("the task `{id}` has {max} messages, the maximum; cancel it and start another"),
        ));
    }
    Ok(())
}

fn invalid(text: String, field: &str) -> A2aError {
    A2aError::new(ErrorReason::InvalidParams, text).at(field)
}

/// Returns the error for an unknown context. It is the same for a context of another client, so that it reveals
/// nothing.
fn context_not_found(context_id: &str) -> A2aError {
    A2aError::new(
        ErrorReason::TaskNotFound,
        format!("unknown context `{context_id}`; omit `contextId` to start a new one"),
    )
    .at("message.contextId")
}

/// The maximum size of a delegation as JSON, in bytes.
const MAX_DELEGATION_BYTES: usize = 1024;

/// Returns the delegation of a message as `{"hop", "chain"}`. That of the message precedes that of the request.
///
/// # Errors
/// A delegation is malformed. The server must not drop it, because agents without one could delegate endlessly.
pub(super) fn delegation_of(send: &SendMessage) -> Result<Option<Value>, A2aError> {
    let request = &send.request;
    let of_message = delegation_in(request.message.metadata.as_ref(), "message.metadata")?;
    let of_request = delegation_in(request.metadata.as_ref(), "metadata")?;
    Ok(of_message.or(of_request))
}

fn delegation_in(
    metadata: Option<&HashMap<String, Value>>,
    field: &'static str,
) -> Result<Option<Value>, A2aError> {
    let Some(value) = metadata.and_then(|metadata| metadata.get(DELEGATION_KEY)) else {
        return Ok(None);
    };
    let parsed = parse_delegation(value).ok_or_else(|| {
        let text = format!(
            "`{DELEGATION_KEY}` in `{field}` is not {{\"hop\": whole number, \"chain\": text of at most {MAX_CHAIN_BYTES} \
             characters}}; pass it on as you received it, or leave it out"
        );
        A2aError::new(ErrorReason::InvalidParams, text).at(field)
    })?;
    Ok(Some(parsed))
}

fn parse_delegation(value: &Value) -> Option<Value> {
    if !value.is_object() || encoded_bytes(value) > MAX_DELEGATION_BYTES {
        return None;
    }
    let hop = json::whole_number(&value["hop"])?;
    match &value["chain"] {
        Value::Null => Some(json!({"hop": hop})),
        Value::String(chain) if is_chain_id(chain) => Some(json!({"hop": hop, "chain": chain})),
        _ => None,
    }
}

impl Core {
    /// Checks that the agent can answer in one of the accepted types. The answer may also contain parts of other types:
    /// the server does not remove them.
    pub(super) async fn check_output_modes(
        &self,
        send: &SendMessage,
        agent: Option<&str>,
    ) -> Result<(), A2aError> {
        let configuration = send.request.configuration.as_ref();
        let accepted =
            configuration.and_then(|configuration| configuration.accepted_output_modes.as_deref());
        let Some(accepted) = accepted.filter(|accepted| !accepted.is_empty()) else {
            return Ok(());
        };
        if OUTPUT_MODES.iter().any(|mode| accepts(accepted, mode)) {
            return Ok(());
        }
        let agents = self.agents().await?.agents;
        let agent = agent.or(self.settings.agent_id.as_deref());
        let agent = match agent {
            Some(name) => agents.iter().find(|agent| agent.name == name),
            None => agents.first(),
        };
        let own = agent.map(skill_modes).unwrap_or_default();
        if own.iter().any(|mode| accepts(accepted, mode)) {
            return Ok(());
        }
        let modes: Vec<&str> = OUTPUT_MODES.into_iter().chain(own).collect();
        Err(A2aError::new(
            ErrorReason::ContentTypeNotSupported,
            format!(
                "the agent supports none of the types in `acceptedOutputModes`; it returns {}",
                modes.join(", ")
            ),
        )
        .at("configuration.acceptedOutputModes"))
    }
}

/// Returns the output types of an agent's skills.
fn skill_modes(agent: &Agent) -> Vec<&str> {
    let skills = agent.skills.iter();
    let modes = skills.flat_map(|skill| skill.output_modes.iter().flatten());
    modes.map(String::as_str).collect()
}

/// Returns whether `accepted` includes `mode`. Older clients send `text` without a subtype. All text types count as
/// equal, because an agent's plain text is also readable as Markdown.
fn accepts(accepted: &[String], mode: &str) -> bool {
    let (family, _) = split(mode);
    accepted.iter().any(|accepted_mode| {
        let accepted_mode = essence(accepted_mode);
        let (kind, subtype) = split(accepted_mode);
        let any = matches!(kind, "*" | "");
        let same = kind.eq_ignore_ascii_case(family)
            && (matches!(subtype, "*" | "") || kind.eq_ignore_ascii_case("text"));
        any || same || accepted_mode.eq_ignore_ascii_case(mode)
    })
}

fn split(media_type: &str) -> (&str, &str) {
    media_type.split_once('/').unwrap_or((media_type, ""))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reads_hop_and_chain_only() {
        for (value, expected) in [
            (
                json!({"hop": 2, "chain": "c"}),
                json!({"hop": 2, "chain": "c"}),
            ),
            (
                json!({"hop": 2.0, "chain": null, "later": [1]}),
                json!({"hop": 2}),
            ),
            (json!({"hop": u64::MAX}), json!({"hop": u64::MAX})),
        ] {
            assert_eq!(parse_delegation(&value), Some(expected), "{value}");
        }
    }

    #[test]
    fn refuses_malformed_delegations() {
        let long = "c".repeat(MAX_CHAIN_BYTES + 1);
        for value in [
            json!(null),
            json!("hop"),
            json!([{"hop": 1}]),
            json!({}),
            json!({"hop": -1}),
            json!({"hop": 1.5}),
            json!({"hop": 1e99}),
            json!({"hop": "1"}),
            json!({"hop": [1]}),
            json!({"hop": 1, "chain": ""}),
            json!({"hop": 1, "chain": 5}),
            json!({"hop": 1, "chain": ["c"]}),
            json!({"hop": 1, "chain": "a b"}),
            json!({"hop": 1, "chain": "ü"}),
            json!({"hop": 1, "chain": long}),
            json!({"hop": 1, "more": vec![json!({"a": 0}); 1000]}),
        ] {
            assert_eq!(parse_delegation(&value), None, "{value}");
        }
    }
}
