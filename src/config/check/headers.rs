//! Headers that an operator sets.

use http::{HeaderName, HeaderValue};

use super::ConfigError;

/// Headers that frame a request or that the transport sets.
const FRAMING: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

/// Checks one header of the object at `place`. A value that the host has not resolved is `None`.
pub(super) fn check_header(
    name: &str,
    value: Option<&str>,
    place: &str,
) -> Result<(), ConfigError> {
    let place = || format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
    self::parse_name(name).map_err(|reason| ConfigError::at(place(), reason))?;
    HeaderValue::try_from(value.unwrap_or_default())
        .map(drop)
        .map_err(|_| {
            ConfigError::at(
                place(),
                "the value has characters that an HTTP header cannot contain",
            )
        })
}

/// Returns the name of a header that may be set.
pub(super) fn parse_name(name: &str) -> Result<HeaderName, String> {
    let parsed = HeaderName::try_from(name)
        .map_err(|_| format!("`{}` cannot be an HTTP header's name", name.escape_debug()))?;
    if FRAMING.contains(&parsed.as_str()) {
        return Err(format!(
            "`{parsed}` is set by the transport and cannot be given"
        ));
    }
    Ok(parsed)
}
