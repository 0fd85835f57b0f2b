//! Ids of MCP tasks, and the state of a question to sign in. An id has the continuation of its task: over HTTP encrypted for one client,
//! over stdio, where the client owns the process, as plain text.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{self, SystemRandom};
use serde_json::{Value, json};

/// The first characters of every id. The number is the version of the format.
const PREFIX: &str = "rat1.";

/// The first characters of the state of every question to sign in.
const SIGN_IN_PREFIX: &str = "ras1.";

/// The key that encrypts ids for one client each. A server with several clients needs one that outlives its process.
#[derive(Clone)]
pub struct TaskIdKey(Arc<LessSafeKey>);

impl TaskIdKey {
    /// Creates the key from 32 secret bytes; `None` of other lengths.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).ok()?;
        Some(Self(Arc::new(LessSafeKey::new(key))))
    }

    /// Creates a key that ends with the process; `None` if the system gives no random numbers.
    pub(crate) fn random() -> Option<Self> {
        let bytes: [u8; 32] = rand::generate(&SystemRandom::new()).ok()?.expose();
        Self::new(&bytes)
    }

    /// Encrypts `text` for `client`. The nonce is random and precedes the result.
    fn seal(&self, client: &str, text: &str) -> Option<Vec<u8>> {
        let nonce: [u8; NONCE_LEN] = rand::generate(&SystemRandom::new()).ok()?.expose();
        let mut sealed = text.as_bytes().to_vec();
        let aad = Aad::from(client.as_bytes());
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .ok()?;
        Some([nonce.as_slice(), &sealed].concat())
    }

    fn open(&self, client: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut text = sealed.to_vec();
        let aad = Aad::from(client.as_bytes());
        let opened = self
            .0
            .open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut text)
            .ok()?;
        Some(opened.to_vec())
    }
}

impl std::fmt::Debug for TaskIdKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskIdKey")
    }
}

/// A client and the key of the server; `None` over standard input and output, where the client started the server.
pub(crate) type Owner<'a> = Option<(&'a TaskIdKey, &'a str)>;

/// The task of an id.
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
    let mut fields =
        json!({ "target": continuation["target"], "task": { "task_id": id }, "at": created });
    if !continuation["conversation"].is_null() {
        fields["conversation"] = continuation["conversation"].clone();
    }
    let bytes = match owner {
        None => fields.to_string().into_bytes(),
        Some((key, client)) => key.seal(client, &fields.to_string())?,
    };
    Some(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Returns the task of an id; `None` if this server did not issue the id to this client.
pub(crate) fn decode(id: &str, owner: Owner<'_>) -> Option<TaskRef> {
    let bytes = URL_SAFE_NO_PAD.decode(id.strip_prefix(PREFIX)?).ok()?;
    let json = match owner {
        None => bytes,
        Some((key, client)) => key.open(client, &bytes)?,
    };
    let Value::Object(mut continuation) = serde_json::from_slice(&json).ok()? else {
        return None;
    };
    let created = continuation.remove("at")?.as_str()?.to_owned();
    continuation.get("task")?.get("task_id")?.as_str()?;
    Some(TaskRef {
        continuation: Value::Object(continuation),
        created,
    })
}

/// Returns the state of the question `id` to sign in, which only `client` can repeat.
pub(crate) fn encode_sign_in(id: &str, (key, client): (&TaskIdKey, &str)) -> Option<String> {
    let sealed = key.seal(client, id)?;
    Some(format!(
        "{SIGN_IN_PREFIX}{}",
        URL_SAFE_NO_PAD.encode(sealed)
    ))
}

/// Returns whether a state is that of a question to sign in.
pub(crate) fn is_sign_in(state: &str) -> bool {
    state.starts_with(SIGN_IN_PREFIX)
}

/// Returns the id of the question of a state; `None` if this process did not ask this client.
pub(crate) fn decode_sign_in(state: &str, (key, client): (&TaskIdKey, &str)) -> Option<String> {
    let sealed = URL_SAFE_NO_PAD
        .decode(state.strip_prefix(SIGN_IN_PREFIX)?)
        .ok()?;
    String::from_utf8(key.open(client, &sealed)?).ok()
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
        let key = TaskIdKey::new(&[7; 32]).unwrap();
        let id = encode(&continuation(), "then", Some((&key, "ada"))).unwrap();
        assert!(decode(&id, Some((&key, "ada"))).is_some());
        assert!(decode(&id, Some((&key, "eve"))).is_none());
        assert!(decode(&id, Some((&TaskIdKey::new(&[8; 32]).unwrap(), "ada"))).is_none());
    }

    #[test]
    fn forged_ids_are_refused() {
        let key = TaskIdKey::new(&[7; 32]).unwrap();
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
    fn id_for_a_client_shows_nothing_of_the_task() {
        let key = TaskIdKey::new(&[7; 32]).unwrap();
        let id = encode(&continuation(), "then", Some((&key, "ada"))).unwrap();
        let bytes = URL_SAFE_NO_PAD
            .decode(id.strip_prefix(PREFIX).unwrap())
            .unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("desk"));
    }

    #[test]
    fn state_of_a_sign_in_is_for_one_client_of_one_process() {
        let (key, other) = (TaskIdKey::random().unwrap(), TaskIdKey::random().unwrap());
        let state = encode_sign_in("question", (&key, "ada")).unwrap();
        assert!(is_sign_in(&state) && !state.contains("question"));
        assert_eq!(
            decode_sign_in(&state, (&key, "ada")).as_deref(),
            Some("question")
        );
        assert_eq!(decode_sign_in(&state, (&key, "eve")), None);
        assert_eq!(decode_sign_in(&state, (&other, "ada")), None);
        for forged in ["", "ras1.", "ras1.cQ", "rat1.cQ"] {
            assert_eq!(decode_sign_in(forged, (&key, "ada")), None, "{forged}");
        }
    }

    #[test]
    fn key_is_not_shown() {
        assert_eq!(
            format!("{:?}", TaskIdKey::new(&[7; 32]).unwrap()),
            "TaskIdKey"
        );
    }
}
