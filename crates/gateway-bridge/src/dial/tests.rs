#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use secrecy::SecretString;
use serde_json::json;

use super::*;
use crate::testing::{Arrivals, DialAnswer, ScriptedNet, network};
use egress::NetFault;
use peer::Delivered;

fn settings(dialect: DialectChoice) -> Settings {
    Settings {
        dialect,
        token: Some(SecretString::from("s3cret")),
        ..Settings::new(Url::parse("ws://127.0.0.1:18789").unwrap())
    }
}

/// Dials a gateway that first sends `first_frame`. Returns the outcome.
async fn dial_with(first_frame: Value, dialect: DialectChoice) -> Result<DialedSocket, PeerError> {
    dial_at(network(), first_frame, dialect).await
}

async fn dial_at(
    (net, mut arrivals): (ScriptedNet, Arrivals),
    first_frame: Value,
    dialect: DialectChoice,
) -> Result<DialedSocket, PeerError> {
    let settings = settings(dialect);
    let server = async {
        let mut connection = arrivals.next().await;
        connection.send(first_frame).await;
        connection
    };
    let (dialed, _connection) = tokio::join!(dial(&net, &settings), server);
    dialed
}

async fn dial_error(net: &ScriptedNet, settings: &Settings) -> (PeerErrorKind, String) {
    let error = dial(net, settings).await.expect_err("no gateway");
    assert_eq!(error.delivered, Delivered::No, "{error}");
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    (error.kind, error.message)
}

async fn dial_answer_error(answer: DialAnswer) -> (PeerErrorKind, String) {
    let (net, _arrivals) = network();
    net.queue_answers([answer]);
    dial_error(&net, &settings(DialectChoice::Auto)).await
}

fn challenge() -> Value {
    json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n", "ts": 1}})
}

fn welcome() -> Value {
    json!({"type": "welcome", "clientId": "gw-1", "timestamp": "2026-11-21T20:19:15.117Z",
        "gateway": {"version": "1.0.0", "port": 18890}})
}

const PROTOCOL_ERROR: PeerErrorKind = PeerErrorKind::Gateway(ErrorCode::ProtocolError);

#[tokio::test(start_paused = true)]
async fn challenge_identifies_openclaw_gateway() {
    for dialect in [DialectChoice::Auto, DialectChoice::OpenClaw] {
        let dialed = dial_with(challenge(), dialect).await.unwrap();
        assert_eq!(dialed.greeting, Some(Greeting::OpenClaw));
    }
}

#[tokio::test(start_paused = true)]
async fn silence_of_150_ms_is_a2a_v1() {
    let (net, _arrivals) = network();
    let began = Instant::now();
    let dialed = dial(&net, &settings(DialectChoice::Auto)).await.unwrap();
    assert_eq!(dialed.greeting, None);
    assert_eq!(began.elapsed(), Duration::from_millis(150));
}

#[tokio::test(start_paused = true)]
async fn configured_gateway_has_the_connect_timeout() {
    let (net, mut arrivals) = network();
    let settings = settings(DialectChoice::OpenClaw);
    let server = async {
        let mut connection = arrivals.next().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        connection.send(challenge()).await;
        connection
    };
    let (dialed, _connection) = tokio::join!(dial(&net, &settings), server);
    assert_eq!(dialed.unwrap().greeting, Some(Greeting::OpenClaw));
}

#[tokio::test(start_paused = true)]
async fn silent_configured_gateway_times_out() {
    for dialect in [DialectChoice::OpenClaw, DialectChoice::HeretekJs] {
        let (net, _arrivals) = network();
        let (kind, message) = dial_error(&net, &settings(dialect)).await;
        assert_eq!(kind, PeerErrorKind::Gateway(ErrorCode::ConnectionTimeout));
        assert!(message.contains("ws://127.0.0.1:18789"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn unconfigured_gateway_is_named_in_the_error() {
    use DialectChoice::{A2aV1, Auto, HeretekJs, OpenClaw};
    let ping = json!({"type": "ping", "content": {}});
    let openclaw = "is the OpenClaw gateway";
    let without_a2a = "is the OpenClaw gateway, which does not speak a2a-v1";
    for (frame, dialect, named) in [
        (challenge(), A2aV1, without_a2a),
        (challenge(), HeretekJs, openclaw),
        (welcome(), Auto, "JavaScript gateway"),
        (welcome(), A2aV1, "JavaScript gateway"),
        (welcome(), OpenClaw, "JavaScript gateway"),
        (ping, OpenClaw, "speaks a2a-v1"),
    ] {
        let error = dial_with(frame, dialect).await.expect_err(named);
        assert_eq!(error.kind, PROTOCOL_ERROR, "{error}");
        assert!(
            error.message.contains(named) && error.message.contains("gateway.dialect"),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn javascript_gateway_requires_its_dialect() {
    let dialed = dial_with(welcome(), DialectChoice::HeretekJs)
        .await
        .unwrap();
    assert_eq!(dialed.greeting, Some(Greeting::HeretekJs));
}

#[tokio::test(start_paused = true)]
async fn early_a2a_v1_message_is_kept_for_handshake() {
    let frame = json!({"type": "status", "content": {"agent": "alpha", "status": "busy"}});
    let dialed = dial_with(frame.clone(), DialectChoice::Auto).await.unwrap();
    assert_eq!(dialed.greeting, None);
    let first: Value = serde_json::from_str(&dialed.first.unwrap()).unwrap();
    assert_eq!(first, frame);
}

#[tokio::test(start_paused = true)]
async fn foreign_websocket_is_not_a_gateway() {
    for frame in [
        json!({"event": "hello", "seq": 0}),
        json!([1]),
        json!("hi"),
        json!(null),
        json!({"type": "welcome"}),
    ] {
        let error = dial_with(frame, DialectChoice::Auto)
            .await
            .expect_err("a stranger");
        assert_eq!(error.kind, PROTOCOL_ERROR, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn h_01_url_is_used_unchanged() {
    for url in ["ws://127.0.0.1:1/deep/path?x=1", "ws://127.0.0.1:1/"] {
        let (net, _arrivals) = network();
        let url = Url::parse(url).unwrap();
        dial(&net, &Settings::new(url.clone())).await.unwrap();
        let requests = net.requests();
        assert_eq!((requests.len(), &requests[0].url), (1, &url));
    }
}

#[tokio::test(start_paused = true)]
async fn h_01_wrong_path_is_reported_without_fallback() {
    for status in [400, 404] {
        let (net, _arrivals) = network();
        net.queue_answers([DialAnswer::Status(status, None)]);
        let (kind, message) = dial_error(&net, &settings(DialectChoice::Auto)).await;
        assert_eq!((kind, net.requests().len()), (PROTOCOL_ERROR, 1));
        assert!(
            message.contains("no WebSocket gateway at this path"),
            "{message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn h_02_accepts_no_subprotocol_or_the_offered_one() {
    let (net, _arrivals) = network();
    net.queue_answers([DialAnswer::With("sec-websocket-protocol", "a2a-v1")]);
    let chosen = dial(&net, &settings(DialectChoice::Auto)).await.unwrap();
    assert_eq!(chosen.socket.protocol.as_deref(), Some("a2a-v1"));
    let none = dial(&net, &settings(DialectChoice::Auto)).await.unwrap();
    assert_eq!(none.socket.protocol, None);
    for request in net.requests() {
        assert_eq!(request.headers["sec-websocket-protocol"], "a2a-v1");
    }
}

#[tokio::test(start_paused = true)]
async fn h_02_another_subprotocol_is_refused() {
    let (kind, message) =
        dial_answer_error(DialAnswer::With("sec-websocket-protocol", "chat")).await;
    assert_eq!(kind, PROTOCOL_ERROR);
    assert!(message.contains("subprotocol"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn h_02_echoed_subprotocol_does_not_select_dialect() {
    let (net, arrivals) = network();
    net.queue_answers([DialAnswer::With("sec-websocket-protocol", "a2a-v1")]);
    let dialed = dial_at((net, arrivals), challenge(), DialectChoice::Auto).await;
    assert_eq!(dialed.unwrap().greeting, Some(Greeting::OpenClaw));
}

#[tokio::test(start_paused = true)]
async fn h_03_remote_gateway_needs_allow_remote_and_wss() {
    for (url, allow_remote, access) in [
        ("ws://127.0.0.1:1", false, AddressPolicy::Loopback),
        ("ws://gateway.example", false, AddressPolicy::Loopback),
        ("ws://gateway.example", true, AddressPolicy::Loopback),
        ("wss://gateway.example", false, AddressPolicy::Loopback),
        ("wss://gateway.example", true, AddressPolicy::AnyAddress),
    ] {
        let (net, _arrivals) = network();
        let url = Url::parse(url).unwrap();
        let settings = Settings {
            allow_remote,
            ..Settings::new(url.clone())
        };
        dial(&net, &settings).await.unwrap();
        assert_eq!(net.requests()[0].access, access, "{url} {allow_remote}");
    }
}

#[tokio::test(start_paused = true)]
async fn h_03_refused_address_names_the_setting() {
    let (kind, message) = dial_answer_error(DialAnswer::Fails(NetFault::AddressRefused)).await;
    assert_eq!(kind, PeerErrorKind::Net(NetFault::AddressRefused));
    assert!(message.contains("gateway.allowRemote"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn h_03_redirect_is_refused() {
    let (kind, _) = dial_answer_error(DialAnswer::Status(302, None)).await;
    assert_eq!(kind, PeerErrorKind::RedirectRefused);
}

#[tokio::test(start_paused = true)]
async fn web_page_is_reported_as_control_ui() {
    let (kind, message) = dial_answer_error(DialAnswer::Status(200, Some("text/html"))).await;
    assert_eq!(kind, PROTOCOL_ERROR);
    assert!(message.contains("Control UI"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn other_refusals_keep_their_reason() {
    let unreachable = DialAnswer::Fails(NetFault::Unreachable);
    for (answer, code) in [
        (DialAnswer::Status(503, None), ErrorCode::ConnectionRefused),
        (DialAnswer::Status(500, None), ErrorCode::ProtocolError),
        (unreachable, ErrorCode::ConnectionRefused),
        (DialAnswer::Fails(NetFault::Cut), ErrorCode::ConnectionReset),
        (DialAnswer::Silence, ErrorCode::ConnectionTimeout),
    ] {
        let (kind, _) = dial_answer_error(answer).await;
        assert_eq!(kind, PeerErrorKind::Gateway(code));
    }
}

#[tokio::test(start_paused = true)]
async fn unauthorized_upgrade_says_whether_a_token_is_set() {
    for status in [401, 403] {
        for token in [None, Some("s3cret")] {
            let (net, _arrivals) = network();
            net.queue_answers([DialAnswer::Status(status, None)]);
            let settings = Settings {
                token: token.map(Into::into),
                ..settings(DialectChoice::Auto)
            };
            let error = dial(&net, &settings).await.unwrap_err();
            assert_eq!(
                (error.kind, error.delivered, error.http_status),
                (
                    PeerErrorKind::Gateway(ErrorCode::AuthRequired),
                    Delivered::No,
                    Some(status)
                )
            );
            assert_eq!(error.message.contains("no token is set"), token.is_none());
        }
    }
}

async fn closed_with(arrivals: &mut Arrivals, code: u16) -> super::super::testing::Connection {
    let mut connection = arrivals.next().await;
    connection.close(code, "Unauthorized").await;
    connection
}

#[tokio::test(start_paused = true)]
async fn early_close_is_refusal_and_4001_invalid_token() {
    for (code, expected) in [
        (4001, ErrorCode::AuthFailed),
        (1008, ErrorCode::ConnectionRefused),
    ] {
        let (net, mut arrivals) = network();
        let settings = settings(DialectChoice::Auto);
        let (dialed, _connection) =
            tokio::join!(dial(&net, &settings), closed_with(&mut arrivals, code));
        assert_eq!(dialed.unwrap_err().kind, PeerErrorKind::Gateway(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn early_close_has_its_reason_and_says_when_to_try_again() {
    for (code, is_temporary) in [(1008, false), (1012, true), (1013, true)] {
        let (net, mut arrivals) = network();
        let settings = settings(DialectChoice::Auto);
        let (dialed, _connection) =
            tokio::join!(dial(&net, &settings), closed_with(&mut arrivals, code));
        let error = dialed.unwrap_err();
        assert!(error.message.contains("(`Unauthorized`)"), "{error}");
        assert_eq!(
            error.message.contains("try again later"),
            is_temporary,
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn h_12_token_is_never_in_the_url() {
    for dialect in [DialectChoice::Auto, DialectChoice::A2aV1] {
        let (net, _arrivals) = network();
        dial(&net, &settings(dialect)).await.unwrap();
        let requests = net.requests();
        assert!(!requests[0].url.as_str().contains("s3cret"));
        assert!(
            requests[0]
                .headers
                .values()
                .all(|value| !value.as_bytes().windows(6).any(|w| w == b"s3cret"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn h_12_token_in_query_requires_heretek_js() {
    let (net, _arrivals) = network();
    let auto = Settings {
        token_in_query: true,
        ..settings(DialectChoice::Auto)
    };
    let (kind, message) = dial_error(&net, &auto).await;
    assert_eq!((kind, net.requests().len()), (PROTOCOL_ERROR, 0));
    assert!(message.contains("tokenInQuery"), "{message}");
    let (net, _arrivals) = network();
    let heretek_js = Settings {
        token_in_query: true,
        ..settings(DialectChoice::HeretekJs)
    };
    let (_, message) = dial_error(&net, &heretek_js).await;
    assert_eq!(net.requests()[0].url.query(), Some("token=s3cret"));
    assert!(!message.contains("token="), "{message}");
}
