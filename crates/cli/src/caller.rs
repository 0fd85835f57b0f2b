//! The `caller` of a call, as JSON from the command line or a script.
//!
//! The library ignores an invalid caller and logs a warning, because a bug in a host must not fail every call. The command
//! refuses an invalid caller. Otherwise the limits that depend on the caller would silently not apply.

use base::json::{self, Limits};
use gateway_agent::DELEGATION_VARIABLE;
use gateway_bridge::delegation::Delegation;
use serde::Deserialize;
use serde_json::Value;

use super::exit::Failure;

/// The fields of a caller. This type only validates the shape; the library parses the JSON again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read to be checked")]
struct Caller {
    agent_id: Option<String>,
    session_key: Option<String>,
    chain: Option<Chain>,
    state_dir: Option<String>,
    traceparent: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read to be checked")]
struct Chain {
    hop: u64,
    chain: Option<String>,
}

/// Checks a caller.
///
/// # Errors
/// The caller is invalid. The error is a sentence without a full stop.
pub(super) fn check(json: &str) -> Result<(), String> {
    match json::from_str::<Caller>(json, Limits::NONE) {
        Ok(_) => Ok(()),
        Err(e) => Err(format!(
            "the caller is not {{\"agent_id\", \"session_key\", \"chain\": {{\"hop\", \"chain\"}}, \"state_dir\", \"traceparent\"}}: {e}"
        )),
    }
}

/// Returns the delegation of this process. An agent with a command backend sets it in the environment of the command.
///
/// # Errors
/// The environment variable is malformed.
pub(super) fn delegation() -> Result<Option<Delegation>, Failure> {
    std::env::var(DELEGATION_VARIABLE)
        .ok()
        .map(|text| parse(&text))
        .transpose()
}

fn parse(text: &str) -> Result<Delegation, Failure> {
    let value: Option<Value> = json::from_str(text, Limits::NONE).ok();
    let delegation = value.as_ref().and_then(Delegation::read);
    delegation.ok_or_else(|| {
        Failure::usage(format!(
            "the environment variable `{DELEGATION_VARIABLE}` is not {{\"hop\", \"chain\"}}; pass it on as the agent set it, or unset it"
        ))
    })
}

/// Returns the caller with the delegation chain of this process, unless the caller already has a chain.
pub(super) fn with_chain(caller: Option<&str>, delegation: Option<&Delegation>) -> Option<String> {
    let Some(delegation) = delegation else {
        return caller.map(str::to_owned);
    };
    let mut caller: Value = match caller {
        Some(caller) => match serde_json::from_str(caller) {
            Ok(parsed @ Value::Object(_)) => parsed,
            // The library reports the invalid caller.
            _ => return Some(caller.to_owned()),
        },
        None => Value::Object(serde_json::Map::new()),
    };
    if caller["chain"].is_null() {
        caller["chain"] = delegation.json();
    }
    Some(caller.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn caller_has_the_chain_of_its_process() {
        let own = parse(r#"{"hop":2,"chain":"c"}"#).unwrap();
        let named = |caller| with_chain(caller, Some(&own)).unwrap();
        assert_eq!(named(None), r#"{"chain":{"chain":"c","hop":2}}"#);
        let with_agent = named(Some(r#"{"agent_id":"main"}"#));
        assert!(with_agent.contains("\"main\"") && with_agent.contains("\"hop\":2"));
        let explicit = r#"{"chain":{"hop":7}}"#;
        assert_eq!(named(Some(explicit)), explicit);
        assert_eq!(with_chain(None, None), None);
    }

    #[test]
    fn unreadable_chain_is_refused() {
        for text in ["", "2", "{}", r#"{"hop":"2"}"#] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
