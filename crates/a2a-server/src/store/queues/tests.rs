#![allow(clippy::unwrap_used)]

use futures_util::FutureExt;

use super::Queues;

#[tokio::test]
async fn first_ticket_has_first_turn() {
    let queues = Queues::default();
    let first = queues.enqueue("a");
    let second = queues.enqueue("a");
    let mut third = queues.enqueue("a");
    assert!(third.as_mut().now_or_never().is_none());
    let semaphore = first.await.unwrap();
    assert!(third.as_mut().now_or_never().is_none());
    drop(semaphore);
    assert!(third.as_mut().now_or_never().is_none());
    drop(second.await.unwrap());
    third.await.unwrap();
}

#[tokio::test]
async fn dropped_waiter_admits_the_next() {
    let queues = Queues::default();
    let semaphore = queues.enqueue("a").await.unwrap();
    let gone = queues.enqueue("a");
    let waits = queues.enqueue("a");
    drop(gone);
    drop(semaphore);
    waits.await.unwrap();
}

#[tokio::test]
async fn queues_are_independent_of_each_other() {
    let queues = Queues::default();
    let _turn = queues.enqueue("a").await.unwrap();
    queues.enqueue("b").await.unwrap();
}

#[tokio::test]
async fn empty_queue_is_removed() {
    let queues = Queues::default();
    let semaphore = queues.enqueue("a").await.unwrap();
    let waits = queues.enqueue("a");
    assert_eq!(queues.len(), 1);
    drop(waits);
    drop(semaphore);
    assert!(queues.is_empty());
}
