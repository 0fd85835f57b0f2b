//! The handshake on an open connection.

use super::*;

fn with_token() -> Settings {
    Settings {
        token: Some(SecretString::from("s3cret-key")),
        ..settings()
    }
}

async fn connect_error(harness: &Harness) -> PeerError {
    let error = harness.gateway.members().await.expect_err("no greeting");
    assert_eq!(error.delivered, Delivered::No, "{error}");
    assert!(
        !format!("{error:?} {:?}", harness.log.0).contains("s3cret"),
        "{error:?}"
    );
    error
}

/// Connects to a gateway that sends each of `answers` after a frame of the client. Returns the outcome.
async fn handshake_error(settings: Settings, answers: Vec<Value>) -> PeerError {
    let mut harness = harness(settings);
    let mut arrivals = harness.arrivals();
    let server = async {
        let mut connection = arrivals.next().await;
        for answer in answers {
            connection.recv().await;
            connection.send(answer).await;
        }
        connection
    };
    tokio::join!(connect_error(&harness), server).0
}

#[tokio::test(start_paused = true)]
async fn h_08_acknowledged_advertisement_connects() {
    let mut harness = harness(settings());
    let members = harness.gateway.members();
    let server = async {
        let mut connection = harness.arrivals.next().await;
        let advertised = connection.recv().await;
        // The client sends nothing else before the acknowledgement.
        let waited = tokio::time::timeout(Duration::from_secs(5), connection.recv()).await;
        assert!(waited.is_err());
        connection.send(acknowledge()).await;
        let subscribed = connection.recv().await;
        answer_list(&mut connection, json!([])).await;
        (advertised, subscribed)
    };
    let (members, (advertised, subscribed)) = tokio::join!(members, server);
    members.unwrap();
    assert_eq!(advertised["content"]["action"], "advertise");
    assert!(advertised["timestamp"].is_u64());
    let types = advertised["content"]["capabilities"]["supportedMessageTypes"]
        .as_array()
        .unwrap();
    assert!(types.contains(&json!("message")) && types.contains(&json!("decision")));
    assert_eq!(subscribed["content"]["channel"], "agent:status");
}

#[tokio::test(start_paused = true)]
async fn h_08_missing_acknowledgement_times_out() {
    let mut harness = harness(settings());
    let mut arrivals = harness.arrivals();
    let (error, connection) = tokio::join!(connect_error(&harness), async {
        let mut connection = arrivals.next().await;
        connection.recv().await;
        connection
    });
    drop(connection);
    assert_eq!(error.kind, fault(ErrorCode::ConnectionTimeout));
    assert!(
        error.message.contains("acknowledge") && error.message.contains("30000"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn h_09_other_major_version_is_refused() {
    for (version, shown) in [
        (json!("2.0.0"), "speaks version 2.0.0 of"),
        (json!("0.9"), "speaks version 0.9 of"),
        (json!("10.0"), "speaks version 10.0 of"),
        (json!(2), "speaks version 2 of"),
        (json!(10.0), "speaks version 10.0 of"),
        (json!(true), "speaks version true of"),
        (json!(" "), "without its version (`protocolVersion`)"),
        (json!(null), "without its version (`protocolVersion`)"),
    ] {
        let mut other = acknowledge();
        other["content"]["protocolVersion"] = version.clone();
        let error = handshake_error(settings(), vec![other]).await;
        assert_eq!(error.kind, fault(ErrorCode::ProtocolError), "{version}");
        assert!(error.message.contains(shown), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn h_09_first_major_version_is_accepted_in_every_form() {
    for version in [json!("1.7"), json!("v1.0"), json!(1), json!(1.0)] {
        let mut harness = harness(settings());
        let server = async {
            let mut connection = harness.arrivals.next().await;
            let advertised = connection.recv().await;
            let mut newer = acknowledge();
            newer["content"]["protocolVersion"] = version;
            connection.send(newer).await;
            connection.recv().await;
            answer_list(&mut connection, json!([])).await;
            advertised
        };
        let (members, advertised) = tokio::join!(harness.gateway.members(), server);
        members.unwrap();
        assert_eq!(advertised["content"]["capabilities"]["version"], "1.0.0");
    }
}

#[tokio::test(start_paused = true)]
async fn h_10_credential_precedes_the_handshake() {
    let mut harness = harness(with_token());
    let server = async {
        let mut connection = harness.arrivals.next().await;
        let auth = connection.recv().await;
        let early = tokio::time::timeout(Duration::from_millis(500), connection.recv()).await;
        assert!(early.is_err());
        connection
            .send(json!({"type": "auth-response", "content": {"status": "ok"}}))
            .await;
        let handshake = connection.recv().await;
        connection.send(acknowledge()).await;
        connection.recv().await;
        answer_list(&mut connection, json!([])).await;
        (auth, handshake)
    };
    let (members, (auth, handshake)) = tokio::join!(harness.gateway.members(), server);
    members.unwrap();
    assert_eq!(
        (&auth["type"], &auth["content"]["token"]),
        (&json!("auth"), &json!("s3cret-key"))
    );
    assert_eq!(handshake["type"], "handshake");
}

#[tokio::test(start_paused = true)]
async fn h_11_acknowledgement_replaces_auth_response() {
    let mut harness = harness(with_token());
    let server = async {
        let mut connection = harness.arrivals.next().await;
        assert_eq!(connection.recv().await["type"], "auth");
        assert_eq!(connection.recv().await["type"], "handshake");
        connection.send(acknowledge()).await;
        connection.recv().await;
        answer_list(&mut connection, json!([])).await;
    };
    let (members, ()) = tokio::join!(harness.gateway.members(), server);
    members.unwrap();
}

#[tokio::test(start_paused = true)]
async fn h_11_every_accepted_auth_status_connects() {
    for status in ["ok", "success", "authenticated"] {
        let good = json!({"type": "auth-response", "content": {"status": status}});
        let error = handshake_error(with_token(), vec![good, json!({"type": "ping"})]).await;
        // The client continued with the handshake, which the gateway did not acknowledge.
        assert_eq!(error.kind, fault(ErrorCode::ConnectionTimeout), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn h_11_refused_credential_is_reported_by_its_error() {
    for (content, code) in [
        (
            json!({"status": "failed", "error": "AUTH_FAILED", "code": 5002}),
            ErrorCode::AuthFailed,
        ),
        (
            json!({"status": "failed", "code": 5003}),
            ErrorCode::TokenExpired,
        ),
        (json!({"status": "failed"}), ErrorCode::AuthFailed),
        (json!({}), ErrorCode::AuthFailed),
    ] {
        let refused = json!({"type": "auth-response", "content": content});
        let error = handshake_error(with_token(), vec![refused]).await;
        assert_eq!(error.kind, fault(code), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn h_10_missing_credential_is_reported() {
    let auth_required = json!({"type": "error", "content": {"error": "AUTH_REQUIRED", "message": "say who you are", "code": 5001}});
    let error = handshake_error(settings(), vec![auth_required]).await;
    assert_eq!(error.kind, fault(ErrorCode::AuthRequired));
}

#[tokio::test(start_paused = true)]
async fn credential_in_gateway_error_is_redacted() {
    let repeats = json!({"type": "error", "content": {"error": "AUTH_FAILED", "message": "no user s3cret-key"}});
    let error = handshake_error(with_token(), vec![repeats]).await;
    assert!(error.message.contains("[redacted]"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn h_13_handshake_advertises_no_agents() {
    let mut harness = harness(settings());
    let mut arrivals = harness.arrivals();
    let (_, advertised) = tokio::join!(connect_error(&harness), async {
        let mut connection = arrivals.next().await;
        connection.recv().await
    });
    assert!(
        advertised["content"]["capabilities"]
            .get("supportedAgents")
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn close_in_handshake_is_reported_by_its_code() {
    for (settings, code, expected, shown) in [
        (with_token(), 1008, ErrorCode::AuthFailed, "(`why`)"),
        (
            super::settings(),
            1008,
            ErrorCode::AuthRequired,
            "it may require a credential",
        ),
        (
            super::settings(),
            1011,
            ErrorCode::ConnectionRefused,
            "code 1011 (`why`)",
        ),
        (
            super::settings(),
            1012,
            ErrorCode::ConnectionRefused,
            "(`why`); try again later",
        ),
        (
            super::settings(),
            1013,
            ErrorCode::ConnectionRefused,
            "(`why`); try again later",
        ),
    ] {
        let mut harness = harness(settings);
        let mut arrivals = harness.arrivals();
        let (error, _connection) = tokio::join!(connect_error(&harness), async {
            let mut connection = arrivals.next().await;
            connection.recv().await;
            connection.close(code, "why").await;
            connection
        });
        assert_eq!(error.kind, fault(expected), "{error}");
        assert!(error.message.contains(shown), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn late_openclaw_challenge_names_the_dialect() {
    let challenge =
        json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n"}});
    let error = handshake_error(settings(), vec![challenge]).await;
    assert!(error.message.contains("is the OpenClaw gateway"), "{error}");
}
