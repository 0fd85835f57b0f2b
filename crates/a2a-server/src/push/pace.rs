//! When to try again.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};

use super::Undelivered;

/// How often and how fast a notification is tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How often, the first time among them.
    pub(super) tries: u32,
    /// How long the webhook may take to answer.
    pub(super) answer: Duration,
    /// The wait before the second try; it doubles. Each is shortened by up to half, so that notifications which failed
    /// together do not come back together.
    pub(super) first: Duration,
    /// The longest wait, whoever asks for it.
    pub(super) longest: Duration,
}

impl Default for Pace {
    /// Half a minute of trying beside what the webhook takes to answer.
    fn default() -> Self {
        Self {
            tries: 6,
            answer: Duration::from_secs(10),
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
        }
    }
}

/// What came of a try.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// The webhook has it.
    Delivered,
    /// Another try would not help: why.
    Refused(String),
    /// Another try may help: why it did not this time, and how long the webhook asks to wait.
    Again(String, Option<Duration>),
}

/// What an answer means; `None` where none came in time.
pub(super) fn judge(
    answer: Option<Result<Response<()>, Undelivered>>,
    now: DateTime<Utc>,
) -> Verdict {
    match answer {
        None => Verdict::Again("the webhook does not answer".to_owned(), None),
        Some(Err(error)) if error.again => Verdict::Again(error.text, None),
        Some(Err(error)) => Verdict::Refused(error.text),
        Some(Ok(response)) => status(response.status(), response.headers(), now),
    }
}

fn status(status: StatusCode, headers: &HeaderMap, now: DateTime<Utc>) -> Verdict {
    let said = || format!("the webhook answers {}", status.as_u16());
    match status {
        status if status.is_success() => Verdict::Delivered,
        status if status.is_redirection() => Verdict::Refused(format!(
            "{}: redirects are not followed, register the address it leads to",
            said()
        )),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            Verdict::Again(said(), after(headers, now))
        }
        status if status.is_server_error() => Verdict::Again(said(), after(headers, now)),
        _ => Verdict::Refused(said()),
    }
}

/// How long the webhook asks to wait (RFC 9110 §10.2.3): seconds or a date.
fn after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    Some(
        (date.with_timezone(&Utc) - now)
            .to_std()
            .unwrap_or_default(),
    )
}

impl Pace {
    /// How long to wait after the `tried`th try. `random` is from 0 up to 1. A webhook's own wish counts unless it is
    /// shorter than the wait would have been at least, which would make the tries a burst.
    pub(super) fn wait(&self, tried: u32, wish: Option<Duration>, random: f64) -> Duration {
        let whole = self
            .first
            .saturating_mul(2u32.saturating_pow(tried.saturating_sub(1)));
        let own = whole
            .min(self.longest)
            .mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0);
        wish.map_or(own, |wish| wish.clamp(own.min(self.longest), self.longest))
    }
}

#[cfg(test)]
mod tests;
