//! How long a call waits.

use std::time::Duration;

/// The timeout of a call.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct TimeoutArgs {
    /// How long to wait: 500ms, 5s, 10m or 1h; a followed task continues after it
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "timeout_ms")]
    timeout: Option<Duration>,

    /// The same as a number of milliseconds
    #[arg(long, value_name = "N", value_parser = milliseconds)]
    timeout_ms: Option<u64>,
}

impl TimeoutArgs {
    /// Returns the timeout in milliseconds.
    pub(super) fn milliseconds(self) -> Option<u64> {
        let millis = |timeout: Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.timeout.map(millis).or(self.timeout_ms)
    }
}

/// Parses a duration of at least one millisecond, with a unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) {
        return Err(format!("it has no unit; try `{text}s` for seconds"));
    }
    let duration = humantime::parse_duration(text)
        .map_err(|_| "it is no duration such as 500ms, 5s, 10m or 1h".to_owned())?;
    match duration.as_millis() {
        0 => Err("it is shorter than a millisecond".to_owned()),
        _ => Ok(duration),
    }
}

fn milliseconds(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("it is 0; the shortest timeout is 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) if duration(text).is_ok() => Err(format!("it is no number; try `--timeout {text}`")),
        Err(_) => Err("it is no number of milliseconds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_has_a_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("5s", 5000),
            ("10m", 600_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for (text, advice) in [
            ("5", "try `5s`"),
            ("0s", "shorter"),
            ("", "no duration"),
            ("5 x", "no duration"),
        ] {
            assert!(
                duration(text).is_err_and(|error| error.contains(advice)),
                "{text}"
            );
        }
    }

    #[test]
    fn milliseconds_with_a_unit_lead_to_the_other_option() {
        assert_eq!(milliseconds("200"), Ok(200));
        for (text, advice) in [
            ("5s", "`--timeout 5s`"),
            ("0", "the shortest"),
            ("x", "no number"),
        ] {
            assert!(
                milliseconds(text).is_err_and(|error| error.contains(advice)),
                "{text}"
            );
        }
    }
}
