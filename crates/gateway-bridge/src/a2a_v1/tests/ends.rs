//! Ends of connections and reconnections.

use super::*;

#[tokio::test(start_paused = true)]
async fn one_connection_is_shared_by_all_calls() {
    let mut harness = harness(settings());
    let sends: Vec<_> = (0..5)
        .map(|n| harness.send("alpha", text_message(&n.to_string())))
        .collect();
    let mut connection = harness.connect().await;
    for _ in &sends {
        let request = connection.recv().await;
        connection.send(reply(&request, "alpha", "well")).await;
    }
    for resend in sends {
        assert_eq!(reply_text(resend.await.unwrap()), "well");
    }
    assert_eq!(harness.net.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_share_one_failed_attempt() {
    let harness = harness(settings());
    harness.fail_dials(1);
    let (one, two) = tokio::join!(harness.gateway.members(), harness.gateway.members());
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert_fault(&error, ErrorCode::ConnectionRefused, Delivered::No);
    }
    assert_eq!(harness.net.requests().len(), 1);
    let connection = harness.gateway.connection();
    assert_eq!(connection.state.as_str(), "CLOSED");
    assert!(connection.last_error.is_some());
}

#[tokio::test(start_paused = true)]
async fn connection_states_are_reported() {
    let mut harness = harness(settings());
    let state = |harness: &Harness| harness.gateway.connection().state.code();
    assert_eq!(state(&harness), 3);
    let resend = harness.send("alpha", text_message("hello"));
    let mut connection = harness.arrivals.next().await;
    assert_eq!(state(&harness), 0);
    connection.recv().await;
    connection.send(acknowledge()).await;
    connection.recv().await;
    connection.recv().await;
    assert_eq!(state(&harness), 1);
    assert_eq!(harness.gateway.connection().dialect, Some("a2a-v1"));
    resend.abort();
    harness.gateway.close().await;
    assert_eq!(state(&harness), 3);
}

#[tokio::test(start_paused = true)]
async fn h_47_disconnects_and_closes_with_1000() {
    let (harness, mut connection) = listed().await;
    let server = async {
        let leave = connection.recv().await;
        (leave, connection.recv_close().await)
    };
    let ((), (leave, code)) = tokio::join!(harness.gateway.close(), server);
    assert_eq!(
        (&leave["type"], &leave["content"]["reason"]),
        (&json!("disconnect"), &json!("shutdown"))
    );
    assert_eq!(code, Some(1000));
}

#[tokio::test(start_paused = true)]
async fn h_47_close_ends_within_a_second_on_a_deaf_gateway() {
    let mut harness = harness(settings());
    let _connection = harness.connect_with_list().await;
    let began = tokio::time::Instant::now();
    harness.gateway.close().await;
    assert!(began.elapsed() <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn h_47_reconnects_with_backoff_after_shutdown() {
    for reason in ["shutdown", "timeout", "error"] {
        let mut harness = harness(settings());
        let mut connection = harness.connect_with_list().await;
        disconnect(&mut connection, reason).await;
        wait_until_idle().await;
        harness.fail_dials(3);
        let began = tokio::time::Instant::now();
        let resend = harness.send("alpha", text_message("hello"));
        let mut connection = harness.connect().await;
        let waited = began.elapsed();
        assert!(
            (Duration::from_secs(1 + 2 + 4)..Duration::from_secs(2 + 4 + 8 + 1)).contains(&waited),
            "{waited:?}"
        );
        let request = connection.recv().await;
        connection.send(reply(&request, "alpha", "back")).await;
        assert_eq!(reply_text(resend.await.unwrap()), "back", "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn h_47_call_fails_after_five_attempts() {
    let (harness, mut connection) = listed().await;
    connection.close(1001, "").await;
    wait_until_idle().await;
    harness.fail_dials(9);
    let error = harness.refusal("alpha", text_message("hello")).await;
    assert_fault(&error, ErrorCode::ConnectionRefused, Delivered::No);
    assert_eq!(harness.net.requests().len(), 1 + 5);
}

#[tokio::test(start_paused = true)]
async fn h_47_never_connected_gateway_is_tried_once() {
    let harness = harness(settings());
    harness.fail_dials(9);
    let began = tokio::time::Instant::now();
    let error = harness.refusal("alpha", text_message("hello")).await;
    assert_eq!(error.kind, fault(ErrorCode::ConnectionRefused));
    assert_eq!(
        (harness.net.requests().len(), began.elapsed()),
        (1, Duration::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn h_47_manual_is_respected_until_the_next_call() {
    let (mut harness, mut connection) = listed().await;
    let running = harness.peer("alpha");
    disconnect(&mut connection, "manual").await;
    wait_until_idle().await;
    let error = running.send(&text_message("hello")).await.unwrap_err();
    assert_fault(&error, ErrorCode::ConnectionReset, Delivered::No);
    assert_eq!(harness.net.requests().len(), 1);
    let next = harness.send("alpha", text_message("hello"));
    let mut connection = harness.connect().await;
    let request = connection.recv().await;
    connection.send(reply(&request, "alpha", "back")).await;
    assert_eq!(reply_text(next.await.unwrap()), "back");
}

#[tokio::test(start_paused = true)]
async fn h_48_message_cut_in_flight_fails_and_is_not_resent() {
    let (mut harness, mut connection) = listed().await;
    let resend = harness.send("alpha", text_message("hello"));
    connection.recv().await;
    drop(connection);
    let error = resend.await.unwrap().unwrap_err();
    assert_fault(&error, ErrorCode::ConnectionReset, Delivered::Unknown);
    let next = harness.send("alpha", text_message("another"));
    let mut connection = harness.connect().await;
    assert_eq!(connection.recv().await["content"]["content"], "another");
    next.abort();
    assert_silent(&mut connection).await;
}

#[tokio::test(start_paused = true)]
async fn close_of_the_gateway_is_explained_with_its_reason() {
    for (code, shown) in [
        (1000, "the gateway closed the connection (`why`)"),
        (1009, "a message was too large for the gateway (`why`)"),
        (1012, "the gateway shut down or restarts (`why`)"),
        (1013, "the gateway is overloaded (`why`)"),
        (
            4000,
            "the gateway closed the connection with code 4000 (`why`)",
        ),
    ] {
        let (_harness, mut connection, _, sending) = sent(text_message("hello")).await;
        connection.close(code, "why").await;
        let error = sending.await.unwrap().unwrap_err();
        assert_fault(&error, ErrorCode::ConnectionReset, Delivered::Unknown);
        assert!(error.message.ends_with(shown), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_task_names_the_error_of_the_gateway_once() {
    let (harness, mut connection) = listed().await;
    let (request, working) = harness.start_task(&mut connection).await;
    connection
        .send(error(&request, ErrorCode::AgentOffline, "off"))
        .await;
    wait_until_idle().await;
    let failed = harness.stored("alpha", &working).await;
    assert_eq!(
        failed.status_text().as_deref(),
        Some("3002 AGENT_OFFLINE: the gateway answers: off")
    );
}

#[tokio::test(start_paused = true)]
async fn h_48_cut_task_fails_until_its_late_answer() {
    let (mut harness, mut connection) = listed().await;
    let (request, working) = harness.start_task(&mut connection).await;
    drop(connection);
    wait_until_idle().await;
    let failed = harness.stored("alpha", &working).await;
    assert_eq!(failed.state(), TaskState::Failed);
    assert!(
        failed
            .status_text()
            .unwrap()
            .contains("1003 CONNECTION_RESET")
    );
    let mut connection = harness.connect_with_list().await;
    connection.send(reply(&request, "alpha", "late")).await;
    wait_until_idle().await;
    let late = harness.stored("alpha", &working).await;
    assert_eq!(
        (late.state(), artifact_text(&late)),
        (TaskState::Completed, "late".into())
    );
}

#[tokio::test(start_paused = true)]
async fn known_status_is_reported_while_gateway_is_away() {
    let (harness, mut connection) = listed().await;
    let resend = harness.send("alpha", as_task(text_message("hello")));
    let request = connection.recv().await;
    connection.send(reply(&request, "alpha", "done")).await;
    let done = task(resend.await.unwrap());
    drop(connection);
    wait_until_idle().await;
    harness.fail_dials(9);
    let known = harness.stored("alpha", &done).await;
    assert_eq!(known.state(), TaskState::Completed);
    assert_eq!(harness.net.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn connection_opened_during_shutdown_is_closed() {
    let mut harness = harness(settings());
    let resend = harness.send("alpha", text_message("hello"));
    let mut connection = harness.arrivals.next().await;
    connection.recv().await;
    harness.gateway.close().await;
    connection.send(acknowledge()).await;
    assert_eq!(connection.recv().await["type"], "subscribe");
    assert_eq!(connection.recv().await["type"], "disconnect");
    let error = resend.await.unwrap().unwrap_err();
    assert_eq!(error.delivered, Delivered::No);
}
