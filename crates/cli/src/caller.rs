//! The caller of a call, as JSON of a person or a script.
//!
//! The library ignores a caller that it cannot read and says so in its log: a host's slip must not end every
//! call. Here a slip is refused, or a bound that goes by the caller would quietly not hold.

use serde::Deserialize;

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
