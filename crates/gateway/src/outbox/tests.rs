#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

fn outbox(max_bytes: usize, budget_bytes: usize) -> (Outbox, Arc<ByteBudget>) {
    let budget = ByteBudget::new(budget_bytes);
    (Outbox::new(max_bytes, Arc::clone(&budget)), budget)
}

fn texts(items: Vec<Item>) -> Vec<String> {
    let text = |item| match item {
        Item::Text(text) | Item::Expiring { text, .. } => text.to_string(),
        Item::Ping => "ping".to_owned(),
    };
    items.into_iter().map(text).collect()
}

async fn write(outbox: &Outbox, bytes: usize) -> Vec<String> {
    match outbox.next_batch(bytes, Instant::now).await {
        Next::Write(items) => texts(items),
        Next::Close(close) => panic!("{close:?}"),
    }
}

#[tokio::test]
async fn entries_are_written_in_order_and_in_batches() {
    let (outbox, _) = outbox(10_000, 10_000);
    for text in ["a", "b", "c"] {
        outbox.try_send(text.to_owned()).unwrap();
    }
    assert_eq!(
        write(&outbox, 2 * (ENTRY_OVERHEAD_BYTES + 1)).await,
        ["a", "b"]
    );
    outbox.batch_written();
    assert_eq!(write(&outbox, 1).await, ["c"]);
}

#[test]
fn full_outbox_rejects_messages() {
    let (outbox, budget) = outbox(2 * (ENTRY_OVERHEAD_BYTES + 10), 10_000);
    outbox.try_send("0123456789".to_owned()).unwrap();
    outbox.try_send("0123456789".to_owned()).unwrap();
    assert_eq!(outbox.try_send("x".to_owned()), Err(EnqueueError::Full));
    assert_eq!(budget.queued(), 2 * (ENTRY_OVERHEAD_BYTES + 10));
}

#[test]
fn empty_outbox_accepts_any_size() {
    let (outbox, _) = outbox(10, 10_000);
    outbox.try_send("x".repeat(1_000)).unwrap();
    assert_eq!(outbox.try_send("y".to_owned()), Err(EnqueueError::Full));
}

#[test]
fn byte_budget_bounds_all_outboxes() {
    let budget = ByteBudget::new(ENTRY_OVERHEAD_BYTES + 5);
    let one = Outbox::new(10_000, Arc::clone(&budget));
    let two = Outbox::new(10_000, Arc::clone(&budget));
    one.try_send("12345".to_owned()).unwrap();
    assert_eq!(two.try_send("x".to_owned()), Err(EnqueueError::Full));
    one.abandon();
    two.try_send("x".to_owned()).unwrap();
}

#[tokio::test]
async fn batch_in_writing_counts() {
    let (outbox, budget) = outbox(ENTRY_OVERHEAD_BYTES + 10, 10_000);
    outbox.try_send("0123456789".to_owned()).unwrap();
    write(&outbox, usize::MAX).await;
    assert_eq!(outbox.try_send("x".to_owned()), Err(EnqueueError::Full));
    assert!(outbox.writing_since().is_some());
    outbox.batch_written();
    assert!(outbox.writing_since().is_none());
    assert_eq!(budget.queued(), 0);
}

#[tokio::test]
async fn close_follows_queued_messages() {
    let (outbox, _) = outbox(10_000, 10_000);
    outbox.try_send("last".to_owned()).unwrap();
    outbox.close(Close::NORMAL);
    assert_eq!(
        outbox.try_send("late".to_owned()),
        Err(EnqueueError::Closed)
    );
    assert_eq!(write(&outbox, usize::MAX).await, ["last"]);
    outbox.batch_written();
    let next = outbox.next_batch(usize::MAX, Instant::now).await;
    assert!(matches!(next, Next::Close(close) if close == Close::NORMAL));
}

#[tokio::test]
async fn abort_drops_queued_messages() {
    let (outbox, budget) = outbox(10_000, 10_000);
    outbox.try_send("never read".to_owned()).unwrap();
    outbox.abort(Close::NORMAL);
    let next = outbox.next_batch(usize::MAX, Instant::now).await;
    assert!(matches!(next, Next::Close(_)));
    assert_eq!(budget.queued(), 0);
}

#[tokio::test]
async fn reply_waits_for_room() {
    let (outbox, _) = outbox(ENTRY_OVERHEAD_BYTES + 1, 10_000);
    outbox.try_send("1".to_owned()).unwrap();
    let reply = outbox.send("2".into());
    tokio::pin!(reply);
    assert!(futures_util::poll!(&mut reply).is_pending());
    write(&outbox, usize::MAX).await;
    outbox.batch_written();
    reply.await.unwrap();
    assert_eq!(outbox.drain(), ["2"]);
}

#[tokio::test]
async fn abandoned_outbox_wakes_waiting_sender() {
    let (outbox, _) = outbox(ENTRY_OVERHEAD_BYTES + 1, 10_000);
    outbox.try_send("1".to_owned()).unwrap();
    let reply = outbox.send("2".into());
    tokio::pin!(reply);
    assert!(futures_util::poll!(&mut reply).is_pending());
    outbox.abandon();
    assert_eq!(reply.await, Err(EnqueueError::Closed));
}

#[tokio::test]
async fn reply_exceeds_exhausted_budget() {
    let budget = ByteBudget::new(ENTRY_OVERHEAD_BYTES + 5);
    let full = Outbox::new(10_000, Arc::clone(&budget));
    let reads = Outbox::new(10_000, Arc::clone(&budget));
    full.try_send("12345".to_owned()).unwrap();
    reads.send("answer".into()).await.unwrap();
    assert_eq!(reads.drain(), ["answer"]);
}

#[tokio::test]
async fn written_entries_differ_from_queued_ones() {
    let (outbox, _) = outbox(10_000, 10_000);
    for text in ["written", "being written", "waits"] {
        outbox.try_send(text.to_owned()).unwrap();
    }
    write(&outbox, 1).await;
    outbox.batch_written();
    write(&outbox, 1).await;
    outbox.abandon();
    assert!(outbox.may_be_written(1) && outbox.may_be_written(2) && !outbox.may_be_written(3));
}

/// Returns the outboxes of two clients of one identity, whose budget has room for one entry of 5 bytes.
fn outboxes_of_identity() -> [Outbox; 2] {
    let (budget, share) = (
        ByteBudget::new(10_000),
        ByteBudget::new(ENTRY_OVERHEAD_BYTES + 5),
    );
    [(), ()].map(|()| {
        let outbox = Outbox::new(10_000, Arc::clone(&budget));
        outbox.set_share(Arc::clone(&share));
        outbox
    })
}

#[tokio::test]
async fn identity_exceeds_its_budget_by_one_reply() {
    let [one, two] = outboxes_of_identity();
    one.send("above the budget".into()).await.unwrap();
    {
        let waiting = two.send("waits".into());
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        write(&one, usize::MAX).await;
        one.batch_written();
        waiting.await.unwrap();
    }
    assert_eq!(two.drain(), ["waits"]);
    two.send("above the budget".into()).await.unwrap();
    two.abandon();
    one.send("above the budget".into()).await.unwrap();
}

#[tokio::test]
async fn clients_wait_behind_a_waiting_reply_of_their_identity() {
    let [one, two] = outboxes_of_identity();
    one.send("above the budget".into()).await.unwrap();
    one.wait_for_share().await;
    let mut waiting = Box::pin(two.send("waits".into()));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let read = one.wait_for_share();
    tokio::pin!(read);
    assert!(futures_util::poll!(&mut read).is_pending());
    drop(waiting);
    read.await;
}
