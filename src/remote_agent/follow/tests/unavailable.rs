//! Targets that do not answer: the breaker, and what listings say.

use egress::NetFault;
use peer::PeerErrorKind;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::remote_agent::ToolCall;

const DOWN: PeerErrorKind = PeerErrorKind::Net(NetFault::Unreachable);

/// Returns an agent whose breaker opens after two failures, and which answers these polls.
fn agent(answers: &[PeerErrorKind]) -> Fixture {
    Fixture::new(Script {
        polls: answers
            .iter()
            .map(|kind| PollReply::Refused(*kind))
            .collect(),
        target: json!({"breaker": {"failures": 2}}),
        ..Script::default()
    })
}

async fn reason(fixture: &Fixture) -> Value {
    let status = json!({"action": "status", "target_alias": "agent", "task_id": "t"});
    fixture.call(status).await["error"]["reason"].take()
}

/// Returns what a listing says of the agent's health, and the text that a model reads.
async fn listed(fixture: &Fixture, caller: &str) -> (Value, String) {
    let call = ToolCall {
        request: r#"{"action": "list_targets"}"#,
        caller: Some(caller),
        updates: None,
        person: None,
        cancel: CancellationToken::new(),
        closing: CancellationToken::new(),
    };
    let envelope = fixture.agent.execute(call).await;
    let text = fixture.agent.render(&envelope, usize::MAX);
    let mut envelope: Value = serde_json::from_str(&envelope).unwrap();
    (envelope["summary"]["targets"][0]["health"].take(), text)
}

#[tokio::test]
async fn calls_to_a_target_that_is_down_fail_at_once() {
    let fixture = agent(&[DOWN]);
    let (_, healthy) = listed(&fixture, "{}").await;
    assert_eq!(reason(&fixture).await, "unreachable");
    let (health, text) = listed(&fixture, "{}").await;
    assert_eq!(health, Value::Null);
    assert_eq!(text.lines().nth(1), healthy.lines().nth(1));
    assert_eq!(reason(&fixture).await, "unreachable");
    assert_eq!(reason(&fixture).await, "target_unavailable");
    let refused = fixture.call(send()).await;
    let details = &refused["error"]["details"];
    assert_eq!(
        refused["error"]["reason"], "target_unavailable",
        "{refused}"
    );
    assert_eq!(refused["error"]["retryable"], true, "{refused}");
    assert_eq!(details["delivered"], "no", "{refused}");
    assert!(
        details["retry_after_ms"].as_u64().unwrap() > 20_000,
        "{refused}"
    );
    assert_eq!(fixture.calls(), ["get", "get"]);
    let (health, text) = listed(&fixture, "{}").await;
    let known = health.as_object().unwrap();
    assert_eq!(known.keys().collect::<Vec<_>>(), ["retry_after_ms"]);
    assert!(
        text.contains("does not answer: calls to it fail for 30 s"),
        "{text}"
    );
    let (health, _) = listed(&fixture, r#"{"operator": "cli"}"#).await;
    assert_eq!(
        (&health["calls"], &health["failed"]),
        (&json!(2), &json!(2))
    );
}

/// A refusal of the credential is an answer, and reaches the caller each time.
#[tokio::test]
async fn refused_credential_is_not_hidden() {
    let fixture = agent(&[
        DOWN,
        PeerErrorKind::AuthRequired,
        DOWN,
        PeerErrorKind::AuthRequired,
    ]);
    for expected in [
        "unreachable",
        "auth_required",
        "unreachable",
        "auth_required",
        "auth_required",
    ] {
        assert_eq!(reason(&fixture).await, expected);
    }
}

/// A stream that opens and then says nothing is no sign that its agent is down.
#[tokio::test(start_paused = true)]
async fn silent_stream_is_an_answer() {
    let silent = SubscribeReply::Events(vec![], StreamEnd::Hang);
    let fixture = Fixture::new(Script {
        streaming: Some(true),
        subscriptions: vec![silent, SubscribeReply::Never],
        target: json!({"breaker": {"failures": 1}}),
        ..Script::default()
    });
    for _ in 0..2 {
        let result = fixture.call(watch()).await;
        assert_eq!(result["summary"]["wait_expired"], true, "{result}");
    }
    // The second stream did not even open.
    let (health, _) = listed(&fixture, r#"{"operator": "cli"}"#).await;
    assert_eq!(
        (&health["calls"], &health["failed"]),
        (&json!(1), &json!(0))
    );
}
