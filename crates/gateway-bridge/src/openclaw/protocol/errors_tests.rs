//! Errors of the gateway.

#![allow(clippy::unwrap_used)]
use super::*;

/// Reads the error of a refused request.
fn refused(error: &Value) -> RpcError {
    let frame = json!({"type": "res", "id": "1", "ok": false, "error": error}).to_string();
    match read(&frame) {
        Some(Incoming::Response { answer, .. }) => answer.unwrap_err(),
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn odd_member_of_an_error_does_not_hide_the_others() {
    for (error, text, code, detail) in [
        (json!("boom"), "boom", "", ""),
        (json!(null), "no reason given", "", ""),
        (json!({}), "no reason given", "", ""),
        (json!(["boom"]), "no reason given", "", ""),
        (json!({"code": 500, "message": "boom"}), "boom", "500", ""),
        (json!({"code": 500}), "no reason given, code 500", "500", ""),
        (
            json!({"code": "unavailable", "message": " "}),
            "no reason given, code UNAVAILABLE",
            "UNAVAILABLE",
            "",
        ),
        (
            json!({"code": "X", "message": {"t": "boom"}}),
            r#"{"t":"boom"}"#,
            "X",
            "",
        ),
        (
            json!({"code": "X", "message": {"message": "boom"}}),
            "boom",
            "X",
            "",
        ),
        (json!({"message": "boom", "details": "d"}), "boom", "", ""),
        (
            json!({"code": "INVALID_REQUEST", "message": null, "details": {"code": "AUTH_TOKEN_MISMATCH"}}),
            "no reason given, code INVALID_REQUEST",
            "INVALID_REQUEST",
            "AUTH_TOKEN_MISMATCH",
        ),
    ] {
        let read = refused(&error);
        assert_eq!(
            (&*read.text(), &*read.code, &*read.detail),
            (text, code, detail),
            "{error}"
        );
    }
}

#[test]
fn refused_request_is_not_delivered_and_retryable_as_the_gateway_says() {
    for (error, number, delivered) in [
        (
            json!({"code": "UNAVAILABLE", "message": "overloaded", "retryable": true}),
            3003,
            Delivered::No,
        ),
        (
            json!({"code": "unavailable", "message": "overloaded"}),
            3003,
            Delivered::No,
        ),
        (
            json!({"code": "UNAVAILABLE", "message": "over", "retryable": false}),
            3004,
            Delivered::No,
        ),
        (
            json!({"code": "RATE_LIMITED", "message": "slow down"}),
            3003,
            Delivered::No,
        ),
        (
            json!({"code": "INTERNAL", "details": {"retryable": true}}),
            3003,
            Delivered::No,
        ),
        (
            json!({"code": "INVALID_REQUEST", "message": "no"}),
            2005,
            Delivered::No,
        ),
        (
            json!({"code": "FORBIDDEN", "message": "no"}),
            5004,
            Delivered::No,
        ),
        (
            json!({"code": "INVALID_REQUEST", "message": "unknown agent id \"x\""}),
            3001,
            Delivered::No,
        ),
        (
            json!({"code": "INTERNAL", "message": "exploded"}),
            3004,
            Delivered::Unknown,
        ),
        (json!("boom"), 3004, Delivered::Unknown),
    ] {
        let refusal = request_error(&refused(&error), "agent", "main");
        assert_eq!(
            (refusal.kind, refusal.delivered),
            (
                PeerErrorKind::Gateway(ErrorCode::from_number(number).unwrap()),
                delivered
            ),
            "{error}"
        );
    }
}

#[test]
fn error_with_the_result_of_a_run_is_one_of_the_run() {
    let run = json!({"runId": "m-1", "status": "error", "summary": "no model"});
    let error = json!({"code": "UNAVAILABLE", "message": "no model", "retryable": true});
    for frame in [
        json!({"type": "res", "id": "1", "ok": false, "payload": run, "error": error}),
        json!({"type": "res", "id": "1", "ok": false, "payload": run}),
    ] {
        let text = frame.to_string();
        let Some(Incoming::Response { answer, .. }) = read(&text) else {
            unreachable!("{frame}")
        };
        let error = request_error(&answer.unwrap_err(), "agent", "main");
        assert_eq!(
            (error.kind, error.delivered),
            (
                PeerErrorKind::Gateway(ErrorCode::AgentError),
                Delivered::Yes
            ),
            "{frame}"
        );
        assert!(error.message.contains("the run of the agent `main` failed"));
    }
}

#[test]
fn limited_attempts_to_connect_do_not_blame_the_token() {
    let limited = rpc_error(
        "INVALID_REQUEST",
        "too many failed attempts",
        "AUTH_RATE_LIMITED",
    );
    for sent_token in [true, false] {
        let error = connect_error(&limited, sent_token);
        assert_eq!(error.kind, PeerErrorKind::Gateway(ErrorCode::AgentBusy));
        assert!(
            error.message.contains("try again later") && !error.message.contains("token"),
            "{error}"
        );
    }
}

fn rpc_error(code: &str, message: &str, detail: &str) -> RpcError {
    RpcError {
        code: code.into(),
        message: message.into(),
        detail: detail.into(),
        ..RpcError::default()
    }
}

#[test]
fn invalid_token_names_the_setting_of_openclaw() {
    let error = connect_error(
        &rpc_error("INVALID_REQUEST", "unauthorized", "AUTH_TOKEN_MISMATCH"),
        true,
    );
    assert_eq!(error.kind, PeerErrorKind::Gateway(ErrorCode::AuthFailed));
    assert!(error.message.contains("`gateway.auth.token`"), "{error}");
    assert_eq!(error.delivered, Delivered::No);
}

#[test]
fn device_request_without_token_is_missing_token() {
    let pairing = rpc_error(
        "NOT_PAIRED",
        "device identity required",
        "DEVICE_IDENTITY_REQUIRED",
    );
    let error = connect_error(&pairing, false);
    assert_eq!(error.kind, PeerErrorKind::Gateway(ErrorCode::AuthRequired));
    assert!(error.message.contains("requires its token"), "{error}");
}

#[test]
fn connection_refusals_map_to_errors() {
    let code =
        |code, message, detail| match connect_error(&rpc_error(code, message, detail), true).kind {
            PeerErrorKind::Gateway(code) => code.number(),
            _ => 0,
        };
    assert_eq!(
        code("INVALID_REQUEST", "unauthorized", "AUTH_TOKEN_MISSING"),
        5001
    );
    assert_eq!(code("INVALID_REQUEST", "protocol mismatch", ""), 1004);
    assert_eq!(
        code("NOT_PAIRED", "pairing required", "PAIRING_REQUIRED"),
        5004
    );
    assert_eq!(code("UNAVAILABLE", "starting", ""), 3003);
    assert_eq!(code("INVALID_REQUEST", "invalid connect params", ""), 1001);
}

#[test]
fn request_refusals_map_to_errors() {
    let number =
        |code, message| match request_error(&rpc_error(code, message, ""), "agent", "ghost").kind {
            PeerErrorKind::Gateway(code) => code.number(),
            _ => 0,
        };
    assert_eq!(
        number(
            "INVALID_REQUEST",
            "invalid agent params: unknown agent id \"ghost\""
        ),
        3001
    );
    assert_eq!(
        number(
            "INVALID_REQUEST",
            "UnsupportedAttachmentError: attachment a.txt"
        ),
        2005
    );
    assert_eq!(number("FORBIDDEN", "missing scope: operator.write"), 5004);
    assert_eq!(number("INVALID_REQUEST", "unauthorized"), 5004);
    assert_eq!(number("UNAVAILABLE", "queue is full"), 3003);
    assert_eq!(number("INTERNAL", "exploded"), 3004);
}

#[test]
fn request_cut_in_flight_is_uncertain() {
    assert_eq!(
        connection_lost("it went away").delivered,
        Delivered::Unknown
    );
}
