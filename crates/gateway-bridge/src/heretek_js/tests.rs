//! Frames recorded from a real gateway of this kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use serde_json::{Value, json};
use url::Url;

use crate::testing::{Arrivals, Connection, ScriptedNet, TestEnvironment, network};
use crate::{BridgedGateway, DialectChoice, Settings};
use a2a::{Part, Reply, SendRequest, TaskState};
use base::log::Silent;
use collective::{AgentStatus, ErrorCode};
use peer::{
    CallOptions, CardLocation, Delivered, LocalGateway as _, Peer, PeerConfig, PeerError,
    PeerErrorKind, PeerProvider as _,
};

fn settings(query: &str) -> Settings {
    Settings {
        dialect: DialectChoice::HeretekJs,
        ..Settings::new(Url::parse(&format!("ws://127.0.0.1:18890/a2a{query}")).unwrap())
    }
}

struct Harness {
    gateway: BridgedGateway,
    net: ScriptedNet,
    arrivals: Arrivals,
}

fn harness(query: &str) -> Harness {
    let (net, arrivals) = network();
    let env = Arc::new(TestEnvironment::new());
    let gateway = BridgedGateway::new(
        Arc::new(net.clone()),
        settings(query),
        env,
        Arc::new(Silent),
    );
    Harness {
        gateway,
        net,
        arrivals,
    }
}

impl Harness {
    fn peer(&self, agent: &str) -> Arc<dyn Peer> {
        let base = Url::parse("http://127.0.0.1:18890").unwrap();
        let reach = PeerConfig::new(base, CardLocation::Path(format!("/agents/{agent}")));
        let card = crate::members::card(agent, None, &settings(""));
        self.gateway
            .open(&reach, &card, &CallOptions::default())
            .unwrap()
            .into()
    }

    /// Sends a message to alpha and replies with the result of `answer`.
    async fn send_and_answer(
        &mut self,
        answer: impl Fn(&Value, &str) -> Value,
    ) -> (Result<Reply, PeerError>, Value) {
        let peer = self.peer("alpha");
        let outgoing = text_message("status?");
        let server = async {
            let (mut connection, name) = register(&mut self.arrivals).await;
            let request = connection.recv().await;
            connection.send(answer(&request, &name)).await;
            (connection, request)
        };
        let (reply, (_connection, request)) = tokio::join!(peer.send(&outgoing), server);
        (reply, request)
    }
}

/// Returns a registered connection and its name.
async fn register(arrivals: &mut Arrivals) -> (Connection, String) {
    let mut connection = arrivals.next().await;
    connection
        .send(
            json!({"type": "welcome", "clientId": "gw-1795292355117-885a1808",
        "timestamp": "2026-11-21T20:19:15.117Z", "gateway": {"version": "1.0.0", "port": 18890}}),
        )
        .await;
    let register = connection.recv().await;
    assert_eq!(register["type"], "register");
    let name = register["agentId"].as_str().unwrap().to_owned();
    connection
        .send(
            json!({"type": "registered", "agentId": name, "timestamp": "2026-11-21T20:19:16.538Z",
        "connectedAgents": [name, "alpha"]}),
        )
        .await;
    (connection, name)
}

#[track_caller]
fn assert_undelivered(error: &PeerError, code: ErrorCode) {
    let expected = (PeerErrorKind::Gateway(code), Delivered::No);
    assert_eq!((error.kind, error.delivered), expected);
}

/// Returns a message that waits for its answer.
fn text_message(text: &str) -> SendRequest {
    SendRequest {
        message_id: "m-1".into(),
        parts: vec![Part::text(text.into())],
        blocking: true,
        ..SendRequest::default()
    }
}

fn reply(request: &Value, to: &str) -> Value {
    json!({"type": "message", "agent": to, "content": {"role": "agent", "content": "all well"},
        "metadata": {"correlationId": request["metadata"]["correlationId"]}, "from": "alpha",
        "timestamp": "2026-11-21T20:19:17.364Z"})
}

#[tokio::test(start_paused = true)]
async fn correlation_id_is_in_both_places() {
    let (reply, request) = harness("").send_and_answer(reply).await;
    let Reply::Message(message) = reply.unwrap() else {
        panic!("a message")
    };
    assert_eq!(message.text().as_deref(), Some("all well"));
    assert_eq!(
        (&request["type"], &request["agent"]),
        (&json!("message"), &json!("alpha"))
    );
    assert!(request["correlationId"].is_string());
    assert_eq!(
        request["correlationId"],
        request["metadata"]["correlationId"]
    );
}

#[tokio::test(start_paused = true)]
async fn registration_name_is_random_or_from_the_url() {
    let name = async |query| {
        let mut harness = harness(query);
        let server = register(&mut harness.arrivals);
        let (_, (_connection, name)) = tokio::join!(harness.gateway.members(), server);
        name
    };
    assert_eq!(name("?agentId=bridge").await, "bridge");
    assert_ne!(name("").await, name("").await);
}

#[tokio::test(start_paused = true)]
async fn queued_message_to_offline_agent_is_undelivered() {
    let (reply, _) = harness("")
        .send_and_answer(|request, _| {
            json!({"type": "error", "error": "Agent alpha is not connected",
                "correlationId": request["correlationId"], "queued": true})
        })
        .await;
    let error = reply.unwrap_err();
    assert_undelivered(&error, ErrorCode::AgentOffline);
    assert!(error.message.contains("not a delivery"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn error_texts_map_to_registry_codes() {
    for (text, code) in [
        ("Invalid JSON format", ErrorCode::InvalidJson),
        ("Target agent required", ErrorCode::MissingField),
        ("Message processing failed", ErrorCode::ProtocolError),
    ] {
        let (reply, _) = harness("")
            .send_and_answer(|_, _| json!({"type": "error", "error": text}))
            .await;
        let error = reply.unwrap_err();
        assert_eq!(error.kind, PeerErrorKind::Gateway(code), "{text}");
        assert!(error.message.contains(text), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn members_exclude_the_bridge_itself() {
    let mut harness = harness("");
    let server = async {
        let (mut connection, name) = register(&mut harness.arrivals).await;
        assert_eq!(connection.recv().await, json!({"type": "discover"}));
        connection.send(json!({"type": "discover", "connectedAgents": [name, "alpha"],
            "registeredAgents": ["alpha", {"agentId": "beta"}], "timestamp": "2026-11-21T20:19:16.018Z"})).await;
        connection
    };
    let (members, _connection) = tokio::join!(harness.gateway.members(), server);
    let members = members.unwrap();
    let known: Vec<_> = members
        .iter()
        .map(|member| (member.name.as_str(), member.status))
        .collect();
    assert_eq!(
        known,
        [
            ("alpha", Some(AgentStatus::Online)),
            ("beta", Some(AgentStatus::Offline)),
            ("triad", Some(AgentStatus::Offline))
        ]
    );
    assert_eq!(harness.gateway.connection().dialect, Some("heretek-js"));
}

#[tokio::test(start_paused = true)]
async fn refused_registration_is_reported() {
    let mut harness = harness("");
    let server = async {
        let mut connection = harness.arrivals.next().await;
        connection
            .send(json!({"type": "welcome", "gateway": {"version": "1.0.0"}}))
            .await;
        connection.recv().await;
        connection
            .send(json!({"type": "error", "error": "Agent ID required for registration"}))
            .await;
        connection
    };
    let (members, _connection) = tokio::join!(harness.gateway.members(), server);
    let error = members.unwrap_err();
    assert_undelivered(&error, ErrorCode::ConnectionRefused);
    assert!(error.message.contains("Agent ID required"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn h_12_token_is_in_query_only_if_configured() {
    for (token_in_query, query) in [(true, Some("token=s3cret")), (false, None)] {
        let (net, _arrivals) = network();
        let settings = Settings {
            token: Some("s3cret".into()),
            token_in_query,
            ..settings("")
        };
        let gateway = BridgedGateway::new(
            Arc::new(net.clone()),
            settings,
            Arc::new(TestEnvironment::new()),
            Arc::new(Silent),
        );
        let error = gateway.members().await.unwrap_err();
        assert_eq!(net.requests()[0].url.query(), query);
        assert!(!format!("{error:?} {:?}", gateway.connection()).contains("s3cret"));
    }
}

#[tokio::test(start_paused = true)]
async fn url_path_is_used_unchanged() {
    let harness = harness("");
    // No reply arrives, and the call times out.
    assert!(harness.gateway.members().await.is_err());
    assert_eq!(harness.net.requests()[0].url.path(), "/a2a");
}

#[tokio::test(start_paused = true)]
async fn triad_unknown_to_gateway_votes_by_message() {
    let mut harness = harness("");
    let peer = harness.peer("triad");
    let outgoing = text_message("Move the backups.");
    let server = async {
        let (mut connection, name) = register(&mut harness.arrivals).await;
        let mut members = Vec::new();
        while members.len() < 3 {
            let question = connection.recv().await;
            if question["type"] != "message" {
                continue;
            }
            let member = question["agent"].as_str().unwrap().to_owned();
            let value = if member == "beta" {
                "approve"
            } else {
                "reject"
            };
            let mut vote = reply(&question, &name);
            vote["from"] = json!(member);
            vote["content"]["content"] =
                json!(format!(r#"{{"vote":"{value}","reasoning":"So."}}"#));
            connection.send(vote).await;
            members.push(member);
        }
        members.sort();
        (connection, members)
    };
    let (reply, (_connection, members)) = tokio::join!(peer.send(&outgoing), server);
    assert_eq!(members, ["alpha", "beta", "charlie"]);
    let Reply::Task(task) = reply.unwrap() else {
        panic!("a task")
    };
    assert_eq!(task.state(), TaskState::Completed);
    let artifact = task.artifacts().next().unwrap().into_json();
    let decision = &artifact["parts"][0]["data"];
    assert_eq!(
        (&decision["result"], &decision["consensus"]),
        (&json!("rejected"), &json!(true))
    );
}
