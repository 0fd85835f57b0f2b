//! Messages and the runs that they start.

use super::*;

#[tokio::test]
async fn message_is_a_run_in_its_context_session() {
    let (link, mut gateway) = connected().await;
    let outgoing = text_message("hello");
    let (call, gateway) = (call_context(), async {
        let (id, params) = gateway.accept().await;
        gateway
            .answer(
                &id,
                json!({"status": "ok", "result": {"payloads": [{"text": "hi"}]}}),
            )
            .await;
        params
    });
    let (reply, params) = tokio::join!(link.send(&call, &outgoing), gateway);
    assert_eq!(
        params,
        json!({"agentId": "alpha", "sessionKey": "agent:alpha:a2a-ctx", "message": "hello", "idempotencyKey": "run-1"})
    );
    let task = task(reply);
    assert_eq!(
        (task.id().unwrap(), task.context_id()),
        ("run-1", Some("ctx"))
    );
    assert_eq!(task.json()["artifacts"][0]["parts"][0]["text"], "hi");
}

#[tokio::test]
async fn unreadable_answer_fails_with_its_cause() {
    let (link, mut gateway) = connected().await;
    let outgoing = text_message("hello");
    let (call, gateway) = (call_context(), async {
        let (id, _) = gateway.accept().await;
        let list = vec![json!({"a": 0}); 100_000];
        gateway
            .answer(&id, json!({"status": "ok", "result": {"payloads": list}}))
            .await;
    });
    let (reply, ()) = tokio::join!(link.send(&call, &outgoing), gateway);
    let task = task(reply);
    assert_eq!(task.state(), TaskState::Failed);
    let text = task.json()["status"].to_string();
    assert!(text.contains("cannot be read"), "{text}");
}

#[tokio::test]
async fn answer_may_have_a_byte_order_mark_and_lone_surrogates() {
    let (link, mut gateway) = connected().await;
    let outgoing = text_message("hello");
    let (call, gateway) = (call_context(), async {
        let (id, _) = gateway.accept().await;
        let answer =
            r#""ok":true,"payload":{"status":"ok","result":{"payloads":[{"text":"a\ud83d"}]}}}"#;
        let frame = format!("\u{feff}{{\"type\":\"res\",\"id\":\"{id}\",{answer}");
        gateway.0.send_text(&frame).await;
    });
    let (reply, ()) = tokio::join!(link.send(&call, &outgoing), gateway);
    let task = task(reply);
    let text = &task.json()["artifacts"][0]["parts"][0]["text"];
    assert_eq!(text, "a\u{fffd}");
}

#[tokio::test]
async fn missing_context_is_created_and_reported() {
    let (link, mut gateway) = connected().await;
    let call = CallContext {
        agent: "alpha".into(),
        ..CallContext::default()
    };
    let mut outgoing = text_message("hello");
    outgoing.blocking = false;
    let (reply, (_, params)) = tokio::join!(link.send(&call, &outgoing), gateway.accept());
    let task = task(reply);
    let context = task.context_id().unwrap();
    assert_eq!(params["sessionKey"], format!("agent:alpha:a2a-{context}"));
    assert_eq!(task.state(), TaskState::Working);
}

#[tokio::test]
async fn call_to_own_session_is_refused() {
    let (link, mut gateway) = connected().await;
    let mut call = call_context();
    call.session_key = Some("agent:alpha:a2a-ctx".into());
    let error = link.send(&call, &text_message("hello")).await.unwrap_err();
    assert_eq!(
        (error.kind, error.delivered),
        (PeerErrorKind::OwnSession, Delivered::No)
    );
    link.close().await;
    assert_eq!(gateway.0.recv_text().await, None);
}

#[tokio::test]
async fn delegation_depth_is_written_before_the_run() {
    let folder = std::env::temp_dir().join(format!("remote-agent-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&folder).unwrap();
    let (link, mut gateway) = connected().await;
    let call = CallContext {
        state_dir: Some(folder.clone()),
        ..call_context()
    };
    let mut outgoing = text_message("hello");
    outgoing.blocking = false;
    outgoing.metadata = Some(
        [(
            delegation::DELEGATION_KEY.to_owned(),
            json!({"hop": 3, "chain": "c"}),
        )]
        .into_iter()
        .collect(),
    );
    let gateway = async {
        let (id, params) = gateway.next_request("agent").await;
        let found = DelegationFile::of_host(&folder)
            .find(params["sessionKey"].as_str().unwrap())
            .unwrap();
        gateway.answer(&id, json!({"status": "accepted"})).await;
        found
    };
    let (reply, found) = tokio::join!(link.send(&call, &outgoing), gateway);
    reply.unwrap();
    assert_eq!(found.unwrap().hop, 3);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn unrecordable_delegation_is_not_sent() {
    let (link, mut gateway) = connected().await;
    let call = CallContext {
        state_dir: Some("/proc/nowhere".into()),
        ..call_context()
    };
    let mut outgoing = text_message("hello");
    outgoing.metadata = Some(
        [(delegation::DELEGATION_KEY.to_owned(), json!({"hop": 3}))]
            .into_iter()
            .collect(),
    );
    let error = link.send(&call, &outgoing).await.unwrap_err();
    assert_error(&error, 5004, Delivered::No);
    link.close().await;
    assert_eq!(gateway.0.recv_text().await, None);
}

#[tokio::test]
async fn stream_has_text_and_tools_until_the_run_ends() {
    let (link, mut gateway) = connected().await;
    let (call, outgoing) = (call_context(), text_message("hello"));
    let (stream, (id, _)) = tokio::join!(link.stream(&call, &outgoing), gateway.accept());
    let mut stream = stream.unwrap();
    for (run, stream, data) in [
        ("run-1", "lifecycle", json!({"phase": "start"})),
        (
            "foreign",
            "assistant",
            json!({"text": "no", "delta": "no", "itemId": "1"}),
        ),
        (
            "run-1",
            "item",
            json!({"kind": "tool", "phase": "start", "name": "read", "status": "running"}),
        ),
        (
            "run-1",
            "assistant",
            json!({"text": "It", "delta": "It", "itemId": "2"}),
        ),
        (
            "run-1",
            "assistant",
            json!({"text": "It is", "delta": " is", "itemId": "2"}),
        ),
    ] {
        gateway.agent(run, stream, data).await;
    }
    let result = json!({"payloads": [{"text": "It is"}]});
    gateway
        .answer(&id, json!({"status": "ok", "result": result}))
        .await;
    let (reported, end) = collect_events(&mut *stream).await;
    assert!(end.is_ok());
    let states: Vec<_> = reported
        .iter()
        .filter_map(|event| event.pointer("/status/state"))
        .collect();
    assert_eq!(states, ["submitted", "working", "working", "completed"]);
    let text: String = reported
        .iter()
        .filter_map(|event| event.pointer("/artifact/parts/0/text")?.as_str())
        .collect();
    assert_eq!(text, "It is");
}

#[tokio::test]
async fn h_48_cut_run_is_not_resent_and_can_be_queried() {
    let (link, mut gateway) = connected().await;
    let (call, outgoing) = (call_context(), text_message("hello"));
    let (stream, _) = tokio::join!(link.stream(&call, &outgoing), gateway.accept());
    drop(gateway);
    let (_, end) = collect_events(&mut *stream.unwrap()).await;
    let Err(error) = end else { panic!("{end:?}") };
    assert_error(&error, 1003, Delivered::Unknown);
    assert!(!link.is_open());
    let error = link.send(&call, &outgoing).await.unwrap_err();
    assert_eq!(error.delivered, Delivered::No);
}

#[tokio::test]
async fn h_48_request_cut_in_flight_is_uncertain() {
    let (link, mut gateway) = connected().await;
    let (call, outgoing) = (call_context(), text_message("hello"));
    let gateway = async {
        gateway.next_request("agent").await;
        drop(gateway);
    };
    let (reply, ()) = tokio::join!(link.send(&call, &outgoing), gateway);
    let error = reply.unwrap_err();
    assert_error(&error, 1003, Delivered::Unknown);
}

#[tokio::test(start_paused = true)]
async fn answer_after_the_wait_leaves_a_working_task() {
    let (link, mut gateway) = connected().await;
    let (call, outgoing) = (call_context(), text_message("hello"));
    let (reply, _) = tokio::join!(link.send(&call, &outgoing), gateway.accept());
    let task = task(reply);
    assert_eq!(
        (task.id().unwrap(), task.state()),
        ("run-1", TaskState::Working)
    );
}

#[tokio::test]
async fn refusals_map_to_registry_errors() {
    let (link, mut gateway) = connected().await;
    for (code, message, expected) in [
        (
            "INVALID_REQUEST",
            "invalid agent params: unknown agent id \"alpha\"",
            3001,
        ),
        ("UNAVAILABLE", "too many requests", 3003),
        ("FORBIDDEN", "missing scope: operator.write", 5004),
    ] {
        let (call, outgoing) = (call_context(), text_message("hello"));
        let refuses = async {
            let (id, _) = gateway.next_request("agent").await;
            gateway.refuse(&id, code, message).await;
        };
        let (reply, ()) = tokio::join!(link.send(&call, &outgoing), refuses);
        assert_eq!(error_number(&reply.unwrap_err()), expected, "{message}");
    }
}

#[tokio::test]
async fn message_above_gateway_limit_is_not_sent() {
    let (link, _gateway) = connected().await;
    let error = link
        .send(&call_context(), &text_message(&"x".repeat(1_000_000)))
        .await
        .unwrap_err();
    assert_error(&error, 2005, Delivered::No);
}
