//! The A2A server's executor over the reference gateway.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use a2a::v1_0::{Message, Part, Role};
use a2a_server::executor::{ExecutionEvent, Executor as _, Outcome, RunInput};
use base::environment::SystemEnvironment;
use base::log::Silent;
use gateway_bridge::Settings;
use openclaw_server::executor::{GatewayExecutor, GatewayRuns};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::gateway::support::reference_gateway::ReferenceGateway;
use crate::gateway::support::voters::{answer_rule, start_agent};
use crate::gateway::tool_fixture::within_timeout;

fn executor(gateway: &ReferenceGateway) -> GatewayExecutor {
    executor_of(gateway, None)
}

fn executor_of(gateway: &ReferenceGateway, state_dir: Option<PathBuf>) -> GatewayExecutor {
    let settings = Settings::new(Url::parse(&gateway.url).unwrap());
    let runs = GatewayRuns {
        triad: true,
        timeout: Duration::from_secs(20),
        thinking: None,
        state_dir,
    };
    GatewayExecutor::new(
        settings,
        runs,
        Arc::new(SystemEnvironment),
        Arc::new(Silent),
    )
    .unwrap()
}

/// Returns the answer of the default agent.
async fn answer(executor: &GatewayExecutor) -> String {
    answer_to(executor, None).await
}

async fn answer_to(executor: &GatewayExecutor, delegation: Option<Value>) -> String {
    let job = RunInput {
        task_id: "task".into(),
        context_id: "context".into(),
        session: "a2a-context".into(),
        agent: None,
        client: "client".into(),
        message: Message::new(Role::User, vec![Part::text("who are you")]),
        delegation,
    };
    let (reports, mut received) = mpsc::channel(64);
    let outcome = within_timeout(executor.run(job, reports, CancellationToken::new())).await;
    let mut text = String::new();
    while let Some(report) = received.recv().await {
        if let ExecutionEvent::Artifact { artifact, .. } = report {
            text.extend(artifact.parts.iter().filter_map(Part::as_text));
        }
    }
    match outcome {
        Outcome::Completed(parts) => {
            let parts = parts.unwrap_or_default();
            text.extend(parts.iter().filter_map(Part::as_text));
            text
        }
        other => panic!("no answer: {other:?}"),
    }
}

async fn names(executor: &GatewayExecutor) -> Vec<String> {
    let agents = executor.agents().await.unwrap();
    agents.into_iter().map(|agent| agent.name).collect()
}

#[tokio::test]
async fn serve_prefers_main_of_a_reference_gateway() {
    let gateway = ReferenceGateway::start(json!({})).await;
    let _alpha = start_agent(&gateway.url, "alpha", json!([answer_rule("alpha here")])).await;
    let _main = start_agent(&gateway.url, "main", json!([answer_rule("main here")])).await;
    let executor = executor(&gateway);
    assert_eq!(answer(&executor).await, "main here");
    assert_eq!(names(&executor).await[..2], ["main", "alpha"]);
    executor.close().await;
}

#[tokio::test]
async fn serve_needs_no_state_of_openclaw_behind_another_gateway() {
    let gateway = ReferenceGateway::start(json!({})).await;
    let _main = start_agent(&gateway.url, "main", json!([answer_rule("main here")])).await;
    let executor = executor_of(&gateway, Some("/nonexistent/openclaw".into()));
    assert_eq!(
        answer_to(&executor, Some(json!({"hop": 1}))).await,
        "main here"
    );
    executor.close().await;
}

#[tokio::test]
async fn serve_without_main_calls_first_online_agent() {
    let gateway = ReferenceGateway::start(json!({})).await;
    let _zoe = start_agent(&gateway.url, "zoe", json!([answer_rule("zoe here")])).await;
    let executor = executor(&gateway);
    assert_eq!(answer(&executor).await, "zoe here");
    // The gateway lists `main` and others that never connected.
    assert_eq!(names(&executor).await[..2], ["zoe", "main"]);
    executor.close().await;
}
