//! Faulty backends and peers.

use super::*;

#[tokio::test]
async fn failure_of_the_backend_is_an_error_of_the_agent() {
    let gateway = Gateway::start().await;
    let error = BackendError::new("the command failed").with_detail("password=hunter2");
    let mut coder = Running::start(&gateway, "coder", [Step::Fail(error)]).await;
    let mut client = gateway.client("steward").await;
    let reply = client.send_message("s-1", "work").await;
    assert_eq!(reply.content()["code"], 3004);
    assert_eq!(reply.content_str("message"), Some("the command failed"));
    assert!(!reply.to_text().contains("hunter2"));
    coder.event().await;
    let AgentEvent::Failed(reason) = coder.event().await else {
        panic!("no failure")
    };
    assert!(reason.contains("hunter2"), "the operator reads the detail");
}

#[tokio::test]
async fn busy_backend_is_a_busy_agent() {
    let gateway = Gateway::start().await;
    let error = BackendError::busy("the model has too much to do");
    let _coder = Running::start(&gateway, "coder", [Step::Fail(error)]).await;
    let mut client = gateway.client("steward").await;
    assert_eq!(
        client.send_message("s-1", "work").await.content()["code"],
        3003
    );
}

#[tokio::test]
async fn panic_of_a_backend_ends_one_turn_only() {
    let gateway = Gateway::start().await;
    let _coder = Running::start(&gateway, "coder", [Step::Panic]).await;
    let mut client = gateway.client("steward").await;
    let error = client.send_message("s-1", "work").await;
    assert_eq!(error.content()["code"], 3004);
    assert!(!error.to_text().contains("a fault of the backend"));
    assert_eq!(
        text(&client.send_message("s-1", "again").await),
        "I read: again"
    );
}

#[tokio::test]
async fn turn_above_the_time_limit_is_cancelled() {
    let gateway = Gateway::start().await;
    let settings = AgentSettings {
        timeout: Duration::from_millis(100),
        ..AgentSettings::new("coder")
    };
    let _coder = Running::with(&gateway, settings, [Step::Hang]).await;
    let mut client = gateway.client("steward").await;
    let error = client.send_message("s-1", "work").await;
    let message = error.content_str("message").unwrap();
    assert!(message.contains("did not answer in time"), "{message}");
    assert_eq!(
        text(&client.send_message("s-1", "again").await),
        "I read: again"
    );
}

#[tokio::test]
async fn reply_larger_than_a_message_is_refused() {
    let gateway = Gateway::start().await;
    let huge: &'static str = Box::leak("x".repeat(2 << 20).into_boxed_str());
    let _coder = Running::start(&gateway, "coder", [Step::Reply(huge)]).await;
    let mut client = gateway.client("steward").await;
    let error = client.send_message("s-1", "work").await;
    assert_eq!(error.content()["code"], 3004);
    assert_eq!(
        text(&client.send_message("s-1", "again").await),
        "I read: again"
    );
}

#[tokio::test]
async fn chain_of_delegations_ends_at_its_maximum_depth() {
    let gateway = Gateway::start().await;
    let mut coder = Running::start(&gateway, "coder", []).await;
    let mut client = gateway.client("steward").await;
    let deep = |hop: u64| message("s-1", "work").with_metadata(DELEGATION_KEY, json!({"hop": hop}));
    client.send(deep(AgentSettings::MAX_DEPTH)).await;
    assert_eq!(text(&client.next().await), "I read: work");
    assert_eq!(coder.turn().await.delegation.unwrap().hop, 4);
    client.send(deep(AgentSettings::MAX_DEPTH + 1)).await;
    let error = client.next().await;
    assert_eq!(error.content()["code"], 3004);
    let message = error.content_str("message").unwrap();
    assert!(message.contains("the delegation depth is 5"), "{message}");
    assert!(coder.turns.try_recv().is_err(), "the backend is not asked");
}

#[tokio::test]
async fn malformed_delegation_is_refused() {
    let gateway = Gateway::start().await;
    let mut coder = Running::start(&gateway, "coder", []).await;
    let mut client = gateway.client("steward").await;
    for malformed in [json!({"hop": "9"}), json!({"hop": -1}), json!({}), json!(9)] {
        let message = message("s-1", "work").with_metadata(DELEGATION_KEY, malformed);
        client.send(message).await;
        let error = client.next().await;
        assert_eq!(error.content()["code"], 3004, "{}", error.to_text());
        let message = error.content_str("message").unwrap();
        assert!(message.contains(DELEGATION_KEY), "{message}");
    }
    assert!(coder.turns.try_recv().is_err(), "the backend is not asked");
}

#[tokio::test]
async fn lost_gateway_ends_turns_and_agent_reconnects() {
    let mut gateway = Gateway::start().await;
    let mut coder = Running::start(&gateway, "coder", [Step::Hang]).await;
    let client = gateway.client("steward").await;
    client.send(message("s-1", "work")).await;
    coder.turn().await;
    gateway.restart().await;
    coder.connected().await;
    let mut client = gateway.client("steward").await;
    assert_eq!(
        text(&client.send_message("s-1", "again").await),
        "I read: again"
    );
}

#[tokio::test]
async fn large_error_leaves_the_connection() {
    let gateway = Gateway::start().await;
    let error = BackendError::new("x".repeat(2 << 20));
    let _coder = Running::start(&gateway, "coder", [Step::Fail(error)]).await;
    let mut client = gateway.client("steward").await;
    let error = client.send_message("s-1", "work").await;
    assert_eq!(error.content_str("message").unwrap().len(), 2000);
    assert_eq!(
        text(&client.send_message("s-1", "again").await),
        "I read: again"
    );
}

#[tokio::test]
async fn refused_message_does_not_release_the_next_one() {
    let gateway = Gateway::start().await;
    let permits = Arc::new(Semaphore::new(0));
    let steps = [Step::Wait(Arc::clone(&permits))];
    let mut coder = Running::start(&gateway, "coder", steps).await;
    let mut client = gateway.client("steward").await;
    client.send(message("s-1", "slow")).await;
    coder.turn().await;
    let deep = message("s-1", "deep").with_metadata(DELEGATION_KEY, json!({"hop": 5}));
    client.send(deep).await;
    assert_eq!(client.next().await.content()["code"], 3004);
    client.send(message("s-1", "third")).await;
    // The other session gets its answer even though the third message arrived earlier.
    assert_eq!(
        text(&client.send_message("s-2", "other").await),
        "I read: other"
    );
    assert_eq!(coder.turn().await.text, "other");
    assert!(coder.turns.try_recv().is_err(), "the first turn still runs");
    permits.add_permits(1);
    assert_eq!(text(&client.next().await), "I read: slow");
    assert_eq!(text(&client.next().await), "I read: third");
}
