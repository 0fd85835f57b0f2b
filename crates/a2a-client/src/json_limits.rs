//! Estimates the memory of JSON. Text may grow a hundredfold: an object with one field takes a node with room for eleven.

use memchr::memchr2;

use peer::{PeerError, PeerErrorKind};

/// The memory that a response may take, as a multiple of the maximum response size.
const MAX_RATIO: usize = 8;

/// The memory that is always allowed, in bytes.
const MIN_ALLOWED_BYTES: usize = 16 << 20;

/// The estimated memory of one JSON value by kind, and of one key of an object.
const VALUE_BYTES: usize = 48;
const KEY_BYTES: usize = 48;
const ARRAY_BYTES: usize = 128;
const OBJECT_BYTES: usize = 640;

/// Rejects JSON that would take too much memory for a maximum response size of `answer_bytes`, before it is parsed.
pub(super) fn check(json: &[u8], answer_bytes: usize) -> Result<(), PeerError> {
    let max_bytes = answer_bytes
        .saturating_mul(MAX_RATIO)
        .max(MIN_ALLOWED_BYTES);
    // No text takes more than an object per byte, so short ones need no scan.
    if json.len() < max_bytes / OBJECT_BYTES || estimated_memory(json) <= max_bytes {
        return Ok(());
    }
    let message =
        format!("the response contains more values than fit into {max_bytes} bytes of memory");
    Err(PeerError::new(PeerErrorKind::TooLarge, message))
}

/// Returns the bytes that JSON counts against a limit: its length, or more if it consists of many small values.
pub(super) fn size(json: &str) -> usize {
    json.len()
        .max(estimated_memory(json.as_bytes()) / MAX_RATIO)
}

/// Estimates the memory of the values in a JSON text, without their strings.
fn estimated_memory(json: &[u8]) -> usize {
    let mut all: usize = VALUE_BYTES;
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => at = after_string(json, at),
            b',' => all += VALUE_BYTES,
            b':' => all += KEY_BYTES,
            b'[' if !next_is(json, at, b']') => all += ARRAY_BYTES,
            b'{' if !next_is(json, at, b'}') => all += OBJECT_BYTES,
            _ => {}
        }
    }
    all
}

/// Returns the offset after the string that contains `at`.
fn after_string(json: &[u8], mut at: usize) -> usize {
    while let Some(found) = json.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if json[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    json.len()
}

fn next_is(json: &[u8], at: usize, expected: u8) -> bool {
    let rest = json.get(at..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_do_not_count() {
        for json in [
            r#""""#,
            r#""[{,:\"[{,:""#,
            r#""\\""#,
            "\"unfinished [{,:",
            "\"\\",
        ] {
            assert_eq!(estimated_memory(json.as_bytes()), VALUE_BYTES, "{json}");
        }
        assert_eq!(
            estimated_memory(br#"["a\"","b"]"#),
            2 * VALUE_BYTES + ARRAY_BYTES
        );
    }

    #[test]
    fn structure_weighs_more_than_its_text() {
        assert_eq!(
            estimated_memory(br#"{"a":[ ],"b":{}}"#),
            2 * VALUE_BYTES + OBJECT_BYTES + 2 * KEY_BYTES
        );
        let dense = "{\"a\":0},".repeat(1000);
        assert!(size(&dense) > 10 * dense.len());
        let prose = format!("[\"{}\"]", "word, ".repeat(1000));
        assert_eq!(size(&prose), prose.len());
    }

    #[test]
    fn short_json_fits_without_a_scan() {
        let short = MIN_ALLOWED_BYTES / OBJECT_BYTES - 1;
        assert!(estimated_memory("{".repeat(short).as_bytes()) <= MIN_ALLOWED_BYTES);
    }

    #[test]
    fn rejects_json_above_the_memory_limit() {
        let dense = format!("[{}0]", "[0],".repeat(1 << 20));
        assert!(check(dense.as_bytes(), dense.len()).is_err());
        let numbers = format!("[{}0]", "12.345,".repeat(1 << 20));
        assert!(check(numbers.as_bytes(), numbers.len()).is_ok());
    }
}
