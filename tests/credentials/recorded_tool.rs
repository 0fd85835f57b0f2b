//! The whole output of an instance, for searches for secrets.

use openclaw_remote_agent::config::Config;
use openclaw_remote_agent::plugin;
use serde_json::{Value, json};

use crate::credentials::tool_fixture::{ToolFixture, send_request, stream_request};

/// An instance with a copy of its output.
pub(crate) struct RecordedTool {
    pub(crate) fixture: ToolFixture,
    outputs: Vec<String>,
    updates: Vec<Value>,
}

impl RecordedTool {
    pub(crate) fn new(config: &Value) -> Self {
        let text = config.to_string();
        let parsed = Config::parse(&text).unwrap();
        let fixture = ToolFixture::new(config);
        let outputs = vec![
            format!("{parsed:?}"),
            plugin::parse_config(&text).unwrap(),
            fixture.plugin.definition(),
        ];
        Self {
            fixture,
            outputs,
            updates: Vec::new(),
        }
    }

    /// Returns an instance with one target, `main`, which is the default.
    pub(crate) fn with_target(target: &Value) -> Self {
        let mut target = target.clone();
        target["alias"] = json!("main");
        target["default"] = json!(true);
        Self::new(&json!({"targets": [target]}))
    }

    /// Runs a call to its end.
    pub(crate) async fn call(&mut self, request: &Value) -> Value {
        let (envelope, updates) = self.fixture.call_with_updates(request).await;
        self.record(&envelope);
        let rendered = self.render(&envelope);
        self.outputs.push(rendered);
        updates.iter().for_each(|update| self.record(update));
        self.updates.extend(updates);
        envelope
    }

    /// Records an envelope or update of another call.
    pub(crate) fn record(&mut self, message: &Value) {
        self.outputs.push(message.to_string());
    }

    /// Returns the events of the updates so far.
    pub(crate) fn updates(&self) -> impl Iterator<Item = &Value> {
        self.updates.iter().map(|update| &update["raw"])
    }

    /// Returns the status messages of the updates so far.
    pub(crate) fn statuses(&self) -> Vec<&str> {
        let message = self.updates.iter();
        message
            .filter_map(|update| update["summary"]["status_message"].as_str())
            .collect()
    }

    /// Returns the text of an envelope for a model.
    pub(crate) fn render(&self, envelope: &Value) -> String {
        self.fixture.plugin.render(&envelope.to_string())
    }

    /// Fails if a result, update or log line contains one of `secrets` in any form.
    pub(crate) fn assert_omits(&self, secrets: &[&str]) {
        let log = self.fixture.log.lines();
        let lines = log.iter().map(|(_, line)| line);
        for text in self.outputs.iter().chain(lines) {
            for secret in secrets {
                let escaped = secret.replace('/', "\\/");
                assert!(
                    !text.contains(secret) && !text.contains(&escaped),
                    "`{secret}` in {text}"
                );
            }
        }
    }
}

/// Returns every kind of request, and requests that the peer refuses.
pub(crate) fn requests() -> Vec<Value> {
    let with_text = |mut request: Value, text: &str| {
        request["parts"][0]["text"] = json!(text);
        request
    };
    vec![
        send_request(),
        stream_request(),
        with_text(send_request(), "fail"),
        with_text(send_request(), "refuse"),
        with_text(send_request(), "challenge"),
        json!({"action": "status", "task_id": "t-1"}),
        json!({"action": "cancel", "task_id": "t-1"}),
        json!({"action": "watch", "task_id": "t-1"}),
        json!({"action": "list_targets"}),
    ]
}
