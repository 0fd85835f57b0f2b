//! A plugin instance.

use std::sync::Arc;

use base::log::{Level, Log};
use openclaw_remote_agent::config::Config;
use openclaw_remote_agent::plugin::assemble_with_network;
use openclaw_remote_agent::remote_agent::{PollIntervals, RemoteAgent};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::network::SimulatedNet;
use super::openclaw::GATEWAY_TOKEN;
use super::openclaw::OPENCLAW_PORT;
use super::random::SimulatedEnvironment;
use super::servers::{CLIENT_SECRET, LOGIN_HOST, SERVERS, host_of, token_of};
use super::world::World;

/// The number of plugin instances.
pub(super) const INSTANCES: usize = 3;

/// A running instance.
pub(super) struct Instance {
    pub(super) agent: RemoteAgent,
    pub(super) net: Arc<SimulatedNet>,
    pub(super) env: Arc<SimulatedEnvironment>,
    pub(super) crashed: CancellationToken,
}

/// The log of all instances. It checks that no line contains a credential.
pub(super) struct CheckedLog(Arc<World>);

impl Log for CheckedLog {
    fn log(&self, _: Level, line: &str) {
        if self.0.servers.are_credentials_in(line) || line.contains("panic") {
            self.0.violation(format!("a line of the log: {line}"));
        }
    }
}

pub(super) fn names() -> Vec<String> {
    (0..INSTANCES)
        .map(|number| format!("plugin-{number}"))
        .collect()
}

fn config(gateway: &Value) -> String {
    let bearer = |server: usize| json!({"type": "bearer", "token": token_of(server)});
    let last = SERVERS - 1;
    let target = |alias: &str, server: usize, version: &str, transport: &str, auth: Value| {
        json!({
            "alias": alias, "baseUrl": format!("https://{}/", host_of(server)), "protocolVersion": version,
            "preferredTransports": [transport], "auth": auth,
        })
    };
    let oauth = json!({
        "type": "oauth2", "tokenUrl": format!("https://{LOGIN_HOST}/token"), "clientId": "plugin",
        "clientSecret": CLIENT_SECRET,
    });
    json!({
        "targets": [
            target("rpc-1", 0, "1.0", "JSONRPC", bearer(0)),
            target("rpc-0.3", 1, "0.3", "JSONRPC", bearer(1)),
            target("http-1", 0, "1.0", "HTTP+JSON", bearer(0)),
            target("http-0.3", 1, "0.3", "HTTP+JSON", bearer(1)),
            target("any", last, "auto", "JSONRPC", oauth),
        ],
        "gateway": gateway,
        // Pins are files, and each run begins without any.
        "defaults": {"pins": "off"},
        "cards": {"ttlMs": 60_000},
        "taskHandles": {"maxEntries": 20},
    })
    .to_string()
}

/// Starts an instance that uses the `a2a-v1` gateway.
pub(super) fn start_instance(world: &Arc<World>, number: usize, faults: u64) -> Arc<Instance> {
    let gateway =
        json!({"enabled": true, "url": "ws://127.0.0.1:1", "dialect": "a2a-v1", "timeoutMs": 5000});
    start_with_gateway(world, number, faults, &gateway)
}

/// Starts an instance without random faults that uses the OpenClaw gateway.
pub(super) fn start_openclaw_instance(world: &Arc<World>, number: usize) -> Arc<Instance> {
    let url = format!("ws://127.0.0.1:{OPENCLAW_PORT}");
    let gateway = json!({
        "enabled": true, "url": url, "dialect": "openclaw", "token": GATEWAY_TOKEN, "timeoutMs": 5000,
    });
    start_with_gateway(world, number, 0, &gateway)
}

fn start_with_gateway(
    world: &Arc<World>,
    number: usize,
    faults: u64,
    gateway: &Value,
) -> Arc<Instance> {
    let env = Arc::new(SimulatedEnvironment::new(world.fork()));
    let name = &names()[number];
    let net = SimulatedNet::new(Arc::clone(world), name, faults, Arc::clone(&env));
    let net = Arc::new(net);
    let config = Config::parse(&config(gateway)).unwrap();
    let log = Arc::new(CheckedLog(Arc::clone(world)));
    let agent = assemble_with_network(
        &config,
        net.clone(),
        env.clone(),
        PollIntervals::default(),
        log,
    )
    .unwrap();
    Arc::new(Instance {
        agent,
        net,
        env,
        crashed: CancellationToken::new(),
    })
}
