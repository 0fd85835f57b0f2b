#![allow(clippy::unwrap_used, clippy::panic)]

use a2a::v1_0::{Message, Part, Role};
use tokio::sync::mpsc;
use url::Url;

use super::*;
use base::environment::SystemEnvironment;
use base::log::Silent;

/// Returns an executor whose gateway is at `url`.
fn at(url: &str) -> GatewayExecutor {
    let settings = gateway_bridge::Settings::new(Url::parse(url).unwrap());
    let runs = GatewayRuns {
        timeout: Duration::from_secs(60),
        thinking: Some(Thinking::High),
        state_dir: None,
        triad: true,
    };
    GatewayExecutor::new(
        settings,
        runs,
        Arc::new(SystemEnvironment),
        Arc::new(Silent),
    )
    .unwrap()
}

/// Returns an address without a listener.
fn unused_address() -> String {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("ws://{}", socket.local_addr().unwrap())
}

fn input(agent: Option<&str>, text: &str) -> RunInput {
    RunInput {
        task_id: "task".into(),
        context_id: "context".into(),
        session: "a2a-context".into(),
        agent: agent.map(str::to_owned),
        client: "client".into(),
        message: Message::new(Role::User, vec![Part::text(text)]),
        delegation: None,
    }
}

async fn outcome_of(executor: &GatewayExecutor, input: RunInput) -> Outcome {
    let (events, _received) = mpsc::channel(16);
    executor.run(input, events, CancellationToken::new()).await
}

#[tokio::test]
async fn unreachable_gateway_is_reported() {
    let executor = at(&unused_address());
    let Outcome::Failed { reason, text } = outcome_of(&executor, input(None, "hello")).await else {
        panic!("a run without a gateway")
    };
    assert_eq!(reason, "gateway_unreachable");
    assert!(
        !text.contains("127.0.0.1") && text.contains("openclaw gateway status"),
        "{text}"
    );
    let unready = executor.ready().await.unwrap_err();
    assert!(unready.0.contains("ws://127.0.0.1"), "{unready}");
    assert!(executor.agents().await.is_err());
}

#[tokio::test]
async fn run_without_an_agent_name_is_not_reattached() {
    let (events, _received) = mpsc::channel(1);
    let executor = at(&unused_address());
    let again = executor.reattach(
        input(None, ""),
        "run".into(),
        events,
        CancellationToken::new(),
    );
    assert!(again.is_none());
}

#[test]
fn slash_command_text_follows_a_comment_line() {
    let executor = at("ws://127.0.0.1:1");
    let request = executor
        .0
        .send_request("run", vec![Part::text("/reset")], None);
    let texts: Vec<_> = request
        .parts
        .iter()
        .map(|part| part.json()["text"].as_str().unwrap())
        .collect();
    assert!(
        texts[0].starts_with("// ") && texts[1] == "/reset",
        "{texts:?}"
    );
    let request = executor
        .0
        .send_request("run", vec![Part::text("hello")], None);
    assert_eq!(request.parts.len(), 1);
}

#[test]
fn request_has_the_time_limit_and_the_delegation() {
    let executor = at("ws://127.0.0.1:1");
    let delegation = serde_json::json!({"hop": 2});
    let request = executor
        .0
        .send_request("run", Vec::new(), Some(delegation.clone()));
    let metadata = request.metadata.unwrap();
    assert_eq!(metadata[openclaw::RUN_TIMEOUT_KEY], 60_000);
    assert_eq!(metadata[openclaw::THINKING_KEY], "high");
    assert_eq!(metadata[delegation::DELEGATION_KEY], delegation);
}
