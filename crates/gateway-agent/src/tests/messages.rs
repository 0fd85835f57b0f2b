//! Messages and replies.

use super::*;

#[tokio::test]
async fn conversation_of_a_session_reaches_the_backend() {
    let gateway = Gateway::start().await;
    let mut coder =
        Running::start(&gateway, "coder", [Step::Reply("one"), Step::Reply("two")]).await;
    let mut client = gateway.client("steward").await;
    let reply = client.send_message("s-1", "first").await;
    assert_eq!(
        (text(&reply), reply.from(), reply.session_id()),
        ("one", Some("coder"), Some("s-1"))
    );
    assert_eq!(text(&client.send_message("s-1", "second").await), "two");
    client.send_message("s-2", "third").await;
    let first = coder.turn().await;
    assert_eq!(
        (&*first.agent, &*first.from, &*first.thread, &*first.text),
        ("coder", "steward", r#"["steward","s-1"]"#, "first")
    );
    let history: Vec<_> = coder.turn().await.history;
    let history: Vec<_> = history.iter().map(|one| (&*one.from, &*one.text)).collect();
    assert_eq!(history, [("steward", "first"), ("coder", "one")]);
    assert_eq!(coder.turn().await.history, [], "another session");
}

#[tokio::test]
async fn message_without_required_response_is_only_stored() {
    let gateway = Gateway::start().await;
    let mut coder = Running::start(&gateway, "coder", []).await;
    let mut client = gateway.client("steward").await;
    let note = message("s-1", "note").with_metadata("requiresResponse", false);
    client.send(note).await;
    client.send_message("s-1", "question").await;
    let turn = coder.turn().await;
    assert_eq!(turn.text, "question", "the backend was not asked before");
    assert_eq!(turn.history[0].text, "note");
}

#[tokio::test]
async fn parts_of_a_message_are_read() {
    let gateway = Gateway::start().await;
    let _coder = Running::start(&gateway, "coder", []).await;
    let mut client = gateway.client("steward").await;
    let content = json!({"role": "user", "content": {"parts": [{"text": "hello"}]}});
    let message = Envelope::new(Kind::Message, content)
        .with("agent", "coder")
        .with_metadata("requiresResponse", true);
    client.send(message).await;
    let reply = client.next().await;
    assert!(text(&reply).contains("hello"), "{}", reply.to_text());
}

#[tokio::test]
async fn progress_reaches_the_requester_before_the_reply() {
    let gateway = Gateway::start().await;
    let permits = Arc::new(Semaphore::new(0));
    let reports = &["reading", "still reading", "writing"];
    let steps = [Step::Report(reports, Arc::clone(&permits))];
    let _coder = Running::start(&gateway, "coder", steps).await;
    let mut client = gateway.client("steward").await;
    let status = client.send_message("s-1", "work").await;
    assert_eq!(
        (status.kind(), status.content_str("message"), status.from()),
        (Kind::Status, Some("writing"), Some("coder")),
        "a flood is one report: the latest"
    );
    permits.add_permits(1);
    assert_eq!(text(&client.next().await), "done");
}

#[tokio::test]
async fn sessions_run_concurrently_and_each_in_order() {
    let gateway = Gateway::start().await;
    let permits = Arc::new(Semaphore::new(0));
    let steps = [Step::Wait(Arc::clone(&permits))];
    let _coder = Running::start(&gateway, "coder", steps).await;
    let mut client = gateway.client("steward").await;
    client.send(message("s-1", "slow")).await;
    client.send(message("s-1", "after")).await;
    assert_eq!(
        text(&client.send_message("s-2", "other").await),
        "I read: other"
    );
    permits.add_permits(1);
    assert_eq!(text(&client.next().await), "I read: slow");
    assert_eq!(text(&client.next().await), "I read: after");
}

/// Starts an agent with one slot, whose first turn ends at the permit.
async fn slow_agent(gateway: &Gateway) -> (Running, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let settings = AgentSettings {
        concurrency: NonZeroUsize::MIN,
        ..AgentSettings::new("coder")
    };
    let steps = [Step::Wait(Arc::clone(&permits))];
    (Running::with(gateway, settings, steps).await, permits)
}

#[tokio::test]
async fn waiting_senders_take_turns() {
    let gateway = Gateway::start().await;
    let (mut coder, permits) = slow_agent(&gateway).await;
    let mut loud = gateway.client("loud").await;
    for session in 0..30 {
        loud.send(message(&format!("s-{session}"), "work")).await;
    }
    coder.turn().await;
    // The share of one sender is one running and 16 waiting messages.
    for _ in 0..13 {
        assert_eq!(loud.next().await.content()["code"], 3003);
    }
    let mut quiet = gateway.client("quiet").await;
    quiet.send(message("s-1", "question")).await;
    loop {
        let event = coder.event().await;
        if event == AgentEvent::Received("quiet".into(), "question".into(), None) {
            break;
        }
    }
    permits.add_permits(1);
    assert_eq!(coder.turn().await.from, "quiet");
    assert_eq!(text(&quiet.next().await), "I read: question");
    assert_eq!(text(&loud.next().await), "I read: work");
}

#[tokio::test]
async fn agent_is_busy_while_its_queue_is_full() {
    let gateway = Gateway::start().await;
    let (_coder, permits) = slow_agent(&gateway).await;
    let mut watcher = gateway.client("watcher").await;
    let channel = json!({"channel": "agent:status", "agents": ["coder"]});
    watcher.send(Envelope::new(Kind::Subscribe, channel)).await;
    watcher.next_of(Kind::Status).await;
    let mut senders = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let sender = gateway.client(name).await;
        for session in 0..17 {
            sender.send(message(&format!("s-{session}"), "work")).await;
        }
        senders.push(sender);
    }
    let status = watcher.next_of(Kind::Status).await;
    assert_eq!(status.content_str("status"), Some("busy"));
    let refused = watcher.send_message("s-1", "more").await;
    assert_eq!(refused.content()["code"], 3003);
    permits.add_permits(1);
    let status = watcher.next_of(Kind::Status).await;
    assert_eq!(status.content_str("status"), Some("idle"));
    assert_eq!(
        text(&watcher.send_message("s-1", "more").await),
        "I read: more"
    );
}

#[tokio::test]
async fn stopped_agent_disconnects_and_ends_its_turns() {
    let gateway = Gateway::start().await;
    let mut coder = Running::start(&gateway, "coder", [Step::Hang]).await;
    let mut client = gateway.client("steward").await;
    client.send(message("s-1", "work")).await;
    coder.turn().await;
    coder.shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(4), &mut coder.served);
    ended.await.expect("an end").unwrap();
    let error = client.next().await;
    assert_eq!(error.content()["code"], 3004, "{}", error.to_text());
}

#[tokio::test]
async fn session_of_another_sender_is_another_conversation() {
    let gateway = Gateway::start().await;
    let mut coder = Running::start(&gateway, "coder", []).await;
    let mut client = gateway.client("steward").await;
    let mut other = gateway.client("scout").await;
    client.send_message("s-1", "a secret").await;
    coder.turn().await;
    other.send_message("s-1", "repeat it").await;
    let turn = coder.turn().await;
    assert!(turn.history.is_empty(), "{:?}", turn.history);
}
