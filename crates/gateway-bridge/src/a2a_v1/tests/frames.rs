//! Outgoing frames, and invalid incoming ones.

use super::*;
use crate::testing::START_UNIX_MILLIS;
use egress::{SendState, Sent};

/// Returns the frame of a message to alpha.
async fn send_and_capture(outgoing: SendRequest) -> Value {
    let mut harness = harness(settings());
    let resend = harness.send("alpha", outgoing);
    let request = harness.connect().await.recv().await;
    resend.abort();
    request
}

#[tokio::test(start_paused = true)]
async fn h_15_message_has_role_and_content() {
    let request = send_and_capture(text_message("hello")).await;
    assert_eq!(
        (&request["type"], &request["agent"]),
        (&json!("message"), &json!("alpha"))
    );
    assert_eq!(
        request["content"],
        json!({"role": "user", "content": "hello"})
    );
}

#[tokio::test(start_paused = true)]
async fn h_16_one_part_is_text_and_several_are_an_object() {
    let data = Map::from_iter([("a".to_owned(), json!(1))]);
    let parts = vec![Part::text("hello".into()), Part::data(data)];
    let request = send_and_capture(SendRequest {
        parts,
        ..text_message("")
    })
    .await;
    assert_eq!(
        request["content"]["content"],
        json!({"parts": [{"kind": "text", "text": "hello"}, {"kind": "data", "data": {"a": 1}}]})
    );
}

#[tokio::test(start_paused = true)]
async fn h_16_received_object_is_parts_or_data() {
    for (content, parts) in [
        (json!("text"), json!([{"kind": "text", "text": "text"}])),
        (
            json!({"parts": [{"kind": "text", "text": "a"}]}),
            json!([{"kind": "text", "text": "a"}]),
        ),
        (json!({"a": 1}), json!([{"kind": "data", "data": {"a": 1}}])),
    ] {
        let (_harness, mut connection, request, resend) = sent(text_message("hello")).await;
        let mut answer = reply(&request, "alpha", "");
        answer["content"]["content"] = content;
        connection.send(answer).await;
        let Reply::Message(message) = resend.await.unwrap().unwrap() else {
            panic!("a message")
        };
        assert_eq!(message.json()["parts"], parts);
    }
}

#[tokio::test(start_paused = true)]
async fn h_17_id_is_msg_and_the_message_id() {
    assert_eq!(
        send_and_capture(text_message("hello")).await["id"],
        "msg-m-1"
    );
    let long = SendRequest {
        message_id: "x".repeat(200),
        ..text_message("hello")
    };
    let id = send_and_capture(long).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!((&id[..4], id.len()), ("msg-", 40));
}

#[tokio::test(start_paused = true)]
async fn h_18_timestamp_is_call_start_in_milliseconds() {
    let request = send_and_capture(text_message("hello")).await;
    // The 150 ms in which the gateway might have sent the first frame have passed by now.
    assert_eq!(request["timestamp"], START_UNIX_MILLIS);
}

#[tokio::test(start_paused = true)]
async fn h_18_ttl_is_in_seconds_and_expired_is_not_sent() {
    let error = {
        let mut harness = harness(settings());
        let resend = harness.send(
            "alpha",
            with_metadata(text_message("hello"), json!({"ttl": 2})),
        );
        let mut connection = harness.arrivals.next().await;
        connection.recv().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        connection.send(acknowledge()).await;
        let error = resend.await.unwrap().unwrap_err();
        drop(harness.gateway);
        assert_eq!(connection.recv().await["type"], "subscribe");
        assert_eq!(connection.recv_text().await, None);
        error
    };
    assert_eq!(error.kind, fault(ErrorCode::InvalidContent));
    assert_eq!(error.delivered, Delivered::No);
}

#[tokio::test(start_paused = true)]
async fn h_21_reserved_metadata_cannot_be_overridden() {
    let metadata = json!({"priority": "high", "threadId": "t", "parentId": "p", "ttl": 60,
        "correlationId": "theirs", "requiresResponse": false, "other": {"a": 1}});
    let request = send_and_capture(with_metadata(text_message("hello"), metadata)).await;
    let metadata = &request["metadata"];
    assert_eq!(metadata["requiresResponse"], true);
    assert!(
        metadata["correlationId"]
            .as_str()
            .unwrap()
            .starts_with("corr-")
    );
    for (field, value) in [
        ("priority", json!("high")),
        ("threadId", json!("t")),
        ("parentId", json!("p")),
        ("ttl", json!(60)),
        ("other", json!({"a": 1})),
    ] {
        assert_eq!(metadata[field], value, "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_metadata_is_not_sent() {
    for (metadata, code) in [
        (json!({"priority": "urgent"}), ErrorCode::InvalidContent),
        (json!({"ttl": "soon"}), ErrorCode::InvalidType),
        (json!({"threadId": 7}), ErrorCode::InvalidType),
        (json!({"ttl": -1}), ErrorCode::InvalidContent),
    ] {
        let mut harness = harness(settings());
        let resend = harness.send(
            "alpha",
            with_metadata(text_message("hello"), metadata.clone()),
        );
        let _connection = harness.connect().await;
        let error = resend.await.unwrap().unwrap_err();
        assert_eq!(error.delivered, Delivered::No);
        assert!(
            matches!(error.kind, PeerErrorKind::Gateway(_)),
            "{metadata}: {error}"
        );
        assert_eq!(error.kind, fault(code), "{metadata}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn h_22_session_is_the_conversation_or_a_new_id() {
    let named = SendRequest {
        context_id: Some("sess-7".into()),
        ..text_message("hello")
    };
    assert_eq!(send_and_capture(named).await["sessionId"], "sess-7");
    let new = send_and_capture(text_message("hello")).await;
    assert!(new["sessionId"].as_str().unwrap().starts_with("sess-"));
}

#[tokio::test(start_paused = true)]
async fn session_of_the_call_hides_that_of_the_conversation() {
    let mut harness = harness(settings());
    let options = CallOptions {
        context_id: Some("sess-of-another-client"),
        session: Some("a2a-ada-1"),
        ..CallOptions::default()
    };
    let peer = harness.gateway.agent("alpha".to_owned(), &options);
    let outgoing = SendRequest {
        context_id: Some("sess-of-another-client".into()),
        ..text_message("hello")
    };
    let resend = tokio::spawn(async move { peer.send(&outgoing).await });
    assert_eq!(
        harness.connect().await.recv().await["sessionId"],
        "a2a-ada-1"
    );
    resend.abort();
}

#[tokio::test(start_paused = true)]
async fn only_a_message_without_a_connection_is_certainly_unsent() {
    for (is_connected, sent) in [(false, Sent::No), (true, Sent::Unknown)] {
        let mut harness = harness(settings());
        let state = SendState::default();
        let options = CallOptions {
            send_state: Some(&state),
            ..CallOptions::default()
        };
        let peer = harness.gateway.agent("alpha".to_owned(), &options);
        let sending = tokio::spawn(async move { peer.send(&text_message("hello")).await });
        if is_connected {
            harness.connect().await.recv().await;
        } else {
            harness.arrivals.next().await;
        }
        sending.abort();
        assert!(sending.await.unwrap_err().is_cancelled());
        assert_eq!(state.revoke(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn h_22_message_to_task_continues_its_session() {
    let mut harness = harness(settings());
    let first = SendRequest {
        context_id: Some("sess-7".into()),
        ..as_task(text_message("hello"))
    };
    let resend = harness.send("alpha", first);
    let mut connection = harness.connect().await;
    connection.recv().await;
    let Reply::Task(task) = resend.await.unwrap().unwrap() else {
        panic!("no task")
    };
    let again = |task_id: &str| SendRequest {
        message_id: "m-2".into(),
        task_id: Some(task_id.to_owned()),
        ..text_message("and?")
    };
    let _sending = harness.send("alpha", again(task.json()["id"].as_str().unwrap()));
    assert_eq!(connection.recv().await["sessionId"], "sess-7");
    let error = harness.send("alpha", again("corr-0")).await.unwrap();
    let error = error.unwrap_err();
    assert_eq!(
        (error.kind, error.delivered),
        (PeerErrorKind::TaskForgotten, Delivered::No)
    );
}

#[tokio::test(start_paused = true)]
async fn h_04_message_above_one_mebibyte_is_not_sent() {
    let mut harness = harness(settings());
    let resend = harness.send("alpha", text_message(&"x".repeat(1024 * 1024)));
    let _connection = harness.connect().await;
    let error = resend.await.unwrap().unwrap_err();
    assert_fault(&error, ErrorCode::InvalidContent, Delivered::No);
}

#[tokio::test(start_paused = true)]
async fn h_04_frame_above_one_mebibyte_closes_the_connection() {
    let larger = Settings {
        frame_bytes: 4 * 1024 * 1024,
        ..settings()
    };
    let mut harness = harness(larger);
    let mut connection = harness.connect_with_list().await;
    connection.send_text(&"x".repeat(1024 * 1024 + 1)).await;
    assert_eq!(connection.recv_close().await, Some(1009));
    let error = harness.gateway.connection().last_error.unwrap();
    assert!(error.contains("1048577 bytes"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn h_04_fifth_invalid_message_closes_the_connection() {
    let (harness, mut connection) = listed().await;
    let resend = harness.send("alpha", text_message("hello"));
    connection.recv().await;
    connection.send_bytes(b"\x00\x01").await;
    for bad in ["[1]", "null", "{not json"] {
        connection.send_text(bad).await;
    }
    wait_until_idle().await;
    assert_eq!(harness.warnings().len(), 4);
    assert!(!resend.is_finished());
    for sign in ["", "ping", "{}", "Keep-Alive", "\"heartbeat\""] {
        connection.send_text(sign).await;
    }
    wait_until_idle().await;
    assert_eq!(harness.warnings().len(), 4, "{:?}", harness.warnings());
    connection.send_text("7").await;
    assert_eq!(connection.recv_close().await, Some(1008));
    let error = resend.await.unwrap().unwrap_err();
    assert_fault(&error, ErrorCode::ConnectionReset, Delivered::Unknown);
}

#[tokio::test(start_paused = true)]
async fn h_20_unknown_types_and_fields_are_ignored() {
    let (harness, mut connection) = listed().await;
    let resend = harness.send("alpha", text_message("hello"));
    let request = connection.recv().await;
    for n in 0..9 {
        connection.send(json!({"type": "frobnicate", "n": n})).await;
    }
    let mut answer = reply(&request, "alpha", "well");
    answer["extra"] = json!({"deep": [1]});
    answer["content"]["mood"] = json!("good");
    connection.send(answer).await;
    assert_eq!(reply_text(resend.await.unwrap()), "well");
    assert!(harness.warnings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn h_07_two_unanswered_pings_close_the_connection() {
    let (harness, mut connection) = listed().await;
    let quiet = tokio::time::Instant::now();
    for n in 1..=2 {
        let ping = connection.recv().await;
        assert_eq!(
            (&ping["type"], &ping["content"]),
            (&json!("ping"), &json!({}))
        );
        assert!(ping["id"].is_string() && ping["timestamp"].is_u64());
        assert_eq!(quiet.elapsed().as_secs(), 30 * n);
    }
    connection.recv_close().await;
    assert_eq!(quiet.elapsed().as_secs(), 90);
    let connection = harness.gateway.connection();
    assert_eq!(connection.state.as_str(), "CLOSED");
    assert!(connection.last_error.unwrap().contains("two pings"));
}

#[tokio::test(start_paused = true)]
async fn h_07_gateway_without_pings_keeps_its_connection() {
    let (harness, mut connection) = listed().await;
    let (request, working) = harness.start_task(&mut connection).await;
    for _ in 0..4 {
        assert_eq!(connection.recv().await["type"], "ping");
        let unknown = json!({"type": "error", "content": {"error": "UNKNOWN_TYPE", "message": "Unknown message type: ping"}});
        connection.send(unknown).await;
    }
    connection.send(reply(&request, "alpha", "well")).await;
    wait_until_idle().await;
    let done = harness.stored("alpha", &working).await;
    assert_eq!(done.state(), TaskState::Completed);
}

#[tokio::test(start_paused = true)]
async fn h_07_pong_keeps_connection_and_ping_is_answered() {
    let (harness, mut connection) = listed().await;
    for _ in 0..4 {
        let ping = connection.recv().await;
        connection
            .send(json!({"type": "pong", "metadata": {"parentId": ping["id"]}}))
            .await;
    }
    assert_eq!(harness.gateway.connection().state.as_str(), "OPEN");
    connection.send(json!({"type": "ping", "id": "p-1"})).await;
    let pong = connection.recv().await;
    assert_eq!(
        (&pong["type"], &pong["metadata"]["parentId"]),
        (&json!("pong"), &json!("p-1"))
    );
}
