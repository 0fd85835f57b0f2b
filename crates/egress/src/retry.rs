//! Retries of idempotent requests.
//!
//! A [repeatable](Request::repeatable) request is sent again, at most twice and within three seconds, when the connection
//! failed or the answer is 429, 502, 503 or 504. A `Retry-After` is honoured where it fits into that time; where it does
//! not, the answer stands.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::{Net, NetError, NetFault, Request, Response};

/// Retries after the first attempt.
const MAX_RETRIES: u32 = 2;

/// The time from the first attempt in which the last one must begin.
const RETRY_WINDOW: Duration = Duration::from_secs(3);

/// The delay before the first retry where the peer names none; it doubles. Each delay is shortened by up to half at random,
/// so that callers that failed together do not retry together.
const RETRY_BASE_DELAY: Duration = Duration::from_millis(300);

/// The clock and the randomness that delays depend on.
#[derive(Clone)]
pub struct RetryContext {
    /// The time of day, which a `Retry-After` may name.
    pub wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// A random number from 0 up to 1.
    pub random: Arc<dyn Fn() -> f64 + Send + Sync>,
}

/// Sends `request` over `net`, once unless it is repeatable. The requests that reach `net` are not repeatable.
///
/// # Errors
/// Those of the last attempt.
pub async fn exchange(
    net: &dyn Net,
    context: &RetryContext,
    mut request: Request,
) -> Result<Response, NetError> {
    if !std::mem::take(&mut request.repeatable) {
        return net.exchange(request).await;
    }
    let last = Instant::now() + RETRY_WINDOW;
    for retry in 0..MAX_RETRIES {
        let outcome = net.exchange(request.clone()).await;
        let Some(delay) = retry_delay(&outcome, retry, context) else {
            return outcome;
        };
        // A peer may name a delay that overflows the clock.
        if Instant::now()
            .checked_add(delay)
            .is_none_or(|next| next > last)
        {
            return outcome;
        }
        // Closes the connection before the delay.
        drop(outcome);
        tokio::time::sleep(delay).await;
    }
    net.exchange(request).await
}

/// Returns the delay before the next attempt, or `None` where another one would not help.
fn retry_delay(
    outcome: &Result<Response, NetError>,
    retry: u32,
    context: &RetryContext,
) -> Option<Duration> {
    let named = match outcome {
        Ok(response) if is_busy(response.status) => {
            retry_after(&response.headers, (context.wall)())
        }
        Err(error) if error.fault() == NetFault::Unreachable => None,
        _ => return None,
    };
    Some(named.unwrap_or_else(|| {
        let delay = RETRY_BASE_DELAY * 2u32.pow(retry);
        delay.mul_f64(1.0 - (context.random)().clamp(0.0, 1.0) / 2.0)
    }))
}

/// Returns whether the server, or something in front of it, cannot answer right now.
fn is_busy(status: StatusCode) -> bool {
    use StatusCode as S;
    matches!(
        status,
        S::TOO_MANY_REQUESTS | S::BAD_GATEWAY | S::SERVICE_UNAVAILABLE | S::GATEWAY_TIMEOUT
    )
}

/// Returns the delay that the peer asks for (RFC 9110 §10.2.3): seconds or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests;
