//! The protocol version of a request (A2A 1.0 §3.6).

use a2a::http::VERSION_HEADER;
use http::request::Parts;

use crate::call_context::Version;
use a2a::{A2aError, ErrorReason};

/// Returns the version in the header `A2A-Version`, or else in the query parameter of the same name, or else 0.3.
/// Ignores a patch number, and reads `1` as 1.0.
///
/// # Errors
/// The server does not support the version.
pub(crate) fn requested(parts: &Parts) -> Result<Version, A2aError> {
    let header = match parts.headers.get(VERSION_HEADER) {
        Some(value) => Some(
            value
                .to_str()
                .map_err(|_| unsupported("a value that is not text"))?,
        ),
        None => None,
    };
    let query = parts.uri.query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let queried = pairs
        .find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER.as_str()))
        .map(|(_, value)| value);
    let text = header
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .or(queried.as_deref().map(str::trim))
        .unwrap_or_default();
    parse(text).ok_or_else(|| {
        // Limit the text of the header that the error repeats.
        let text: String = text.chars().take(32).collect();
        unsupported(&format!("`{text}`"))
    })
}

/// Parses `MAJOR`, `MAJOR.MINOR` or `MAJOR.MINOR.PATCH`, with or without a leading `v`. An empty text is 0.3.
fn parse(text: &str) -> Option<Version> {
    if text.is_empty() {
        return Some(Version::V0_3);
    }
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let mut numbers = text.splitn(3, '.');
    match (numbers.next()?, numbers.next()) {
        ("0", Some("3")) => Some(Version::V0_3),
        ("1", Some("0") | None) => Some(Version::V1_0),
        _ => None,
    }
}

fn unsupported(version: &str) -> A2aError {
    A2aError::new(
        ErrorReason::VersionNotSupported,
        format!("unsupported A2A-Version: {version}; this server supports `1.0` and `0.3`"),
    )
}

/// Returns the error of a request whose explicit or implied version is not `needed`.
pub(crate) fn mismatch(what: &str, needed: Version) -> A2aError {
    let text = match needed {
        Version::V1_0 => format!(
            "{what} belongs to A2A 1.0, but a request without the header `A2A-Version: 1.0` is one of 0.3; send the header"
        ),
        Version::V0_3 => format!(
            "{what} belongs to A2A 0.3, but the header A2A-Version says 1.0; use the form of 1.0, or omit the header"
        ),
    };
    A2aError::new(ErrorReason::VersionNotSupported, text)
}
