//! Ids of MCP tasks: the continuation of a task, in text that a client cannot change.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

/// The first characters of every id. The number is the version of the format.
const PREFIX: &str = "rat1.";

/// The key that binds ids to clients. A server with several clients needs one that outlives its process.
#[derive(Clone)]
pub struct TaskIdKey(hmac::Key);

impl TaskIdKey {
    /// Creates the key from 32 secret bytes.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }
}

impl std::fmt::Debug for TaskIdKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskIdKey")
    }
}

/// A client and the key of the server; `None` over standard input and output, where the client started the server.
pub(crate) type Owner<'a> = Option<(&'a TaskIdKey, &'a str)>;

/// The task that an id stands for.
#[derive(Debug, PartialEq)]
pub(crate) struct TaskRef {
    /// The continuation for a request of the tool.
    pub(crate) continuation: Value,
    /// When the task began, in RFC 3339.
    pub(crate) created: String,
}

/// Returns the id of the task of a continuation in a result; `None` if it has no task.
pub(crate) fn encode(continuation: &Value, created: &str, owner: Owner<'_>) -> Option<String> {
    let id = continuation["task"]["task_id"].as_str()?;
    let mut kept =
        json!({ "target": continuation["target"], "task": { "task_id": id }, "at": created });
    if !continuation["conversation"].is_null() {
        kept["conversation"] = continuation["conversation"].clone();
    }
    let payload = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(kept.to_string()));
    Some(match owner {
        None => payload,
        Some((key, client)) => {
            let tag = hmac::sign(&key.0, signed(client, &payload).as_bytes());
            format!("{payload}.{}", URL_SAFE_NO_PAD.encode(tag))
        }
    })
}

/// Returns the task of an id; `None` if this server did not make the id for this client.
pub(crate) fn decode(id: &str, owner: Owner<'_>) -> Option<TaskRef> {
    let payload = match owner {
        None => id,
        Some((key, client)) => {
            let (payload, tag) = id.rsplit_once('.')?;
            let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
            hmac::verify(&key.0, signed(client, payload).as_bytes(), &tag).ok()?;
            payload
        }
    };
    let json = URL_SAFE_NO_PAD.decode(payload.strip_prefix(PREFIX)?).ok()?;
    let Value::Object(mut kept) = serde_json::from_slice(&json).ok()? else {
        return None;
    };
    let created = kept.remove("at")?.as_str()?.to_owned();
    kept.get("task")?.get("task_id")?.as_str()?;
    Some(TaskRef {
        continuation: Value::Object(kept),
        created,
    })
}

fn signed(client: &str, payload: &str) -> String {
    format!("{client}\n{payload}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn continuation() -> Value {
        json!({
            "target": {"target_url": "https://desk.example", "target_alias": "desk"},
            "task": {"task_id": "7", "task_handle": "rah_x", "can_send": true},
            "conversation": {"context_id": "c", "can_send": true},
        })
    }

    #[test]
    fn id_returns_its_continuation_without_the_handle() {
        let id = encode(&continuation(), "then", None).unwrap();
        let task = decode(&id, None).unwrap();
        let mut expected = continuation();
        expected["task"] = json!({"task_id": "7"});
        assert_eq!(
            (task.continuation, task.created.as_str()),
            (expected, "then")
        );
    }

    #[test]
    fn id_of_another_client_is_refused() {
        let key = TaskIdKey::new(&[7; 32]);
        let id = encode(&continuation(), "then", Some((&key, "ada"))).unwrap();
        assert!(decode(&id, Some((&key, "ada"))).is_some());
        assert!(decode(&id, Some((&key, "eve"))).is_none());
        assert!(decode(&id, Some((&TaskIdKey::new(&[8; 32]), "ada"))).is_none());
    }

    #[test]
    fn forged_ids_are_refused() {
        let key = TaskIdKey::new(&[7; 32]);
        let unsigned = encode(&continuation(), "then", None).unwrap();
        for id in ["", "rat1.", "rat1.e30", "rat2.e30", "7", unsigned.as_str()] {
            assert!(decode(id, Some((&key, "ada"))).is_none(), "{id}");
        }
        for id in ["", "rat1.", "rat1.e30", "rat1.W10"] {
            assert!(decode(id, None).is_none(), "{id}");
        }
    }

    #[test]
    fn conversation_without_a_task_has_no_id() {
        let message = json!({"target": {}, "conversation": {"context_id": "c"}});
        assert_eq!(encode(&message, "then", None), None);
    }

    #[test]
    fn key_is_not_shown() {
        assert_eq!(format!("{:?}", TaskIdKey::new(&[7; 32])), "TaskIdKey");
    }
}
