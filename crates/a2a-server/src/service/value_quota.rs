//! Limits the memory of the JSON values of messages. A parsed value takes up to 300 times the memory of its text, so
//! limits on bytes of text alone do not bound memory.

use std::collections::HashMap;
use std::sync::Arc;

use a2a::v1_0::{Message, PartContent};
use base::json;
use base::keyed_budget::{KeyedBudget, Reservation};
use serde_json::Value;

use a2a::{A2aError, ErrorReason};

/// The maximum memory of the values of a message that is not counted, in bytes.
const MAX_UNCOUNTED_BYTES: usize = 32 << 10;

/// The maximum memory of the values of one client, in bytes.
const MAX_BYTES_PER_CLIENT: usize = 64 << 20;

/// The maximum memory of the values of all clients, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// The memory of the values of all active messages, by client.
#[derive(Debug)]
pub(super) struct ValueQuota(Arc<KeyedBudget<String>>);

/// The reserved values of one message. Dropping it releases them.
pub(super) type ValuePermit = Reservation<String>;

impl Default for ValueQuota {
    fn default() -> Self {
        Self(KeyedBudget::new(MAX_BYTES, MAX_BYTES_PER_CLIENT))
    }
}

impl ValueQuota {
    /// Reserves the memory of the values of a message of `client`; `None` if it is too little to count.
    ///
    /// # Errors
    /// It would exceed the maximum of the client or of all clients.
    pub(super) fn try_acquire(
        &self,
        client: &str,
        message: &Message,
    ) -> Result<Option<ValuePermit>, A2aError> {
        let bytes = memory(message);
        if bytes <= MAX_UNCOUNTED_BYTES {
            return Ok(None);
        }
        let reserved = self.0.try_reserve(client.to_owned(), bytes);
        reserved.map(Some).map_err(|_| {
            let text = format!(
                "the JSON values of the message need {bytes} bytes, more than the server has memory for now; send it again in a moment, or send them as a file"
            );
            let mut error = A2aError::new(ErrorReason::ResourceExhausted, text);
            error.retry_after_s = Some(5);
            error
        })
    }
}

/// Estimates the memory of a message's data and metadata.
fn memory(message: &Message) -> usize {
    let metadata = |metadata: Option<&HashMap<String, Value>>| -> usize {
        let entries = metadata.into_iter().flatten();
        entries
            .map(|(key, value)| json::entry_memory(key, value))
            .sum()
    };
    let parts = message.parts.iter().map(|part| {
        let data = match &part.content {
            PartContent::Data(data) => json::memory(data),
            _ => 0,
        };
        data + metadata(part.metadata.as_ref())
    });
    parts.sum::<usize>() + metadata(message.metadata.as_ref())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use a2a::v1_0::{Part, Role};
    use base::json::{ARRAY_BYTES, VALUE_BYTES};

    use super::*;

    fn heavy(bytes: usize) -> Message {
        let values = (bytes - VALUE_BYTES - ARRAY_BYTES) / VALUE_BYTES;
        let data = Value::Array(vec![Value::Null; values]);
        Message::new(Role::User, vec![Part::data(data)])
    }

    #[test]
    fn refuses_values_of_a_client_beyond_its_share() {
        let value_quota = ValueQuota::default();
        let permit = value_quota.try_acquire("ann", &heavy(40 << 20)).unwrap();
        let to_a2a_error = value_quota
            .try_acquire("ann", &heavy(40 << 20))
            .unwrap_err();
        assert_eq!(to_a2a_error.reason, ErrorReason::ResourceExhausted);
        assert!(
            value_quota
                .try_acquire("bob", &heavy(40 << 20))
                .unwrap()
                .is_some()
        );
        drop(permit);
        assert!(
            value_quota
                .try_acquire("ann", &heavy(40 << 20))
                .unwrap()
                .is_some()
        );
        assert_eq!(value_quota.0.reserved(), 0);
    }

    #[test]
    fn light_messages_are_not_counted() {
        let value_quota = ValueQuota::default();
        let _held = value_quota
            .try_acquire("ann", &heavy(MAX_BYTES_PER_CLIENT))
            .unwrap();
        assert!(
            value_quota
                .try_acquire("ann", &heavy(MAX_UNCOUNTED_BYTES))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn objects_count_by_their_memory() {
        let objects = vec![serde_json::json!({"a": 0}); 100_000];
        let mut message = Message::new(Role::User, vec![Part::text("hi")]);
        message.metadata = Some(HashMap::from([("objects".to_owned(), objects.into())]));
        let refused = ValueQuota::default().try_acquire("ann", &message);
        assert_eq!(refused.unwrap_err().reason, ErrorReason::ResourceExhausted);
    }
}
