//! Calls to the agents of a gateway.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use collective::AgentStatus;
use peer::HostSession;

use super::fake::{FakeGateway, Fixture, member, triad};

fn two() -> FakeGateway {
    FakeGateway::with(vec![
        member("alpha", None, AgentStatus::Online),
        member("beta", None, AgentStatus::Online),
        triad(),
    ])
}

/// Returns the result of a message to alpha.
async fn sent_to_alpha() -> Value {
    let fixture = Fixture::new(two(), json!({}));
    fixture.send("gateway:alpha", json!({})).await
}

#[tokio::test]
async fn result_names_agent_transport_and_continuation() {
    let sent = sent_to_alpha().await;
    let summary = &sent["summary"];
    assert_eq!(summary["target_alias"], "gateway:alpha");
    assert_eq!(summary["target_url"], "http://127.0.0.1:18789/");
    assert_eq!(summary["transport"], "GATEWAY");
    assert_eq!(summary["protocol_version"], "a2a-v1");
    assert_eq!(
        summary["continuation"]["target"],
        json!({"target_url": "http://127.0.0.1:18789/", "card_path": "/agents/alpha", "preferred_transports": ["GATEWAY"],
            "target_alias": "gateway:alpha"})
    );
    assert_eq!(summary["continuation"]["task"]["task_id"], "run-1");
    assert_eq!(summary["continuation"]["conversation"]["context_id"], "s-1");
}

#[tokio::test]
async fn continuation_works_in_another_process() {
    let sent = sent_to_alpha().await;
    let continuation = &sent["summary"]["continuation"];
    for action in ["status", "cancel"] {
        let fixture = Fixture::new(two(), json!({}));
        let done = fixture
            .call(json!({"action": action, "continuation": continuation}))
            .await;
        assert_eq!(done["ok"], true, "{done}");
        assert_eq!(done["raw"]["id"], "run-1");
    }
    let fixture = Fixture::new(two(), json!({}));
    let parts = json!([{"kind": "text", "text": "more"}]);
    let request = json!({"action": "send", "continuation": continuation, "parts": parts});
    assert_eq!(fixture.call(request).await["ok"], true);
    let received = fixture.gateway.received.lock().unwrap();
    assert_eq!(received.sent[0].context_id.as_deref(), Some("s-1"));
}

#[tokio::test]
async fn handle_resolves_to_its_agent() {
    let fixture = Fixture::new(two(), json!({}));
    let sent = fixture.send("gateway:beta", json!({})).await;
    let handle = &sent["summary"]["continuation"]["task"]["task_handle"];
    let continuation = &sent["summary"]["continuation"];
    let status = fixture
        .call(json!({"action": "status", "task_handle": handle}))
        .await;
    assert_eq!(status["summary"]["target_alias"], "gateway:beta");
    let whole = json!({"action": "status", "continuation": continuation});
    assert_eq!(fixture.call(whole).await["ok"], true);
    let other = json!({"action": "status", "task_handle": handle, "target_alias": "gateway:alpha"});
    assert_eq!(
        fixture.call(other).await["error"]["reason"],
        "contradiction"
    );
}

#[tokio::test]
async fn continuation_of_another_gateway_is_refused_with_hint() {
    let sent = sent_to_alpha().await;
    let request = json!({"action": "status", "continuation": sent["summary"]["continuation"]});
    let other_gateway = Fixture::new(two(), json!({"url": "ws://127.0.0.1:18790"}));
    let refused = other_gateway.call(request.clone()).await;
    assert_eq!(refused["error"]["reason"], "target_not_allowed");
    let hint = refused["error"]["details"]["hint"].as_str().unwrap();
    assert!(
        hint.contains("list_targets") && hint.contains("gateway.url"),
        "{hint}"
    );
    assert_eq!(other_gateway.gateway.received.lock().unwrap().opened, []);
}

#[tokio::test]
async fn only_allowed_agents_may_call() {
    let fixture = Fixture::new(two(), json!({"allowedAgents": ["main"]}));
    let send = json!({"action": "send", "target_alias": "gateway:alpha", "parts": [{"kind": "text", "text": "hi"}]});
    let allowed = fixture
        .call_as(json!({"agent_id": "main"}), send.clone())
        .await;
    assert_eq!(allowed["ok"], true, "{allowed}");
    let continuation = &allowed["summary"]["continuation"];
    for (caller, request) in [
        (json!({"agent_id": "clerk"}), send.clone()),
        (json!({}), send),
        (
            json!({"agent_id": "clerk"}),
            json!({"action": "status", "continuation": continuation}),
        ),
        (
            json!({"agent_id": "clerk"}),
            json!({"action": "status", "task_handle": continuation["task"]["task_handle"]}),
        ),
    ] {
        let refused = fixture.call_as(caller, request).await;
        assert_eq!(refused["error"]["reason"], "agent_not_allowed", "{refused}");
        let hint = refused["error"]["details"]["hint"].as_str().unwrap();
        assert!(hint.contains("gateway.allowedAgents"), "{hint}");
    }
    let listed = fixture.call_as(
        json!({"agent_id": "main"}),
        json!({"action": "list_targets"}),
    );
    assert!(listed.await["summary"]["gateway"].is_object());
}

#[tokio::test]
async fn each_agent_has_its_own_permits() {
    let unblock = Arc::new(Notify::new());
    let gateway = FakeGateway {
        unblock: Some(Arc::clone(&unblock)),
        ..two()
    };
    let config = json!({"limits": {"concurrencyPerTarget": 1}});
    let fixture = Arc::new(Fixture::with_config(gateway, config));
    let first = tokio::spawn({
        let fixture = Arc::clone(&fixture);
        async move { fixture.send("gateway:alpha", json!({})).await }
    });
    while fixture.gateway.received.lock().unwrap().sent.is_empty() {
        tokio::task::yield_now().await;
    }
    let late = fixture
        .send("gateway:alpha", json!({"timeout_ms": 1}))
        .await;
    assert_eq!(late["error"]["reason"], "busy");
    let other = fixture.send("gateway:beta", json!({}));
    let free = async {
        while fixture.gateway.received.lock().unwrap().sent.len() < 2 {
            tokio::task::yield_now().await;
        }
        unblock.notify_waiters();
    };
    let (other, ()) = tokio::join!(other, free);
    assert_eq!(other["ok"], true, "{other}");
    assert_eq!(first.await.unwrap()["ok"], true);
}

#[tokio::test]
async fn open_receives_the_calling_session() {
    let fixture = Fixture::new(two(), json!({}));
    let caller = json!({"agent_id": "main", "session_key": "agent:main:x", "state_dir": "/state"});
    let request = json!({"action": "status", "target_alias": "gateway:alpha", "task_id": "run-1"});
    fixture.call_as(caller, request).await;
    let session = HostSession {
        session_key: "agent:main:x".to_owned(),
        state_dir: Some("/state".into()),
    };
    let received = fixture.gateway.received.lock().unwrap();
    assert_eq!(received.opened, [("alpha".to_owned(), Some(session))]);
}

#[tokio::test]
async fn message_metadata_gains_the_delegation_chain() {
    let fixture = Fixture::new(two(), json!({}));
    let caller = json!({"chain": {"hop": 2, "chain": "c"}});
    let request = json!({"action": "send", "target_alias": "gateway:alpha", "parts": [{"kind": "text", "text": "hi"}],
        "metadata": {"priority": "high"}});
    fixture.call_as(caller, request).await;
    let received = fixture.gateway.received.lock().unwrap();
    let metadata = received.sent[0].metadata.as_ref().unwrap();
    assert_eq!(metadata["priority"], "high");
    assert_eq!(
        metadata[gateway_bridge::delegation::DELEGATION_KEY]["hop"],
        3
    );
}

#[tokio::test]
async fn delegation_beyond_the_depth_is_refused() {
    let fixture = Fixture::new(two(), json!({}));
    let caller = json!({"chain": {"hop": 4, "chain": "c"}});
    let request = json!({"action": "send", "target_alias": "gateway:triad", "parts": [{"kind": "text", "text": "hi"}]});
    let refused = fixture.call_as(caller, request).await;
    assert_eq!(refused["error"]["reason"], "delegation_too_deep");
    assert_eq!(fixture.gateway.received.lock().unwrap().sent.len(), 0);
}

#[tokio::test]
async fn fields_a_gateway_cannot_carry_are_refused() {
    let fixture = Fixture::new(two(), json!({}));
    for (name, value) in [
        ("service_parameters", json!({"x-a": "b"})),
        (
            "push_notification_config",
            json!({"url": "https://call.example/"}),
        ),
        ("reference_task_ids", json!(["t-0"])),
        ("accepted_output_modes", json!(["text/plain"])),
    ] {
        let refused = fixture.send("gateway:alpha", json!({name: value})).await;
        assert_eq!(refused["error"]["reason"], "invalid_request", "{refused}");
        let place = &refused["error"]["details"]["errors"][0]["instancePath"];
        assert_eq!(*place, json!(format!("/{name}")));
    }
    assert_eq!(fixture.gateway.received.lock().unwrap().sent.len(), 0);
}

#[tokio::test]
async fn audit_and_spans_name_agent_and_transport() {
    let folder = std::env::temp_dir().join(format!("remote-agent-{}", uuid::Uuid::new_v4()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("audit.jsonl");
    let fixture = Fixture::with_config(two(), json!({"audit": {"enabled": true, "path": file}}));
    fixture.send("gateway:alpha", json!({})).await;
    fixture.agent.audit().unwrap().close();
    let line: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let line = [
        "target",
        "origin",
        "transport",
        "task_id",
        "context_id",
        "outcome",
    ]
    .map(|name| line[name].as_str().unwrap().to_owned());
    assert_eq!(
        line,
        [
            "gateway:alpha",
            "ws://127.0.0.1:18789",
            "GATEWAY",
            "run-1",
            "s-1",
            "ok"
        ]
    );
    let lines = fixture.log.0.lock().unwrap();
    let has = |parts: [&str; 2]| {
        lines
            .iter()
            .any(|line| parts.iter().all(|part| line.contains(part)))
    };
    assert!(has(["span peer.send", "transport=GATEWAY"]), "{lines:?}");
    assert!(has(["span call", "target=gateway:alpha"]), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn close_waits_at_most_a_second() {
    for hangs_on_close in [false, true] {
        let gateway = FakeGateway {
            hangs_on_close,
            ..two()
        };
        let fixture = Fixture::new(gateway, json!({}));
        let began = tokio::time::Instant::now();
        fixture.agent.close().unwrap().await;
        let waited = Duration::from_secs(hangs_on_close.into());
        assert_eq!(began.elapsed(), waited);
        assert_eq!(fixture.gateway.received.lock().unwrap().closed, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn blocking_send_becomes_a_task_before_the_deadline() {
    let fixture = Fixture::with_config(two(), json!({"limits": {"waitMs": 25_000}}));
    for (more, wait) in [
        (json!({}), 25_000),
        (json!({"timeout_ms": 60_000}), 59_000),
        (json!({"timeout_ms": 1_000}), 900),
    ] {
        fixture.send("gateway:alpha", more).await;
        let waits = fixture.gateway.received.lock().unwrap().waits.pop();
        assert_eq!(waits, Some(Duration::from_millis(wait)));
    }
}
