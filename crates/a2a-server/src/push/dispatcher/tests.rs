#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use http::HeaderValue;

use super::*;

fn outcome_of(code: u16, retry_after: Option<&'static str>) -> AttemptOutcome {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    if let Some(value) = retry_after {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(RETRY_AFTER, value);
    }
    let now = DateTime::from_timestamp(784_111_777, 0).unwrap();
    classify(Some(Ok(response)), now)
}

fn retry(retry_after_s: Option<u64>, code: u16) -> AttemptOutcome {
    let error = format!("the webhook answers {code}");
    AttemptOutcome::Retry(error, retry_after_s.map(Duration::from_secs))
}

#[test]
fn any_2xx_is_a_delivery() {
    for code in [200, 201, 202, 204] {
        assert_eq!(outcome_of(code, None), AttemptOutcome::Delivered);
    }
}

#[test]
fn only_transient_errors_are_retried() {
    for code in [408, 429, 500, 502, 503, 504] {
        assert_eq!(outcome_of(code, None), retry(None, code));
    }
    for code in [301, 307, 400, 401, 403, 404, 410] {
        assert!(
            matches!(outcome_of(code, None), AttemptOutcome::Permanent(_)),
            "{code}"
        );
    }
}

#[test]
fn retry_after_accepts_seconds_and_date() {
    assert_eq!(outcome_of(429, Some("7")), retry(Some(7), 429));
    let date = "Sun, 06 Nov 1994 08:49:47 GMT";
    assert_eq!(outcome_of(503, Some(date)), retry(Some(10), 503));
    let past = "Sun, 06 Nov 1994 08:00:00 GMT";
    assert_eq!(outcome_of(503, Some(past)), retry(Some(0), 503));
    assert_eq!(outcome_of(503, Some("soon")), retry(None, 503));
}

#[test]
fn delay_doubles_up_to_maximum() {
    let retry_policy = RetryPolicy::default();
    let waits = (1..9).map(|tried| retry_policy.delay(tried, None, 0.0).as_secs());
    assert_eq!(waits.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(retry_policy.delay(u32::MAX, None, 0.0).as_secs(), 60);
}

#[test]
fn jitter_shortens_delay_by_up_to_half() {
    let retry_policy = RetryPolicy::default();
    assert_eq!(
        retry_policy.delay(2, None, 0.5),
        Duration::from_millis(1500)
    );
    assert_eq!(retry_policy.delay(2, None, 1.0), Duration::from_secs(1));
}

#[test]
fn retry_after_counts_within_bounds() {
    let retry_policy = RetryPolicy::default();
    let wait = |retry_after_s| {
        retry_policy
            .delay(1, Some(Duration::from_secs(retry_after_s)), 0.0)
            .as_secs()
    };
    assert_eq!([wait(0), wait(7), wait(86_400)], [1, 7, 60]);
}
