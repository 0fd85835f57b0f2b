#![allow(clippy::unwrap_used)]
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::join_all;
use serde_json::json;

use super::*;
use crate::config::Config;
use crate::targets::{Catalog, for_user};
use a2a::{CardView, Reply, SendRequest, Task};
use base::environment::SystemEnvironment;
use peer::{EventStream, NegotiatedProtocol, Peer, PeerConfig};

fn card(has_extended_card: bool) -> Card {
    Card {
        has_extended_card,
        ..Card::new(Vec::new(), CardView::default())
    }
}

/// A peer that serves its card once, with a lifetime of zero, and then does not answer.
#[derive(Default)]
struct Once(AtomicUsize);

#[async_trait]
impl PeerProvider for Once {
    async fn discover(
        &self,
        _: &PeerConfig,
        _: Option<&CardEtag>,
    ) -> Result<Discovered, PeerError> {
        if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
            return pending().await;
        }
        Ok(Discovered::Card {
            card: Box::new(card(false)),
            validator: None,
            max_age: Some(Duration::ZERO),
            date: None,
        })
    }

    fn open(
        &self,
        _: &PeerConfig,
        _: &Card,
        _: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        unreachable!()
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_of_silent_peer_get_stale_card() {
    let config =
        json!({"targets": [{"alias": "a", "baseUrl": "https://x.example/", "pins": "off"}]});
    let catalog = Catalog::new(&Config::parse(&config.to_string()).unwrap()).unwrap();
    let target = &catalog.targets()[0];
    let cache = CardCache::new(
        Arc::<Once>::default(),
        Arc::new(SystemEnvironment),
        Duration::from_mins(5),
        1,
    );
    let timeout = Duration::from_secs(25);
    assert!(cache.get(target, timeout).await.unwrap().stale.is_none());
    let all = join_all((0..10).map(|_| cache.get(target, timeout)));
    let all = tokio::time::timeout(REFRESH_WAIT * 3, all).await.unwrap();
    assert!(all.into_iter().all(|card| card.unwrap().stale.is_some()));
}

/// A peer whose card has a lifetime of zero and never changes. Counts the requests for its extended card.
#[derive(Default)]
struct Unchanging {
    discoveries: AtomicUsize,
    extended_requests: Arc<AtomicUsize>,
}

#[async_trait]
impl PeerProvider for Unchanging {
    async fn discover(
        &self,
        _: &PeerConfig,
        validator: Option<&CardEtag>,
    ) -> Result<Discovered, PeerError> {
        let max_age = Some(Duration::ZERO);
        self.discoveries.fetch_add(1, Ordering::Relaxed);
        let discovered = match validator {
            None => Discovered::Card {
                card: Box::new(card(true)),
                validator: Some(CardEtag {
                    url: "https://x.example/card".parse().unwrap(),
                    etag: http::HeaderValue::from_static("\"1\""),
                }),
                max_age,
                date: None,
            },
            Some(_) => Discovered::Unchanged {
                max_age,
                date: None,
            },
        };
        Ok(discovered)
    }

    fn open(
        &self,
        _: &PeerConfig,
        _: &Card,
        _: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        Ok(Box::new(ExtendedCard(Arc::clone(&self.extended_requests))))
    }
}

/// A peer that only has an extended card.
struct ExtendedCard(Arc<AtomicUsize>);

#[async_trait]
impl Peer for ExtendedCard {
    async fn card(&self) -> Result<Card, PeerError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let view = CardView {
            name: Some("extended".to_owned()),
            ..CardView::default()
        };
        let card = Card {
            view: Ok(view),
            ..card(true)
        };
        Ok(card)
    }

    fn protocol(&self) -> NegotiatedProtocol {
        unreachable!()
    }

    async fn send(&self, _: &SendRequest) -> Result<Reply, PeerError> {
        unreachable!()
    }

    async fn stream(&self, _: &SendRequest) -> Result<Box<dyn EventStream>, PeerError> {
        unreachable!()
    }

    async fn get_task(&self, _: &str, _: Option<u64>) -> Result<Task, PeerError> {
        unreachable!()
    }

    async fn cancel(&self, _: &str) -> Result<Task, PeerError> {
        unreachable!()
    }

    async fn resubscribe(&self, _: &str) -> Result<Box<dyn EventStream>, PeerError> {
        unreachable!()
    }
}

#[tokio::test]
async fn unchanged_card_keeps_its_extended_card() {
    let config =
        json!({"targets": [{"alias": "a", "baseUrl": "https://x.example/", "pins": "off"}]});
    let catalog = Catalog::new(&Config::parse(&config.to_string()).unwrap()).unwrap();
    let peer = Arc::new(Unchanging::default());
    let ttl = Duration::from_mins(5);
    let cache = CardCache::new(Arc::clone(&peer) as _, Arc::new(SystemEnvironment), ttl, 1);
    for _ in 0..3 {
        let fetched = cache.get(&catalog.targets()[0], ttl).await.unwrap();
        let view = fetched.card.view.as_ref().unwrap();
        assert_eq!(view.name.as_deref(), Some("extended"));
    }
    assert_eq!(peer.discoveries.load(Ordering::Relaxed), 3);
    assert_eq!(peer.extended_requests.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn card_of_one_person_is_shown_to_no_other() {
    let auth = json!({"type": "oauth2", "grant": "device_code", "issuer": "https://as.example", "clientId": "a", "per": "user"});
    let target =
        json!({"alias": "a", "baseUrl": "https://x.example/", "pins": "off", "auth": auth});
    let config = json!({"stateDir": "/nowhere", "targets": [target]});
    let catalog = Catalog::new(&Config::parse(&config.to_string()).unwrap()).unwrap();
    let peer = Arc::new(Unchanging::default());
    let ttl = Duration::from_mins(5);
    let cache = CardCache::new(Arc::clone(&peer) as _, Arc::new(SystemEnvironment), ttl, 1);
    for user in [Some("anna"), Some("bob"), None, Some("anna")] {
        let target = for_user(&catalog.targets()[0], user);
        cache.get(&target, ttl).await.unwrap();
    }
    assert_eq!(peer.extended_requests.load(Ordering::Relaxed), 3);
}

#[test]
fn clocks_a_minute_apart_agree() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
    let minute = Duration::from_mins(1);
    assert_eq!(clock_skew(now + minute, now), None);
    assert_eq!(clock_skew(now - minute, now), None);
    assert_eq!(clock_skew(now + minute * 2, now), Some(120));
    assert_eq!(clock_skew(now - minute * 3, now), Some(-180));
}
