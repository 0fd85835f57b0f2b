//! The cache of agent cards.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lru::LruCache;
use parking_lot::Mutex;

use a2a::Card;
use a2a::card_fields::CardFields;
use base::environment::Environment;
use peer::{CallOptions, CardEtag, Discovered, PeerError, PeerErrorKind, PeerProvider};

use super::Target;
use super::pins::{CardError, PinState, SeenCards, take_extended_fields, take_fields};

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
pub struct FetchedCard {
    pub card: Arc<Card>,
    /// The time when it was last read or confirmed.
    pub refreshed: SystemTime,
    /// The error of the last refresh, where the stale card is used.
    pub stale: Option<PeerError>,
    /// The seconds by which the peer's clock is ahead of this machine's, or behind where negative. `None` within a minute.
    pub clock_skew: Option<i64>,
    /// What was accepted of the card, where the target has pins.
    pub pin: Option<Arc<PinState>>,
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
    cached: Mutex<Option<CachedCard>>,
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct CachedCard {
    known: FetchedCard,
    seen: Arc<SeenCards>,
    validator: Option<CardEtag>,
    fresh_until: Instant,
}

impl CachedCard {
    /// Returns the stale card with the error of its refresh.
    fn stale(mut self, error: PeerError) -> FetchedCard {
        self.known.stale = Some(error);
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

    /// Returns the target's card: the cached one while it is fresh, else a new one, else the stale one. `timeout` is the
    /// time that the call has left.
    ///
    /// The extended card replaces what the plain one shows, not how the agent is called. The cache requests it once for
    /// each plain card.
    ///
    /// # Errors
    /// The target has no card, none that the client can use, or another one than an operator has accepted.
    pub async fn get(&self, target: &Target, timeout: Duration) -> Result<FetchedCard, CardError> {
        let slot = self.slot(target);
        if let Some(known) = self.cached_if_fresh(&slot) {
            return Ok(known);
        }
        // Boxed: it is large, most calls find a fresh card, and every call would carry it.
        Box::pin(self.fetch(target, &slot, timeout)).await
    }

    async fn fetch(
        &self,
        target: &Target,
        slot: &Slot,
        timeout: Duration,
    ) -> Result<FetchedCard, CardError> {
        let deadline = tokio::time::Instant::now() + timeout;
        let cached = slot.cached.lock().clone();
        let permit = slot.fetching.lock();
        let _fetching = match cached {
            None => permit.await,
            // Callers in the queue would each wait for a silent peer in turn.
            Some(cached) => match tokio::time::timeout(REFRESH_WAIT, permit).await {
                Ok(permit) => permit,
                Err(_) => return Ok(cached.stale(refresh_timeout())),
            },
        };
        // Another caller may have fetched it meanwhile.
        if let Some(known) = self.cached_if_fresh(slot) {
            return Ok(known);
        }
        let stale_card = slot.cached.lock().clone();
        let validator = stale_card
            .as_ref()
            .and_then(|cached| cached.validator.as_ref());
        let (card, seen, pin, validator, max_age, date) =
            match self.discover(target, validator, stale_card.is_some()).await {
                Ok(Discovered::Card {
                    card,
                    validator,
                    max_age,
                    date,
                }) => {
                    let (card, seen, pin) = self.complete(target, *card, deadline).await?;
                    let (card, seen) = (Arc::new(card), Arc::new(seen));
                    (card, seen, pin, validator, max_age, date)
                }
                Ok(Discovered::Unchanged { max_age, date }) => match stale_card {
                    Some(cached) => {
                        // An operator may have accepted another card meanwhile.
                        let pin = self.check_pins(target, &cached.seen).await?;
                        let (card, seen) = (cached.known.card, cached.seen);
                        (card, seen, pin, cached.validator, max_age, date)
                    }
                    None => return Err(no_card_to_confirm().into()),
                },
                Err(error) => {
                    return match stale_card {
                        Some(cached) => Ok(cached.stale(error)),
                        None => Err(error.into()),
                    };
                }
            };
        let refreshed = self.env.system_time();
        let known = FetchedCard {
            card,
            refreshed,
            stale: None,
            clock_skew: date.and_then(|date| clock_skew(date, refreshed)),
            pin,
        };
        let fresh_until = self.env.now() + max_age.unwrap_or(self.ttl).min(MAX_CACHE_AGE);
        *slot.cached.lock() = Some(CachedCard {
            known: known.clone(),
            seen,
            validator,
            fresh_until,
        });
        Ok(known)
    }

    /// Discovers the card, with a short timeout where a stale card exists.
    async fn discover(
        &self,
        target: &Target,
        validator: Option<&CardEtag>,
        has_stale: bool,
    ) -> Result<Discovered, PeerError> {
        let discovery = self.directory.discover(&target.peer_config, validator);
        if !has_stale {
            return discovery.await;
        }
        tokio::time::timeout(REFRESH_WAIT, discovery)
            .await
            .unwrap_or_else(|_| Err(refresh_timeout()))
    }

    /// Reads the cards that the target has now, without the cache, and accepts nothing.
    ///
    /// # Errors
    /// The target has no card, or none that the client can use.
    pub async fn read(&self, target: &Target, timeout: Duration) -> Result<SeenCards, PeerError> {
        let deadline = tokio::time::Instant::now() + timeout;
        let discovered = self.directory.discover(&target.peer_config, None);
        let discovered = tokio::time::timeout(timeout, discovered).await;
        let Discovered::Card { mut card, .. } = discovered.map_err(|_| refresh_timeout())?? else {
            return Err(no_card_to_confirm());
        };
        let mut seen = self.take_public_fields(target, &mut card);
        let reviewed = target.pins.as_ref().map(|pins| pins.review(&seen));
        // Nothing goes to an interface that no one has accepted.
        if !reviewed.is_some_and(|state| state.stops() || state.problem.is_some()) {
            let extended = self.fetch_extended(target, &card, deadline).await;
            seen.extended = extended.map(|mut card| take_extended_fields(&mut card));
        }
        Ok(seen)
    }

    /// Returns `card` with the description of the extended card, or unchanged where the peer has none or does not return it, and
    /// what pins keep of both.
    ///
    /// # Errors
    /// They may not be used. The peer gets no request for its extended card where the card may not be used.
    async fn complete(
        &self,
        target: &Target,
        mut card: Card,
        deadline: tokio::time::Instant,
    ) -> Result<(Card, SeenCards, Option<Arc<PinState>>), CardError> {
        let mut seen = self.take_public_fields(target, &mut card);
        let mut pin = self.check_pins(target, &seen).await?;
        if let Some(mut extended) = self.fetch_extended(target, &card, deadline).await {
            if pin.is_some() {
                seen.extended = Some(take_extended_fields(&mut extended));
            }
            pin = self.check_pins(target, &seen).await?;
            // The interface has just answered, and the extended card may name another.
            card.view = extended.view;
            card.streaming = extended.streaming;
        }
        Ok((card, seen, pin))
    }

    fn take_public_fields(&self, target: &Target, card: &mut Card) -> SeenCards {
        if target.pins.is_none() {
            card.fields = CardFields::default();
            return SeenCards::default();
        }
        let config = &target.peer_config;
        let preferred = self.directory.preferred_interface(config, card);
        SeenCards {
            public: take_fields(card, preferred, config.endpoint.is_some()),
            extended: None,
        }
    }

    async fn check_pins(
        &self,
        target: &Target,
        seen: &SeenCards,
    ) -> Result<Option<Arc<PinState>>, CardError> {
        let Some(pins) = &target.pins else {
            return Ok(None);
        };
        let checked = pins.check(seen.clone(), self.env.system_time()).await;
        Ok(Some(Arc::new(checked.map_err(CardError::Pin)?)))
    }

    /// Returns the extended card; `None` where the peer has none or does not return it.
    async fn fetch_extended(
        &self,
        target: &Target,
        card: &Card,
        deadline: tokio::time::Instant,
    ) -> Option<Card> {
        if !card.has_extended_card {
            return None;
        }
        let options = CallOptions::default();
        let peer = self.directory.open(&target.peer_config, card, &options);
        let peer = peer.ok()?;
        let timeout = deadline.saturating_duration_since(tokio::time::Instant::now());
        let card = tokio::time::timeout(EXTENDED_WAIT.min(timeout / 2), peer.card()).await;
        card.ok()?.ok()
    }

    fn cached_if_fresh(&self, slot: &Slot) -> Option<FetchedCard> {
        let cached = slot.cached.lock();
        let cached = cached
            .as_ref()
            .filter(|cached| self.env.now() < cached.fresh_until)?;
        Some(cached.known.clone())
    }

    fn slot(&self, target: &Target) -> Arc<Slot> {
        // An agent may show one person what another must not see.
        let credential = target.peer_config.credential.as_ref();
        let key = match credential.and_then(|credential| credential.user()) {
            Some(user) => format!("{} {user}", target.card_key).into(),
            None => Arc::clone(&target.card_key),
        };
        let mut slots = self.slots.lock();
        Arc::clone(slots.get_or_insert(key, Arc::default))
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

fn no_card_to_confirm() -> PeerError {
    let message = "the peer answered 304 Not Modified though no card of it is known";
    PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered()
}

fn refresh_timeout() -> PeerError {
    let message = "the agent card did not arrive in time";
    PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered()
}

#[cfg(test)]
mod tests;
