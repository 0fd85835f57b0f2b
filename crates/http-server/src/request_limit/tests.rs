#![allow(clippy::unwrap_used)]

use std::convert::Infallible;

use futures_util::stream;

use super::*;

fn client(name: &str) -> RateLimitKey {
    RateLimitKey::Client(name.into())
}

/// Creates a body whose chunks have these sizes.
fn pieces(pieces: &[usize]) -> Body {
    let pieces = pieces.iter().map(|length| vec![b'x'; *length]);
    let pieces = pieces.map(Ok::<_, Infallible>).collect::<Vec<_>>();
    Body::from_stream(stream::iter(pieces))
}

const KIB: usize = 1 << 10;

#[tokio::test]
async fn body_reserves_bytes_as_they_arrive() {
    let budget = KeyedBudget::new(100 * KIB, 100 * KIB);
    let small = collect(budget.empty(client("ada")), pieces(&[1]), 50 * KIB).await;
    assert_eq!(budget.reserved(), INITIAL_CAPACITY);
    let large = collect(budget.empty(client("ada")), pieces(&[KIB; 20]), 50 * KIB).await;
    assert_eq!(large.as_ref().unwrap().len(), 20 * KIB);
    assert_eq!(budget.reserved(), 40 * KIB);
    drop((small, large));
    assert_eq!(budget.reserved(), 0);
}

#[tokio::test]
async fn body_is_bounded_by_its_maximum() {
    let budget = KeyedBudget::new(100 * KIB, 100 * KIB);
    let read = collect(budget.empty(client("ada")), pieces(&[5, 5]), 10).await;
    assert_eq!((read.as_ref().unwrap().len(), budget.reserved()), (10, 10));
    drop(read);
    let refused = collect(budget.empty(client("ada")), pieces(&[5, 6]), 10).await;
    assert_eq!(refused.unwrap_err(), LimitError::BodyTooLarge(10));
    assert_eq!(budget.reserved(), 0);
}

#[tokio::test]
async fn body_beyond_share_or_total_is_rejected() {
    let budget = KeyedBudget::new(50 * KIB, 40 * KIB);
    let filling = collect(budget.empty(client("ada")), pieces(&[30 * KIB]), 30 * KIB).await;
    let own = collect(budget.empty(client("ada")), pieces(&[11 * KIB]), 20 * KIB).await;
    assert_eq!(own.unwrap_err(), LimitError::ClientBodies(40 * KIB));
    let other = collect(budget.empty(client("bob")), pieces(&[21 * KIB]), 30 * KIB).await;
    let error = other.unwrap_err();
    assert_eq!(error, LimitError::TotalBodies);
    assert_eq!(
        (error.status().as_u16(), error.retry_after_s()),
        (503, Some(1))
    );
    let fits = collect(budget.empty(client("bob")), pieces(&[20 * KIB]), 20 * KIB).await;
    assert!(filling.is_ok() && fits.is_ok());
}

#[tokio::test]
async fn truncated_body_is_incomplete() {
    let broken = stream::iter([Ok(vec![b'x']), Err(std::io::Error::other("cut"))]);
    let budget = KeyedBudget::new(KIB, KIB);
    let read = collect(budget.empty(client("ada")), Body::from_stream(broken), KIB);
    assert_eq!(read.await.unwrap_err(), LimitError::BodyIncomplete);
    assert_eq!(budget.reserved(), 0);
}

fn limiter() -> RequestLimiter {
    RequestLimiter::new(HttpLimits {
        total_response_bytes: 150 * KIB,
        response_bytes_per_client: 100 * KIB,
        ..HttpLimits::default()
    })
}

fn answer(limiter: &RequestLimiter, name: &str, bytes: usize) -> Result<Response, LimitError> {
    let response = Response::new(Body::from(vec![b'x'; bytes]));
    limiter.guard_response(client(name), response, ())
}

#[tokio::test]
async fn unread_responses_of_a_client_and_of_all_are_bounded() {
    let limiter = limiter();
    let filling = answer(&limiter, "ada", 80 * KIB);
    let own = answer(&limiter, "ada", 30 * KIB).unwrap_err();
    assert_eq!(own, LimitError::ClientResponses(100 * KIB));
    assert_eq!((own.status().as_u16(), own.retry_after_s()), (503, Some(1)));
    let other = answer(&limiter, "bob", 80 * KIB).unwrap_err();
    assert_eq!(other, LimitError::TotalResponses);
    assert!(answer(&limiter, "ada", KIB).is_ok());
    drop(filling);
    assert!(answer(&limiter, "bob", 80 * KIB).is_ok());
}

#[tokio::test]
async fn response_bytes_count_until_written() {
    let limiter = limiter();
    let mut body = answer(&limiter, "ada", 80 * KIB).unwrap().into_body();
    let frame = body.frame().await.unwrap().unwrap();
    drop(body);
    assert_eq!(limiter.responses.reserved(), 80 * KIB);
    drop(frame);
    assert_eq!(limiter.responses.reserved(), 0);
}

#[tokio::test]
async fn stream_without_room_is_cut() {
    let limiter = limiter();
    let stream = Response::new(pieces(&[KIB, 30 * KIB, 30 * KIB]));
    let stream = limiter.guard_response(client("bob"), stream, ()).unwrap();
    let filling = answer(&limiter, "ada", 90 * KIB);
    let mut body = stream.into_body();
    let small = body.frame().await.unwrap();
    let first = body.frame().await.unwrap();
    assert!(small.is_ok() && first.is_ok());
    let refused = limiter.responses.reserve(client("eve"), 29 * KIB);
    assert!(refused.is_ok());
    assert!(body.frame().await.unwrap().is_err());
    drop((filling, refused));
}
