//! Asking again where that does no harm.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::{BoxFuture, Net, NetError, NetFault, Request, Response, Upgrade};

/// How often a request is sent again.
const TIMES: u32 = 2;

/// From the first try on; a try that could not begin in this time is not made.
const WINDOW: Duration = Duration::from_secs(3);

/// The wait before the second try where nobody says how long; it doubles. Each is shortened by up to half, so that callers
/// who failed together do not come back together.
const PAUSE: Duration = Duration::from_millis(300);

/// A network that sends a [repeatable](Request::repeatable) request again, at most twice and within three seconds, when no
/// connection could be made or the answer is 429, 502, 503 or 504. A `Retry-After` is honoured where it fits into that time;
/// where it does not, the answer stands. Any other request passes once.
pub struct Retry<N> {
    net: Arc<N>,
    chance: Chance,
}

/// What waits depend on beside the peer.
#[derive(Clone)]
pub struct Chance {
    /// The time of day, which a `Retry-After` may name.
    pub wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// A random number from 0 up to 1.
    pub random: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl<N: Net> Retry<N> {
    /// `net`, asked again by `chance`.
    pub fn new(net: N, chance: Chance) -> Self {
        Self {
            net: Arc::new(net),
            chance,
        }
    }
}

impl<N: Net> Net for Retry<N> {
    fn upgrade(&self, request: Request) -> BoxFuture<'static, Result<Upgrade, NetError>> {
        self.net.upgrade(request)
    }

    fn exchange(&self, request: Request) -> BoxFuture<'static, Result<Response, NetError>> {
        if !request.repeatable {
            return self.net.exchange(request);
        }
        let (net, chance) = (Arc::clone(&self.net), self.chance.clone());
        Box::pin(async move {
            let last = Instant::now() + WINDOW;
            for again in 0..TIMES {
                let outcome = net.exchange(request.clone()).await;
                let Some(wait) = wait(&outcome, again, &chance) else {
                    return outcome;
                };
                // A peer may name a pause that no clock reaches.
                if Instant::now()
                    .checked_add(wait)
                    .is_none_or(|next| next > last)
                {
                    return outcome;
                }
                // The connection is not held over the wait.
                drop(outcome);
                tokio::time::sleep(wait).await;
            }
            net.exchange(request).await
        })
    }
}

/// How long to wait before the next try, where another one may help.
fn wait(outcome: &Result<Response, NetError>, again: u32, chance: &Chance) -> Option<Duration> {
    let said = match outcome {
        Ok(response) if busy(response.status) => after(&response.headers, (chance.wall)()),
        Err(error) if error.fault() == NetFault::Unreachable => None,
        _ => return None,
    };
    Some(said.unwrap_or_else(|| {
        let whole = PAUSE * 2u32.pow(again);
        whole.mul_f64(1.0 - (chance.random)().clamp(0.0, 1.0) / 2.0)
    }))
}

/// The server, or something in front of it, cannot do it right now.
fn busy(status: StatusCode) -> bool {
    use StatusCode as S;
    matches!(
        status,
        S::TOO_MANY_REQUESTS | S::BAD_GATEWAY | S::SERVICE_UNAVAILABLE | S::GATEWAY_TIMEOUT
    )
}

/// How long the peer asks to wait (RFC 9110 §10.2.3): seconds or a date.
fn after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests;
