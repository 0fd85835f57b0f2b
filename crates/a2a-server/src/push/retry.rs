//! Retries of failed deliveries.

use std::time::Duration;

use base::backoff::Backoff;
use chrono::{DateTime, Utc};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};

use super::PushError;

/// The number of attempts and the delays between them.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy {
    /// The number of attempts, including the first.
    pub(super) max_attempts: u32,
    /// How long an attempt waits for the response of the webhook.
    pub(super) response_timeout: Duration,
    /// The delay before the second attempt. It doubles with each attempt, and has jitter.
    pub(super) base_delay: Duration,
    /// The maximum delay, which also bounds `Retry-After`.
    pub(super) max_delay: Duration,
}

impl Default for RetryPolicy {
    /// Returns a policy with delays of about half a minute in total.
    fn default() -> Self {
        Self {
            max_attempts: 6,
            response_timeout: Duration::from_secs(10),
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(60),
        }
    }
}

/// The result of one delivery attempt.
#[derive(Debug, PartialEq)]
pub(super) enum AttemptOutcome {
    /// The webhook accepted the notification.
    Delivered,
    /// The attempt failed, and a retry cannot succeed. Contains the cause.
    Permanent(String),
    /// The attempt failed, and a retry may succeed. Contains the cause and the `Retry-After` of the response.
    Retry(String, Option<Duration>),
}

/// Classifies a response. `None` means that the request timed out.
pub(super) fn classify(
    answer: Option<Result<Response<()>, PushError>>,
    now: DateTime<Utc>,
) -> AttemptOutcome {
    match answer {
        None => AttemptOutcome::Retry("the webhook does not answer".to_owned(), None),
        Some(Err(error)) if error.retryable => AttemptOutcome::Retry(error.text, None),
        Some(Err(error)) => AttemptOutcome::Permanent(error.text),
        Some(Ok(response)) => status(response.status(), response.headers(), now),
    }
}

fn status(status: StatusCode, headers: &HeaderMap, now: DateTime<Utc>) -> AttemptOutcome {
    let describe = || format!("the webhook answers {}", status.as_u16());
    match status {
        status if status.is_success() => AttemptOutcome::Delivered,
        status if status.is_redirection() => AttemptOutcome::Permanent(format!(
            "{}: redirects are not followed; register the target URL",
            describe()
        )),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            AttemptOutcome::Retry(describe(), parse_retry_after(headers, now))
        }
        status if status.is_server_error() => {
            AttemptOutcome::Retry(describe(), parse_retry_after(headers, now))
        }
        _ => AttemptOutcome::Permanent(describe()),
    }
}

/// Parses `Retry-After` (RFC 9110 §10.2.3): a number of seconds or a date.
fn parse_retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
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

impl RetryPolicy {
    /// Returns the delay after attempt number `tried`. `random` is in `0.0..1.0`. A `Retry-After` that is shorter than
    /// the shortest delay of this attempt is ignored, because it would cause a burst of requests.
    pub(super) fn delay(&self, tried: u32, retry_after: Option<Duration>, random: f64) -> Duration {
        let backoff = Backoff::new(self.base_delay, self.max_delay);
        let own = backoff.jittered(tried.saturating_sub(1), random);
        retry_after.map_or(own, |requested| {
            requested.clamp(own.min(self.max_delay), self.max_delay)
        })
    }
}

#[cfg(test)]
mod tests;
