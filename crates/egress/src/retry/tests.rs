#![allow(clippy::unwrap_used)]
use std::time::UNIX_EPOCH;

use super::super::testing::{Next, Scripted, request};
use super::*;

/// Noon of a day in the time of HTTP.
const NOON: &str = "Sun, 06 Nov 1994 12:00:00 GMT";

fn context(random: f64) -> RetryContext {
    RetryContext {
        wall: Arc::new(|| httpdate::parse_http_date(NOON).unwrap_or(UNIX_EPOCH)),
        random: Arc::new(move || random),
    }
}

/// Returns the outcome, and when each attempt began, in milliseconds after the first.
async fn tried(
    next: impl IntoIterator<Item = Next>,
    repeatable: bool,
    random: f64,
) -> (Result<u16, NetFault>, Vec<u128>) {
    let net = Scripted::new(next);
    let request = Request {
        repeatable,
        ..request("https://a.example/")
    };
    let outcome = exchange(&net, &context(random), request).await;
    let outcome = outcome.map(|response| response.status.as_u16());
    let requests = net.requests();
    let began = requests[0].0;
    let times = requests.iter().map(|(at, _)| (*at - began).as_millis());
    (outcome.map_err(|error| error.fault()), times.collect())
}

fn later(status: u16, when: &str) -> Next {
    Next::Answer(
        status,
        Some(("retry-after", when.to_owned())),
        String::new(),
    )
}

#[tokio::test(start_paused = true)]
async fn busy_peer_gets_three_requests_with_growing_delays() {
    for status in [429, 502, 503, 504] {
        let (outcome, times) = tried([status; 3].map(Next::status), true, 0.0).await;
        assert_eq!((outcome, times), (Ok(status), vec![0, 300, 900]));
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_are_shortened_at_random_by_up_to_half() {
    let (_, times) = tried([503; 3].map(Next::status), true, 1.0).await;
    assert_eq!(times, [0, 150, 450]);
}

#[tokio::test(start_paused = true)]
async fn failed_connection_is_retried() {
    let next = [Next::Fails(NetFault::Unreachable), Next::status(200)];
    let (outcome, times) = tried(next, true, 0.0).await;
    assert_eq!((outcome, times.len()), (Ok(200), 2));
}

#[tokio::test(start_paused = true)]
async fn permanent_failures_are_not_retried() {
    for status in [200, 304, 400, 401, 404, 500] {
        let (outcome, times) = tried([Next::status(status)], true, 0.0).await;
        assert_eq!((outcome, times.len()), (Ok(status), 1));
    }
    for fault in [NetFault::Tls, NetFault::AddressRefused, NetFault::Cut] {
        let (outcome, times) = tried([Next::Fails(fault)], true, 0.0).await;
        assert_eq!((outcome, times.len()), (Err(fault), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn non_repeatable_request_is_sent_once() {
    let next = [Next::Fails(NetFault::Unreachable)];
    let (outcome, times) = tried(next, false, 0.0).await;
    assert_eq!((outcome, times.len()), (Err(NetFault::Unreachable), 1));
    let (outcome, times) = tried([Next::status(503)], false, 0.0).await;
    assert_eq!((outcome, times.len()), (Ok(503), 1));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed_in_both_forms() {
    let (_, times) = tried([later(429, "2"), Next::status(200)], true, 0.5).await;
    assert_eq!(times, [0, 2000]);
    let date = NOON.replace("12:00:00", "12:00:01");
    let (_, times) = tried([later(503, &date), Next::status(200)], true, 0.5).await;
    assert_eq!(times, [0, 1000]);
    let past = NOON.replace("12:00:00", "11:00:00");
    let (_, times) = tried([later(503, &past), Next::status(200)], true, 0.5).await;
    assert_eq!(times, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn delay_beyond_the_deadline_returns_the_response() {
    let (outcome, times) = tried([later(429, "4")], true, 0.0).await;
    assert_eq!((outcome, times), (Ok(429), vec![0]));
    let (outcome, times) = tried([later(429, "2"), later(429, "2")], true, 0.0).await;
    assert_eq!((outcome, times), (Ok(429), vec![0, 2000]));
}

#[tokio::test(start_paused = true)]
async fn delay_beyond_all_time_returns_the_response() {
    for when in [u64::MAX.to_string(), i64::MAX.to_string()] {
        let (outcome, times) = tried([later(503, &when)], true, 0.0).await;
        assert_eq!((outcome, times), (Ok(503), vec![0]));
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_retry_after_is_ignored() {
    let (_, times) = tried([later(503, "soon"), Next::status(200)], true, 0.0).await;
    assert_eq!(times, [0, 300]);
}
