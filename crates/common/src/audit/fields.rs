//! Formats fields of log lines.

use std::time::SystemTime;

use serde::Serializer;

/// The longest name or id that a line shows, in characters. Peers and hosts choose them.
const MAX_FIELD_CHARS: usize = 256;

/// Returns a time in UTC (RFC 3339).
///
/// # Errors
/// As the serializer's.
pub fn time<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&humantime::format_rfc3339_millis(*time))
}

/// Returns the beginning of a text.
///
/// # Errors
/// As the serializer's.
pub fn short<S: Serializer>(text: &Option<&str>, to: S) -> Result<S::Ok, S::Error> {
    let text = text.unwrap_or_default();
    let end = text.char_indices().nth(MAX_FIELD_CHARS).map(|(end, _)| end);
    to.serialize_str(end.and_then(|end| text.get(..end)).unwrap_or(text))
}
