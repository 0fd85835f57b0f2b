//! Retries of repeatable requests.
//!
//! A [repeatable](Request::repeatable) request is sent again at most twice within three seconds, if the connection
//! failed or the status is 429, 502, 503 or 504. A `Retry-After` within that time is honored; otherwise the response is
//! returned.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base::backoff::Backoff;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::{HttpClient, NetError, NetFault, Request, Response};

/// The maximum number of retries.
const MAX_RETRIES: u32 = 2;

/// The time from the first attempt within which the last one must start.
const RETRY_WINDOW: Duration = Duration::from_secs(3);

/// The delays before retries if the peer names none.
const RETRY_DELAY: Backoff = Backoff::new(Duration::from_millis(300), RETRY_WINDOW);

/// The clock and random numbers for delays.
#[derive(Clone)]
pub struct RetryContext {
    /// The time of day, for a date in `Retry-After`.
    pub wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// A random number from 0 up to 1.
    pub random: Arc<dyn Fn() -> f64 + Send + Sync>,
}

/// Sends `request` over `net`, and again if it is repeatable. The requests that reach `net` are marked as not
/// repeatable.
///
/// # Errors
/// Those of the last attempt.
pub async fn exchange(
    net: &dyn HttpClient,
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
        // Close the connection before the delay.
        drop(outcome);
        tokio::time::sleep(delay).await;
    }
    net.exchange(request).await
}

/// Returns the delay before the next attempt, or `None` if a retry would not help.
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
    Some(named.unwrap_or_else(|| RETRY_DELAY.jittered(retry, (context.random)())))
}

/// Returns whether the status means that the server or a proxy is overloaded.
fn is_busy(status: StatusCode) -> bool {
    use StatusCode as S;
    matches!(
        status,
        S::TOO_MANY_REQUESTS | S::BAD_GATEWAY | S::SERVICE_UNAVAILABLE | S::GATEWAY_TIMEOUT
    )
}

/// Returns the delay that the peer requests (RFC 9110 §10.2.3): seconds or a date.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests;
