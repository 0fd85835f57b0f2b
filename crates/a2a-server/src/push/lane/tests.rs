#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use a2a::TaskPushNotificationConfig;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::caller::Version;

fn letter(config: &str, host: &str, body: &'static str) -> Letter {
    let config = TaskPushNotificationConfig {
        url: format!("https://{host}/{config}"),
        id: Some(config.to_owned()),
        task_id: "t1".to_owned(),
        token: None,
        authentication: None,
        tenant: None,
    };
    let body = Bytes::from_static(body.as_bytes());
    Letter::new(&config, Version::V1, body, CancellationToken::new()).unwrap()
}

fn address(config: &str) -> Address {
    Address {
        task_id: "t1".to_owned(),
        config_id: config.to_owned(),
    }
}

fn room(letters: usize, bytes: usize) -> Lanes {
    Lanes::new(Room { letters, bytes })
}

fn bodies(letters: &[Letter]) -> Vec<&[u8]> {
    letters.iter().map(|letter| &letter.body[..]).collect()
}

fn next(lanes: &Lanes, config: &str) -> Option<Bytes> {
    lanes.next(&address(config)).map(|next| next.letter.body)
}

#[test]
fn a_lane_begins_once_and_ends_when_it_is_empty() {
    let lanes = room(100, 1000);
    assert!(lanes.put(letter("w1", "a.test", "1")).begins);
    assert!(!lanes.put(letter("w1", "a.test", "2")).begins);
    assert_eq!(next(&lanes, "w1").as_deref(), Some(&b"1"[..]));
    assert_eq!(next(&lanes, "w1").as_deref(), Some(&b"2"[..]));
    // The second is under way: what comes now joins the same lane.
    assert!(!lanes.put(letter("w1", "a.test", "3")).begins);
    assert_eq!(next(&lanes, "w1").as_deref(), Some(&b"3"[..]));
    assert_eq!(next(&lanes, "w1"), None);
    assert!(lanes.put(letter("w1", "a.test", "4")).begins);
}

#[test]
fn what_is_under_way_counts_until_the_next_is_asked_for() {
    let lanes = room(100, 1000);
    lanes.put(letter("w1", "a.test", "1"));
    next(&lanes, "w1");
    assert_eq!(lanes.waiting(), 1);
    next(&lanes, "w1");
    assert_eq!(lanes.waiting(), 0);
    assert!(lanes.state().origins.is_empty());
}

#[test]
fn without_room_the_oldest_of_the_same_lane_goes() {
    let lanes = room(4, 1000);
    lanes.put(letter("w1", "a.test", "1"));
    lanes.put(letter("w1", "a.test", "2"));
    let put = lanes.put(letter("w1", "a.test", "3"));
    assert_eq!(bodies(&put.dropped), [b"1"]);
    assert_eq!(next(&lanes, "w1").as_deref(), Some(&b"2"[..]));
}

#[test]
fn one_origin_takes_half_of_the_room_at_most() {
    let lanes = room(4, 1000);
    lanes.put(letter("w1", "a.test", "1"));
    lanes.put(letter("w2", "a.test", "2"));
    let third = lanes.put(letter("w3", "a.test", "3"));
    assert_eq!(bodies(&third.dropped), [b"3"]);
    assert!(!third.begins);
    let other = lanes.put(letter("w4", "b.test", "4"));
    assert!(other.begins && other.dropped.is_empty());
}

#[test]
fn without_room_for_its_bytes_as_many_go_as_it_needs() {
    let lanes = room(100, 20);
    lanes.put(letter("w1", "a.test", "1234"));
    lanes.put(letter("w1", "a.test", "5678"));
    let put = lanes.put(letter("w1", "a.test", "123456789"));
    assert_eq!(put.dropped.len(), 2);
    assert_eq!(next(&lanes, "w1").as_deref(), Some(&b"123456789"[..]));
}

#[test]
fn what_is_larger_than_the_room_is_not_taken() {
    let lanes = room(100, 8);
    let put = lanes.put(letter("w1", "a.test", "12345"));
    assert_eq!((put.dropped.len(), lanes.waiting()), (1, 0));
}

#[test]
fn what_is_put_back_comes_first() {
    let lanes = room(100, 1000);
    lanes.put(letter("w1", "a.test", "1"));
    lanes.put(letter("w1", "a.test", "2"));
    let first = lanes.next(&address("w1")).unwrap();
    lanes.put_back(first.letter);
    assert_eq!(bodies(&lanes.empty()), [b"1", b"2"]);
    assert_eq!(lanes.waiting(), 0);
}
