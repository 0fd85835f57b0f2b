//! One message to several targets.

mod answers;
mod faults;

use serde_json::{Map, Value, json};
use testkit::conformance::Peers;

use crate::contract::in_process::check_result;
use crate::faults::tool_fixture::{ToolFixture, card, peers};

/// Returns the task of an agent, with this text as an artifact.
fn task(id: &str, state: &str, text: &str) -> Value {
    let mut task = json!({"kind": "task", "id": id, "contextId": format!("c-{id}"), "status": {"state": state}});
    if !text.is_empty() {
        task["artifacts"] = json!([{"artifactId": "a", "parts": [{"kind": "text", "text": text}]}]);
    }
    task
}

/// Returns the script of an agent that completes its task with this text.
fn answers(id: &str, text: &str) -> Value {
    let done = json!({"result": task(id, "completed", text)});
    json!({"card": card(), "rpc": {"message/stream": {"sse": [done]}, "tasks/get": done,
        "tasks/cancel": {"error": {"code": -32002, "message": "too late"}}}})
}

/// Returns the script of an agent whose task goes on until it is cancelled.
fn works(id: &str) -> Value {
    let working = json!({"result": task(id, "working", "")});
    json!({"card": card(), "rpc": {"message/stream": {"sse": [working], "end": "hang"},
        "tasks/resubscribe": {"sse": [working], "end": "hang"}, "tasks/get": working,
        "tasks/cancel": {"result": task(id, "canceled", "")}}})
}

/// Agents of these names, and the tool with them as targets.
struct Agents {
    peers: Peers,
    fixture: ToolFixture,
    names: Vec<String>,
    config: Value,
}

impl Agents {
    async fn start<N: Into<String>>(
        scripts: impl IntoIterator<Item = (N, Value)>,
        more: Value,
    ) -> Self {
        let scripts = scripts.into_iter();
        let (names, scripts): (Vec<String>, Vec<Value>) =
            scripts.map(|(name, script)| (name.into(), script)).unzip();
        let scripts: Map<String, Value> = names.iter().cloned().zip(scripts).collect();
        let peers = peers(Value::Object(scripts)).await;
        let targets: Vec<Value> = names
            .iter()
            .map(|name| json!({"alias": name, "baseUrl": peers.origin(name)}))
            .collect();
        let mut config = more;
        config["targets"] = targets.into();
        Self {
            fixture: ToolFixture::new(&config),
            peers,
            names,
            config,
        }
    }

    /// Returns a message to all, with further fields.
    fn request(&self, more: Value) -> Value {
        let mut request = json!({"action": "send", "target_aliases": self.names, "timeout_ms": 20_000,
            "parts": [{"kind": "text", "text": "hello"}]});
        let fields = request.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        request
    }

    async fn send(&self, more: Value) -> Value {
        self.call(&self.request(more)).await
    }

    async fn call(&self, request: &Value) -> Value {
        let (envelope, updates) = self.fixture.call_with_updates(request).await;
        updates.iter().for_each(check_result);
        check_result(&envelope);
        envelope
    }

    /// Returns how often an agent received a JSON-RPC method.
    fn count(&self, name: &str, method: &str) -> usize {
        let log = self.peers.log(name);
        log.iter()
            .filter(|request| {
                request
                    .body
                    .as_ref()
                    .is_some_and(|body| body["method"] == method)
            })
            .count()
    }
}

fn group(envelope: &Value) -> &Value {
    &envelope["summary"]["group"]
}

fn states(envelope: &Value) -> Vec<&str> {
    let results = group(envelope)["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| result["state"].as_str().unwrap())
        .collect()
}
