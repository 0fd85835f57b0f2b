//! Formats fields of log lines.

use std::time::SystemTime;

use serde::Serializer;

use crate::text::first_chars;

/// The longest name or id that a line shows, in characters. Peers and hosts choose them.
const MAX_FIELD_CHARS: usize = 256;

/// Serializes a time in UTC (RFC 3339).
///
/// # Errors
/// Those of the serializer.
pub fn time<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&humantime::format_rfc3339_millis(*time))
}

/// Serializes the beginning of a text.
///
/// # Errors
/// Those of the serializer.
pub fn short<S: Serializer>(text: &Option<&str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(first_chars(text.unwrap_or_default(), MAX_FIELD_CHARS))
}
