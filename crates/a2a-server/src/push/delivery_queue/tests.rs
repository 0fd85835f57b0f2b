#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use a2a::v1_0::TaskPushNotificationConfig;
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::*;
use a2a::Version;

/// A notification of a client of its own for each host.
fn delivery(config: &str, host: &str, body: &'static str) -> PushNotification {
    delivery_of(host, config, host, body)
}

fn delivery_of(client: &str, config: &str, host: &str, body: &'static str) -> PushNotification {
    let config = TaskPushNotificationConfig {
        url: format!("https://{host}/{config}"),
        id: Some(config.to_owned()),
        task_id: "t1".to_owned(),
        token: None,
        authentication: None,
        tenant: None,
    };
    let body = Bytes::from_static(body.as_bytes());
    let token = CancellationToken::new();
    PushNotification::new(&config, Version::V1_0, client.into(), body, token).unwrap()
}

fn address(config: &str) -> ConfigKey {
    ConfigKey {
        task_id: "t1".to_owned(),
        config_id: config.to_owned(),
    }
}

fn bodies(deliveries: &[PushNotification]) -> Vec<&[u8]> {
    deliveries
        .iter()
        .map(|delivery| &delivery.body[..])
        .collect()
}

fn pop(queues: &DeliveryQueues, config: &str) -> Option<Bytes> {
    queues.pop(&address(config)).map(|next| next.body)
}

#[test]
fn queue_starts_once_and_ends_when_empty() {
    let queues = DeliveryQueues::new(100, 1000, true);
    assert!(queues.push(delivery("w1", "a.test", "1")).is_first);
    assert!(!queues.push(delivery("w1", "a.test", "2")).is_first);
    assert_eq!(pop(&queues, "w1").as_deref(), Some(&b"1"[..]));
    assert_eq!(pop(&queues, "w1").as_deref(), Some(&b"2"[..]));
    // The second notification is in flight, so the next one joins the same queue.
    assert!(!queues.push(delivery("w1", "a.test", "3")).is_first);
    assert_eq!(pop(&queues, "w1").as_deref(), Some(&b"3"[..]));
    assert_eq!(pop(&queues, "w1"), None);
    assert!(queues.push(delivery("w1", "a.test", "4")).is_first);
}

#[test]
fn delivery_in_flight_counts_until_next_pop() {
    let queues = DeliveryQueues::new(100, 1000, true);
    queues.push(delivery("w1", "a.test", "1"));
    pop(&queues, "w1");
    assert_eq!(queues.waiting(), 1);
    pop(&queues, "w1");
    assert_eq!(queues.waiting(), 0);
}

#[test]
fn full_queue_drops_its_own_oldest() {
    let queues = DeliveryQueues::new(8, 1000, true);
    queues.push(delivery("w1", "a.test", "1"));
    queues.push(delivery("w1", "a.test", "2"));
    let put = queues.push(delivery("w1", "a.test", "3"));
    assert_eq!(bodies(&put.dropped), [b"1"]);
    assert_eq!(pop(&queues, "w1").as_deref(), Some(&b"2"[..]));
}

#[test]
fn origin_uses_at_most_half_of_capacity() {
    let queues = DeliveryQueues::new(4, 1000, true);
    queues.push(delivery_of("ada", "w1", "a.test", "1"));
    queues.push(delivery_of("bob", "w2", "a.test", "2"));
    let third = queues.push(delivery_of("eve", "w3", "a.test", "3"));
    assert_eq!(bodies(&third.dropped), [b"3"]);
    assert!(!third.is_first);
    let other = queues.push(delivery("w4", "b.test", "4"));
    assert!(other.is_first && other.dropped.is_empty());
}

#[test]
fn client_uses_at_most_half_of_capacity_whatever_its_origins() {
    let queues = DeliveryQueues::new(4, 1000, true);
    queues.push(delivery_of("ada", "w1", "a.test", "1"));
    queues.push(delivery_of("ada", "w2", "b.test", "2"));
    let third = queues.push(delivery_of("ada", "w3", "c.test", "3"));
    assert_eq!(bodies(&third.dropped), [b"3"]);
    let other = queues.push(delivery_of("bob", "w4", "a.test", "4"));
    assert!(other.is_first && other.dropped.is_empty());
}

#[test]
fn client_leaves_half_of_an_origin_to_others() {
    for (limit, deliveries, bytes) in [("number", 8, 1000), ("bytes", 100, 8)] {
        let queues = DeliveryQueues::new(deliveries, bytes, true);
        for config in ["w1", "w2"] {
            let put = queues.push(delivery_of("ada", config, "a.test", "1"));
            assert!(put.dropped.is_empty(), "{limit}: {config}");
        }
        let third = queues.push(delivery_of("ada", "w3", "a.test", "2"));
        assert_eq!(bodies(&third.dropped), [b"2"], "{limit}");
        for config in ["w4", "w5"] {
            let put = queues.push(delivery_of("bob", config, "a.test", "3"));
            assert!(put.dropped.is_empty(), "{limit}: {config}");
        }
        let elsewhere = queues.push(delivery_of("ada", "w6", "b.test", "4"));
        assert!(elsewhere.dropped.is_empty(), "{limit}");
    }
}

#[tokio::test]
async fn only_client_may_use_all_that_its_origins_may() {
    let queues = DeliveryQueues::new(8, 1000, false);
    for (config, host) in [
        ("w1", "a.test"),
        ("w2", "a.test"),
        ("w3", "a.test"),
        ("w4", "a.test"),
        ("w5", "b.test"),
        ("w6", "b.test"),
        ("w7", "b.test"),
        ("w8", "b.test"),
    ] {
        let put = queues.push(delivery_of("ada", config, host, "1"));
        assert!(put.dropped.is_empty(), "{config}");
    }
    let [ada, origin]: [Arc<str>; 2] = ["ada", "https://a.test"].map(Arc::from);
    let mut held = Vec::new();
    for _ in 0..MAX_PER_ORIGIN {
        held.push(queues.acquire(&ada, &origin).now_or_never().unwrap());
    }
    assert!(queues.acquire(&ada, &origin).now_or_never().is_none());
}

#[tokio::test]
async fn requests_of_one_client_leave_permits_of_an_origin_to_others() {
    let queues = DeliveryQueues::new(100, 1000, true);
    let [ada, bob, origin]: [Arc<str>; 3] = ["ada", "bob", "https://a.test"].map(Arc::from);
    let mut held = Vec::new();
    for _ in 0..MAX_PER_CLIENT_AND_ORIGIN {
        held.push(queues.acquire(&ada, &origin).await);
    }
    assert!(queues.acquire(&ada, &origin).now_or_never().is_none());
    assert!(queues.acquire(&bob, &origin).now_or_never().is_some());
    held.pop();
    assert!(queues.acquire(&ada, &origin).now_or_never().is_some());
}

#[test]
fn large_delivery_drops_as_many_as_needed() {
    let queues = DeliveryQueues::new(100, 40, true);
    queues.push(delivery("w1", "a.test", "1234"));
    queues.push(delivery("w1", "a.test", "5678"));
    let put = queues.push(delivery("w1", "a.test", "123456789"));
    assert_eq!(put.dropped.len(), 2);
    assert_eq!(pop(&queues, "w1").as_deref(), Some(&b"123456789"[..]));
}

#[test]
fn delivery_beyond_capacity_is_dropped() {
    let queues = DeliveryQueues::new(100, 16, true);
    queues.push(delivery("w1", "a.test", "1234"));
    let put = queues.push(delivery("w1", "a.test", "12345"));
    assert_eq!(bodies(&put.dropped), [b"12345"]);
    assert_eq!(queues.waiting(), 1);
}

#[test]
fn returned_delivery_comes_first() {
    let queues = DeliveryQueues::new(100, 1000, true);
    queues.push(delivery("w1", "a.test", "1"));
    queues.push(delivery("w1", "a.test", "2"));
    let first = queues.pop(&address("w1")).unwrap();
    queues.push_front(first);
    assert_eq!(bodies(&queues.drain()), [b"1", b"2"]);
    assert_eq!(queues.waiting(), 0);
}
