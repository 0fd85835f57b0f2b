#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::outbox::{ByteBudget, Close};

fn request(correlation: &str, message: &str, deadline: Instant) -> PendingRequest {
    PendingRequest {
        requester: Weak::new(),
        identity: Arc::default(),
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
    pending
        .insert(request("one", "msg-1", now), MAX_PENDING)
        .unwrap();
    pending
        .insert(request("two", "msg-2", now), MAX_PENDING)
        .unwrap();
    let found = pending.remove(Some("two"), Some("msg-1")).unwrap();
    assert_eq!(&*found.message_id, "msg-2");
    let found = pending.remove(Some("no such"), Some("msg-1")).unwrap();
    assert_eq!(&*found.correlation_id, "one");
    assert!(pending.remove(Some("one"), Some("msg-1")).is_none());
}

#[test]
fn requesters_may_share_correlation_id() {
    let (pending, now) = (PendingRequests::default(), Instant::now());
    let first = pending
        .insert(request("same", "msg-1", now), MAX_PENDING)
        .unwrap();
    let second = pending
        .insert(request("same", "msg-2", now), MAX_PENDING)
        .unwrap();
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
    pending
        .insert(request("replied", "msg-1", now), MAX_PENDING)
        .unwrap();
    pending
        .insert(request("open", "msg-2", now), MAX_PENDING)
        .unwrap();
    pending
        .insert(request("later", "msg-3", later), MAX_PENDING)
        .unwrap();
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
    pending
        .insert(request("again", "msg-1", now), MAX_PENDING)
        .unwrap();
    pending.remove(Some("again"), None).unwrap();
    pending
        .insert(request("again", "msg-2", later), MAX_PENDING)
        .unwrap();
    assert!(pending.remove_expired(now).is_empty());
    assert_eq!(&*pending.remove_expired(later)[0].message_id, "msg-2");
}

#[test]
fn closed_client_accepts_no_requests() {
    let (pending, now) = (PendingRequests::default(), Instant::now());
    pending
        .insert(request("open", "msg-1", now), MAX_PENDING)
        .unwrap();
    assert_eq!(pending.close().len(), 1);
    let late = pending.insert(request("late", "msg-2", now), MAX_PENDING);
    assert_eq!(late.unwrap_err(), InsertError::Closed);
}

fn client(id: &str) -> Arc<Client> {
    let outbox = Outbox::new(1 << 20, ByteBudget::new(1 << 20));
    Client::new(id.to_owned(), None, outbox, Instant::now())
}

/// Returns a request of a client with this identity.
fn request_of(requester: &Arc<Client>, identity: &str, number: usize) -> PendingRequest {
    PendingRequest {
        requester: Arc::downgrade(requester),
        identity: identity.into(),
        ..request(
            &format!("{identity}-{number}"),
            &format!("msg-{identity}-{number}"),
            Instant::now(),
        )
    }
}

#[test]
fn pending_requests_are_bounded() {
    let (pending, now) = (PendingRequests::default(), Instant::now());
    let requester = client("client-1");
    for n in 0..MAX_PENDING {
        let request = request_of(&requester, "ada", n);
        pending.insert(request, MAX_PENDING).unwrap();
    }
    let more = pending.insert(request_of(&requester, "bob", 0), MAX_PENDING);
    assert_eq!(more.unwrap_err(), InsertError::Full);
    for _ in 0..3 * MAX_PENDING {
        pending.remove(Some("ada-0"), None).unwrap();
        let again = request_of(&requester, "ada", 0);
        let again = PendingRequest {
            deadline: now,
            ..again
        };
        pending.insert(again, MAX_PENDING).unwrap();
    }
    assert!(pending.0.lock().order.len() <= 2 * MAX_PENDING + 1);
}

#[test]
fn identity_leaves_pending_requests_to_others() {
    let pending = PendingRequests::default();
    let requester = client("client-1");
    for n in 0..2 {
        let request = request_of(&requester, "ada", n);
        pending.insert(request, 2).unwrap();
    }
    let third = || request_of(&requester, "ada", 2);
    assert_eq!(pending.insert(third(), 2), Err(InsertError::Share));
    pending.insert(request_of(&requester, "bob", 0), 2).unwrap();
    pending.remove(Some("ada-0"), None).unwrap();
    pending.insert(third(), 2).unwrap();
}

#[test]
fn requests_of_disconnected_requesters_make_room() {
    let pending = PendingRequests::default();
    let (gone, closed) = (client("client-1"), client("client-2"));
    for (n, requester) in [&gone, &closed].into_iter().enumerate() {
        let request = request_of(requester, "ada", n);
        pending.insert(request, 2).unwrap();
    }
    drop(gone);
    closed.outbox.close(Close::NORMAL);
    let alive = client("client-3");
    for n in 2..4 {
        pending.insert(request_of(&alive, "ada", n), 2).unwrap();
    }
    let table = pending.0.lock();
    assert_eq!((table.by_correlation.len(), table.by_message.len()), (2, 2));
}
