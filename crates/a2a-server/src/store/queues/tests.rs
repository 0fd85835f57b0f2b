#![allow(clippy::unwrap_used)]

use futures_util::FutureExt;

use super::Queues;

#[tokio::test]
async fn who_enters_first_has_the_turn_first_whoever_asks_first() {
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
async fn who_leaves_while_waiting_lets_the_next_one_in() {
    let queues = Queues::default();
    let semaphore = queues.enqueue("a").await.unwrap();
    let gone = queues.enqueue("a");
    let waits = queues.enqueue("a");
    drop(gone);
    drop(semaphore);
    waits.await.unwrap();
}

#[tokio::test]
async fn other_queues_do_not_wait() {
    let queues = Queues::default();
    let _turn = queues.enqueue("a").await.unwrap();
    queues.enqueue("b").await.unwrap();
}

#[tokio::test]
async fn an_empty_queue_is_forgotten() {
    let queues = Queues::default();
    let semaphore = queues.enqueue("a").await.unwrap();
    let waits = queues.enqueue("a");
    assert_eq!(queues.len(), 1);
    drop(waits);
    drop(semaphore);
    assert!(queues.is_empty());
}
