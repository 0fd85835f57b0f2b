//! The OpenClaw and its surroundings that the tests share.

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

use remote_agent_cli::package::{self, Packaged};
use serde_json::{Value, json};

use crate::{
    host::{Gateway, Host},
    model::Model,
    node::Installed,
    peer::Peer,
    socket::Socket,
};

/// The environment variable of the peer's credential, and its value.
pub const SECRET: (&str, &str) = ("PEER_TOKEN", "secret-from-the-environment");

/// The shared state of the tests.
pub struct PluginFixture {
    pub packaged: Packaged,
    pub model: Model,
    pub peer: Peer,
    pub host: Host,
    pub gateway: Gateway,
    pub socket: Socket,
}

impl PluginFixture {
    /// Installs the tarball into a new OpenClaw and starts it.
    pub fn start(installed: Arc<Installed>) -> Self {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openclaw");
        let packaged = package::assemble(&library(), &scratch.join("package")).unwrap();
        let (model, peer) = (Model::start(), Peer::start());
        let host = Host::new(
            installed,
            &scratch.join("host"),
            &host_config(&model, &plugin_settings(&peer)),
            &[SECRET],
        );
        let (openclaw, node) = host.versions();
        println!("{openclaw}, Node.js {node}");
        host.install(&format!("npm-pack:{}", packaged.tarball.display()));
        let gateway = host.boot();
        let socket = gateway.socket();
        Self {
            packaged,
            model,
            peer,
            host,
            gateway,
            socket,
        }
    }

    /// Runs a turn in which the model calls the tool with `arguments`. Returns the model's next input.
    pub fn run_turn(&self, session: &str, marker: &str, arguments: &Value) -> Value {
        self.socket.run(session, &format!("CALL {arguments}"));
        self.model.request_with_result(marker)
    }

    /// Changes the plugin's settings and waits until OpenClaw has applied them.
    pub fn configure(&self, change: impl FnOnce(&mut Value)) {
        let from = self.gateway.output.len();
        self.host
            .edit_config(|config| change(&mut config["plugins"]["entries"]));
        self.gateway
            .output
            .wait_from(from, "the new configuration to be applied", |line| {
                line.contains("config hot reload applied")
            });
    }

    /// Sets the plugin's settings like [`settings`](Self::settings), and returns the line that the gateway then logs about them.
    pub fn settings_until(&self, settings: &Value, text: &str) -> String {
        let from = self.gateway.output.len();
        self.settings(settings);
        let is_logged = |line: &String| line.contains(text);
        let output = &self.gateway.output;
        output.wait_from(from, "the line about the settings", is_logged)
    }

    /// Sets the plugin's settings, only under its id.
    pub fn settings(&self, settings: &Value) {
        self.configure(|entries| {
            *entries = json!({"remote-agent": {"enabled": true, "config": settings}})
        });
    }
}

/// Returns the library that Cargo built with this test.
pub fn library() -> PathBuf {
    let name = format!(
        "{}openclaw_remote_agent{}",
        env::consts::DLL_PREFIX,
        env::consts::DLL_SUFFIX
    );
    env::var_os("REMOTE_AGENT_LIBRARY").map_or_else(
        || env::current_exe().unwrap().with_file_name(name),
        PathBuf::from,
    )
}

/// Returns settings of the plugin with one target, whose token and header are a SecretRef.
pub fn plugin_settings(peer: &Peer) -> Value {
    let token = json!({"source": "env", "provider": "default", "id": SECRET.0});
    let auth = json!({"type": "bearer", "token": token});
    let target =
        json!({"alias": "peer", "baseUrl": peer.url(), "auth": auth, "headers": {"X-Key": token}});
    json!({"enabled": true, "targets": [target]})
}

/// Returns the configuration of an OpenClaw with a scripted model and without plugins.
pub fn model_config(model: &Model) -> Value {
    let mut config = host_config(model, &json!({}));
    config.as_object_mut().unwrap().remove("plugins");
    config.as_object_mut().unwrap().remove("tools");
    config["models"]["providers"]["scripted"]["models"][0]["input"] = json!(["text", "image"]);
    config
}

pub fn host_config(model: &Model, settings: &Value) -> Value {
    json!({
        "agents": {"defaults": {"skipBootstrap": true, "model": {"primary": "scripted/scripted"}, "timeoutSeconds": 180}},
        "models": {"mode": "replace", "providers": {"scripted": {
            "baseUrl": format!("http://{}/v1", model.address), "apiKey": "none", "api": "openai-completions",
            "models": [{"id": "scripted", "name": "Scripted", "reasoning": false, "input": ["text"],
                "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "contextWindow": 120_000, "maxTokens": 4096}]
        }}},
        "tools": {"alsoAllow": ["remote_agent"]},
        "plugins": {"entries": {"remote-agent": {"enabled": true, "config": settings}}}
    })
}
