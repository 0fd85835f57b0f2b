//! Two OpenClaws, each with its state, gateway, model and server: the shared one, and another.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use a2a::v1_0::{Message, Part, Role};
use a2a_server::executor::{ExecutionEvent, Executor, Outcome, RunInput};
use base::environment::SystemEnvironment;
use base::log::Silent;
use gateway_bridge::Settings;
use openclaw_server::executor::{CommandExecutor, CommandSettings, GatewayExecutor, GatewayRuns};
use serde_json::{Value, json};
use testkit::support::free_port;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    host::{Gateway, Host, TOKEN},
    http,
    model::Model,
    node::Installed,
    plugin_fixture::{PluginFixture, host_config, model_config},
    server::Server,
    socket::Socket,
};

/// A second OpenClaw, and `remote-agent serve` in front of both.
pub struct OpenClawPair {
    /// Dropped before the gateways.
    _servers: [Server; 2],
    pub runtime: Runtime,
    pub model: Model,
    pub host: Host,
    /// Stopped when the fixture is dropped.
    _gateway: Gateway,
    pub socket: Socket,
    /// The server in front of the other OpenClaw.
    pub server: SocketAddr,
    /// The executor of such a server, with the same gateway.
    pub gateway_executor: Arc<GatewayExecutor>,
    /// An executor that runs the command of the other OpenClaw.
    pub command_executor: CommandExecutor,
    /// The outcome of a turn before the start of its gateway.
    pub local: (Outcome, Vec<ExecutionEvent>),
}

impl OpenClawPair {
    /// Starts both servers, each with the other one as the target `other`.
    pub fn start<'a>(
        installed: Arc<Installed>,
        fixture: impl FnOnce() -> &'a PluginFixture,
    ) -> Self {
        let [first_address, server] = free_addresses();
        let model = Model::start();
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openclaw-other");
        let host = Host::new(installed, &scratch, &model_config(&model), &[]);
        let runtime = Runtime::new().unwrap();
        let command_executor = command_executor(&host);
        // A turn without a gateway is slow, so it runs concurrently with the start of the first OpenClaw.
        let (fixture, local) = thread::scope(|scope| {
            let local = scope.spawn(|| {
                runtime.block_on(run_turn(&command_executor, run_input("the word is plum")))
            });
            let fixture = fixture();
            fixture.settings(&plugin_settings_for(server));
            // The first turn of a gateway is slow.
            fixture.socket.start("agent:main:awake", "wake up");
            (fixture, local.join().unwrap())
        });
        let plugin_config = host_config(&model, &plugin_settings_for(first_address));
        host.edit_config(|config| {
            for section in ["plugins", "tools"] {
                config[section] = plugin_config[section].clone();
            }
        });
        host.install(&format!("npm-pack:{}", fixture.packaged.tarball.display()));
        let gateway = host.boot();
        let flags = ["--task-store", "memory"];
        let pair = Self {
            _servers: [
                start_server(
                    first_address,
                    fixture.gateway.address(),
                    &fixture.host,
                    &flags,
                ),
                start_server(server, gateway.address(), &host, &flags),
            ],
            socket: gateway.socket(),
            gateway_executor: gateway_executor(&gateway, &host),
            runtime,
            model,
            host,
            _gateway: gateway,
            server,
            command_executor,
            local,
        };
        pair.send("awake", "wake up", false);
        pair
    }

    /// Sends one message to the server in front of the other OpenClaw, in A2A 0.3. Returns the completed task.
    pub fn send_and_wait(&self, context: &str, text: &str) -> Value {
        self.send(context, text, true)
    }

    /// Sends one message, and returns the task at once or, if `blocking`, when it is complete.
    pub fn send(&self, context: &str, text: &str, blocking: bool) -> Value {
        let message = json!({"kind": "message", "role": "user", "messageId": text, "contextId": context,
            "parts": [{"kind": "text", "text": text}]});
        self.call(
            "message/send",
            json!({"message": message, "configuration": {"blocking": blocking}}),
        )
    }

    /// Calls a method of that server and returns its result.
    pub fn call(&self, method: &str, params: Value) -> Value {
        Self::call_at(self.server, method, params)
    }

    /// Starts another server in front of the other OpenClaw, with its tasks in `state` and no time to drain.
    pub fn start_server(&self, address: SocketAddr, state: &Path) -> Server {
        let flags = ["--state-dir", state.to_str().unwrap(), "--drain", "0"];
        start_server(address, self._gateway.address(), &self.host, &flags)
    }

    /// Calls a method of the server at `address` and returns its result.
    pub fn call_at(address: SocketAddr, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (status, answer) = http::post(address, "/a2a", TOKEN, &body.to_string());
        let mut answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(
            status == 200 && answer["result"].is_object(),
            "{status} {answer:#}"
        );
        answer["result"].take()
    }
}

impl Drop for OpenClawPair {
    fn drop(&mut self) {
        self.runtime.block_on(self.gateway_executor.close());
    }
}

/// Returns settings of the plugin with one target, the server in front of the other OpenClaw, and a maximum depth of two.
fn plugin_settings_for(server: SocketAddr) -> Value {
    json!({
        "enabled": true, "policy": {"maxDelegationDepth": 2},
        "targets": [{"alias": "other", "baseUrl": format!("http://{server}")}]
    })
}

fn gateway_executor(gateway: &Gateway, host: &Host) -> Arc<GatewayExecutor> {
    let url = Url::parse(&format!("ws://{}", gateway.address())).unwrap();
    let settings = Settings {
        token: Some(TOKEN.into()),
        ..Settings::new(url)
    };
    let runs = GatewayRuns {
        timeout: Duration::from_secs(120),
        thinking: None,
        state_dir: Some(host.state()),
        triad: false,
    };
    let executor = GatewayExecutor::new(
        settings,
        runs,
        Arc::new(SystemEnvironment),
        Arc::new(Silent),
    );
    Arc::new(executor.unwrap())
}

fn command_executor(host: &Host) -> CommandExecutor {
    let variables = host.variables().into_iter();
    let settings = CommandSettings {
        openclaw_path: host.executable(),
        agent_id: Some("main".to_owned()),
        timeout: Duration::from_secs(400),
        env_vars: variables
            .map(|(name, value)| (name, value.into()))
            .collect(),
        ..CommandSettings::default()
    };
    CommandExecutor::new(settings, Arc::new(SystemEnvironment), Arc::new(Silent))
}

/// Returns a message in the one conversation of the command.
pub fn run_input(text: &str) -> RunInput {
    RunInput {
        task_id: "task".to_owned(),
        context_id: "conversation".to_owned(),
        session: "a2a-conversation".to_owned(),
        agent: None,
        client: "loopback".to_owned(),
        message: Message::new(Role::User, vec![Part::text(text)]),
        delegation: None,
    }
}

/// Runs one turn. Returns its outcome and the events before it.
pub async fn run_turn(executor: &dyn Executor, input: RunInput) -> (Outcome, Vec<ExecutionEvent>) {
    let (events, mut received) = mpsc::channel(16);
    let run = executor.run(input, events, CancellationToken::new());
    let collect = async {
        let mut collected = Vec::new();
        while let Some(event) = received.recv().await {
            collected.push(event);
        }
        collected
    };
    tokio::join!(run, collect)
}

/// Starts `remote-agent serve` at `address`, in front of the OpenClaw whose gateway is at `gateway`.
pub fn start_server(
    address: SocketAddr,
    gateway: SocketAddr,
    host: &Host,
    more: &[&str],
) -> Server {
    let mut variables = host.variables();
    variables.push(("GATEWAY".to_owned(), TOKEN.to_owned()));
    let (port, url) = (address.port().to_string(), format!("ws://{gateway}"));
    let flags = [
        &["--port", &port, "--gateway", &url][..],
        &["--gateway-token-env", "GATEWAY"],
        more,
    ];
    Server::start(&flags.concat(), &variables)
}

/// Returns free addresses for servers.
pub fn free_addresses() -> [SocketAddr; 2] {
    [(); 2].map(|()| (Ipv4Addr::LOCALHOST, free_port()).into())
}
