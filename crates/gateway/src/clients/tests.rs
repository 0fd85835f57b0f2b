//! The scripted agent and the asker, with gateways that say literal JSON.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{agent::jittered, *};
use collective::{ErrorCode, Kind, Vote};
use common::environment::{Clock, IdGenerator};
use testkit::conformance::gateways::Gateways;

/// An agent that serves `alpha`, and what happens to it.
struct Agent {
    heard: mpsc::UnboundedReceiver<AgentEvent>,
    served: JoinHandle<Result<(), ClientError>>,
    shutdown: CancellationToken,
}

impl Agent {
    fn of(gateway: &Gateways, vote: Option<Vote>) -> Self {
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
        let (tell, heard) = mpsc::unbounded_channel();
        let tell = Mutex::new(tell);
        let door = Endpoint::new(gateway.url().parse().unwrap());
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let served = tokio::spawn(async move {
            let tell = move |happening: &AgentEvent| {
                let _ = tell.lock().unwrap().send(happening.clone());
            };
            Connector::new()
                .unwrap()
                .serve(door, script, tell, stop)
                .await
        });
        Self {
            heard,
            served,
            shutdown,
        }
    }

    async fn next(&mut self) -> AgentEvent {
        let next = tokio::time::timeout(Duration::from_secs(10), self.heard.recv());
        next.await.expect("something happens").expect("it serves")
    }

    async fn connected(&mut self) {
        let next = self.next().await;
        assert!(matches!(next, AgentEvent::Connected(_)), "{next:?}");
    }
}

/// A gateway that takes everybody, says `first` to who is taken, and then keeps to `rules`.
async fn gateway(first: &[Value], rules: &[Value]) -> Gateways {
    let taken = json!({"send": {"type": "handshake", "content": {"action": "acknowledge", "clientId": "c-1",
        "availableAgents": ["alpha"], "protocolVersion": "1.0.0"}}});
    let acts: Vec<Value> = [taken].into_iter().chain(first.iter().cloned()).collect();
    let mut on = rules.to_vec();
    on.push(json!({"when": {"/type": "handshake"}, "do": acts}));
    let profile = json!({"upgrade": {"protocol": "echo"}, "on": on});
    Gateways::start(&profile).await.unwrap()
}

/// What the agent has said of this type, once it has.
async fn said(gateway: &Gateways, kind: &str) -> Value {
    let when = json!({ "/type": kind });
    let waited = tokio::time::timeout(Duration::from_secs(10), gateway.log().frame(1, &when));
    waited.await.expect("it is said")
}

#[tokio::test]
async fn an_agent_votes_with_the_id_of_the_proposal_its_reason_and_how_sure_it_is() {
    let proposal = json!({"send": {"type": "proposal", "id": "m-1", "from": "steward",
        "content": {"proposal": "Ship it"}, "metadata": {"correlationId": "prop-1"}}});
    let gateway = gateway(&[proposal], &[]).await;
    let mut alpha = Agent::of(&gateway, Some(Vote::Reject));
    alpha.connected().await;
    assert_eq!(
        alpha.next().await,
        AgentEvent::Asked("prop-1".into(), "Ship it".into())
    );
    let vote = said(&gateway, "vote").await;
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
    assert_eq!(
        alpha.next().await,
        AgentEvent::Voted("prop-1".into(), Vote::Reject)
    );
}

#[tokio::test]
async fn an_agent_that_votes_hears_of_decisions_and_one_that_may_not_is_not_scolded() {
    let refused = json!({"when": {"/type": "subscribe"}, "do": [
        {"send": {"type": "error", "content": {"error": "PERMISSION_DENIED", "code": 5004, "message": "no"}, "metadata": {"parentId": "{{/id}}"}}},
        {"send": {"type": "event", "content": {"channel": "triad:decision", "proposalId": "prop-1", "result": "approved"}}}]});
    let gateway = gateway(&[], &[refused]).await;
    let mut alpha = Agent::of(&gateway, Some(Vote::Approve));
    alpha.connected().await;
    assert_eq!(
        alpha.next().await,
        AgentEvent::Decided("prop-1".into(), "approved".into())
    );
}

#[tokio::test]
async fn an_agent_answers_who_wants_an_answer_and_nobody_else() {
    let message = |id: &str, wants: bool| {
        json!({"send": {"type": "message", "id": id, "from": "steward", "agent": "alpha", "sessionId": "s-1",
            "content": {"role": "user", "content": id}, "metadata": {"correlationId": id, "requiresResponse": wants}}})
    };
    let gateway = gateway(&[message("m-1", false), message("m-2", true)], &[]).await;
    let mut alpha = Agent::of(&gateway, None);
    alpha.connected().await;
    let answer = said(&gateway, "message").await;
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
    assert_eq!(
        alpha.next().await,
        AgentEvent::Heard("steward".into(), "m-1".into())
    );
    assert_eq!(
        alpha.next().await,
        AgentEvent::Heard("steward".into(), "m-2".into())
    );
    assert_eq!(
        alpha.next().await,
        AgentEvent::Answered("I read: m-2".into())
    );
    let all = gateway.log().matching(&json!({"/type": "message"}));
    assert_eq!(all.len(), 1, "{all:?}");
}

#[tokio::test]
async fn h_09_client_refuses_another_major_version() {
    for version in [json!("2.0.0"), json!("0.9"), json!(1), json!(null)] {
        let taken = json!({"when": {"/type": "handshake"}, "do": [{"send": {"type": "handshake",
            "content": {"action": "acknowledge", "clientId": "c-1", "protocolVersion": version}}}]});
        let gateway = gateway(&[], &[taken]).await;
        let alpha = Agent::of(&gateway, None);
        let ended = tokio::time::timeout(Duration::from_secs(10), alpha.served).await;
        let trouble = ended.expect("it ends").unwrap().unwrap_err();
        assert_eq!(
            trouble.why,
            ClientErrorKind::Refused(ErrorCode::ProtocolError),
            "{version}"
        );
    }
}

#[tokio::test]
async fn h_47_an_agent_comes_back_after_a_pause_when_the_gateway_shuts_down() {
    let first = json!({"connection": 1, "when": {"/type": "handshake"}, "do": [
        {"send": {"type": "handshake", "content": {"action": "acknowledge", "clientId": "c-1", "protocolVersion": "1.0.0"}}},
        {"send": {"type": "disconnect", "content": {"reason": "shutdown"}}},
        {"close": {"code": 1001}}]});
    let gateway = gateway(&[], &[first]).await;
    let mut alpha = Agent::of(&gateway, None);
    alpha.connected().await;
    let AgentEvent::Lost(trouble, pause) = alpha.next().await else {
        panic!("it is not lost")
    };
    assert_eq!(trouble.why, ClientErrorKind::Unreachable);
    assert!(pause <= Duration::from_millis(250), "{pause:?}");
    alpha.connected().await;
}

#[tokio::test]
async fn h_47_an_agent_that_was_sent_away_for_good_stays_away() {
    let away =
        json!({"send": {"type": "disconnect", "content": {"reason": "manual", "message": "bye"}}});
    let gateway = gateway(&[away], &[]).await;
    let mut alpha = Agent::of(&gateway, None);
    alpha.connected().await;
    assert_eq!(alpha.next().await, AgentEvent::Dismissed("bye".into()));
    assert_eq!(alpha.served.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn an_agent_that_is_stopped_takes_leave() {
    let gateway = gateway(&[], &[]).await;
    let mut alpha = Agent::of(&gateway, None);
    alpha.connected().await;
    alpha.shutdown.cancel();
    assert_eq!(alpha.served.await.unwrap(), Ok(()));
    let goodbye = said(&gateway, "disconnect").await;
    assert_eq!(goodbye["content"]["reason"], "manual");
}

#[tokio::test]
async fn an_agent_that_is_not_taken_ends_with_the_gateways_word() {
    let refused = json!({"when": {"/type": "handshake"}, "do": [{"send": {"type": "error",
        "content": {"error": "PERMISSION_DENIED", "code": 5004, "message": "`alpha` is served by another connection"}}}]});
    let gateway = gateway(&[], &[refused]).await;
    let trouble = Agent::of(&gateway, None).served.await.unwrap().unwrap_err();
    assert_eq!(
        trouble.why,
        ClientErrorKind::Refused(ErrorCode::PermissionDenied)
    );
    assert!(trouble.message.contains("another connection"), "{trouble}");
}

#[tokio::test]
async fn who_asks_takes_the_answer_to_its_own_question_and_passes_over_others() {
    let answers = json!({"when": {"/type": "discovery"}, "do": [
        {"send": {"type": "discovery", "content": {"agents": []}, "metadata": {"correlationId": "another"}}},
        {"send": {"type": "discovery", "content": {"agents": [{"name": "alpha"}]}, "metadata": {"correlationId": "{{/metadata/correlationId}}"}}}]});
    let gateway = gateway(&[], &[answers]).await;
    let door = Endpoint::new(gateway.url().parse().unwrap());
    let mut asker = Connector::new().unwrap().ask(door).await.unwrap();
    let found = asker.discover().await.unwrap();
    assert_eq!(found["agents"][0]["name"], "alpha");
}

#[tokio::test]
async fn who_asks_in_vain_is_told_after_its_patience() {
    let gateway = gateway(&[], &[]).await;
    let door = Endpoint {
        timeout: Duration::from_millis(200),
        ..Endpoint::new(gateway.url().parse().unwrap())
    };
    let mut asker = Connector::new().unwrap().ask(door).await.unwrap();
    let trouble = asker.ask(Kind::Ping, json!({})).await.unwrap_err();
    assert_eq!(trouble.why, ClientErrorKind::Late);
    assert!(trouble.message.contains("200 ms"), "{trouble}");
}

/// An environment with one random number.
struct Chance(u128);

impl Clock for Chance {
    fn now(&self) -> std::time::Instant {
        std::time::Instant::now()
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

impl IdGenerator for Chance {
    fn uuid(&self) -> Uuid {
        Uuid::from_u128(self.0)
    }
}

#[test]
fn h_47_half_of_a_pause_is_left_to_chance() {
    let pause = Duration::from_secs(8);
    let waits = [0, 500, 999].map(|random| jittered(pause, &Chance(random)));
    assert_eq!(waits, [4000, 6000, 7996].map(Duration::from_millis));
}
