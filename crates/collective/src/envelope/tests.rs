#![allow(clippy::unwrap_used)]

use super::*;

fn parse_error(frame: &str) -> EnvelopeError {
    Envelope::parse(frame).unwrap_err()
}

#[test]
fn specification_example_is_parsed() {
    let frame = r#"{
        "id": "msg-550e8400-e29b-41d4-a716-446655440000", "type": "message", "from": "steward", "agent": "alpha",
        "sessionId": "sess-12345", "content": {"role": "agent", "content": "Proposal received: Implement feature X"},
        "timestamp": 1711843200000,
        "metadata": {"priority": "normal", "requiresResponse": true, "threadId": "thread-abc", "correlationId": "corr-xyz"}
    }"#;
    let envelope = Envelope::parse(frame).unwrap();
    assert_eq!(envelope.kind(), Kind::Message);
    assert_eq!(
        envelope.id(),
        Some("msg-550e8400-e29b-41d4-a716-446655440000")
    );
    assert_eq!(
        (envelope.from(), envelope.agent()),
        (Some("steward"), Some("alpha"))
    );
    assert_eq!(envelope.session_id(), Some("sess-12345"));
    assert_eq!(
        envelope.content_str("content"),
        Some("Proposal received: Implement feature X")
    );
    assert_eq!(envelope.metadata("priority"), Some(&json!("normal")));
    assert_eq!(envelope.correlation_id(), Some("corr-xyz"));
    assert_eq!(envelope.parent_id(), None);
    assert_eq!(envelope.timestamp(), Some(1_711_843_200_000));
}

#[test]
fn h_20_unknown_fields_stay() {
    let frame = json!({"type": "vote", "content": {"vote": "approve", "confidence": 0.7}, "mood": [1, null]});
    let envelope = Envelope::from_value(frame.clone()).unwrap();
    assert_eq!(envelope.field("mood"), Some(&json!([1, null])));
    assert_eq!(envelope.into_json(), frame);
}

#[test]
fn non_object_and_non_json_have_different_codes() {
    for frame in ["", "{", "hello", "{'type': 'ping'}", "\u{1}"] {
        assert_eq!(parse_error(frame).code, ErrorCode::InvalidJson, "{frame}");
    }
    for frame in [
        "null",
        "[]",
        r#"[{"type":"ping"}]"#,
        "7",
        r#""ping""#,
        "true",
    ] {
        assert_eq!(parse_error(frame).code, ErrorCode::InvalidType, "{frame}");
    }
}

#[test]
fn refuses_unknown_type_with_readable_ids() {
    for (kind, code) in [
        ("", ErrorCode::MissingField),
        (r#""type":7,"#, ErrorCode::InvalidType),
        (r#""type":null,"#, ErrorCode::InvalidType),
        (r#""type":"dance","#, ErrorCode::UnknownType),
    ] {
        let frame = format!(r#"{{{kind}"id":"m","metadata":{{"correlationId":"c"}}}}"#);
        let parse_error = parse_error(&frame);
        assert_eq!(parse_error.code, code, "{frame}");
        assert_eq!(parse_error.id.as_deref(), Some("m"));
        assert_eq!(parse_error.correlation_id.as_deref(), Some("c"));
    }
}

#[test]
fn long_type_is_cut_in_the_error() {
    let frame = json!({"type": "x".repeat(10_000)}).to_string();
    assert!(parse_error(&frame).message.len() < 200);
}

#[test]
fn h_23_correlation_id_beside_content_is_a_fallback() {
    let read = |frame| Envelope::from_value(frame).unwrap();
    let top = read(json!({"type": "error", "correlationId": "top"}));
    assert_eq!(top.correlation_id(), Some("top"));
    let both = read(
        json!({"type": "error", "correlationId": "top", "metadata": {"correlationId": "inner"}}),
    );
    assert_eq!(both.correlation_id(), Some("inner"));
    let odd = read(json!({"type": "error", "correlationId": 7, "metadata": "none"}));
    assert_eq!(odd.correlation_id(), None);
}

#[test]
fn missing_content_is_null() {
    let envelope = Envelope::parse(r#"{"type":"ping"}"#).unwrap();
    assert_eq!(envelope.content(), &Value::Null);
    assert_eq!(envelope.content_str("content"), None);
}

#[test]
fn fields_are_set_and_removed() {
    let envelope = Envelope::new(Kind::Ping, json!({}))
        .with("id", "p")
        .with("agent", "x")
        .with("agent", Value::Null)
        .with_metadata("ttl", 5)
        .with_metadata("parentId", "q")
        .with_metadata("parentId", Value::Null);
    assert_eq!(
        envelope.into_json(),
        json!({"type": "ping", "content": {}, "id": "p", "metadata": {"ttl": 5}})
    );
}

#[test]
fn non_object_metadata_is_unchanged() {
    let envelope = Envelope::parse(r#"{"type":"ping","metadata":"none"}"#).unwrap();
    let envelope = envelope.with_metadata("ttl", 5);
    assert_eq!(envelope.field("metadata"), Some(&json!("none")));
}

#[test]
fn written_values_round_trip() {
    let envelope =
        Envelope::new(Kind::Broadcast, json!({"message": "Grüße\n日本"})).with("from", "steward");
    assert_eq!(Envelope::parse(&envelope.to_text()), Ok(envelope));
}

#[test]
fn h_18_message_expires_ttl_seconds_after_timestamp() {
    let written = 1_000_000;
    let envelope = |timestamp: Value, ttl: Value| {
        Envelope::from_value(
            json!({"type": "message", "timestamp": timestamp, "metadata": {"ttl": ttl}}),
        )
        .unwrap()
    };
    let five = envelope(json!(written), json!(5));
    assert!(!five.is_expired(written + 5_000));
    assert!(five.is_expired(written + 5_001));
    assert!(envelope(json!("1970-01-01T00:16:40Z"), json!(0)).is_expired(written + 1));
    assert!(!envelope(json!(written), json!(null)).is_expired(u64::MAX));
    assert!(!envelope(json!(null), json!(5)).is_expired(u64::MAX));
    // A clock that is ahead of ours does not make a message old.
    assert!(!five.is_expired(written - 1));
}

fn request() -> Envelope {
    let content = json!({"role": "user", "content": "hi"});
    Envelope::new(Kind::Message, content)
        .with("id", "msg-1")
        .with_metadata("correlationId", "corr-1")
}

#[test]
fn h_25_error_has_name_code_message_and_correlation() {
    let error = Envelope::error(
        ErrorCode::AgentNotFound,
        "There is no such agent",
        Some(&request()),
    );
    assert_eq!(
        error.into_json(),
        json!({
            "type": "error",
            "from": "gateway",
            "content": {"error": "AGENT_NOT_FOUND", "message": "There is no such agent", "code": 3001},
            "metadata": {"correlationId": "corr-1", "parentId": "msg-1"},
        })
    );
}

#[test]
fn connection_error_answers_no_message() {
    let error = Envelope::error(ErrorCode::AuthRequired, "Say who you are", None);
    assert_eq!(error.field("metadata"), None);
}

#[test]
fn answer_to_malformed_frame_uses_readable_ids() {
    let frame = r#"{"type": "dance", "id": "m", "correlationId": "top"}"#;
    let answer = Envelope::parse(frame).unwrap_err().answer();
    assert_eq!(answer.content()["code"], 2004);
    assert_eq!(answer.correlation_id(), Some("top"));
    assert_eq!(answer.parent_id(), Some("m"));
}

#[test]
fn answer_has_the_ids_of_its_request() {
    let content = json!({"role": "agent", "content": "hello"});
    let answer = Envelope::answer(Kind::Message, content.clone(), &request());
    assert_eq!(answer.content(), &content);
    assert_eq!(answer.correlation_id(), Some("corr-1"));
    assert_eq!(answer.parent_id(), Some("msg-1"));
}

#[test]
fn h_18_timestamp_is_milliseconds_or_iso_8601() {
    let same = 1_711_843_200_000;
    for timestamp in [
        json!(1_711_843_200_000_u64),
        json!(1_711_843_200_000.0),
        json!("2024-03-31T00:00:00Z"),
        json!("2024-03-31T00:00:00.000Z"),
        json!("2024-03-31T02:00:00+02:00"),
        json!("2024-03-30T18:30:00.000000-0530"),
    ] {
        assert_eq!(time_millis(&timestamp), Some(same), "{timestamp}");
    }
    assert_eq!(
        time_millis(&json!("2024-03-31T00:00:00.1239999999Z")),
        Some(same + 123)
    );
}

#[test]
fn h_18_anything_else_is_no_timestamp() {
    for timestamp in [
        json!(null),
        json!(-1),
        json!(1e300),
        json!(true),
        json!(""),
        json!("yesterday"),
        json!("2024-03-31"),
        json!("2024-03-31T00:00:00"),
        json!("2024-03-31T00:00:00."),
        json!("2024-03-31T00:00:00+2"),
        json!("2024-03-31T00:00:00+99:00"),
        json!("2024-13-31T00:00:00Z"),
        json!("1969-12-31T23:59:59Z"),
        json!("2024-03-31T00:00:0äZ"),
        json!({"ms": 1}),
    ] {
        assert_eq!(time_millis(&timestamp), None, "{timestamp}");
    }
}

#[test]
fn h_25_error_is_read_in_every_place_and_form() {
    let offline = Some(ErrorCode::AgentOffline);
    let registry = "3002 AGENT_OFFLINE";
    for (frame, code, label, text) in [
        (
            json!({"content": {"error": "AGENT_OFFLINE", "message": "off", "code": 3002}}),
            offline,
            Some(registry),
            Some("off"),
        ),
        (
            json!({"content": {"error": "agent_offline"}}),
            offline,
            Some(registry),
            None,
        ),
        (
            json!({"content": {"code": "3002", "message": "off"}}),
            offline,
            Some(registry),
            Some("off"),
        ),
        (
            json!({"content": {"code": "AGENT_OFFLINE"}}),
            offline,
            Some(registry),
            None,
        ),
        (
            json!({"content": {"error": {"code": 3002, "message": "off"}}}),
            offline,
            Some(registry),
            Some("off"),
        ),
        (
            json!({"error": {"code": 3002, "message": "off"}}),
            offline,
            Some(registry),
            Some("off"),
        ),
        (
            json!({"error": "AGENT_OFFLINE", "details": "off"}),
            offline,
            Some(registry),
            Some("off"),
        ),
        (
            json!({"content": {"error": "QUOTA", "message": "much", "code": 7001}}),
            None,
            Some("7001 QUOTA"),
            Some("much"),
        ),
        (json!({"content": {"code": 7001}}), None, Some("7001"), None),
        (
            json!({"content": {"error": "QUOTA"}}),
            None,
            Some("QUOTA"),
            None,
        ),
        (
            json!({"content": {"error": "no such thing"}}),
            None,
            None,
            Some("no such thing"),
        ),
        (
            json!({"error": "no such thing"}),
            None,
            None,
            Some("no such thing"),
        ),
        (json!({"content": "it broke"}), None, None, Some("it broke")),
        (
            json!({"content": {"message": " ", "code": -1}}),
            None,
            None,
            None,
        ),
        (json!({"content": null}), None, None, None),
        (json!({}), None, None, None),
    ] {
        let mut fields = frame.clone();
        fields["type"] = "error".into();
        let envelope = Envelope::from_value(fields).unwrap();
        let stated = envelope.stated_error();
        assert_eq!(
            (stated.code, stated.label().as_deref(), stated.text),
            (code, label, text),
            "{frame}"
        );
        assert_eq!(envelope.error_code(), code);
    }
}
