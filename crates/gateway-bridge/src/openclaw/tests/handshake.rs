//! The handshake.

use super::*;
use peer::LocalGateway as _;

#[tokio::test]
async fn greeting_requests_minimal_scopes() {
    let (link, _gateway) = connect_with(async |gateway, id, params| {
        assert_eq!(
            (&params["minProtocol"], &params["maxProtocol"]),
            (&json!(4), &json!(4))
        );
        assert_eq!(
            (&params["client"]["id"], &params["client"]["mode"]),
            (&json!("gateway-client"), &json!("backend"))
        );
        assert_eq!(params["scopes"], json!(["operator.read", "operator.write"]));
        assert_eq!(params["auth"]["token"], "a-token-of-the-gateway");
        gateway.answer(id, hello()).await;
    })
    .await;
    assert_eq!(link.unwrap().dialect(), "openclaw/4");
}

#[tokio::test]
async fn invalid_token_is_reported_and_redacted() {
    let (link, _gateway) = connect_with(async |gateway, id, _| {
        gateway.0.send(json!({"type": "res", "id": id, "ok": false, "error": {"code": "INVALID_REQUEST",
            "message": "unauthorized: gateway token mismatch", "details": {"code": "AUTH_TOKEN_MISMATCH"}}})).await;
        gateway.0.close(1008, "unauthorized").await;
    })
    .await;
    let error = link.err().unwrap();
    assert_error(&error, 5002, Delivered::No);
    assert!(
        error.message.contains("refuses the token") && !error.message.contains("a-token-of"),
        "{error}"
    );
}

#[tokio::test]
async fn close_before_greeting_is_reported_with_its_code() {
    for (code, expected) in [
        (1008, "does not allow"),
        (1000, "closed the connection"),
        (1002, "protocol 4"),
        (1008, "the address or the token may be wrong"),
        (1012, "restarts (`why`); try again later"),
        (1013, "overloaded (`why`); try again later"),
    ] {
        let (link, _gateway) =
            connect_with(async |gateway, _, _| gateway.0.close(code, "why").await).await;
        let error = link.err().unwrap();
        assert!(
            error.message.contains(expected) && error.message.contains("why"),
            "{code}: {error}"
        );
    }
}

#[tokio::test]
async fn handshake_without_write_scope_is_refused() {
    let (link, _gateway) = connect_with(async |gateway, id, _| {
        let mut hello = hello();
        hello["auth"]["scopes"] = json!([]);
        gateway.answer(id, hello).await;
    })
    .await;
    assert_eq!(error_number(&link.err().unwrap()), 5004);
}

#[tokio::test(start_paused = true)]
async fn unanswered_handshake_times_out() {
    let started_at = Instant::now();
    let (link, _gateway) = connect_with(async |_, _, _| {}).await;
    assert_eq!(error_number(&link.err().unwrap()), 1002);
    assert_eq!(started_at.elapsed(), settings().timeout);
}

#[tokio::test]
async fn gateway_refusal_is_redacted_and_capped() {
    let (link, _gateway) = connect_with(async |gateway, id, _| {
        let message = format!("a-token-of-the-gateway {}", "x".repeat(5_000));
        gateway.refuse(id, "INVALID_REQUEST", &message).await;
    })
    .await;
    let Err(error) = link else { panic!("let in") };
    assert!(!error.message.contains("a-token-of-the-gateway"), "{error}");
    assert!(error.message.len() < 600, "{}", error.message.len());
}

#[tokio::test(start_paused = true)]
async fn gateway_that_greets_late_is_dialed_once_more() {
    let (net, mut arrivals) = network();
    let gateway = crate::BridgedGateway::new(
        Arc::new(net.clone()),
        settings(),
        Arc::new(SystemEnvironment),
        Arc::new(Silent),
    );
    let challenge =
        || json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n"}});
    let server = async {
        // The gateway sends no frame before the timeout, so the client assumes that it is an `a2a-v1` gateway.
        let mut first = arrivals.next().await;
        assert_eq!(first.recv().await["type"], "auth");
        first.send(challenge()).await;
        assert_eq!(first.recv_close().await, Some(1000));
        let mut second = arrivals.next().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        second.send(challenge()).await;
        let mut second = Gateway(second);
        for (method, payload) in [
            ("connect", hello()),
            ("agents.list", json!({"agents": [{"id": "alpha"}]})),
            ("sessions.list", json!({"sessions": []})),
        ] {
            let (id, _) = second.next_request(method).await;
            second.answer(&id, payload).await;
        }
        second
    };
    let (members, _second) = tokio::join!(gateway.members(), server);
    assert_eq!(members.unwrap()[0].name, "alpha");
    assert_eq!(gateway.connection().dialect, Some("openclaw/4"));
    assert_eq!(net.requests().len(), 2);
}
