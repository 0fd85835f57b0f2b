//! The position of a message in a chain of delegations, as its client sends it.

use std::collections::HashMap;

use a2a::{A2aError, ErrorReason};
use base::json;
use serde_json::{Value, json};

use super::SendMessage;
use super::task_runner::DELEGATION;
use base::json::encoded_bytes;

/// The maximum size of a delegation as JSON, in bytes.
const MAX_BYTES: usize = 1024;

/// The maximum length of the id of a chain, in bytes.
const MAX_CHAIN_BYTES: usize = 128;

/// Returns the delegation of a message as `{"hop", "chain"}`. That of the message precedes that of the request.
///
/// # Errors
/// A delegation is malformed. The server must not drop it, because agents without one could delegate endlessly.
pub(super) fn read(send: &SendMessage) -> Result<Option<Value>, A2aError> {
    let request = &send.request;
    let of_message = in_metadata(request.message.metadata.as_ref(), "message.metadata")?;
    let of_request = in_metadata(request.metadata.as_ref(), "metadata")?;
    Ok(of_message.or(of_request))
}

fn in_metadata(
    metadata: Option<&HashMap<String, Value>>,
    field: &'static str,
) -> Result<Option<Value>, A2aError> {
    let Some(value) = metadata.and_then(|metadata| metadata.get(DELEGATION)) else {
        return Ok(None);
    };
    let parsed = parse(value).ok_or_else(|| {
        let text = format!(
            "`{DELEGATION}` in `{field}` is not {{\"hop\": whole number, \"chain\": text of at most {MAX_CHAIN_BYTES} \
             characters}}; pass it on as you received it, or leave it out"
        );
        A2aError::new(ErrorReason::InvalidParams, text).at(field)
    })?;
    Ok(Some(parsed))
}

fn parse(value: &Value) -> Option<Value> {
    if !value.is_object() || encoded_bytes(value) > MAX_BYTES {
        return None;
    }
    let hop = json::whole_number(&value["hop"])?;
    match &value["chain"] {
        Value::Null => Some(json!({"hop": hop})),
        Value::String(chain) if is_name(chain) => Some(json!({"hop": hop, "chain": chain})),
        _ => None,
    }
}

fn is_name(chain: &str) -> bool {
    (1..=MAX_CHAIN_BYTES).contains(&chain.len())
        && chain.bytes().all(|byte| byte.is_ascii_graphic())
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
            assert_eq!(parse(&value), Some(expected), "{value}");
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
            assert_eq!(parse(&value), None, "{value}");
        }
    }
}
