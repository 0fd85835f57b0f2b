//! Frames recorded from a real gateway of this kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use serde_json::{Value, json};
use url::Url;

use crate::scripted::{Arrivals, Connection, ScriptedNet, TestEnvironment, network};
use crate::{DialectChoice, Gateway, Settings};
use a2a::{Part, Reply, SendRequest, TaskState};
use collective::ErrorCode;
use common::log::Silent;
use peer::{
    CallOptions, CardLocation, Delivered, LocalGateway as _, MemberStatus, Peer, PeerConfig,
    PeerError, PeerErrorKind, PeerProvider as _,
};

fn settings(query: &str) -> Settings {
    Settings {
        dialect: DialectChoice::HeretekJs,
        ..Settings::new(Url::parse(&format!("ws://127.0.0.1:18890/a2a{query}")).unwrap())
    }
}

struct Rig {
    gateway: Gateway,
    net: ScriptedNet,
    arrivals: Arrivals,
}

fn rig(query: &str) -> Rig {
    let (net, arrivals) = network();
    let env = Arc::new(TestEnvironment::new());
    let gateway = Gateway::new(
        Arc::new(net.clone()),
        settings(query),
        env,
        Arc::new(Silent),
    );
    Rig {
        gateway,
        net,
        arrivals,
    }
}

impl Rig {
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
    async fn answered(
        &mut self,
        answer: impl Fn(&Value, &str) -> Value,
    ) -> (Result<Reply, PeerError>, Value) {
        let peer = self.peer("alpha");
        let outgoing = SendRequest {
            message_id: "m-1".into(),
            parts: vec![Part::text("status?".into())],
            blocking: true,
            ..SendRequest::default()
        };
        let server = async {
            let (mut connection, name) = registered(&mut self.arrivals).await;
            let asked = connection.recv().await;
            connection.send(answer(&asked, &name)).await;
            (connection, asked)
        };
        let (reply, (_connection, asked)) = tokio::join!(peer.send(&outgoing), server);
        (reply, asked)
    }
}

/// Returns a registered connection and its name.
async fn registered(arrivals: &mut Arrivals) -> (Connection, String) {
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

fn reply(asked: &Value, to: &str) -> Value {
    json!({"type": "message", "agent": to, "content": {"role": "agent", "content": "all well"},
        "metadata": {"correlationId": asked["metadata"]["correlationId"]}, "from": "alpha",
        "timestamp": "2026-11-21T20:19:17.364Z"})
}

#[tokio::test(start_paused = true)]
async fn a_message_has_its_correlation_in_both_places_and_is_answered() {
    let (reply, asked) = rig("").answered(reply).await;
    let Reply::Message(message) = reply.unwrap() else {
        panic!("a message")
    };
    assert_eq!(message.text().as_deref(), Some("all well"));
    assert_eq!(
        (&asked["type"], &asked["agent"]),
        (&json!("message"), &json!("alpha"))
    );
    assert!(asked["correlationId"].is_string());
    assert_eq!(asked["correlationId"], asked["metadata"]["correlationId"]);
}

#[tokio::test(start_paused = true)]
async fn nobodys_name_is_taken_and_the_urls_own_is_used() {
    let mut named = rig("?agentId=bridge");
    let server = registered(&mut named.arrivals);
    let (_, (_connection, name)) = tokio::join!(named.gateway.members(), server);
    assert_eq!(name, "bridge");
    let mut one = rig("");
    let (_, (_connection, first)) =
        tokio::join!(one.gateway.members(), registered(&mut one.arrivals));
    let mut two = rig("");
    let (_, (_connection, second)) =
        tokio::join!(two.gateway.members(), registered(&mut two.arrivals));
    assert_ne!(first, second);
}

#[tokio::test(start_paused = true)]
async fn queued_message_to_offline_agent_is_undelivered() {
    let (reply, _) = rig("")
        .answered(|asked, _| {
            json!({"type": "error", "error": "Agent alpha is not connected",
                "correlationId": asked["correlationId"], "queued": true})
        })
        .await;
    let error = reply.unwrap_err();
    assert_eq!(
        (error.kind, error.delivered),
        (
            PeerErrorKind::Gateway(ErrorCode::AgentOffline),
            Delivered::No
        )
    );
    assert!(error.message.contains("not a delivery"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn errors_in_sentences_have_their_place_in_the_registry() {
    for (said, code) in [
        ("Invalid JSON format", ErrorCode::InvalidJson),
        ("Target agent required", ErrorCode::MissingField),
        ("Message processing failed", ErrorCode::ProtocolError),
    ] {
        let (reply, _) = rig("")
            .answered(|_, _| json!({"type": "error", "error": said}))
            .await;
        let error = reply.unwrap_err();
        assert_eq!(error.kind, PeerErrorKind::Gateway(code), "{said}");
        assert!(error.message.contains(said), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn members_exclude_the_bridge_itself() {
    let mut rig = rig("");
    let server = async {
        let (mut connection, name) = registered(&mut rig.arrivals).await;
        assert_eq!(connection.recv().await, json!({"type": "discover"}));
        connection.send(json!({"type": "discover", "connectedAgents": [name, "alpha"],
            "registeredAgents": ["alpha", {"agentId": "beta"}], "timestamp": "2026-11-21T20:19:16.018Z"})).await;
        connection
    };
    let (members, _connection) = tokio::join!(rig.gateway.members(), server);
    let members = members.unwrap();
    let known: Vec<_> = members
        .iter()
        .map(|member| (member.name.as_str(), member.status))
        .collect();
    assert_eq!(
        known,
        [
            ("alpha", MemberStatus::Online),
            ("beta", MemberStatus::Offline),
            ("triad", MemberStatus::Offline)
        ]
    );
    assert_eq!(rig.gateway.connection().dialect, Some("heretek-js"));
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_is_refused_is_reported() {
    let mut rig = rig("");
    let server = async {
        let mut connection = rig.arrivals.next().await;
        connection
            .send(json!({"type": "welcome", "gateway": {"version": "1.0.0"}}))
            .await;
        connection.recv().await;
        connection
            .send(json!({"type": "error", "error": "Agent ID required for registration"}))
            .await;
        connection
    };
    let (members, _connection) = tokio::join!(rig.gateway.members(), server);
    let error = members.unwrap_err();
    assert_eq!(
        (error.kind, error.delivered),
        (
            PeerErrorKind::Gateway(ErrorCode::ConnectionRefused),
            Delivered::No
        )
    );
    assert!(error.message.contains("Agent ID required"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn h_12_the_token_is_in_the_url_only_where_that_is_asked_for() {
    for (token_in_query, query) in [(true, Some("token=s3cret")), (false, None)] {
        let (net, _arrivals) = network();
        let settings = Settings {
            token: Some("s3cret".into()),
            token_in_query,
            ..settings("")
        };
        let gateway = Gateway::new(
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
async fn the_path_is_the_urls_own() {
    let rig = rig("");
    // No reply arrives, and the call times out.
    assert!(rig.gateway.members().await.is_err());
    assert_eq!(rig.net.requests()[0].url.path(), "/a2a");
}

#[tokio::test(start_paused = true)]
async fn triad_unknown_to_gateway_votes_by_message() {
    let mut rig = rig("");
    let peer = rig.peer("triad");
    let outgoing = SendRequest {
        message_id: "m-1".into(),
        parts: vec![Part::text("Move the backups.".into())],
        blocking: true,
        ..SendRequest::default()
    };
    let server = async {
        let (mut connection, name) = registered(&mut rig.arrivals).await;
        let mut asked = Vec::new();
        while asked.len() < 3 {
            let question = connection.recv().await;
            if question["type"] != "message" {
                continue;
            }
            let member = question["agent"].as_str().unwrap().to_owned();
            let word = if member == "beta" {
                "approve"
            } else {
                "reject"
            };
            let mut vote = reply(&question, &name);
            vote["from"] = json!(member);
            vote["content"]["content"] = json!(format!(r#"{{"vote":"{word}","reasoning":"So."}}"#));
            connection.send(vote).await;
            asked.push(member);
        }
        asked.sort();
        (connection, asked)
    };
    let (reply, (_connection, asked)) = tokio::join!(peer.send(&outgoing), server);
    assert_eq!(asked, ["alpha", "beta", "charlie"]);
    let Reply::Task(task) = reply.unwrap() else {
        panic!("a task")
    };
    assert_eq!(task.state(), TaskState::Completed);
    let artifact = task.artifacts().next().unwrap();
    let decision = &artifact.parts()[0]["data"];
    assert_eq!(
        (&decision["result"], &decision["consensus"]),
        (&json!("rejected"), &json!(true))
    );
}
