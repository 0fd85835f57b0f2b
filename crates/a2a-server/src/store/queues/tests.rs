#![allow(clippy::unwrap_used)]

use futures_util::FutureExt;

use super::Queues;

#[tokio::test]
async fn who_enters_first_has_the_turn_first_whoever_asks_first() {
    let queues = Queues::default();
    let first = queues.enter("a");
    let second = queues.enter("a");
    let mut third = queues.enter("a");
    assert!(third.as_mut().now_or_never().is_none());
    let turn = first.await.unwrap();
    assert!(third.as_mut().now_or_never().is_none());
    drop(turn);
    assert!(third.as_mut().now_or_never().is_none());
    drop(second.await.unwrap());
    third.await.unwrap();
}

#[tokio::test]
async fn who_leaves_while_waiting_lets_the_next_one_in() {
    let queues = Queues::default();
    let turn = queues.enter("a").await.unwrap();
    let gone = queues.enter("a");
    let waits = queues.enter("a");
    drop(gone);
    drop(turn);
    waits.await.unwrap();
}

#[tokio::test]
async fn other_queues_do_not_wait() {
    let queues = Queues::default();
    let _turn = queues.enter("a").await.unwrap();
    queues.enter("b").await.unwrap();
}

#[tokio::test]
async fn an_empty_queue_is_forgotten() {
    let queues = Queues::default();
    let turn = queues.enter("a").await.unwrap();
    let waits = queues.enter("a");
    assert_eq!(queues.len(), 1);
    drop(waits);
    drop(turn);
    assert!(queues.is_empty());
}
