//! The examples of the contract: the request, the request on the wire, and the result.
//!
//! `examples.json` contains the long ones. In it, `https://desk.example` stands for the agent, `{{handle}}` for the task's
//! handle and `CONTINUATION` for the continuation of an earlier result.

use std::time::Duration;

use openclaw_remote_agent::plugin;
use serde_json::{Value, json};
use testkit::conformance::{Peers, peers::Recorded};

use crate::contract::{in_process::InProcess, json as read_json};

const SITE: &str = "https://desk.example";

fn example(name: &str) -> Value {
    let example = read_json("tests/contract/examples.json")[name].take();
    assert!(example.is_object(), "no example is called `{name}`");
    example
}

/// The agent of the examples, and a plugin with it as the default target.
struct Desk {
    peers: Peers,
    plugin: InProcess,
}

impl Desk {
    /// Creates a peer with these answers, by JSON-RPC method.
    async fn with(rpc: Value) -> Self {
        let card = json!({
            "protocolVersion": "0.3.0", "name": "Help Desk", "description": "Sorts tickets.", "version": "1.0.0",
            "url": "{{origin}}/a2a/jsonrpc", "preferredTransport": "JSONRPC",
            "additionalInterfaces": [
                {"transport": "JSONRPC", "url": "{{origin}}/a2a/jsonrpc"},
                {"transport": "HTTP+JSON", "url": "{{origin}}/a2a/rest"},
            ],
            "capabilities": {"streaming": true, "pushNotifications": true, "stateTransitionHistory": true},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{
                "id": "sort", "name": "Sorting tickets", "description": "Reads a ticket and says what to do with it.",
                "tags": ["helpdesk"], "examples": ["Sort out ticket 7 and say who should look at it."],
                "inputModes": ["application/json"], "outputModes": ["application/pdf"],
            }],
        });
        let script = json!({"peers": {"desk": {"card": card, "rpc": rpc}}});
        let peers = Peers::start(&script).await.unwrap();
        let plugin = InProcess::started(&config(peers.origin("desk"))).await;
        Self { peers, plugin }
    }

    /// Returns the plugin after a restart of its host.
    async fn restarted(self) -> Self {
        let plugin = InProcess::started(&config(self.peers.origin("desk"))).await;
        Self { plugin, ..self }
    }

    async fn call(&self, request: &Value) -> Value {
        self.plugin.call(&self.here(request)).await
    }

    /// Returns a result's continuation. Fails with the result without one.
    async fn continuation(&self, request: &Value) -> Value {
        let mut result = self.call(request).await;
        assert_eq!(result["ok"], true, "{result}");
        result["summary"]["continuation"].take()
    }

    /// Returns the parameters of the last JSON-RPC request that the agent received.
    fn received(&self) -> Value {
        let log = self.peers.log("desk");
        let last = log.iter().rev().find_map(|request| request.body.clone());
        last.unwrap()["params"].take()
    }

    fn methods(&self) -> Vec<String> {
        let log = self.peers.log("desk");
        log.iter()
            .filter_map(Recorded::rpc_method)
            .map(str::to_owned)
            .collect()
    }

    /// Replaces the agent of an example by this one.
    fn here(&self, value: &Value) -> Value {
        with(value, SITE, self.peers.origin("desk"))
    }
}

/// Returns one target, described as in the examples.
fn config(base_url: &str) -> Value {
    json!({"enabled": true, "targets": [{
        "alias": "desk", "baseUrl": base_url, "description": "First line of support", "tags": ["helpdesk"],
        "examples": ["Sort out ticket 7 and say who should look at it."], "default": true,
    }]})
}

fn with(value: &Value, word: &str, replacement: &str) -> Value {
    serde_json::from_str(&value.to_string().replace(word, replacement)).unwrap()
}

/// Checks that `found` contains every value of `expected`; an object may have more fields.
fn shows(found: &Value, expected: &Value) {
    fn compare(found: &Value, expected: &Value, place: &str) -> Result<(), String> {
        match (found, expected) {
            (Value::Object(found), Value::Object(expected)) => {
                expected.iter().try_for_each(|(name, expected)| {
                    let found = found.get(name).unwrap_or(&Value::Null);
                    compare(found, expected, &format!("{place}/{name}"))
                })
            }
            (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => found
                .iter()
                .zip(expected)
                .enumerate()
                .try_for_each(|(index, (found, expected))| {
                    compare(found, expected, &format!("{place}/{index}"))
                }),
            _ if found == expected => Ok(()),
            _ => Err(format!("at `{place}`: {found} instead of {expected}")),
        }
    }
    compare(found, expected, "").unwrap_or_else(|why| panic!("{why}\n{found:#}"));
}

fn text(text: &str) -> Value {
    json!([{"kind": "text", "text": text}])
}

fn task(state: &str) -> Value {
    json!({"kind": "task", "id": "task-7", "contextId": "ctx-7", "status": {"state": state}})
}

fn status_event(state: &str) -> Value {
    json!({"kind": "status-update", "taskId": "task-7", "contextId": "ctx-7", "status": {"state": state}, "final": true})
}

fn sse(events: &[Value]) -> Value {
    let items: Vec<_> = events
        .iter()
        .map(|event| json!({"result": event}))
        .collect();
    json!({"sse": items})
}

/// Sends the request of an example to a scripted agent, and compares the request on the wire and the result.
async fn plays(name: &str) -> Desk {
    let example = example(name);
    let answer = match &example["streams"] {
        Value::Array(events) => json!({"message/stream": sse(events)}),
        _ => json!({"message/send": {"result": example["says"]}}),
    };
    let desk = Desk::with(answer).await;
    let result = desk.call(&example["request"]).await;
    let handle = result["summary"]["continuation"]["task"]["task_handle"].as_str();
    let expected = with(&example["result"], "{{handle}}", handle.unwrap_or("none"));
    shows(&result, &desk.here(&expected));
    if example["sent"].is_object() {
        shows(&desk.received(), &example["sent"]);
    }
    desk
}

/// Every key of the contract, with its default if it has one.
#[test]
fn contract_configuration_is_accepted_unchanged() {
    let target = json!({
        "alias": "desk", "baseUrl": "https://desk.example", "description": "First line of support",
        "tags": ["helpdesk"], "examples": ["Sort out ticket 7."], "default": true,
    });
    let config = json!({
        "enabled": true,
        "defaults": {
            "timeoutMs": 120_000, "cardPath": "/.well-known/agent-card.json",
            "preferredTransports": ["JSONRPC", "HTTP+JSON"], "serviceParameters": {},
        },
        "targets": [target],
        "taskHandles": {"ttlMs": 86_400_000, "maxEntries": 1000},
        "policy": {
            "acceptedOutputModes": [], "normalizeBaseUrl": true, "enforceSupportedTransports": true,
            "allowTargetUrlOverride": false,
        },
    });
    let parsed = plugin::parse_config(&config.to_string()).unwrap();
    let parsed: Value = serde_json::from_str(&parsed).unwrap();
    let mut expected = config.clone();
    expected["targets"][0]["baseUrl"] = json!("https://desk.example/");
    shows(&parsed, &expected);
    let defaults: Value = serde_json::from_str(&plugin::parse_config("{}").unwrap()).unwrap();
    for group in ["defaults", "taskHandles", "policy"] {
        shows(&defaults[group], &config[group]);
    }
}

#[tokio::test]
async fn targets_are_listed_with_card_data() {
    plays("list_targets").await;
}

#[tokio::test]
async fn alias_send_returns_a_message() {
    let desk = plays("send_to_an_alias").await;
    let request = example("send_to_an_alias")["request"].take();
    // A message outside any conversation has no continuation.
    assert_eq!(desk.continuation(&request).await, Value::Null);
}

#[tokio::test]
async fn required_task_returns_a_handle_at_once() {
    plays("require_a_task").await;
}

#[tokio::test]
async fn message_instead_of_required_task_is_an_error() {
    let answer = example("related_work")["says"].take();
    let desk = Desk::with(json!({"message/send": {"result": answer}})).await;
    let request = example("require_a_task")["request"].take();
    let result = desk.call(&request).await;
    assert_eq!(
        result["error"]["code"], "TASK_REQUIRED_BUT_MESSAGE_RETURNED",
        "{result}"
    );
    assert_eq!(
        result["error"]["details"]["message_text"],
        "The same printer."
    );
}

#[tokio::test]
async fn related_work_refers_to_tasks_without_continuing_them() {
    let desk = plays("related_work").await;
    assert_eq!(desk.received()["message"].get("taskId"), None);
}

#[tokio::test]
async fn default_target_is_followed_to_the_end() {
    plays("default_target_and_updates").await;
}

#[tokio::test]
async fn conversation_continues_without_a_task() {
    let desk = plays("new_task_in_a_conversation").await;
    assert_eq!(desk.received()["message"].get("taskId"), None);
}

/// Returns a desk with a task that waits for input, and the continuation for its caller.
async fn waiting() -> (Desk, Value) {
    let answers = json!([{"result": task("input-required")}, {"result": task("completed")}]);
    let rpc = json!({
        "message/send": answers,
        "tasks/get": {"result": task("completed")},
        "tasks/cancel": {"result": task("canceled")},
        "tasks/resubscribe": sse(&[status_event("completed")]),
    });
    let desk = Desk::with(rpc).await;
    let request =
        json!({"action": "send", "target_alias": "desk", "parts": text("Answer ticket 7.")});
    let continuation = desk.continuation(&request).await;
    assert_eq!(continuation["task"]["status"], "input-required");
    (desk, continuation)
}

async fn answers(desk: &Desk, continuation: &Value) {
    let request =
        json!({"action": "send", "continuation": continuation, "parts": text("Yes, do.")});
    let went_on = desk.continuation(&request).await;
    assert_eq!(went_on["task"]["status"], "completed", "{went_on}");
    let ids = json!({"message": {"taskId": "task-7", "contextId": "ctx-7"}});
    shows(&desk.received(), &ids);
}

#[tokio::test]
async fn task_continues_by_its_continuation() {
    let (desk, continuation) = waiting().await;
    answers(&desk, &continuation).await;
}

#[tokio::test]
async fn task_continues_without_a_handle() {
    let (desk, mut continuation) = waiting().await;
    let task = continuation["task"].as_object_mut().unwrap();
    task.remove("task_handle");
    answers(&desk, &continuation).await;
}

#[tokio::test]
async fn stored_continuation_works_after_a_restart() {
    let (desk, continuation) = waiting().await;
    let persisted = continuation.to_string();
    let desk = desk.restarted().await;
    answers(&desk, &serde_json::from_str(&persisted).unwrap()).await;
}

#[tokio::test]
async fn continuation_shows_the_status_of_its_task() {
    let (desk, continuation) = waiting().await;
    let mut example = example("status");
    example["request"]["continuation"] = continuation.clone();
    let result = desk.call(&example["request"]).await;
    let handle = continuation["task"]["task_handle"].as_str().unwrap();
    let expected = with(&example["result"], "{{handle}}", handle);
    shows(&result, &desk.here(&expected));
    shows(&desk.received(), &example["sent"]);
}

#[tokio::test]
async fn continuation_watches_its_task() {
    let (desk, continuation) = waiting().await;
    let request = json!({"action": "watch", "continuation": continuation});
    let result = desk.call(&request).await;
    assert_eq!(
        result["summary"]["continuation"]["task"]["status"], "completed",
        "{result}"
    );
    assert_eq!(result["raw"]["finalEvent"], status_event("completed"));
    assert_eq!(
        desk.methods(),
        ["message/send", "tasks/resubscribe", "tasks/get"]
    );
}

#[tokio::test]
async fn continuation_cancels_its_task() {
    let (desk, continuation) = waiting().await;
    let request = json!({"action": "cancel", "continuation": continuation});
    let went_on = desk.continuation(&request).await;
    assert_eq!(went_on["task"]["status"], "canceled", "{went_on}");
    assert_eq!(desk.methods(), ["message/send", "tasks/cancel"]);
}

#[tokio::test]
async fn conversation_without_task_supports_only_send() {
    let (desk, mut continuation) = waiting().await;
    continuation.as_object_mut().unwrap().remove("task");
    for action in ["watch", "status", "cancel"] {
        let request = json!({"action": action, "continuation": continuation});
        let result = desk.call(&request).await;
        assert_eq!(result["error"]["code"], "VALIDATION_ERROR", "{result}");
    }
    assert_eq!(desk.methods(), ["message/send"]);
}

#[tokio::test]
async fn invalid_request_is_refused_with_its_rule() {
    let example = example("no_target");
    let plugin = InProcess::started(&json!({"enabled": true})).await;
    let result = plugin.call(&example["request"]).await;
    shows(&result, &example["result"]);
    let message = &result["error"]["message"];
    assert_eq!(message, "remote_agent input validation failed");
}

/// Returns a desk whose handles are valid for a millisecond, and a continuation with an expired handle.
async fn expired() -> (Desk, Value) {
    let (mut desk, _) = waiting().await;
    let mut config = config(desk.peers.origin("desk"));
    config["taskHandles"] = json!({"ttlMs": 1});
    desk.plugin = InProcess::started(&config).await;
    let request = json!({"action": "status", "target_alias": "desk", "task_id": "task-7"});
    let continuation = desk.continuation(&request).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    (desk, continuation)
}

#[tokio::test]
async fn expired_handle_has_a_hint() {
    let (desk, continuation) = expired().await;
    let handle = continuation["task"]["task_handle"].as_str().unwrap();
    let result = desk
        .call(&json!({"action": "status", "task_handle": handle}))
        .await;
    shows(
        &result,
        &with(&example("expired_handle")["result"], "{{handle}}", handle),
    );
}

#[tokio::test]
async fn expired_handle_in_continuation_falls_back_to_task() {
    let (desk, mut continuation) = expired().await;
    continuation.as_object_mut().unwrap().remove("conversation");
    let request = json!({"action": "status", "continuation": continuation});
    let went_on = desk.continuation(&request).await;
    assert_eq!(went_on["task"]["task_id"], "task-7");
    assert_eq!(desk.received()["id"], "task-7");
}

#[tokio::test]
async fn continuation_survives_process_restart() {
    let (desk, continuation) = waiting().await;
    let desk = desk.restarted().await;
    let handle = &continuation["task"]["task_handle"];
    let result = desk
        .call(&json!({"action": "status", "task_handle": handle}))
        .await;
    assert_eq!(result["error"]["code"], "UNKNOWN_TASK_HANDLE", "{result}");
    let request = json!({"action": "status", "continuation": continuation});
    assert_eq!(desk.call(&request).await["ok"], true);
}
