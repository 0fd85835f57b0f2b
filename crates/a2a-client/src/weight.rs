//! Estimates the memory of JSON. Text may grow a hundredfold: an object with one field takes a node with room for eleven.

use memchr::memchr2;

use peer::{PeerError, PeerErrorKind};

/// The memory that a response may take, as a multiple of the maximum response size.
const MAX_RATIO: usize = 8;

/// The memory that is always allowed, in bytes.
const MIN_MEMORY: usize = 16 << 20;

const VALUE: usize = 48;
const KEY: usize = 48;
const ARRAY: usize = 128;
const OBJECT: usize = 640;

/// Rejects JSON that would take too much memory for a maximum response size of `answer_bytes`, before it is parsed.
pub(super) fn check(json: &[u8], answer_bytes: usize) -> Result<(), PeerError> {
    let most = answer_bytes.saturating_mul(MAX_RATIO).max(MIN_MEMORY);
    // No text takes more than an object per byte, so short ones need no scan.
    if json.len() < most / OBJECT || weight(json) <= most {
        return Ok(());
    }
    let message = format!("the response contains more values than fit into {most} bytes of memory");
    Err(PeerError::new(PeerErrorKind::TooLarge, message))
}

/// Returns the bytes that JSON counts against a limit: its length, or more if it consists of many small values.
pub(super) fn bytes(json: &str) -> usize {
    json.len().max(weight(json.as_bytes()) / MAX_RATIO)
}

/// Estimates the memory of the values in a JSON text, without their strings.
fn weight(json: &[u8]) -> usize {
    let mut all: usize = VALUE;
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => at = after_string(json, at),
            b',' => all += VALUE,
            b':' => all += KEY,
            b'[' if !next_is(json, at, b']') => all += ARRAY,
            b'{' if !next_is(json, at, b'}') => all += OBJECT,
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
    fn strings_have_no_weight() {
        for json in [
            r#""""#,
            r#""[{,:\"[{,:""#,
            r#""\\""#,
            "\"unfinished [{,:",
            "\"\\",
        ] {
            assert_eq!(weight(json.as_bytes()), VALUE, "{json}");
        }
        assert_eq!(weight(br#"["a\"","b"]"#), 2 * VALUE + ARRAY);
    }

    #[test]
    fn structure_weighs_more_than_its_text() {
        assert_eq!(weight(br#"{"a":[ ],"b":{}}"#), 2 * VALUE + OBJECT + 2 * KEY);
        let dense = "{\"a\":0},".repeat(1000);
        assert!(bytes(&dense) > 10 * dense.len());
        let prose = format!("[\"{}\"]", "word, ".repeat(1000));
        assert_eq!(bytes(&prose), prose.len());
    }

    #[test]
    fn short_json_fits_without_a_scan() {
        let short = MIN_MEMORY / OBJECT - 1;
        assert!(weight("{".repeat(short).as_bytes()) <= MIN_MEMORY);
    }

    #[test]
    fn rejects_json_above_the_memory_limit() {
        let dense = format!("[{}0]", "[0],".repeat(1 << 20));
        assert!(check(dense.as_bytes(), dense.len()).is_err());
        let numbers = format!("[{}0]", "12.345,".repeat(1 << 20));
        assert!(check(numbers.as_bytes(), numbers.len()).is_ok());
    }
}
