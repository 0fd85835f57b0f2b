#![allow(clippy::unwrap_used)]

use std::convert::Infallible;

use futures_util::stream;

use super::*;

fn client(name: &str) -> Payer {
    Payer::Client(name.into())
}

/// A body that arrives in these pieces.
fn pieces(pieces: &[usize]) -> Body {
    let pieces = pieces.iter().map(|length| vec![b'x'; *length]);
    let pieces = pieces.map(Ok::<_, Infallible>).collect::<Vec<_>>();
    Body::from_stream(stream::iter(pieces))
}

const KIB: usize = 1 << 10;

#[tokio::test]
async fn room_is_taken_as_bytes_arrive_and_given_back() {
    let budget = BodyBudget::new(100 * KIB, 100 * KIB);
    let ada = client("ada");
    let small = budget.read(ada.clone(), pieces(&[1]), 50 * KIB).await;
    assert_eq!(budget.locked().all, FIRST_CAPACITY);
    let large = budget.read(ada, pieces(&[KIB; 20]), 50 * KIB).await;
    assert_eq!(large.as_ref().unwrap().len(), 20 * KIB);
    assert_eq!(budget.locked().all, 40 * KIB);
    drop((small, large));
    assert_eq!(budget.locked().all, 0);
    assert!(budget.locked().clients.is_empty());
}

#[tokio::test]
async fn body_takes_no_more_room_than_it_may_have() {
    let budget = BodyBudget::new(100 * KIB, 100 * KIB);
    let read = budget.read(client("ada"), pieces(&[5, 5]), 10).await;
    assert_eq!(
        (read.as_ref().unwrap().len(), budget.locked().all),
        (10, 10)
    );
    drop(read);
    let refused = budget.read(client("ada"), pieces(&[5, 6]), 10).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::PayloadTooLarge);
    assert_eq!(budget.locked().all, 0);
}

#[tokio::test]
async fn share_and_total_are_refused_each_with_its_reason() {
    let budget = BodyBudget::new(50 * KIB, 40 * KIB);
    let ada = client("ada");
    let held = budget
        .read(ada.clone(), pieces(&[30 * KIB]), 30 * KIB)
        .await;
    let own = budget.read(ada, pieces(&[11 * KIB]), 20 * KIB).await;
    assert_eq!(own.unwrap_err().reason, ErrorReason::ResourceExhausted);
    let other = budget.read(client("bob"), pieces(&[21 * KIB]), 30 * KIB);
    let refusal = other.await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::Unavailable);
    assert_eq!(refusal.retry_after_s, Some(1));
    let fits = budget
        .read(client("bob"), pieces(&[20 * KIB]), 20 * KIB)
        .await;
    assert!(held.is_ok() && fits.is_ok());
}

#[tokio::test]
async fn body_that_breaks_off_is_told_apart_from_a_large_one() {
    let broken = stream::iter([Ok(vec![b'x']), Err(std::io::Error::other("cut"))]);
    let budget = BodyBudget::new(KIB, KIB);
    let read = budget.read(client("ada"), Body::from_stream(broken), KIB);
    assert_eq!(read.await.unwrap_err().reason, ErrorReason::InvalidRequest);
    assert_eq!(budget.locked().all, 0);
}
