//! Credentials that a server or a program issues for a limited time: the current one, and those to redact.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use base::environment::{Clock, SystemEnvironment};
use http::HeaderValue;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::time::Instant;

use super::sensitive;
use crate::NetError;

/// The number of recent credentials to redact even if they have expired: a peer may repeat one that it received earlier.
const RECENT: usize = 8;

/// The maximum number of credentials to redact: a peer that refuses each one must not push the valid ones out.
const MAX_REDACTED: usize = 64;

/// The lifetime of a credential whose issuer names none.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);

/// How long such a credential may be valid after that, so that it stays redacted.
const MAX_UNNAMED_LIFETIME: Duration = Duration::from_hours(1);

/// How long before its expiry a credential is replaced; at most a fifth of its lifetime. A request takes time to arrive.
const REFRESH_MARGIN: Duration = Duration::from_secs(30);

/// The minimum of this margin: servers count in whole seconds.
const MIN_REFRESH_MARGIN: Duration = Duration::from_secs(1);

/// The maximum lifetime of a credential, even if its issuer declares a longer one.
const MAX_LIFETIME: Duration = Duration::from_hours(24);

/// The credentials from one issuer. `T` is what requests need: the value of `Authorization`, or keys.
pub struct Tokens<T = HeaderValue> {
    current: Mutex<Option<Token<T>>>,
    issued: Mutex<IssuedTexts>,
    /// The lock of the call that fetches a credential, so that only one attempt runs at a time. Contains the error of the
    /// last one, and when it ended.
    refresh: tokio::sync::Mutex<Option<(NetError, Instant)>>,
    /// The number of finished attempts.
    ended: AtomicU64,
    /// The minimum time from the end of an attempt that failed, or that a refusal caused, to the next one. A peer that
    /// refuses every credential otherwise causes an attempt with each call.
    retry_interval: Duration,
    pub(crate) clock: Arc<dyn Clock>,
}

/// A credential as it was issued.
pub(crate) struct Issued<T = HeaderValue> {
    pub(crate) value: T,
    /// The texts to redact.
    pub(crate) secrets: Vec<SecretString>,
    pub(crate) lifetime: Option<Duration>,
}

/// A current credential.
#[derive(Clone)]
pub(crate) struct Token<T> {
    pub(crate) value: T,
    /// The number of the attempt that got it: an issuer may repeat its value.
    attempt: u64,
    /// When to replace it.
    renew_at: Instant,
    /// The same time of day, which may come earlier: a suspended machine stops the other clock.
    renew_time: SystemTime,
    /// From when on its refusal replaces it earlier.
    discard_from: Instant,
    is_refused: bool,
}

/// The texts to redact.
#[derive(Default)]
struct IssuedTexts {
    /// Those of each credential, and when it expires if its issuer named a time, the newest last.
    each: Vec<(Vec<SecretString>, Option<Instant>)>,
    all: Arc<[SecretString]>,
}

impl IssuedTexts {
    /// Adds those of a credential, and removes those of old ones.
    fn add(&mut self, secrets: Vec<SecretString>, expires_at: Option<Instant>) {
        fn texts(secrets: &[SecretString]) -> impl Iterator<Item = &str> {
            secrets.iter().map(|secret| secret.expose_secret())
        }
        let now = Instant::now();
        self.each
            .retain(|(other, _)| !texts(other).eq(texts(&secrets)));
        self.each.push((secrets, expires_at));
        let mut newer = self.each.len();
        self.each.retain(|(_, expires_at)| {
            newer -= 1;
            let is_valid = expires_at.is_none_or(|at| now < at);
            newer < RECENT || is_valid && newer < MAX_REDACTED
        });
        self.all = self.each.iter().flat_map(|(s, _)| s).cloned().collect();
    }
}

impl Issued {
    /// Returns a bearer token that is valid for this number of seconds.
    ///
    /// # Errors
    /// A header cannot contain it.
    pub(crate) fn bearer(token: SecretString, seconds: Option<f64>) -> Result<Self, NetError> {
        Ok(Self {
            value: sensitive(format!("Bearer {}", token.expose_secret()))?,
            secrets: vec![token],
            lifetime: seconds.map(|seconds| {
                Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(MAX_LIFETIME)
            }),
        })
    }
}

/// Reads a number of seconds, which some issuers write as a string.
pub(crate) fn seconds(value: &Value) -> Option<f64> {
    value
        .as_f64()
        .or_else(|| value.as_str()?.trim().parse().ok())
}

/// Returns the type of a token that is certainly no bearer token. Servers write many words for those, and the words of other
/// types are these.
pub(crate) fn other_token_type(kind: &str) -> Option<&str> {
    let kind = kind.trim();
    let mut others = ["dpop", "mac"].iter();
    others
        .any(|other| kind.eq_ignore_ascii_case(other))
        .then_some(kind)
}

impl<T> Default for Tokens<T> {
    fn default() -> Self {
        Self::new(Duration::ZERO)
    }
}

impl<T> Tokens<T> {
    /// Creates a cache whose attempts after a failure or a refusal are at least `retry_interval` apart.
    pub(super) fn new(retry_interval: Duration) -> Self {
        Self {
            current: Mutex::default(),
            issued: Mutex::default(),
            refresh: tokio::sync::Mutex::default(),
            ended: AtomicU64::default(),
            retry_interval,
            clock: Arc::new(SystemEnvironment),
        }
    }
}

impl<T: Clone> Tokens<T> {
    /// Returns a valid credential: the current one, or the one that `fetch` gets. One attempt runs at a time, and waiting
    /// callers share its result, so that a failing issuer is not asked once per caller.
    ///
    /// # Errors
    /// That of the attempt.
    pub(crate) async fn get(
        &self,
        fetch: impl Future<Output = Result<Issued<T>, NetError>>,
    ) -> Result<Token<T>, NetError> {
        if let Some(token) = self.current(Instant::now()) {
            return Ok(token);
        }
        let before = self.ended.load(Ordering::Acquire);
        let mut failed = self.refresh.lock().await;
        // Another call may have fetched one meanwhile, or failed.
        if let Some(token) = self.current(Instant::now()) {
            return Ok(token);
        }
        let waited = self.ended.load(Ordering::Acquire) != before;
        if let Some((error, at)) = &*failed
            && (waited || at.elapsed() < self.retry_interval)
        {
            return Err(error.clone());
        }
        let requested_at = (Instant::now(), self.clock.system_time());
        let outcome = fetch.await.map(|issued| self.keep(issued, requested_at));
        *failed = outcome
            .as_ref()
            .err()
            .map(|error| (error.clone(), Instant::now()));
        self.ended.fetch_add(1, Ordering::Release);
        outcome
    }

    /// Returns the credential if it is valid at `now`.
    pub(crate) fn current(&self, now: Instant) -> Option<Token<T>> {
        let current = self.current.lock();
        current
            .as_ref()
            .filter(|token| {
                !token.is_refused
                    && now < token.renew_at
                    && self.clock.system_time() < token.renew_time
            })
            .cloned()
    }

    /// Drops the current credential. It stays redacted.
    pub(crate) fn forget(&self) {
        *self.current.lock() = None;
    }

    /// Returns the value of the last credential if it was refused.
    pub(crate) fn refused(&self) -> Option<T> {
        let current = self.current.lock();
        let refused = current.as_ref().filter(|token| token.is_refused);
        refused.map(|token| token.value.clone())
    }

    /// Stores a credential in place of the previous one.
    fn keep(
        &self,
        new: Issued<T>,
        (requested_at, requested_time): (Instant, SystemTime),
    ) -> Token<T> {
        let lifetime = new
            .lifetime
            .map_or(DEFAULT_LIFETIME, |lifetime| lifetime.min(MAX_LIFETIME));
        let margin = (lifetime / 5).clamp(MIN_REFRESH_MARGIN, REFRESH_MARGIN);
        let mut current = self.current.lock();
        let replaces_refused = current.as_ref().is_some_and(|token| token.is_refused);
        let discard_after = match replaces_refused {
            true => self.retry_interval,
            false => Duration::ZERO,
        };
        let token = Token {
            value: new.value,
            attempt: self.ended.load(Ordering::Acquire),
            renew_at: requested_at + lifetime.saturating_sub(margin),
            renew_time: requested_time + lifetime.saturating_sub(margin),
            discard_from: Instant::now() + discard_after,
            is_refused: false,
        };
        *current = Some(token.clone());
        let lifetime = new.lifetime.unwrap_or(MAX_UNNAMED_LIFETIME);
        let expires_at = requested_at.checked_add(lifetime);
        self.issued.lock().add(new.secrets, expires_at);
        token
    }

    /// Marks a refused credential, so that the next call replaces it, unless another one has replaced it, or it replaced a
    /// refused one a short time ago.
    pub(crate) fn discard(&self, token: &Token<T>) {
        if let Some(current) = &mut *self.current.lock()
            && current.attempt == token.attempt
            && current.discard_from <= Instant::now()
        {
            current.is_refused = true;
        }
    }
}

impl<T> Tokens<T> {
    /// Returns the secrets to redact, the newest last.
    pub fn issued(&self) -> Arc<[SecretString]> {
        Arc::clone(&self.issued.lock().all)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn token(text: &str) -> Issued<String> {
        Issued {
            value: text.to_owned(),
            secrets: vec![text.to_owned().into()],
            lifetime: Some(Duration::from_secs(2)),
        }
    }

    #[test]
    fn late_refusal_keeps_the_newer_token() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let first = tokens.keep(token("first"), (now, SystemTime::now()));
        tokens.ended.fetch_add(1, Ordering::Release);
        tokens.keep(token("second"), (now, SystemTime::now()));
        tokens.discard(&first);
        assert_eq!(tokens.current(now).unwrap().value, "second");
    }

    #[test]
    fn token_is_used_until_it_expires() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        tokens.keep(token("one"), (now, SystemTime::now()));
        assert!(tokens.current(now).is_some());
        assert!(tokens.current(now + Duration::from_secs(1)).is_none());
    }

    /// Issues tokens of this lifetime, and returns the number of those to redact and whether the first is among them.
    fn redacted(number: usize, lifetime: Option<Duration>) -> (usize, bool) {
        let (tokens, now) = (Tokens::default(), Instant::now());
        for i in 0..number {
            let next = Issued {
                lifetime,
                ..token(&format!("token {i}"))
            };
            tokens.keep(next, (now, SystemTime::now()));
        }
        let issued = tokens.issued();
        let newest = issued.last().unwrap().expose_secret();
        assert_eq!(newest, format!("token {}", number - 1));
        let first = issued.iter().any(|text| text.expose_secret() == "token 0");
        (issued.len(), first)
    }

    #[test]
    fn valid_tokens_are_redacted_after_many_newer_ones() {
        for valid in [Some(Duration::from_hours(1)), Some(Duration::MAX), None] {
            assert_eq!(redacted(20, valid), (20, true));
            assert_eq!(redacted(100, valid), (MAX_REDACTED, false));
        }
        assert_eq!(redacted(20, Some(Duration::ZERO)), (RECENT, false));
    }

    #[test]
    fn repeated_token_pushes_no_other_out() {
        let tokens = Tokens::default();
        for text in ["one", "two", "two", "one"].into_iter().chain(["two"; 100]) {
            tokens.keep(token(text), (Instant::now(), SystemTime::now()));
        }
        let issued = tokens.issued();
        let issued: Vec<_> = issued.iter().map(|text| text.expose_secret()).collect();
        assert_eq!(issued, ["one", "two"]);
    }
}
