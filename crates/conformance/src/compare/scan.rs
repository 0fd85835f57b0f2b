//! Finds ids and times in text.

const UUID_LENGTH: usize = 36;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Returns whether a lower-case UUID starts at `at`, not inside a longer word.
pub(super) fn uuid_at(text: &str, at: usize) -> Option<&str> {
    let bytes = text.as_bytes();
    let found = bytes.get(at..at + UUID_LENGTH)?;
    let shaped = found.iter().enumerate().all(|(index, byte)| {
        if HYPHENS.contains(&index) {
            *byte == b'-'
        } else {
            matches!(byte, b'0'..=b'9' | b'a'..=b'f')
        }
    });
    let follows = bytes
        .get(at + UUID_LENGTH)
        .is_some_and(|byte| is_word_byte(*byte));
    (shaped && !follows).then(|| &text[at..at + UUID_LENGTH])
}

pub(super) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns whether the whole text is a time such as `2026-03-12T10:00:00.000Z`.
pub(super) fn is_timestamp(text: &str) -> bool {
    const TIMESTAMP_PATTERN: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let bytes = text.as_bytes();
    let Some((whole, rest)) = bytes.split_at_checked(TIMESTAMP_PATTERN.len()) else {
        return false;
    };
    let shaped = whole
        .iter()
        .zip(TIMESTAMP_PATTERN)
        .all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            literal => byte == literal,
        });
    let fraction = match rest {
        [b'Z'] => true,
        [b'.', digits @ .., b'Z'] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    shaped && fraction
}

/// Replaces `address` where no digit follows, so that port 1234 is not found in port 12345.
pub(super) fn replace_address(text: &str, address: &str, with: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(address) {
        let (before, after) = (&rest[..at], &rest[at + address.len()..]);
        out.push_str(before);
        let longer = after.as_bytes().first().is_some_and(u8::is_ascii_digit);
        out.push_str(if longer { address } else { with });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_is_lower_case_and_whole() {
        let uuid = "0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0";
        assert_eq!(uuid_at(uuid, 0), Some(uuid));
        assert_eq!(uuid_at(&format!("{uuid}a"), 0), None);
        assert_eq!(uuid_at(&uuid.to_uppercase(), 0), None);
        assert_eq!(uuid_at(&uuid[1..], 0), None);
    }

    #[test]
    fn timestamp_fills_the_whole_text() {
        assert!(is_timestamp("2026-03-12T10:00:00.000Z"));
        assert!(is_timestamp("2026-03-12T10:00:00Z"));
        for other in [
            "2026-03-12T10:00:00",
            "2026-03-12T10:00:00.Z",
            "at 2026-03-12T10:00:00Z",
            "2026-3-12T10:00:00Z",
            "",
        ] {
            assert!(!is_timestamp(other), "{other}");
        }
    }

    #[test]
    fn port_is_not_found_inside_a_longer_one() {
        assert_eq!(replace_address("h:12 h:123 h:12", "h:12", "P"), "P h:123 P");
    }
}
