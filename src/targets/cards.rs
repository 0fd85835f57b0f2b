//! The cache of agent cards.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lru::LruCache;

use a2a::Card;
use common::environment::Environment;
use peer::{CallOptions, Discovered, PeerError, PeerErrorKind, PeerProvider, Validator};

use super::Target;

/// How many cards are kept; requests may name any number of URLs.
const CACHE_CAPACITY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// How long a call waits for the extended card, and at most half of the call's time: the plain card is enough to
/// proceed.
const EXTENDED_WAIT: Duration = Duration::from_secs(5);

/// The difference of two clocks up to which tokens and signatures with times are accepted in practice.
const MAX_CLOCK_SKEW: Duration = Duration::from_mins(1);

/// The longest lifetime of a card, whatever the peer's headers allow.
const MAX_CACHE_AGE: Duration = Duration::from_hours(24);

/// How long a call waits for a new card before it uses the stale one.
const REFRESH_WAIT: Duration = Duration::from_secs(3);

/// A card and when it was read.
#[derive(Debug, Clone)]
pub struct KnownCard {
    pub card: Arc<Card>,
    /// The time when it was last read or confirmed.
    pub refreshed: SystemTime,
    /// The error of the last refresh, where the stale card is used.
    pub stale: Option<PeerError>,
    /// The seconds by which the peer's clock is ahead of this machine's, or behind where negative. `None` within a minute.
    pub clock_skew: Option<i64>,
}

/// The cache. It fetches each card at most once at a time, and does not remember failures.
pub struct CardCache {
    directory: Arc<dyn PeerProvider>,
    env: Arc<dyn Environment>,
    ttl: Duration,
    slots: Mutex<LruCache<Arc<str>, Arc<Slot>>>,
}

#[derive(Default)]
struct Slot {
    kept: Mutex<Option<CachedCard>>,
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct CachedCard {
    known: KnownCard,
    validator: Option<Validator>,
    fresh_until: Instant,
}

impl CachedCard {
    /// Returns the stale card with the error of its refresh.
    fn stale(mut self, why: PeerError) -> KnownCard {
        self.known.stale = Some(why);
        self.known
    }
}

impl CardCache {
    /// Creates a cache of the cards that `directory` finds, with room for the cards of all configured `targets`. `ttl`
    /// is the lifetime of a card when its peer sets none.
    pub fn new(
        directory: Arc<dyn PeerProvider>,
        env: Arc<dyn Environment>,
        ttl: Duration,
        targets: usize,
    ) -> Self {
        Self {
            directory,
            env,
            ttl,
            slots: Mutex::new(LruCache::new(CACHE_CAPACITY.saturating_add(targets))),
        }
    }

    /// Returns the target's card: the cached one while it is fresh, else a new one, else the stale one. `left` is the
    /// time that the call has left.
    ///
    /// The extended card replaces the plain one. The cache requests it once for each plain card.
    ///
    /// # Errors
    /// The target has no card, or none that the client can use.
    pub async fn get(&self, target: &Target, left: Duration) -> Result<KnownCard, PeerError> {
        let slot = self.slot(target);
        if let Some(known) = self.fresh(&slot) {
            return Ok(known);
        }
        // Boxed: it is large, most calls find a fresh card, and every call would carry it.
        Box::pin(self.fetched(target, &slot, left)).await
    }

    async fn fetched(
        &self,
        target: &Target,
        slot: &Slot,
        left: Duration,
    ) -> Result<KnownCard, PeerError> {
        let deadline = tokio::time::Instant::now() + left;
        let kept = lock(&slot.kept).clone();
        let turn = slot.fetching.lock();
        let _fetching = match kept {
            None => turn.await,
            // Callers in the queue would each wait for a silent peer in turn.
            Some(kept) => match tokio::time::timeout(REFRESH_WAIT, turn).await {
                Ok(turn) => turn,
                Err(_) => return Ok(kept.stale(late())),
            },
        };
        // Another caller may have fetched it meanwhile.
        if let Some(known) = self.fresh(slot) {
            return Ok(known);
        }
        let old = lock(&slot.kept).clone();
        let validator = old.as_ref().and_then(|kept| kept.validator.as_ref());
        let (card, validator, max_age, date) =
            match self.look(target, validator, old.is_some()).await {
                Ok(Discovered::Card {
                    card,
                    validator,
                    max_age,
                    date,
                }) => {
                    let card = self.extended(target, *card, deadline).await;
                    (Arc::new(card), validator, max_age, date)
                }
                Ok(Discovered::Unchanged { max_age, date }) => match old {
                    Some(kept) => (kept.known.card, kept.validator, max_age, date),
                    None => {
                        let message =
                            "the peer answered 304 Not Modified though no card of it is known";
                        return Err(
                            PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered()
                        );
                    }
                },
                Err(error) => {
                    return match old {
                        Some(kept) => Ok(kept.stale(error)),
                        None => Err(error),
                    };
                }
            };
        let refreshed = self.env.system_time();
        let known = KnownCard {
            card,
            refreshed,
            stale: None,
            clock_skew: date.and_then(|date| clock_skew(date, refreshed)),
        };
        let fresh_until = self.env.now() + max_age.unwrap_or(self.ttl).min(MAX_CACHE_AGE);
        *lock(&slot.kept) = Some(CachedCard {
            known: known.clone(),
            validator,
            fresh_until,
        });
        Ok(known)
    }

    /// Discovers the card, with a short timeout where a stale card exists.
    async fn look(
        &self,
        target: &Target,
        validator: Option<&Validator>,
        has_old: bool,
    ) -> Result<Discovered, PeerError> {
        let looking = self.directory.discover(&target.peer_config, validator);
        if !has_old {
            return looking.await;
        }
        tokio::time::timeout(REFRESH_WAIT, looking)
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    /// Returns the extended card, or `card` where the peer has none or does not return it.
    async fn extended(&self, target: &Target, card: Card, deadline: tokio::time::Instant) -> Card {
        if !card.has_extended_card {
            return card;
        }
        let Ok(peer) = self
            .directory
            .open(&target.peer_config, &card, &CallOptions::default())
        else {
            return card;
        };
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        match tokio::time::timeout(EXTENDED_WAIT.min(left / 2), peer.card()).await {
            Ok(Ok(extended)) => extended,
            _ => card,
        }
    }

    fn fresh(&self, slot: &Slot) -> Option<KnownCard> {
        let kept = lock(&slot.kept);
        let kept = kept
            .as_ref()
            .filter(|kept| self.env.now() < kept.fresh_until)?;
        Some(kept.known.clone())
    }

    fn slot(&self, target: &Target) -> Arc<Slot> {
        let mut slots = lock(&self.slots);
        Arc::clone(slots.get_or_insert(Arc::clone(&target.key), Arc::default))
    }
}

/// Returns by how many seconds `date` is after `now`, where the two are more than [`MAX_CLOCK_SKEW`] apart.
fn clock_skew(date: SystemTime, now: SystemTime) -> Option<i64> {
    let (sign, apart) = match date.duration_since(now) {
        Ok(ahead) => (1, ahead),
        Err(behind) => (-1, behind.duration()),
    };
    let seconds = i64::try_from(apart.as_secs()).ok()?;
    (apart > MAX_CLOCK_SKEW).then_some(sign * seconds)
}

fn late() -> PeerError {
    let message = "the agent card did not arrive in time";
    PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
