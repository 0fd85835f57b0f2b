#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

const NORMAL: Close = Close {
    code: CloseCode::Normal,
    reason: "",
};

fn outbox(most: usize, in_all: usize) -> (Outbox, Arc<Load>) {
    let load = Load::new(in_all);
    (Outbox::new(most, Arc::clone(&load)), load)
}

fn texts(items: Vec<Item>) -> Vec<String> {
    let text = |item| match item {
        Item::Text(text) | Item::Perishable(text, ..) => text.to_string(),
        Item::Ping => "ping".to_owned(),
    };
    items.into_iter().map(text).collect()
}

async fn write(outbox: &Outbox, bytes: usize) -> Vec<String> {
    match outbox.next(bytes, Instant::now).await {
        Next::Write(items) => texts(items),
        Next::Close(close) => panic!("{close:?}"),
    }
}

#[tokio::test]
async fn what_is_put_in_is_written_in_order_and_in_pieces() {
    let (outbox, _) = outbox(10_000, 10_000);
    for text in ["a", "b", "c"] {
        outbox.text(text.to_owned()).unwrap();
    }
    assert_eq!(write(&outbox, 2 * (OVERHEAD + 1)).await, ["a", "b"]);
    outbox.written();
    assert_eq!(write(&outbox, 1).await, ["c"]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let (outbox, load) = outbox(2 * (OVERHEAD + 10), 10_000);
    outbox.text("0123456789".to_owned()).unwrap();
    outbox.text("0123456789".to_owned()).unwrap();
    assert_eq!(outbox.text("x".to_owned()), Err(EnqueueError::Full));
    assert_eq!(load.queued(), 2 * (OVERHEAD + 10));
}

#[test]
fn one_message_fits_however_large() {
    let (outbox, _) = outbox(10, 10_000);
    outbox.text("x".repeat(1_000)).unwrap();
    assert_eq!(outbox.text("y".to_owned()), Err(EnqueueError::Full));
}

#[test]
fn all_outboxes_together_are_bounded() {
    let load = Load::new(OVERHEAD + 5);
    let one = Outbox::new(10_000, Arc::clone(&load));
    let two = Outbox::new(10_000, Arc::clone(&load));
    one.text("12345".to_owned()).unwrap();
    assert_eq!(two.text("x".to_owned()), Err(EnqueueError::Full));
    one.gone();
    two.text("x".to_owned()).unwrap();
}

#[tokio::test]
async fn what_is_being_written_still_counts() {
    let (outbox, load) = outbox(OVERHEAD + 10, 10_000);
    outbox.text("0123456789".to_owned()).unwrap();
    write(&outbox, usize::MAX).await;
    assert_eq!(outbox.text("x".to_owned()), Err(EnqueueError::Full));
    assert!(outbox.writing_since().is_some());
    outbox.written();
    assert!(outbox.writing_since().is_none());
    assert_eq!(load.queued(), 0);
}

#[tokio::test]
async fn the_end_comes_behind_what_was_put_in() {
    let (outbox, _) = outbox(10_000, 10_000);
    outbox.text("last".to_owned()).unwrap();
    outbox.finish(NORMAL);
    assert_eq!(outbox.text("late".to_owned()), Err(EnqueueError::Gone));
    assert_eq!(write(&outbox, usize::MAX).await, ["last"]);
    outbox.written();
    let next = outbox.next(usize::MAX, Instant::now).await;
    assert!(matches!(next, Next::Close(close) if close == NORMAL));
}

#[tokio::test]
async fn a_cut_forgets_what_waits() {
    let (outbox, load) = outbox(10_000, 10_000);
    outbox.text("never read".to_owned()).unwrap();
    outbox.cut_short(NORMAL);
    let next = outbox.next(usize::MAX, Instant::now).await;
    assert!(matches!(next, Next::Close(_)));
    assert_eq!(load.queued(), 0);
}

#[tokio::test]
async fn an_answer_waits_for_room() {
    let (outbox, _) = outbox(OVERHEAD + 1, 10_000);
    outbox.text("1".to_owned()).unwrap();
    let answer = outbox.answer("2".into());
    tokio::pin!(answer);
    assert!(futures_util::poll!(&mut answer).is_pending());
    write(&outbox, usize::MAX).await;
    outbox.written();
    answer.await.unwrap();
    assert_eq!(outbox.drain(), ["2"]);
}

#[tokio::test]
async fn nobody_waits_for_room_in_the_outbox_of_who_is_gone() {
    let (outbox, _) = outbox(OVERHEAD + 1, 10_000);
    outbox.text("1".to_owned()).unwrap();
    let answer = outbox.answer("2".into());
    tokio::pin!(answer);
    assert!(futures_util::poll!(&mut answer).is_pending());
    outbox.gone();
    assert_eq!(answer.await, Err(EnqueueError::Gone));
}

#[tokio::test]
async fn an_answer_is_taken_though_others_hold_all_there_is() {
    let load = Load::new(OVERHEAD + 5);
    let full = Outbox::new(10_000, Arc::clone(&load));
    let reads = Outbox::new(10_000, Arc::clone(&load));
    full.text("12345".to_owned()).unwrap();
    reads.answer("answer".into()).await.unwrap();
    assert_eq!(reads.drain(), ["answer"]);
}

#[tokio::test]
async fn what_has_left_is_told_from_what_still_waits() {
    let (outbox, _) = outbox(10_000, 10_000);
    for text in ["written", "being written", "waits"] {
        outbox.text(text.to_owned()).unwrap();
    }
    write(&outbox, 1).await;
    outbox.written();
    write(&outbox, 1).await;
    outbox.gone();
    assert!(outbox.may_have_left(1) && outbox.may_have_left(2) && !outbox.may_have_left(3));
}
