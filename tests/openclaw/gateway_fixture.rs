//! A real OpenClaw with several agents, and the tool that reaches them through its gateway.

use std::{
    net::Ipv4Addr,
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::{Arc, Mutex, OnceLock},
    thread::{self, JoinHandle},
};

use base::log::Silent;
use openclaw_remote_agent::plugin::{CallInput, Plugin};
use serde_json::{Value, json};

use crate::{
    gateway_runs,
    host::{Gateway, Host, TOKEN},
    journal::Journal,
    model::Model,
    node::Installed,
    plugin_fixture,
    serve_fixture::start_server,
    server::Server,
    socket::Socket,
};

/// The answer of OpenClaw 2026.9.6 to every run of an agent whose database it could not close while the agent was idle. Only a
/// restart helps.
const DATABASE_CLOSED_ERROR: &str = "Agent database execution admission is closed";

/// An OpenClaw with several agents, its gateway, and an instance of the tool.
pub struct GatewayFixture {
    pub host: Host,
    pub model: Model,
    gateway: Mutex<Option<Gateway>>,
    /// The outcome of killing the gateway, which happens once.
    pub restart: OnceLock<gateway_runs::Restart>,
    url: String,
    /// The instance for most tests.
    pub tool: Tool,
}

impl GatewayFixture {
    /// Starts a gateway with four agents, three of which vote.
    pub fn start(installed: Arc<Installed>) -> Self {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openclaw-agents");
        let model = Model::start();
        let mut config = plugin_fixture::model_config(&model);
        // The first turns of three agents at once take minutes on a busy machine.
        config["agents"]["defaults"]["timeoutSeconds"] = json!(280);
        config["agents"]["list"] = json!([
            {"id": "main", "default": true},
            {"id": "alpha", "identity": {"name": "Alpha", "theme": "steward of safety"}},
            {"id": "beta"}, {"id": "charlie"}
        ]);
        let host = Host::new(installed, &scratch, &config, &[]);
        let gateway = host.boot();
        let url = format!("ws://{}", gateway.address());
        let tool = Tool::new(&url, json!({}));
        let fixture = Self {
            host,
            model,
            gateway: Mutex::new(Some(gateway)),
            restart: OnceLock::new(),
            url,
            tool,
        };
        fixture.run(Self::warm_up_agents);
        fixture
    }

    /// Runs the slow first turns of all agents concurrently.
    fn warm_up_agents(&self) {
        let calls = ["alpha", "beta", "charlie"].map(|agent| {
            self.tool.start(with_field(
                send_request(agent, "wake up"),
                "follow_updates",
                json!(true),
            ))
        });
        for envelope in calls.map(|call| call.envelope()) {
            assert_eq!(task_state(&envelope), "completed", "{envelope}");
        }
    }

    /// Runs a test. Repeats it after a restart of the gateway if OpenClaw lost an agent's database.
    pub fn run(&self, test: fn(&Self)) {
        let Err(failure) = panic::catch_unwind(AssertUnwindSafe(|| test(self))) else {
            return;
        };
        let has_lost_database = failure
            .downcast_ref::<String>()
            .is_some_and(|message| message.contains(DATABASE_CLOSED_ERROR));
        if !has_lost_database {
            panic::resume_unwind(failure);
        }
        println!(
            "OpenClaw lost the database of an agent; the gateway restarts and the test runs again"
        );
        if let Some(gateway) = self.gateway.lock().unwrap().take() {
            gateway.kill();
        }
        self.boot();
        test(self);
    }

    /// Returns a new instance of the tool. `gateway` overrides settings of its gateway.
    pub fn new_tool(&self, gateway: Value) -> Tool {
        Tool::new(&self.url, gateway)
    }

    /// Returns the WebSocket URL of the gateway.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a connection to the gateway.
    pub fn socket(&self) -> Socket {
        self.gateway.lock().unwrap().as_ref().unwrap().socket()
    }

    /// Starts `remote-agent serve` in front of the gateway, whose requests the agent `main` answers.
    pub fn serve(&self) -> Server {
        let gateway = self.gateway.lock().unwrap().as_ref().unwrap().address();
        let flags = ["--task-store", "memory"];
        start_server((Ipv4Addr::LOCALHOST, 0).into(), gateway, &self.host, &flags)
    }

    /// Returns the HTTP URL of the gateway.
    pub fn http_url(&self) -> String {
        self.url.replace("ws://", "http://")
    }

    /// Kills the gateway.
    pub fn kill(&self) {
        self.gateway.lock().unwrap().take().unwrap().kill();
    }

    /// Starts the gateway again, on the same port and with the same state.
    pub fn boot(&self) {
        *self.gateway.lock().unwrap() = Some(self.host.boot());
    }
}

impl Drop for GatewayFixture {
    /// Kills the gateway without waiting for its runs, because its state is temporary.
    fn drop(&mut self) {
        if let Ok(Some(gateway)) = self.gateway.get_mut().map(Option::take) {
            gateway.kill();
        }
    }
}

/// An instance of the tool.
pub struct Tool(Arc<Plugin>);

impl Tool {
    /// Returns an instance without targets besides the gateway.
    pub fn new(url: &str, gateway: Value) -> Self {
        // An agent's first turn may take minutes on a busy machine.
        let (limits, defaults) = (json!({"waitMs": 290_000}), json!({"timeoutMs": 300_000}));
        let mut config = json!({"enabled": true, "targets": [], "limits": limits, "defaults": defaults, "gateway": {
            "enabled": true, "url": url, "token": TOKEN,
            "triad": {"members": ["alpha", "beta", "charlie"], "deadlineMs": 60_000}
        }});
        for (name, value) in gateway.as_object().unwrap() {
            config["gateway"][name] = value.clone();
        }
        let plugin = Plugin::new(&config.to_string(), Arc::new(Silent));
        Self(Arc::new(
            plugin.unwrap_or_else(|error| panic!("{}", error.to_json())),
        ))
    }

    /// Makes one call and returns the envelope.
    pub fn call(&self, request: Value) -> Value {
        self.start(request).envelope()
    }

    /// Makes one call that must succeed. Returns the envelope.
    pub fn call_ok(&self, request: Value) -> Value {
        let envelope = self.call(request);
        assert_eq!(envelope["ok"], true, "{envelope:#}");
        envelope
    }

    /// Starts a call.
    pub fn start(&self, request: Value) -> RunningCall {
        let updates = Journal::new();
        let journal = updates.clone();
        let call = self.0.start(CallInput {
            request: request.to_string(),
            updates: Some(Arc::new(move |update: &str| {
                journal.push(serde_json::from_str(update).unwrap())
            })),
            ..CallInput::default()
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let envelope =
            thread::spawn(move || serde_json::from_str(&runtime.block_on(call)).unwrap());
        RunningCall { envelope, updates }
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A running call.
pub struct RunningCall {
    envelope: JoinHandle<Value>,
    pub updates: Journal<Value>,
}

impl RunningCall {
    /// Waits for the envelope.
    pub fn envelope(self) -> Value {
        self.envelope.join().unwrap()
    }

    /// Waits for the first text of the agent, and returns the continuation of its task.
    pub fn wait_for_continuation(&self) -> Value {
        let update = self
            .updates
            .wait("an update with text of the agent", |update| {
                update["raw"].to_string().contains("word1")
                    && update["summary"]["continuation"]["task"]["task_id"].is_string()
            });
        let mut continuation = update["summary"]["continuation"].clone();
        // A handle is valid only in its process.
        continuation["task"]
            .as_object_mut()
            .unwrap()
            .remove("task_handle");
        continuation
    }
}

/// Returns a message to an agent.
pub fn send_request(agent: &str, text: &str) -> Value {
    json!({"action": "send", "target_alias": format!("gateway:{agent}"), "parts": [{"kind": "text", "text": text}]})
}

/// Returns the call with one more field.
pub fn with_field(mut request: Value, field: &str, value: Value) -> Value {
    request[field] = value;
    request
}

/// Returns the text of an envelope's first artifact.
pub fn artifact_text(envelope: &Value) -> String {
    let parts = envelope["summary"]["artifacts"][0]["parts"].as_array();
    let parts = parts.unwrap_or_else(|| panic!("no artifact in {envelope:#}"));
    parts
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect()
}

/// Returns the state of an envelope's task.
pub fn task_state(envelope: &Value) -> &str {
    let task_state = envelope["summary"]["continuation"]["task"]["status"].as_str();
    task_state.unwrap_or_else(|| panic!("no state in {envelope:#}"))
}
