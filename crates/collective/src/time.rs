//! When a message was written, as its sender tells it.

use std::time::UNIX_EPOCH;

use serde_json::Value;

/// Milliseconds since 1970 of a `timestamp`: a number of them (Heretek A2A §4.1), or a text of ISO 8601 as some gateways write. `None` for anything else.
pub(super) fn millis(timestamp: &Value) -> Option<u64> {
    match timestamp {
        // A number of 64 bits as it is; one with a fraction without it.
        Value::Number(number) => number.as_u64().or_else(|| {
            let whole = number.as_f64()?.trunc();
            // Beyond 2^53 a double is no millisecond any more.
            ((0.0..9e15).contains(&whole)).then_some(whole as u64)
        }),
        Value::String(text) => parse_iso_8601(text),
        _ => None,
    }
}

/// Parses `2026-03-31T00:00:00` with an optional fraction, and `Z` or an offset such as `+02:00`.
fn parse_iso_8601(text: &str) -> Option<u64> {
    let (clock, rest) = text.split_at_checked("2026-03-31T00:00:00".len())?;
    let zone = rest.strip_prefix('.').map_or(rest, |rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
    });
    let fraction = &rest[..rest.len() - zone.len()];
    if fraction == "." {
        return None;
    }
    // Nine digits are what a clock of nanoseconds has; what is beyond them is no millisecond.
    let fraction = &fraction[..fraction.len().min(10)];
    let at = humantime::parse_rfc3339(&format!("{clock}{fraction}Z")).ok()?;
    let millis = at.duration_since(UNIX_EPOCH).ok()?.as_millis();
    let millis = i64::try_from(millis).ok()?;
    u64::try_from(millis - utc_offset_seconds(zone)?).ok()
}

/// Returns the offset of a time zone from UTC, in milliseconds.
fn utc_offset_seconds(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => return Some(0),
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some(both) => both,
        None => rest.split_at_checked(2)?,
    };
    let two_digits = |text: &str| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<i64>().ok()).flatten()
    };
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn h_18_timestamp_is_milliseconds_or_iso_8601() {
        let same = 1_711_843_200_000;
        for timestamp in [
            json!(1_711_843_200_000_u64),
            json!(1_711_843_200_000.0),
            json!("2024-03-31T00:00:00Z"),
            json!("2024-03-31T00:00:00.000Z"),
            json!("2024-03-31T02:00:00+02:00"),
            json!("2024-03-30T18:30:00.000000-0530"),
        ] {
            assert_eq!(millis(&timestamp), Some(same), "{timestamp}");
        }
        assert_eq!(
            millis(&json!("2024-03-31T00:00:00.1239999999Z")),
            Some(same + 123)
        );
    }

    #[test]
    fn h_18_anything_else_is_no_timestamp() {
        for timestamp in [
            json!(null),
            json!(-1),
            json!(1e300),
            json!(true),
            json!(""),
            json!("yesterday"),
            json!("2024-03-31"),
            json!("2024-03-31T00:00:00"),
            json!("2024-03-31T00:00:00."),
            json!("2024-03-31T00:00:00+2"),
            json!("2024-03-31T00:00:00+99:00"),
            json!("2024-13-31T00:00:00Z"),
            json!("1969-12-31T23:59:59Z"),
            json!("2024-03-31T00:00:0äZ"),
            json!({"ms": 1}),
        ] {
            assert_eq!(millis(&timestamp), None, "{timestamp}");
        }
    }
}
