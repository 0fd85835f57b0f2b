//! Limits on the structure of JSON, which the server checks before it parses a body.

use std::slice::Iter;

use a2a::{A2aError, ErrorReason};

/// The maximum nesting of arrays and objects. Stored messages and events add levels to it, and clients have limits too:
/// ProtoJSON commonly 100, other parsers 128.
pub(crate) const MAX_DEPTH: usize = 64;

/// The maximum number of values. A parsed small value takes up to a hundred times the memory of its text.
pub(crate) const MAX_VALUES: usize = 200_000;

/// Checks the limits. Does not check that the text is valid JSON.
///
/// # Errors
/// The text nests too deeply or has too many values.
pub(crate) fn check(json: &[u8]) -> Result<(), A2aError> {
    let (mut depth, mut values) = (0_usize, 0_usize);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_text(&mut bytes),
            b'[' | b'{' => {
                depth += 1;
                values += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' | b':' => values += 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(A2aError::new(
                ErrorReason::InvalidRequest,
                format!(
                    "the body nests arrays and objects deeper than {MAX_DEPTH} levels; send it as a file"
                ),
            ));
        }
        if values > MAX_VALUES {
            return Err(A2aError::new(
                ErrorReason::PayloadTooLarge,
                format!("the body has more than {MAX_VALUES} values; send them as a file"),
            ));
        }
    }
    Ok(())
}

/// Skips the rest of a JSON string.
fn skip_text(bytes: &mut Iter<'_, u8>) {
    while let Some(b'\\') = bytes.find(|byte| matches!(byte, b'"' | b'\\')) {
        bytes.next();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn rejects_nesting_beyond_maximum() {
        check(nested(MAX_DEPTH).as_bytes()).unwrap();
        let error = check(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err();
        assert_eq!(error.reason, ErrorReason::InvalidRequest);
    }

    #[test]
    fn siblings_do_not_nest() {
        check(vec!["[]"; 2 * MAX_DEPTH].join(",").as_bytes()).unwrap();
    }

    #[test]
    fn rejects_too_many_values() {
        let error = check("{},".repeat(MAX_VALUES).as_bytes()).unwrap_err();
        assert_eq!(error.reason, ErrorReason::PayloadTooLarge);
    }

    #[test]
    fn string_content_does_not_count() {
        let text = format!(r#"["\"{}\\",1]"#, "[,".repeat(MAX_VALUES));
        check(text.as_bytes()).unwrap();
    }

    #[test]
    fn content_after_string_counts() {
        let text = format!(r#""\\"{}"#, nested(MAX_DEPTH + 1));
        check(text.as_bytes()).unwrap_err();
    }
}
