//! The scripted agent and the requester, against gateways that send literal JSON.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use collective::{ErrorCode, Kind, Vote};
use testkit::conformance::gateways::Gateways;

/// A running agent `alpha` and its events.
struct Agent {
    events: mpsc::UnboundedReceiver<AgentEvent>,
    running: JoinHandle<Result<(), ClientError>>,
    shutdown: CancellationToken,
}

impl Agent {
    fn start(gateway: &Gateways, vote: Option<Vote>) -> Self {
        Self::at(Endpoint::new(gateway.url().parse().unwrap()), vote)
    }

    fn at(endpoint: Endpoint, vote: Option<Vote>) -> Self {
        let script = Script {
            name: "alpha".to_owned(),
            ballot: vote.map(|vote| Ballot {
                vote,
                reasoning: "The tests are green.".to_owned(),
                confidence: Some(0.9),
            }),
            delay: Duration::ZERO,
            reply: "I read: {text}".to_owned(),
        };
        let (on_event, events) = mpsc::unbounded_channel();
        let on_event = Mutex::new(on_event);
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let running = tokio::spawn(async move {
            let on_event = move |event: &AgentEvent| {
                let _ = on_event.lock().unwrap().send(event.clone());
            };
            Connector::new()
                .unwrap()
                .serve(endpoint, script, on_event, stop)
                .await
        });
        Self {
            events,
            running,
            shutdown,
        }
    }

    async fn next(&mut self) -> AgentEvent {
        let next = tokio::time::timeout(Duration::from_secs(10), self.events.recv());
        next.await.expect("an event").expect("a running agent")
    }

    async fn connected(&mut self) {
        let next = self.next().await;
        assert!(matches!(next, AgentEvent::Connected(_)), "{next:?}");
    }
}

/// Returns the step of a gateway that acknowledges a client.
fn acknowledge(version: Value) -> Value {
    json!({"send": {"type": "handshake", "content": {"action": "acknowledge", "clientId": "c-1",
        "availableAgents": ["alpha"], "protocolVersion": version}}})
}

/// Starts a gateway that acknowledges every client, sends it `first`, and then applies `rules`.
async fn gateway(first: &[Value], rules: &[Value]) -> Gateways {
    let acts = [&[acknowledge(json!("1.0.0"))], first].concat();
    let mut on = rules.to_vec();
    on.push(json!({"when": {"/type": "handshake"}, "do": acts}));
    let profile = json!({"upgrade": {"protocol": "echo"}, "on": on});
    Gateways::start(&profile).await.unwrap()
}

/// Waits for a message of this type from the agent.
async fn received(gateway: &Gateways, kind: &str) -> Value {
    let when = json!({ "/type": kind });
    let frame = tokio::time::timeout(Duration::from_secs(10), gateway.log().frame(1, &when));
    frame.await.expect("a message of the agent")
}

#[tokio::test]
async fn vote_has_proposal_id_reasoning_and_confidence() {
    let proposal = json!({"send": {"type": "proposal", "id": "m-1", "from": "steward",
        "content": {"proposal": "Ship it"}, "metadata": {"correlationId": "prop-1"}}});
    let gateway = gateway(&[proposal], &[]).await;
    let mut alpha = Agent::start(&gateway, Some(Vote::Reject));
    alpha.connected().await;
    let next = alpha.next().await;
    assert_eq!(
        next,
        AgentEvent::Proposed("prop-1".into(), "Ship it".into())
    );
    let vote = received(&gateway, "vote").await;
    assert_eq!(
        vote["content"],
        json!({"proposalId": "prop-1", "vote": "reject", "reasoning": "The tests are green.", "confidence": 0.9})
    );
    assert_eq!(
        (
            &vote["from"],
            &vote["metadata"]["correlationId"],
            &vote["metadata"]["parentId"]
        ),
        (&json!("alpha"), &json!("prop-1"), &json!("m-1"))
    );
    let next = alpha.next().await;
    assert_eq!(next, AgentEvent::Voted("prop-1".into(), Vote::Reject));
}

#[tokio::test]
async fn voter_reports_decision_though_subscription_failed() {
    let refused = json!({"when": {"/type": "subscribe"}, "do": [
        {"send": {"type": "error", "content": {"error": "PERMISSION_DENIED", "code": 5004, "message": "no"}, "metadata": {"parentId": "{{/id}}"}}},
        {"send": {"type": "event", "content": {"channel": "triad:decision", "proposalId": "prop-1", "result": "approved"}}}]});
    let gateway = gateway(&[], &[refused]).await;
    let mut alpha = Agent::start(&gateway, Some(Vote::Approve));
    alpha.connected().await;
    let next = alpha.next().await;
    assert_eq!(
        next,
        AgentEvent::Decided("prop-1".into(), "approved".into())
    );
}

#[tokio::test]
async fn agent_replies_only_if_required() {
    let message = |id: &str, required: bool| {
        json!({"send": {"type": "message", "id": id, "from": "steward", "agent": "alpha", "sessionId": "s-1",
            "content": {"role": "user", "content": id}, "metadata": {"correlationId": id, "requiresResponse": required}}})
    };
    let gateway = gateway(&[message("m-1", false), message("m-2", true)], &[]).await;
    let mut alpha = Agent::start(&gateway, None);
    alpha.connected().await;
    let answer = received(&gateway, "message").await;
    assert_eq!(
        answer["content"],
        json!({"role": "agent", "content": "I read: m-2"})
    );
    assert_eq!(
        [
            &answer["agent"],
            &answer["sessionId"],
            &answer["metadata"]["correlationId"]
        ],
        ["steward", "s-1", "m-2"]
    );
    let next = alpha.next().await;
    assert_eq!(
        next,
        AgentEvent::Received("steward".into(), "m-1".into(), None)
    );
    let next = alpha.next().await;
    assert_eq!(
        next,
        AgentEvent::Received("steward".into(), "m-2".into(), None)
    );
    assert_eq!(
        alpha.next().await,
        AgentEvent::Answered("I read: m-2".into())
    );
    let all = gateway.log().matching(&json!({"/type": "message"}));
    assert_eq!(all.len(), 1, "{all:?}");
}

#[tokio::test]
async fn agent_rejects_other_major_version() {
    for (version, shown) in [
        (json!("2.0.0"), "speaks version `2.0.0`"),
        (json!("0.9"), "speaks version `0.9`"),
        (json!(2), "speaks version `2`"),
        (json!(null), "names no version"),
    ] {
        let rule = json!({"when": {"/type": "handshake"}, "do": [acknowledge(version.clone())]});
        let gateway = gateway(&[], &[rule]).await;
        let alpha = Agent::start(&gateway, None);
        let ended = tokio::time::timeout(Duration::from_secs(10), alpha.running).await;
        let error = ended.expect("an end").unwrap().unwrap_err();
        assert_eq!(
            error.kind,
            ClientErrorKind::Refused(ErrorCode::ProtocolError),
            "{version}"
        );
        assert!(error.message.contains(shown), "{error}");
    }
}

#[tokio::test]
async fn agent_reconnects_after_gateway_shutdown() {
    let first = json!({"connection": 1, "when": {"/type": "handshake"}, "do": [
        acknowledge(json!("1.0.0")),
        {"send": {"type": "disconnect", "content": {"reason": "shutdown"}}},
        {"close": {"code": 1001}}]});
    let gateway = gateway(&[], &[first]).await;
    let mut alpha = Agent::start(&gateway, None);
    alpha.connected().await;
    let AgentEvent::Lost(error, pause) = alpha.next().await else {
        panic!("not lost")
    };
    assert_eq!(error.kind, ClientErrorKind::Unreachable);
    assert!(pause <= Duration::from_millis(250), "{pause:?}");
    alpha.connected().await;
}

#[tokio::test]
async fn watch_reconnects_after_a_loss_before_its_subscription() {
    let first = json!({"connection": 1, "when": {"/type": "handshake"}, "do": [
        acknowledge(json!("1.0.0")),
        {"close": {"code": 1001}}]});
    let gateway = gateway(&[], &[first]).await;
    let (sender, mut observations) = mpsc::unbounded_channel();
    let watch = tokio::spawn(async move {
        let observe = move |observation: &Observation| {
            let _ = sender.send(observation.clone());
        };
        let endpoint = Endpoint::new(gateway.url().parse().unwrap());
        let connector = Connector::new().unwrap();
        let shutdown = CancellationToken::new();
        connector.watch(endpoint, false, observe, shutdown).await
    });
    let mut connections = 0;
    while connections < 2 {
        let next = tokio::time::timeout(Duration::from_secs(10), observations.recv());
        let observation = next.await.expect("an observation").expect("a watch");
        connections += usize::from(matches!(observation, Observation::Connected(_)));
    }
    watch.abort();
}

#[tokio::test]
async fn agent_stays_disconnected_after_manual_disconnect() {
    let disconnect =
        json!({"send": {"type": "disconnect", "content": {"reason": "manual", "message": "bye"}}});
    let gateway = gateway(&[disconnect], &[]).await;
    let mut alpha = Agent::start(&gateway, None);
    alpha.connected().await;
    assert_eq!(alpha.next().await, AgentEvent::Disconnected("bye".into()));
    assert_eq!(alpha.running.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn stopped_agent_sends_disconnect() {
    let gateway = gateway(&[], &[]).await;
    let mut alpha = Agent::start(&gateway, None);
    alpha.connected().await;
    alpha.shutdown.cancel();
    assert_eq!(alpha.running.await.unwrap(), Ok(()));
    let sent = received(&gateway, "disconnect").await;
    assert_eq!(sent["content"]["reason"], "manual");
}

#[tokio::test]
async fn refused_agent_returns_the_gateway_error() {
    let refused = json!({"when": {"/type": "handshake"}, "do": [{"send": {"type": "error",
        "content": {"error": "PERMISSION_DENIED", "code": 5004, "message": "`alpha` is served\nby another connection"}}}]});
    let gateway = gateway(&[], &[refused]).await;
    let error = Agent::start(&gateway, None)
        .running
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(
        error.kind,
        ClientErrorKind::Refused(ErrorCode::PermissionDenied)
    );
    let one_line = "`alpha` is served by another connection";
    assert!(error.message.contains(one_line), "{error}");
}

#[tokio::test]
async fn requester_skips_replies_to_other_requests() {
    let answers = json!({"when": {"/type": "discovery"}, "do": [
        {"send": {"type": "discovery", "content": {"agents": []}, "metadata": {"correlationId": "another"}}},
        {"send": {"type": "discovery", "content": {"agents": [{"name": "alpha"}]}, "metadata": {"correlationId": "{{/metadata/correlationId}}"}}}]});
    let gateway = gateway(&[], &[answers]).await;
    let endpoint = Endpoint::new(gateway.url().parse().unwrap());
    let mut requester = Connector::new().unwrap().connect(endpoint).await.unwrap();
    let found = requester.discover().await.unwrap();
    assert_eq!(found["agents"][0]["name"], "alpha");
}

#[tokio::test]
async fn request_without_reply_times_out() {
    let gateway = gateway(&[], &[]).await;
    let endpoint = Endpoint {
        timeout: Duration::from_millis(200),
        ..Endpoint::new(gateway.url().parse().unwrap())
    };
    let mut requester = Connector::new().unwrap().connect(endpoint).await.unwrap();
    let error = requester.request(Kind::Ping, json!({})).await.unwrap_err();
    assert_eq!(error.kind, ClientErrorKind::Timeout);
    assert!(error.message.contains("200 ms"), "{error}");
}

/// Forwards connections to a gateway. After a notification, it keeps the open connections but forwards nothing more on them.
async fn proxy(gateway: &Gateways, stall: Arc<Notify>) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let address = gateway.address();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let stall = Arc::clone(&stall);
            let mut server = TcpStream::connect(address).await.unwrap();
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
                    () = stall.notified() => {}
                }
                std::future::pending::<()>().await;
            });
        }
    });
    Endpoint {
        heartbeat: Duration::from_millis(200),
        ..Endpoint::new(url.parse().unwrap())
    }
}

#[tokio::test]
async fn agent_reconnects_after_a_half_open_connection() {
    let gateway = gateway(&[], &[]).await;
    let stall = Arc::new(Notify::new());
    let mut alpha = Agent::at(proxy(&gateway, Arc::clone(&stall)).await, None);
    alpha.connected().await;
    stall.notify_waiters();
    let lost = alpha.next().await;
    let AgentEvent::Lost(error, _) = lost else {
        panic!("{lost:?}");
    };
    assert!(error.message.contains("not even a ping"), "{error}");
    alpha.connected().await;
}

#[tokio::test]
async fn silent_gateway_that_answers_pings_keeps_its_agent() {
    // The message arrives after many heartbeats.
    let message = json!({"type": "message", "from": "steward", "content": {"role": "user", "content": "hello"}});
    let late = json!({"repeat": {"count": 2, "gap_ms": 1200, "each": [{ "send": message }]}});
    let gateway = gateway(&[late], &[]).await;
    let stall = Arc::new(Notify::new());
    let mut alpha = Agent::at(proxy(&gateway, stall).await, None);
    alpha.connected().await;
    for _ in 0..2 {
        let next = alpha.next().await;
        assert!(matches!(next, AgentEvent::Received(..)), "{next:?}");
    }
}

#[tokio::test]
async fn request_over_a_half_open_connection_fails() {
    let gateway = gateway(&[], &[]).await;
    let stall = Arc::new(Notify::new());
    let endpoint = proxy(&gateway, Arc::clone(&stall)).await;
    let mut requester = Connector::new().unwrap().connect(endpoint).await.unwrap();
    stall.notify_waiters();
    let message = Message {
        agent: "alpha".to_owned(),
        text: "hello".to_owned(),
        session_id: None,
    };
    let result = requester
        .send_and_wait(&message, Duration::from_secs(60), |_| {})
        .await;
    assert_eq!(result.unwrap_err().kind, ClientErrorKind::Unreachable);
}
