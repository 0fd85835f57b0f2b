#![allow(clippy::unwrap_used)]

use super::*;

fn some(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn address(text: &str) -> RateLimitKey {
    RateLimitKey::address(text.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn rate_limit_applies_to_each_client() {
    let rate = RateLimiter::new(some(2), some(3));
    let ada = RateLimitKey::Client("ada".into());
    for _ in 0..3 {
        assert_eq!(rate.check(&ada), Ok(()));
    }
    assert_eq!(rate.check(&ada), Err(Duration::from_millis(500)));
    assert_eq!(rate.check(&RateLimitKey::Client("bob".into())), Ok(()));
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(rate.check(&ada), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn newcomers_share_a_rate_when_table_is_full() {
    let rate = RateLimiter::with_max_addresses(some(1), some(1), 2);
    for known in ["192.0.2.1", "192.0.2.2"] {
        assert_eq!(rate.check(&address(known)), Ok(()));
    }
    assert_eq!(rate.check(&address("192.0.2.3")), Ok(()));
    assert!(rate.check(&address("192.0.2.4")).is_err());
    assert_eq!(rate.addresses.len(), 2);
    tokio::time::advance(Duration::from_secs(3)).await;
    for later in ["192.0.2.5", "192.0.2.6"] {
        assert_eq!(rate.check(&address(later)), Ok(()), "{later}");
    }
}

#[test]
fn ipv6_network_counts_once() {
    assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:2"));
    assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
    assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    assert_ne!(address("192.0.2.1"), address("192.0.2.2"));
}
