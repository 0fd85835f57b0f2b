#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

/// Returns a minimal message of each type.
fn minimal(kind: Kind) -> Value {
    let content = match kind {
        Kind::Message => json!({"role": "user", "content": "hi"}),
        Kind::Status => json!({"agent": "alpha", "status": "online"}),
        Kind::Error => json!({"error": "AGENT_ERROR"}),
        Kind::Event => json!({"event": "started"}),
        Kind::Handshake => json!({"action": "advertise"}),
        Kind::Discovery | Kind::Workspace => json!({"action": "list"}),
        Kind::Subscribe | Kind::Unsubscribe => json!({"channel": "agent:status"}),
        Kind::Ping | Kind::Pong => return json!({"type": kind.as_str()}),
        Kind::Auth => json!({"token": "t"}),
        Kind::AuthResponse => json!({"status": "ok"}),
        Kind::Disconnect => json!({"reason": "manual"}),
        Kind::Proposal => json!({"proposal": "Do it"}),
        Kind::Decision => json!({"result": "approved"}),
        Kind::Vote => json!({"vote": "approve", "proposalId": "prop-1"}),
        Kind::Request => json!({"service": "search"}),
        Kind::Response => json!({"result": "done"}),
        Kind::Broadcast => json!({"message": "all hands"}),
    };
    let mut frame = json!({"type": kind.as_str(), "content": content});
    if kind == Kind::Message {
        frame["agent"] = json!("alpha");
    }
    frame
}

fn check(frame: Value) -> Result<(), ErrorCode> {
    let envelope = Envelope::from_value(frame).unwrap();
    validate(&envelope).map_err(|malformed| malformed.code)
}

/// Returns the frame with another value at a path; `None` removes the field.
fn with_field(mut frame: Value, path: &str, value: Option<Value>) -> Value {
    let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
    let names = above.split('.').filter(|name| !name.is_empty());
    let place = names.fold(&mut frame, |place, name| &mut place[name]);
    match value {
        Some(value) => place[name] = value,
        None => drop(place.as_object_mut().unwrap().remove(name)),
    }
    frame
}

#[track_caller]
fn assert_malformed(frame: Value, code: ErrorCode, path: &str) {
    let error = validate(&Envelope::from_value(frame.clone()).unwrap()).unwrap_err();
    assert_eq!(error.code, code, "{frame}");
    assert!(
        error.message.contains(&format!("`{path}`")),
        "{}",
        error.message
    );
}

#[test]
fn minimal_envelope_of_each_type_is_valid() {
    for kind in Kind::ALL {
        assert_eq!(check(minimal(*kind)), Ok(()), "{kind}");
    }
}

#[test]
fn missing_required_field_is_2002() {
    let mut checked = 0;
    for kind in Kind::ALL {
        for path in kind.required() {
            for absent in [None, Some(Value::Null)] {
                let frame = with_field(minimal(*kind), path, absent);
                assert_malformed(frame, ErrorCode::MissingField, path);
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 2 * 21);
}

#[test]
fn h_15_only_messages_need_a_role() {
    for path in ["content.role", "content.content"] {
        let frame = with_field(minimal(Kind::Message), path, None);
        assert_eq!(check(frame), Err(ErrorCode::MissingField), "{path}");
    }
    assert_eq!(check(json!({"type": "ping"})), Ok(()));
    assert_eq!(check(json!({"type": "ping", "content": {}})), Ok(()));
}

#[test]
fn h_16_content_of_a_message_is_text_or_object() {
    for (content, outcome) in [
        (json!("hi"), Ok(())),
        (json!(""), Ok(())),
        (json!({"parts": []}), Ok(())),
        (json!(["hi"]), Err(ErrorCode::InvalidType)),
        (json!(7), Err(ErrorCode::InvalidType)),
    ] {
        let message = minimal(Kind::Message);
        let frame = with_field(message, "content.content", Some(content.clone()));
        assert_eq!(check(frame), outcome, "{content}");
    }
}

#[test]
fn h_25_error_and_event_may_be_beside_the_content() {
    for (kind, text) in [("error", "Agent unknown"), ("event", "started")] {
        let frame = json!({"type": kind, kind: text, "content": {}});
        assert_eq!(check(frame), Ok(()), "{kind}");
    }
}

#[test]
fn h_36_vote_names_its_proposal_in_either_place() {
    let vote = json!({"type": "vote", "content": {"vote": "approve"}});
    assert_eq!(check(vote.clone()), Err(ErrorCode::MissingField));
    let named = with_field(vote, "metadata", Some(json!({"correlationId": "prop-1"})));
    assert_eq!(check(named), Ok(()));
}

#[test]
fn invalid_field_type_is_2003() {
    let message = || minimal(Kind::Message);
    let described = || with_field(message(), "metadata", Some(json!({})));
    let proposal = || minimal(Kind::Proposal);
    let subscribe = || minimal(Kind::Subscribe);
    for (frame, path, value) in [
        (message(), "id", json!(7)),
        (message(), "agent", json!(["alpha"])),
        (message(), "from", json!({})),
        (message(), "sessionId", json!(1)),
        (message(), "timestamp", json!(true)),
        (message(), "metadata", json!("none")),
        (message(), "content", json!("hi")),
        (message(), "content.role", json!(1)),
        (described(), "metadata.priority", json!(1)),
        (described(), "metadata.requiresResponse", json!("yes")),
        (described(), "metadata.ttl", json!("5")),
        (described(), "metadata.correlationId", json!(5)),
        (proposal(), "content.proposal", json!({"text": "x"})),
        (proposal(), "content.deadline", json!("tomorrow")),
        (minimal(Kind::Vote), "content.vote", json!(true)),
        (minimal(Kind::Subscribe), "content.agents", json!("alpha")),
        (subscribe(), "content.agents", json!(["alpha", 1])),
        (minimal(Kind::Handshake), "content.capabilities", json!([])),
        (minimal(Kind::Decision), "content.consensus", json!("true")),
        (minimal(Kind::Broadcast), "content.message", json!([])),
        (minimal(Kind::Auth), "content.token", json!(123)),
    ] {
        let frame = with_field(frame, path, Some(value));
        assert_malformed(frame, ErrorCode::InvalidType, path);
    }
}

#[test]
fn invalid_value_is_2005() {
    let message = || with_field(minimal(Kind::Message), "metadata", Some(json!({})));
    for (frame, path, value) in [
        (message(), "id", json!("")),
        (message(), "id", json!("x".repeat(129))),
        (message(), "agent", json!("")),
        (message(), "timestamp", json!(-5)),
        (message(), "timestamp", json!("yesterday")),
        (message(), "content.role", json!("robot")),
        (message(), "metadata.priority", json!("urgent")),
        (message(), "metadata.ttl", json!(-1)),
        (message(), "metadata.correlationId", json!("")),
        (minimal(Kind::Vote), "content.vote", json!("yes")),
        (minimal(Kind::Vote), "content.vote", json!("approved")),
        (minimal(Kind::Decision), "content.result", json!("approve")),
        (minimal(Kind::Disconnect), "content.reason", json!("tired")),
        (minimal(Kind::Proposal), "content.proposal", json!("")),
        (minimal(Kind::Proposal), "content.deadline", json!(-1)),
        (minimal(Kind::Subscribe), "content.channel", json!("")),
        (minimal(Kind::Request), "content.service", json!("")),
    ] {
        let frame = with_field(frame, path, Some(value));
        assert_malformed(frame, ErrorCode::InvalidContent, path);
    }
}

#[test]
fn words_of_the_triad_are_valid_in_any_case() {
    for (kind, path, word) in [
        (Kind::Vote, "content.vote", "APPROVE"),
        (Kind::Decision, "content.result", " Approved "),
    ] {
        let frame = with_field(minimal(kind), path, Some(json!(word)));
        assert_eq!(check(frame), Ok(()), "{word}");
    }
}

#[test]
fn h_17_id_has_1_to_128_characters() {
    for id in ["x".to_owned(), "ä".repeat(128), "msg-1 / two".to_owned()] {
        let frame = with_field(minimal(Kind::Message), "id", Some(json!(id)));
        assert_eq!(check(frame), Ok(()), "{id}");
    }
}

#[test]
fn h_20_unknown_fields_are_ignored() {
    let frame = json!({
        "type": "vote", "content": {"vote": "reject", "proposalId": "p", "confidence": "very"}, "mood": 7, "metadata": {"x": []},
    });
    assert_eq!(check(frame), Ok(()));
}

#[test]
fn error_keeps_the_ids_of_the_message() {
    let frame =
        json!({"type": "message", "id": "m", "content": {}, "metadata": {"correlationId": "c"}});
    let malformed = validate(&Envelope::from_value(frame).unwrap()).unwrap_err();
    assert_eq!(malformed.id.as_deref(), Some("m"));
    assert_eq!(malformed.correlation_id.as_deref(), Some("c"));
}

#[test]
fn specification_examples_are_valid() {
    for example in [
        json!({"type": "handshake", "content": {"action": "advertise", "capabilities":
            {"supportedMessageTypes": ["message", "status", "error"], "supportedAgents": ["steward", "alpha", "beta"], "version": "1.0.0"}}}),
        json!({"type": "handshake", "content": {"action": "acknowledge", "clientId": "client-uuid",
            "availableAgents": ["steward", "alpha", "beta", "charlie"], "protocolVersion": "1.0.0"}}),
        json!({"type": "auth", "content": {"token": "<JWT-or-API-key>"}}),
        json!({"type": "disconnect", "content": {"reason": "shutdown", "message": "Optional explanation"}}),
        json!({"type": "discovery", "content": {"action": "list"}}),
        json!({"type": "subscribe", "content": {"channel": "agent:status", "agents": ["steward", "alpha"]}}),
        json!({"type": "workspace", "content": {"action": "list"}}),
        json!({"type": "proposal", "from": "steward", "content": {"proposal": "Implement new feature X",
            "reasoning": "User request analysis indicates need", "deadline": 1_711_843_200_000_u64},
            "metadata": {"requiresResponse": true, "correlationId": "prop-001"}}),
        json!({"type": "vote", "from": "alpha", "content": {"proposalId": "prop-001", "vote": "approve", "reasoning": "Feature aligns with roadmap"},
            "metadata": {"correlationId": "prop-001"}}),
        json!({"type": "decision", "from": "gateway", "content": {"proposalId": "prop-001", "result": "approved",
            "votes": {"alpha": "approve", "beta": "approve", "charlie": "abstain"}, "consensus": true}}),
        json!({"type": "error", "from": "gateway", "content": {"error": "AGENT_NOT_FOUND", "message": "Agent not found: unknown-agent", "code": 3001},
            "timestamp": 1_711_843_200_000_u64}),
    ] {
        assert_eq!(check(example.clone()), Ok(()), "{example}");
    }
}
