//! Which version a request is written in (1.0 §3.6).

use a2a::http::VERSION_HEADER;
use http::request::Parts;

use crate::call_context::Version;
use a2a::{A2aError, ErrorReason};

/// What a request says of its version: the header `A2A-Version`, else the query parameter of that name; nothing means 0.3.
/// Only the first two numbers count.
///
/// # Errors
/// It says a version that is not spoken here.
pub(crate) fn requested(parts: &Parts) -> Result<Version, A2aError> {
    let header = match parts.headers.get(VERSION_HEADER) {
        Some(value) => Some(value.to_str().map_err(|_| unknown("that is no text"))?),
        None => None,
    };
    let query = parts.uri.query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let queried = pairs
        .find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER.as_str()))
        .map(|(_, value)| value);
    let said = header
        .map(str::trim)
        .filter(|said| !said.is_empty())
        .or(queried.as_deref().map(str::trim))
        .unwrap_or_default();
    let mut numbers = said.splitn(3, '.');
    match (numbers.next().unwrap_or_default(), numbers.next()) {
        ("", None) | ("0", Some("3")) => Ok(Version::V0_3),
        ("1", Some("0")) => Ok(Version::V1_0),
        _ => {
            // What is echoed is bounded, and a header is text already.
            let said: String = said.chars().take(32).collect();
            Err(unknown(&format!("`{said}`")))
        }
    }
}

fn unknown(said: &str) -> A2aError {
    A2aError::new(
        ErrorReason::VersionNotSupported,
        format!("A2A-Version says {said}; this server speaks `1.0` and `0.3`"),
    )
}

/// What is asked for belongs to `needed`, and the request says, or by its silence means, the other version.
pub(crate) fn mismatch(what: &str, needed: Version) -> A2aError {
    let text = match needed {
        Version::V1_0 => format!(
            "{what} belongs to A2A 1.0, and a request without the header `A2A-Version: 1.0` is one of 0.3; send the header"
        ),
        Version::V0_3 => format!(
            "{what} belongs to A2A 0.3, and the header A2A-Version says 1.0; ask as 1.0 does, or leave the header out"
        ),
    };
    A2aError::new(ErrorReason::VersionNotSupported, text)
}
