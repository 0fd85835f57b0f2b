//! The caller of a call, as JSON of a person or a script.
//!
//! The library ignores a caller that it cannot read and says so in its log: a host's slip must not end every
//! call. Here a slip is refused, or a bound that goes by the caller would quietly not hold.

use gateway_agent::DELEGATION_VARIABLE;
use gateway_bridge::delegation::Delegation;
use serde::Deserialize;
use serde_json::Value;

use super::exit::Failure;

/// The fields of a caller. This type checks only its shape; the library reads it again.
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
/// Returns the fault, as a sentence without a full stop.
pub(super) fn check(json: &str) -> Result<(), String> {
    match serde_json::from_str::<Caller>(json) {
        Ok(_) => Ok(()),
        Err(e) => Err(format!(
            "the caller is not {{\"agent_id\", \"session_key\", \"chain\": {{\"hop\", \"chain\"}}, \"state_dir\", \"traceparent\"}}: {e}"
        )),
    }
}

/// Returns the delegation that this process works on, if it is the command of an agent with a backend.
///
/// # Errors
/// The environment variable has another form.
pub(super) fn delegation() -> Result<Option<Delegation>, Failure> {
    std::env::var(DELEGATION_VARIABLE)
        .ok()
        .map(|text| parse(&text))
        .transpose()
}

fn parse(text: &str) -> Result<Delegation, Failure> {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let delegation = value.as_ref().and_then(Delegation::read);
    delegation.ok_or_else(|| {
        Failure::usage(format!(
            "the environment variable `{DELEGATION_VARIABLE}` is not {{\"hop\", \"chain\"}}; pass it on as the agent set it, or unset it"
        ))
    })
}

/// Returns the caller with the chain of this process, unless it names one.
pub(super) fn with_chain(caller: Option<&str>, delegation: Option<&Delegation>) -> Option<String> {
    let Some(delegation) = delegation else {
        return caller.map(str::to_owned);
    };
    let mut caller: Value = match caller {
        Some(caller) => match serde_json::from_str(caller) {
            Ok(parsed @ Value::Object(_)) => parsed,
            // The library reports it.
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
