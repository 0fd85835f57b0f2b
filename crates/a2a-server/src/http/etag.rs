//! Entity tags (RFC 9110 §8.8.3, §13.1.2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

/// Computes the strong entity tag of a representation.
pub(crate) fn compute(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(digest.as_ref()))
}

/// Returns whether an `If-None-Match` header matches `tag`.
pub(crate) fn matches<'a>(if_none_match: impl Iterator<Item = &'a str>, tag: &str) -> bool {
    if_none_match
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}
