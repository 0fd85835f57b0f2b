#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;

fn request(correlation: &str, message: &str, deadline: Instant) -> PendingRequest {
    PendingRequest {
        requester: Weak::new(),
        requester_name: "bridge".into(),
        correlation_id: correlation.into(),
        message_id: message.into(),
        agent: "alpha".into(),
        session: None,
        reply_required: true,
        unconfirmed: None,
        outbox_number: None,
        deadline,
    }
}

#[test]
fn reply_matches_correlation_id_before_message_id() {
    let (pending, now) = (PendingRequests::default(), Instant::now());
    pending.insert(request("one", "msg-1", now)).unwrap();
    pending.insert(request("two", "msg-2", now)).unwrap();
    let found = pending.remove(Some("two"), Some("msg-1")).unwrap();
    assert_eq!(&*found.message_id, "msg-2");
    let found = pending.remove(Some("no such"), Some("msg-1")).unwrap();
    assert_eq!(&*found.correlation_id, "one");
    assert!(pending.remove(Some("one"), Some("msg-1")).is_none());
}

#[test]
fn requesters_may_share_correlation_id() {
    let (pending, now) = (PendingRequests::default(), Instant::now());
    let first = pending.insert(request("same", "msg-1", now)).unwrap();
    let second = pending.insert(request("same", "msg-2", now)).unwrap();
    assert_eq!(&*first, "same");
    assert_ne!(first, second);
    let found = pending.remove(Some(&second), None).unwrap();
    assert_eq!(
        (&*found.message_id, &*found.correlation_id),
        ("msg-2", "same")
    );
    assert_eq!(
        &*pending.remove(Some("same"), None).unwrap().message_id,
        "msg-1"
    );
}

#[test]
fn only_pending_requests_expire() {
    let (pending, now) = (PendingRequests::default(), Instant::now());
    let later = now + Duration::from_secs(1);
    pending.insert(request("replied", "msg-1", now)).unwrap();
    pending.insert(request("open", "msg-2", now)).unwrap();
    pending.insert(request("later", "msg-3", later)).unwrap();
    pending.remove(Some("replied"), None).unwrap();
    let expired = pending.remove_expired(now);
    assert_eq!(expired.len(), 1);
    assert_eq!(&*expired[0].correlation_id, "open");
    assert_eq!(pending.remove_expired(later).len(), 1);
}

#[test]
fn reused_id_expires_with_later_request() {
    let (pending, now) = (PendingRequests::default(), Instant::now());
    let later = now + Duration::from_secs(1);
    pending.insert(request("again", "msg-1", now)).unwrap();
    pending.remove(Some("again"), None).unwrap();
    pending.insert(request("again", "msg-2", later)).unwrap();
    assert!(pending.remove_expired(now).is_empty());
    assert_eq!(&*pending.remove_expired(later)[0].message_id, "msg-2");
}

#[test]
fn closed_client_accepts_no_requests() {
    let (pending, now) = (PendingRequests::default(), Instant::now());
    pending.insert(request("open", "msg-1", now)).unwrap();
    assert_eq!(pending.close().len(), 1);
    let late = pending.insert(request("late", "msg-2", now));
    assert_eq!(late.unwrap_err(), InsertError::Closed);
}

#[test]
fn pending_requests_are_bounded() {
    let (pending, now) = (PendingRequests::default(), Instant::now());
    for n in 0..MAX_PENDING {
        pending
            .insert(request(&n.to_string(), &format!("msg-{n}"), now))
            .unwrap();
    }
    let more = pending.insert(request("more", "msg-more", now));
    assert_eq!(more.unwrap_err(), InsertError::Full);
    for _ in 0..3 * MAX_PENDING {
        pending.remove(Some("0"), None).unwrap();
        pending.insert(request("0", "msg-0", now)).unwrap();
    }
    assert!(pending.0.lock().order.len() <= 2 * MAX_PENDING + 1);
}
