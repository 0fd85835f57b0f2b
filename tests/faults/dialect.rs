//! Peers of both versions over both transports, each scripted in its dialect.

use serde_json::{Value, json};
use testkit::conformance::Peers;

use crate::faults::tool_fixture::{card, peers, result};

/// A peer of one version and transport, and its dialect.
pub(crate) struct Dialect {
    pub(crate) name: &'static str,
    pub(crate) card: Value,
    /// The methods and paths of sending, streaming, resubscribing and querying.
    pub(crate) operations: [&'static str; 4],
    /// Wraps an answer.
    pub(crate) answer: fn(Value) -> Value,
    /// Wraps an event.
    pub(crate) event: fn(Value) -> Value,
    pub(crate) task: fn(Value) -> Value,
    pub(crate) status: fn(Value) -> Value,
    pub(crate) artifact: fn(Value) -> Value,
    pub(crate) completed: &'static str,
    pub(crate) working: &'static str,
}

fn with_kind(name: &str, mut value: Value) -> Value {
    value["kind"] = json!(name);
    value
}

fn v0_3_http_json_card() -> Value {
    let mut card = card();
    card["url"] = json!("{{origin}}/rest");
    card["preferredTransport"] = json!("HTTP+JSON");
    card
}

pub(crate) fn v1_card(transport: &str) -> Value {
    json!({
        "name": "Desk", "description": "Answers.", "version": "1.0.0", "capabilities": {"streaming": true},
        "supportedInterfaces": [{"url": "{{origin}}/a2a/jsonrpc", "protocolBinding": transport, "protocolVersion": "1.0"}],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
    })
}

fn rest_event(value: Value) -> Value {
    json!({ "rest": value })
}

pub(crate) fn json_response(value: Value) -> Value {
    json!({ "json": value })
}

pub(crate) fn dialects() -> [Dialect; 4] {
    let with_v1_types = |name, card, operations, answer, event| Dialect {
        name,
        card,
        operations,
        answer,
        event,
        task: |task| json!({ "task": task }),
        status: |update| json!({ "statusUpdate": update }),
        artifact: |update| json!({ "artifactUpdate": update }),
        completed: "TASK_STATE_COMPLETED",
        working: "TASK_STATE_WORKING",
    };
    [
        Dialect {
            name: "0.3 JSONRPC",
            card: card(),
            operations: [
                "message/send",
                "message/stream",
                "tasks/resubscribe",
                "tasks/get",
            ],
            answer: result,
            event: result,
            task: |task| with_kind("task", task),
            status: |update| with_kind("status-update", update),
            artifact: |update| with_kind("artifact-update", update),
            completed: "completed",
            working: "working",
        },
        with_v1_types(
            "0.3 HTTP+JSON",
            v0_3_http_json_card(),
            [
                "POST /rest/v1/message:send",
                "POST /rest/v1/message:stream",
                "POST /rest/v1/tasks/t-1:subscribe",
                "GET /rest/v1/tasks/t-1",
            ],
            json_response,
            rest_event,
        ),
        with_v1_types(
            "1.0 JSONRPC",
            v1_card("JSONRPC"),
            [
                "SendMessage",
                "SendStreamingMessage",
                "SubscribeToTask",
                "GetTask",
            ],
            result,
            result,
        ),
        with_v1_types(
            "1.0 HTTP+JSON",
            v1_card("HTTP+JSON"),
            [
                "POST /a2a/jsonrpc/message:send",
                "POST /a2a/jsonrpc/message:stream",
                "POST /a2a/jsonrpc/tasks/t-1:subscribe",
                "GET /a2a/jsonrpc/tasks/t-1",
            ],
            json_response,
            rest_event,
        ),
    ]
}

impl Dialect {
    /// Returns the peer, with these responses by operation.
    pub(crate) async fn peer(&self, responses: Vec<(&str, Value)>) -> Peers {
        let (mut rpc, mut routes) = (json!({}), json!({}));
        for (operation, response) in responses {
            let map = if operation.contains(' ') {
                &mut routes
            } else {
                &mut rpc
            };
            map[operation] = response;
        }
        peers(json!({"main": {"card": self.card, "rpc": rpc, "routes": routes}})).await
    }

    pub(crate) fn status(&self, state: &str) -> Value {
        (self.event)((self.status)(json!({"status": {"state": state}})))
    }

    /// Returns the updates of a task that works, has the artifact "the result", and completes.
    pub(crate) fn updates_of_completed_task(&self) -> [Value; 3] {
        [
            self.status(self.working),
            self.artifact("the result"),
            self.status(self.completed),
        ]
    }

    /// Returns the stream of such a task, which is in this state after its first event.
    pub(crate) fn stream_of_completed_task(&self, state: &str) -> Value {
        let task = self.task_in_state(self.working);
        let events = [
            (self.event)((self.task)(task)),
            self.status(state),
            self.artifact("the result"),
            self.status(self.completed),
        ];
        json!({ "sse": events })
    }

    pub(crate) fn artifact(&self, text: &str) -> Value {
        let part = match self.name {
            "0.3 JSONRPC" => json!({"kind": "text", "text": text}),
            _ => json!({ "text": text }),
        };
        let update = json!({"artifact": {"artifactId": "a", "parts": [part]}, "lastChunk": true});
        (self.event)((self.artifact)(update))
    }

    pub(crate) fn task_in_state(&self, state: &str) -> Value {
        json!({"id": "t-1", "contextId": "c-1", "status": {"state": state}})
    }
}
