//! How much a JSON text becomes once it is read.

use std::slice::Iter;

use a2a::{A2aError, ErrorReason};

/// So deep may lists and objects stand in each other. A message is kept and told deeper inside than it came, and whoever
/// reads it there gives up at some depth: ProtoJSON commonly at 100, other readers at 128.
pub(crate) const DEPTH: usize = 64;

/// So many values may stand in a text. A small one takes up to a hundred times the room once it is read.
pub(crate) const VALUES: usize = 200_000;

/// Looks at the text before anything is made of it. Whether it is JSON at all is not looked at.
///
/// # Errors
/// It is too deep, or there is too much in it.
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
        if depth > DEPTH {
            return Err(A2aError::new(
                ErrorReason::InvalidRequest,
                format!(
                    "lists and objects stand more than {DEPTH} deep in each other; send what is that deep as a file"
                ),
            ));
        }
        if values > VALUES {
            return Err(A2aError::new(
                ErrorReason::PayloadTooLarge,
                format!("there are more than {VALUES} values in the body; send them as a file"),
            ));
        }
    }
    Ok(())
}

/// To the end of a text whose first quotation mark has been taken.
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
    fn what_is_as_deep_as_may_be_is_taken_and_nothing_deeper() {
        check(nested(DEPTH).as_bytes()).unwrap();
        let refusal = check(nested(DEPTH + 1).as_bytes()).unwrap_err();
        assert_eq!(refusal.reason, ErrorReason::InvalidRequest);
    }

    #[test]
    fn what_stands_beside_each_other_is_not_deep() {
        check(vec!["[]"; 2 * DEPTH].join(",").as_bytes()).unwrap();
    }

    #[test]
    fn too_many_values_are_refused_however_small_they_are() {
        let refusal = check("{},".repeat(VALUES).as_bytes()).unwrap_err();
        assert_eq!(refusal.reason, ErrorReason::PayloadTooLarge);
    }

    #[test]
    fn what_a_text_says_does_not_count() {
        let text = format!(r#"["\"{}\\",1]"#, "[,".repeat(VALUES));
        check(text.as_bytes()).unwrap();
    }

    #[test]
    fn what_follows_a_text_counts() {
        let text = format!(r#""\\"{}"#, nested(DEPTH + 1));
        check(text.as_bytes()).unwrap_err();
    }
}
