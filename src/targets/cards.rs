//! The cache of agent cards.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lru::LruCache;

use a2a::Card;
use common::environment::Environment;
use peer::{CallOptions, Directory, Discovered, PeerError, PeerErrorKind, Validator};

use super::Target;

/// Cards of so many peers are kept; requests may name any number of URLs.
const KEPT: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// The extended card is worth this long a wait, and no more than half of the call's time: what the plain card says is
/// enough to go on.
const EXTENDED_WAIT: Duration = Duration::from_secs(5);

/// No card is used longer than this without asking again, whatever its peer says.
const LONGEST_USE: Duration = Duration::from_hours(24);

/// So long a known card is kept waiting for the new one before it is used instead.
const REFRESH_WAIT: Duration = Duration::from_secs(3);

/// A card and when it was read.
#[derive(Debug, Clone)]
pub struct KnownCard {
    /// The card.
    pub card: Arc<Card>,
    /// When it was last read or confirmed.
    pub refreshed: SystemTime,
    /// Why the last attempt to read it anew failed, where the peer's old card is used instead.
    pub stale: Option<PeerError>,
}

/// The cache. One fetch a card is under way at a time, whoever waits for it; a failure is not remembered.
pub struct CardCache {
    directory: Arc<dyn Directory>,
    env: Arc<dyn Environment>,
    ttl: Duration,
    slots: Mutex<LruCache<Arc<str>, Arc<Slot>>>,
}

#[derive(Default)]
struct Slot {
    kept: Mutex<Option<Kept>>,
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Kept {
    known: KnownCard,
    validator: Option<Validator>,
    fresh_until: Instant,
}

impl Kept {
    /// The card, for want of a newer one.
    fn stale(mut self, why: PeerError) -> KnownCard {
        self.known.stale = Some(why);
        self.known
    }
}

impl CardCache {
    /// A cache of what `directory` finds, with room for the cards of all configured `targets` at least. `ttl` is how long a
    /// card holds when its peer does not say.
    pub fn new(
        directory: Arc<dyn Directory>,
        env: Arc<dyn Environment>,
        ttl: Duration,
        targets: usize,
    ) -> Self {
        Self {
            directory,
            env,
            ttl,
            slots: Mutex::new(LruCache::new(KEPT.saturating_add(targets))),
        }
    }

    /// The target's card: the kept one while it is fresh, else a new one, else, where that fails, the old one. `left` is how
    /// much time the call has, which is not to be spent on cards alone.
    ///
    /// A peer's extended card takes the place of its plain one. It is asked for once for each plain card, and where it does
    /// not come the plain one is kept.
    ///
    /// # Errors
    /// Why there is no card at all.
    pub async fn get(&self, target: &Target, left: Duration) -> Result<KnownCard, PeerError> {
        let slot = self.slot(target);
        if let Some(known) = self.fresh(&slot) {
            return Ok(known);
        }
        // Boxed: it is large, most calls find a fresh card, and every call would carry it about.
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
            // Everybody in turn would be kept waiting by a peer that is silent.
            Some(kept) => match tokio::time::timeout(REFRESH_WAIT, turn).await {
                Ok(turn) => turn,
                Err(_) => return Ok(kept.stale(late())),
            },
        };
        // Somebody else may have fetched it while we waited.
        if let Some(known) = self.fresh(slot) {
            return Ok(known);
        }
        let old = lock(&slot.kept).clone();
        let validator = old.as_ref().and_then(|kept| kept.validator.as_ref());
        let (card, validator, max_age) = match self.look(target, validator, old.is_some()).await {
            Ok(Discovered::Card {
                card,
                validator,
                max_age,
            }) => {
                let card = self.extended(target, *card, deadline).await;
                (Arc::new(card), validator, max_age)
            }
            Ok(Discovered::Unchanged { max_age }) => match old {
                Some(kept) => (kept.known.card, kept.validator, max_age),
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
        let known = KnownCard {
            card,
            refreshed: self.env.system_time(),
            stale: None,
        };
        let fresh_until = self.env.now() + max_age.unwrap_or(self.ttl).min(LONGEST_USE);
        *lock(&slot.kept) = Some(Kept {
            known: known.clone(),
            validator,
            fresh_until,
        });
        Ok(known)
    }

    /// Looks for the card; not for long where there is an old one to fall back on.
    async fn look(
        &self,
        target: &Target,
        validator: Option<&Validator>,
        has_old: bool,
    ) -> Result<Discovered, PeerError> {
        let looking = self.directory.discover(&target.reach, validator);
        if !has_old {
            return looking.await;
        }
        tokio::time::timeout(REFRESH_WAIT, looking)
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    /// The card the peer shows to callers it knows, where it has one and gives it; else `card`.
    async fn extended(&self, target: &Target, card: Card, deadline: tokio::time::Instant) -> Card {
        if !card.has_extended_card {
            return card;
        }
        let Ok(peer) = self
            .directory
            .open(&target.reach, &card, &CallOptions::default())
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

fn late() -> PeerError {
    let message = "the agent card did not come in time";
    PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
