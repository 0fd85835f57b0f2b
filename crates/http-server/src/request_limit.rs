//! Limits the requests of each client: their rate and concurrency, the bytes of their bodies until they are parsed, and
//! the bytes of unread responses.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use tokio::time::sleep;

use base::config::millis;
use base::keyed_budget::{BudgetError, KeyedBudget, Reservation};
use base::settings;

use crate::guarded_body::GuardedBody;
use crate::rate_limit::{RateLimitKey, RateLimiter};

/// The initial capacity of the buffer for a body, in bytes. It doubles as the body grows.
const INITIAL_CAPACITY: usize = 8 << 10;

/// The `Retry-After` for limits that soon allow another request, in seconds.
const RETRY_AFTER_S: u64 = 1;

settings! {
    /// The limits of the requests of clients.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    pub struct HttpLimits {
        /// The sustained number of requests of one client per second.
        pub requests_per_second: NonZeroU32 = NonZeroU32::MIN.saturating_add(199),
        /// The number of requests that a client may send at once after a pause.
        pub burst: NonZeroU32 = NonZeroU32::MIN.saturating_add(999),
        /// The maximum number of concurrent requests of one client, including streams: three quarters of the connections of an
        /// address, so that other clients of the address have room.
        pub open_requests: usize = 384,
        /// The maximum size of a request body, in bytes.
        pub body_bytes: usize = 10 << 20,
        /// The maximum size of all request bodies until they are parsed, in bytes.
        pub total_body_bytes: usize = 128 << 20,
        /// The maximum size of all request bodies of one client until they are parsed, in bytes.
        #[serde(skip)]
        pub body_bytes_per_client: usize = 32 << 20,
        /// How long a request body may take to arrive.
        #[serde(rename = "bodyTimeoutMs", deserialize_with = "millis")]
        pub body_timeout: Duration = Duration::from_secs(30),
        /// The maximum size of all responses that clients have not read, in bytes.
        #[serde(skip)]
        pub total_response_bytes: usize = 256 << 20,
        /// The maximum size of all responses that one client has not read, in bytes.
        #[serde(skip)]
        pub response_bytes_per_client: usize = 64 << 20,
    }
}

/// The limit that a request exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too many requests per second. Contains the time until the next request is allowed.
    #[error("too many requests; try again in {} s", .0.as_secs() + 1)]
    Rate(Duration),
    /// Too many concurrent requests.
    #[error("too many open requests; end some, or wait until they end")]
    OpenRequests,
    /// The body is larger than this many bytes.
    #[error("the body exceeds {0} bytes; send less")]
    BodyTooLarge(usize),
    /// The connection ended before the body was complete.
    #[error("the body ended early; send it again")]
    BodyIncomplete,
    /// The body did not arrive in time.
    #[error("the body did not arrive in time; send it again")]
    BodyTimeout,
    /// The bodies of the client would exceed its share, which is this many bytes.
    #[error(
        "the bodies of your requests exceed {0} bytes, the maximum of one client; send fewer at a time"
    )]
    ClientBodies(usize),
    /// The bodies of all clients would exceed the total.
    #[error("too many request bodies at a time; try again in a moment")]
    TotalBodies,
    /// The unread responses of the client would exceed its share, which is this many bytes.
    #[error(
        "your unread responses exceed {0} bytes, the maximum of one client; read them, then try again"
    )]
    ClientResponses(usize),
    /// The unread responses of all clients would exceed the total.
    #[error("too many unread responses at a time; try again in a moment")]
    TotalResponses,
}

impl LimitError {
    /// Returns the HTTP status of the error.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Rate(_) | Self::OpenRequests | Self::ClientBodies(_) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyIncomplete => StatusCode::BAD_REQUEST,
            Self::BodyTimeout
            | Self::TotalBodies
            | Self::ClientResponses(_)
            | Self::TotalResponses => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the value of `Retry-After` in seconds; `None` if the same request cannot succeed later.
    pub fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::Rate(wait) => Some(wait.as_secs() + 1),
            Self::OpenRequests
            | Self::ClientBodies(_)
            | Self::TotalBodies
            | Self::ClientResponses(_)
            | Self::TotalResponses => Some(RETRY_AFTER_S),
            Self::BodyTooLarge(_) | Self::BodyIncomplete | Self::BodyTimeout => None,
        }
    }
}

type ClientBudget = KeyedBudget<RateLimitKey>;

/// A part of a budget that a client uses, until it is dropped.
pub type ClientReservation = Reservation<RateLimitKey>;

/// Enforces [`HttpLimits`].
pub struct RequestLimiter {
    limits: HttpLimits,
    rate: RateLimiter,
    open: Arc<ClientBudget>,
    bodies: Arc<ClientBudget>,
    responses: Arc<ClientBudget>,
}

impl RequestLimiter {
    /// Creates a limiter.
    pub fn new(limits: HttpLimits) -> Self {
        Self {
            rate: RateLimiter::new(limits.requests_per_second, limits.burst),
            open: KeyedBudget::new(usize::MAX, limits.open_requests),
            bodies: KeyedBudget::new(limits.total_body_bytes, limits.body_bytes_per_client),
            responses: KeyedBudget::new(
                limits.total_response_bytes,
                limits.response_bytes_per_client,
            ),
            limits,
        }
    }

    /// Counts a request towards the rate of its client.
    ///
    /// # Errors
    /// [`LimitError`] if the rate is exceeded.
    pub fn check_rate(&self, key: &RateLimitKey) -> Result<(), LimitError> {
        self.rate.check(key).map_err(LimitError::Rate)
    }

    /// Counts a request as open until the guard is dropped.
    ///
    /// # Errors
    /// [`LimitError`] if the client has the maximum number of open requests.
    pub fn try_open(&self, key: RateLimitKey) -> Result<ClientReservation, LimitError> {
        let opened = self.open.try_reserve(key, 1);
        opened.map_err(|_| LimitError::OpenRequests)
    }

    /// Reads a whole body. Reserves the received bytes until they are dropped. A `Content-Length` alone reserves
    /// nothing.
    ///
    /// # Errors
    /// The body is too large, too slow or incomplete, or the budget of bodies is exhausted.
    pub async fn read_body(
        &self,
        key: RateLimitKey,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Body, LimitError> {
        let announced = content_length(headers);
        if announced.is_none() && !headers.contains_key(TRANSFER_ENCODING) {
            return Ok(body);
        }
        let limit = self.limits.body_bytes;
        if announced.is_some_and(|length| length > limit) {
            return Err(LimitError::BodyTooLarge(limit));
        }
        let reading = collect(self.bodies.empty(key), body, announced.unwrap_or(limit));
        let bytes = tokio::select! {
            biased;
            bytes = reading => bytes?,
            // A block, which creates the timer only if the body has not arrived with the head.
            () = async { sleep(self.limits.body_timeout).await } => {
                return Err(LimitError::BodyTimeout);
            }
        };
        Ok(Body::from(bytes))
    }

    /// Reserves the bytes of a response until they are sent, and keeps `guard` until the body is dropped.
    ///
    /// # Errors
    /// The budget of unread responses is exhausted. The response is then dropped.
    pub fn guard_response(
        &self,
        key: RateLimitKey,
        response: Response,
        guard: impl Send + Unpin + 'static,
    ) -> Result<Response, LimitError> {
        let length = response.body().size_hint().exact();
        let length = length.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
        let reserved = if GuardedBody::<()>::counts(length) {
            self.responses
                .reserve(key, length)
                .map_err(|error| match error {
                    BudgetError::Share(limit) => LimitError::ClientResponses(limit),
                    BudgetError::Total => LimitError::TotalResponses,
                })?
        } else {
            self.responses.empty(key)
        };
        Ok(response.map(|body| Body::new(GuardedBody::new(body, reserved, guard))))
    }
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a body of at most `limit` bytes, which stay reserved until they are dropped.
async fn collect(
    reservation: ClientReservation,
    mut body: Body,
    limit: usize,
) -> Result<Bytes, LimitError> {
    let mut read = BudgetedBytes {
        bytes: Vec::new(),
        reservation,
    };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| LimitError::BodyIncomplete)?;
        if let Some(data) = frame.data_ref() {
            read.extend(data, limit)?;
        }
    }
    Ok(Bytes::from_owner(read))
}

/// The bytes of a body with their reservation.
struct BudgetedBytes {
    bytes: Vec<u8>,
    reservation: ClientReservation,
}

impl BudgetedBytes {
    fn extend(&mut self, data: &[u8], limit: usize) -> Result<(), LimitError> {
        let length = self.bytes.len() + data.len();
        if length > limit {
            return Err(LimitError::BodyTooLarge(limit));
        }
        let capacity = self.bytes.capacity();
        if length > capacity {
            let target_capacity = length.max(2 * capacity).max(INITIAL_CAPACITY).min(limit);
            self.reservation
                .grow(target_capacity)
                .map_err(|error| match error {
                    BudgetError::Share(limit) => LimitError::ClientBodies(limit),
                    BudgetError::Total => LimitError::TotalBodies,
                })?;
            self.bytes.reserve_exact(target_capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests;
