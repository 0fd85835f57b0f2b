//! A gateway connection that breaks during a task.

use std::sync::Mutex;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::remote_agent::{PollIntervals, RemoteAgent, ToolCall};
use base::environment::SystemEnvironment;
use base::log::Silent;
use egress::NetFault;
use gateway_bridge::testing::{Arrivals, Connection, DialAnswer, ScriptedNet, network};

use super::super::assemble_with_network;
use super::*;

/// Returns the tool and a channel with its connections to the gateway.
pub(super) fn tool_with_gateway(dialect: &str) -> (RemoteAgent, ScriptedNet, Arrivals) {
    let (net, arrivals) = network();
    let config =
        json!({"gateway": {"enabled": true, "dialect": dialect}, "limits": {"waitMs": 120_000}});
    let config = Config::parse(&config.to_string()).unwrap();
    let network = Arc::new(net.clone());
    let env = Arc::new(SystemEnvironment);
    let tool = assemble_with_network(
        &config,
        network,
        env,
        PollIntervals::default(),
        Arc::new(Silent),
    )
    .unwrap();
    (tool, net, arrivals)
}

/// Sends to an agent and follows the task. Returns the result and the updates.
pub(super) async fn send_and_follow(
    tool: &RemoteAgent,
    target: &str,
    more: Value,
) -> (Value, Vec<Value>) {
    let mut request = json!({"action": "send", "target_alias": target, "follow_updates": true,
        "timeout_ms": 120_000, "parts": [{"kind": "text", "text": "hello"}]});
    for (field, value) in more.as_object().unwrap() {
        request[field] = value.clone();
    }
    let updates = Mutex::new(Vec::new());
    let take = |update: &str| {
        let update: Value = serde_json::from_str(update).unwrap();
        updates.lock().unwrap().push(update["raw"].clone());
    };
    let call = ToolCall {
        request: &request.to_string(),
        caller: None,
        updates: Some(&take),
        person: None,
        cancel: CancellationToken::new(),
        closing: CancellationToken::new(),
    };
    let result = serde_json::from_str(&tool.execute(call).await).unwrap();
    (result, updates.into_inner().unwrap())
}

/// Answers one request of protocol 4. `None` ends the connection.
type AnswerFn = fn(&str) -> Option<Value>;

/// Plays the OpenClaw gateway on one connection until `answers` ends it. Returns the methods that the client called.
async fn answer_requests(connection: &mut Connection, answers: AnswerFn) -> Vec<String> {
    connection
        .send(json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n", "ts": 1}}))
        .await;
    let mut methods = Vec::new();
    loop {
        let Some(text) = connection.recv_text().await else {
            return methods;
        };
        let request: Value = serde_json::from_str(&text).unwrap();
        let method = request["method"].as_str().unwrap();
        methods.push(method.to_owned());
        let payload = match method {
            "connect" => Some(json!({"type": "hello-ok", "protocol": 4})),
            "agents.list" => Some(json!({"agents": [{"id": "alpha"}]})),
            "sessions.list" => Some(json!({"sessions": []})),
            other => answers(other),
        };
        let Some(payload) = payload else {
            return methods;
        };
        connection
            .send(json!({"type": "res", "id": request["id"], "ok": true, "payload": payload}))
            .await;
    }
}

fn count(methods: &[String], method: &str) -> usize {
    methods.iter().filter(|methods| *methods == method).count()
}

#[tokio::test(start_paused = true)]
async fn h_48_run_is_followed_over_a_reconnect() {
    let (tool, net, mut arrivals) = tool_with_gateway("openclaw");
    let gateway = async {
        let mut first = arrivals.next().await;
        let before = answer_requests(&mut first, |method| {
            (method == "agent").then(|| json!({"status": "accepted"}))
        });
        // The gateway accepts the run and then sends nothing.
        let _ = tokio::time::timeout(Duration::from_secs(5), before).await;
        net.queue_answers([
            DialAnswer::Fails(NetFault::Unreachable),
            DialAnswer::Fails(NetFault::Unreachable),
        ]);
        drop(first);
        let mut second = arrivals.next().await;
        let after = answer_requests(&mut second, |method| match method {
            "agent.wait" => {
                Some(json!({"status": "ok", "endedAt": 7, "terminalReply": {"text": "done"}}))
            }
            "tasks.list" => Some(json!({"tasks": []})),
            _ => None,
        });
        tokio::time::timeout(Duration::from_secs(600), after).await
    };
    let call = send_and_follow(&tool, "gateway:alpha", json!({}));
    let (result, _updates) = tokio::select! {
        updates = call => updates,
        methods = gateway => panic!("the gateway was left: {methods:?}"),
    };
    assert_eq!(result["ok"], true, "{result}");
    assert_eq!(
        result["summary"]["continuation"]["task"]["status"], "completed",
        "{result}"
    );
    assert_eq!(
        result["summary"]["artifacts"][0]["parts"][0]["text"], "done",
        "{result}"
    );
    // One lost connection, two failed ones, and one that reports the end.
    assert_eq!(net.requests().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn h_48_reconnect_sends_no_message_again() {
    let (tool, _net, mut arrivals) = tool_with_gateway("openclaw");
    let gateway = async {
        let mut first = arrivals.next().await;
        // The gateway receives the message and closes the connection without an answer.
        let frame = answer_requests(&mut first, |_| None).await;
        drop(first);
        let mut all = frame;
        while let Ok(mut next) =
            tokio::time::timeout(Duration::from_secs(60), arrivals.next()).await
        {
            all.extend(answer_requests(&mut next, |_| None).await);
        }
        all
    };
    let (call, methods) = tokio::join!(send_and_follow(&tool, "gateway:alpha", json!({})), gateway);
    assert_eq!(call.0["error"]["reason"], "connection_reset", "{}", call.0);
    assert_eq!(call.0["error"]["details"]["delivered"], "unknown");
    assert_eq!(count(&methods, "agent"), 1, "{methods:?}");
}

#[tokio::test(start_paused = true)]
async fn cut_gateway_is_awaited_until_the_deadline() {
    let (tool, net, mut arrivals) = tool_with_gateway("openclaw");
    let gateway = async {
        let mut first = arrivals.next().await;
        let before = answer_requests(&mut first, |method| {
            (method == "agent").then(|| json!({"status": "accepted"}))
        });
        let _ = tokio::time::timeout(Duration::from_secs(5), before).await;
        net.queue_answers([const { DialAnswer::Fails(NetFault::Unreachable) }; 50]);
    };
    let began = tokio::time::Instant::now();
    let call = send_and_follow(&tool, "gateway:alpha", json!({"timeout_ms": 90_000}));
    let ((result, _), ()) = tokio::join!(call, gateway);
    assert_eq!(result["ok"], true, "{result}");
    assert_eq!(
        result["summary"]["continuation"]["task"]["status"], "submitted",
        "{result}"
    );
    assert!(result["summary"]["continuation"]["task"]["task_id"].is_string());
    let waited = began.elapsed();
    assert!(
        (Duration::from_secs(80)..=Duration::from_secs(90)).contains(&waited),
        "{waited:?}"
    );
}
