//! Limits the number of JSON values of messages in memory. A parsed value takes up to a hundred times the memory of its
//! text, so limits on bytes alone do not bound memory.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use a2a::v1_0::{Message, PartContent};
use serde_json::Value;

use a2a::{A2aError, ErrorReason};

/// The maximum number of values of a message that is not counted.
const MAX_UNCOUNTED_VALUES: usize = 1_000;

/// The maximum number of values of one client.
const MAX_PER_CLIENT: usize = 1_000_000;

/// The maximum number of values of all clients.
const MAX_VALUES: usize = 2_000_000;

/// The number of values of all active messages, by client.
#[derive(Debug, Clone, Default)]
pub(super) struct ValueQuota(Arc<Mutex<HashMap<String, usize>>>);

/// The reserved values of one message. Dropping it releases them.
#[derive(Debug)]
pub(super) struct ValuePermit {
    value_quota: ValueQuota,
    client: String,
    values: usize,
}

impl ValueQuota {
    /// Reserves the values of a message of `client`; `None` if the message has too few values to count.
    ///
    /// # Errors
    /// The values would exceed the maximum of the client or of all clients.
    pub(super) fn try_acquire(
        &self,
        client: &str,
        message: &Message,
    ) -> Result<Option<ValuePermit>, A2aError> {
        let values = values(message);
        if values <= MAX_UNCOUNTED_VALUES {
            return Ok(None);
        }
        let mut by_client = self.0.lock();
        let own = by_client.get(client).copied().unwrap_or_default();
        let all: usize = by_client.values().sum();
        if own + values > MAX_PER_CLIENT || all + values > MAX_VALUES {
            let text = format!(
                "the message has {values} JSON values, more than the server has memory for now; send it again in a moment, or send them as a file"
            );
            let mut error = A2aError::new(ErrorReason::ResourceExhausted, text);
            error.retry_after_s = Some(5);
            return Err(error);
        }
        by_client.insert(client.to_owned(), own + values);
        Ok(Some(ValuePermit {
            value_quota: self.clone(),
            client: client.to_owned(),
            values,
        }))
    }
}

impl Drop for ValuePermit {
    fn drop(&mut self) {
        let mut by_client = self.value_quota.0.lock();
        if let Some(own) = by_client.get_mut(&self.client) {
            *own -= self.values;
            if *own == 0 {
                by_client.remove(&self.client);
            }
        }
    }
}

/// Returns the number of JSON values in a message's data and metadata.
fn values(message: &Message) -> usize {
    let parts = message.parts.iter().map(|part| {
        let data = match &part.content {
            PartContent::Data(data) => within(data),
            _ => 1,
        };
        data + part
            .metadata
            .iter()
            .flatten()
            .map(|(_, value)| within(value))
            .sum::<usize>()
    });
    let metadata = message.metadata.iter().flatten();
    parts.sum::<usize>() + metadata.map(|(_, value)| within(value)).sum::<usize>()
}

fn within(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(within).sum(),
        Value::Object(fields) => fields.values().map(within).sum(),
        _ => 0,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use a2a::v1_0::{Part, Role};

    use super::*;

    fn heavy(values: usize) -> Message {
        let data = Value::Array(vec![Value::Null; values - 1]);
        Message::new(Role::User, vec![Part::data(data)])
    }

    #[test]
    fn refuses_values_of_a_client_beyond_its_share() {
        let value_quota = ValueQuota::default();
        let permit = value_quota.try_acquire("ann", &heavy(600_000)).unwrap();
        let to_a2a_error = value_quota.try_acquire("ann", &heavy(600_000)).unwrap_err();
        assert_eq!(to_a2a_error.reason, ErrorReason::ResourceExhausted);
        assert!(
            value_quota
                .try_acquire("bob", &heavy(600_000))
                .unwrap()
                .is_some()
        );
        drop(permit);
        assert!(
            value_quota
                .try_acquire("ann", &heavy(600_000))
                .unwrap()
                .is_some()
        );
        assert!(value_quota.0.lock().is_empty());
    }

    #[test]
    fn light_messages_are_not_counted() {
        let value_quota = ValueQuota::default();
        let _held = value_quota.try_acquire("ann", &heavy(1_000_000)).unwrap();
        assert!(
            value_quota
                .try_acquire("ann", &heavy(MAX_UNCOUNTED_VALUES))
                .unwrap()
                .is_none()
        );
    }
}
