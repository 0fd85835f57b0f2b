#![allow(clippy::unwrap_used)]
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::join_all;
use serde_json::json;

use super::*;
use crate::config::Config;
use crate::targets::Catalog;
use a2a::{CardView, Security};
use base::environment::SystemEnvironment;
use peer::{Peer, PeerConfig};

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
        let card = Card {
            interfaces: Vec::new(),
            streaming: None,
            has_extended_card: false,
            required_extensions: Vec::new(),
            security: Security::default(),
            view: Ok(CardView::default()),
        };
        Ok(Discovered::Card {
            card: Box::new(card),
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
    let config = json!({"targets": [{"alias": "a", "baseUrl": "https://x.example/"}]});
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

#[test]
fn clocks_a_minute_apart_agree() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
    let minute = Duration::from_mins(1);
    assert_eq!(clock_skew(now + minute, now), None);
    assert_eq!(clock_skew(now - minute, now), None);
    assert_eq!(clock_skew(now + minute * 2, now), Some(120));
    assert_eq!(clock_skew(now - minute * 3, now), Some(-180));
}
