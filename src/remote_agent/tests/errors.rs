//! Errors of a gateway.

use serde_json::{Value, json};

use collective::{AgentStatus, ErrorCode};
use egress::NetFault;
use peer::{Delivered, PeerError, PeerErrorKind};

use super::fake::{FakeGateway, Fixture, member, peer_error};

fn refusing(error: PeerError) -> Fixture {
    let gateway = FakeGateway {
        peer_error: Some(error),
        ..FakeGateway::with(vec![member("alpha", None, AgentStatus::Online)])
    };
    Fixture::new(gateway, json!({}))
}

async fn sent(error: PeerError) -> Value {
    let sent = refusing(error).send("gateway:alpha", json!({})).await;
    sent["error"].clone()
}

#[tokio::test]
async fn registry_errors_keep_name_and_number() {
    for code in ErrorCode::ALL {
        let error = sent(peer_error(*code)).await;
        let of = match code {
            ErrorCode::AgentNotFound => "TARGET_RESOLUTION_ERROR",
            _ => "A2A_SDK_ERROR",
        };
        assert_eq!(error["code"], of, "{code}");
        assert_eq!(error["reason"], code.name().to_ascii_lowercase(), "{code}");
        assert_eq!(error["details"]["gateway_code"], code.number(), "{code}");
    }
}

#[tokio::test]
async fn send_is_retryable_only_where_not_processed() {
    for code in ErrorCode::ALL {
        let error = sent(peer_error(*code)).await;
        let may = matches!(
            code,
            ErrorCode::AgentBusy | ErrorCode::SessionLocked | ErrorCode::ConnectionRefused
        );
        assert_eq!(error["retryable"], may, "{code}");
    }
    for code in [ErrorCode::ConnectionTimeout, ErrorCode::ConnectionReset] {
        let error = sent(peer_error(code).undelivered()).await;
        assert_eq!(error["retryable"], true, "{code}");
    }
}

#[tokio::test]
async fn refusal_is_undelivered_and_cut_is_unknown() {
    for (code, delivered) in [
        (ErrorCode::AgentOffline, "no"),
        (ErrorCode::PermissionDenied, "no"),
        (ErrorCode::InvalidContent, "no"),
        (ErrorCode::ConnectionReset, "unknown"),
        (ErrorCode::AgentError, "yes"),
    ] {
        let error = sent(peer_error(code)).await;
        assert_eq!(error["details"]["delivered"], delivered, "{code}");
    }
    let mut forwarded = peer_error(ErrorCode::InvalidContent);
    forwarded.delivered = Delivered::Yes;
    assert_eq!(sent(forwarded).await["details"]["delivered"], "yes");
}

#[tokio::test]
async fn hints_name_gateway_settings() {
    use PeerErrorKind::{Gateway, Net};
    for (fault, setting) in [
        (Gateway(ErrorCode::AuthRequired), "gateway.token"),
        (Gateway(ErrorCode::AuthFailed), "gateway.token"),
        (Gateway(ErrorCode::TokenExpired), "gateway.token"),
        (Gateway(ErrorCode::ProtocolError), "gateway.dialect"),
        (PeerErrorKind::AuthRequired, "gateway.token"),
        (Net(NetFault::AddressRefused), "gateway.allowRemote"),
        (Net(NetFault::Dns), "gateway.url"),
        (PeerErrorKind::HttpStatus, "gateway.url"),
    ] {
        let error = sent(PeerError::new(fault, "no").undelivered()).await;
        let hint = error["details"]["hint"].as_str().unwrap();
        assert!(
            hint.contains(setting) && !hint.contains("targets[]"),
            "{hint}"
        );
    }
}

#[tokio::test]
async fn unknown_task_and_own_session_have_reasons() {
    for (fault, reason) in [
        (PeerErrorKind::TaskForgotten, "task_forgotten"),
        (PeerErrorKind::OwnSession, "own_session"),
    ] {
        let error = sent(PeerError::new(fault, "no")).await;
        assert_eq!(error["reason"], reason);
        assert_eq!(error["retryable"], false);
    }
}

#[tokio::test]
async fn query_is_retryable_after_a_cut() {
    let fixture = refusing(peer_error(ErrorCode::ConnectionReset));
    let request = json!({"action": "status", "target_alias": "gateway:alpha", "task_id": "run-1"});
    let received = fixture.call(request).await;
    assert_eq!(received["error"]["retryable"], true);
}
