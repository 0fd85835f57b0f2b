//! One attempt: a tool, a scripted resolver, a configured peer, and a trap.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Mutex};

use base::environment::SystemEnvironment;
use base::log::Silent;
use egress::{
    BoxFuture, ReqwestClient,
    proxy::{Proxies, ProxySettings},
    resolver::Lookup,
};
use openclaw_remote_agent::config::Config;
use openclaw_remote_agent::plugin::assemble_with_network;
use openclaw_remote_agent::remote_agent::{PollIntervals, ToolCall};
use serde_json::{Value, json};
use testkit::conformance::Peers;
use tokio_util::sync::CancellationToken;

/// The addresses of a name, one list per lookup.
pub(crate) type LookupResults = Vec<Vec<&'static str>>;

/// A route to an address. In all of its texts, `PORT` stands for the port of the trap, `PEER` for that of the peer and
/// `{{origin}}` for the peer's origin. The peer is configured, on loopback.
pub(crate) struct Route {
    /// The description of the route.
    pub(crate) group: &'static str,
    /// Its destination.
    pub(crate) address: String,
    pub(crate) config: Value,
    /// The script of the configured peer, see `fixtures/README.md`.
    pub(crate) peer: Value,
    /// The addresses of names. Each lookup gets the next answer; the last one repeats.
    pub(crate) names: Vec<(&'static str, LookupResults)>,
    /// Whether the trap is the proxy.
    pub(crate) proxy: bool,
    /// The calls. Only the outcome of the last one counts.
    pub(crate) requests: Vec<Value>,
    pub(crate) expected: Outcome,
}

/// The expected outcome of a route.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    /// An error with this code and reason, and no connection.
    Refused(&'static str, &'static str),
    /// A result, and no connection: the address was not called.
    Ignored,
    /// A result.
    Allowed,
}

impl Outcome {
    /// The differences from the expected outcome.
    pub(crate) fn difference(self, attempt: &Attempt) -> Option<String> {
        let (result, connections) = match self {
            Self::Refused(code, reason) => (format!("{code}: {reason}"), Some(0)),
            Self::Ignored => ("ok".to_owned(), Some(0)),
            Self::Allowed => ("ok".to_owned(), None),
        };
        if attempt.result != result {
            return Some(format!("`{}` and not `{result}`", attempt.result));
        }
        if connections.is_some_and(|allowed| allowed != attempt.connections) {
            return Some(format!("{} connections", attempt.connections));
        }
        None
    }
}

/// The outcome of a route.
pub(crate) struct Attempt {
    /// `ok`, or the error's code and reason.
    pub(crate) result: String,
    /// The number of connections to the trap.
    pub(crate) connections: usize,
    pub(crate) envelope: Value,
}

/// A listener on every forbidden address of this machine.
pub(crate) struct Trap(TcpListener);

impl Trap {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"));
        let listener = listener.unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// Returns the number of connections since the last call. Established connections are already in the queue.
    pub(crate) fn connections(&self) -> usize {
        let mut count = 0;
        loop {
            match self.0.accept() {
                Ok(_) => count += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return count,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

struct ScriptedLookup(Mutex<Vec<(&'static str, LookupResults)>>);

impl Lookup for ScriptedLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut names = self.0.lock().unwrap();
        let known = names.iter_mut().find(|(known, _)| *known == name);
        let answer = known.map(|(_, answers)| match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        });
        let answer = answer
            .map(|ips| ips.iter().map(|ip| ip.parse().unwrap()).collect())
            .ok_or_else(|| ErrorKind::NotFound.into());
        Box::pin(std::future::ready(answer))
    }
}

/// Attempts a route.
pub(crate) async fn attempt_route(route: &Route) -> Attempt {
    let trap = Trap::new();
    let port = trap.port().to_string();
    let fill_port = |value: &Value| -> Value {
        serde_json::from_str(&value.to_string().replace("PORT", &port)).unwrap()
    };
    let peers = Peers::start(&json!({"peers": {"main": fill_port(&route.peer)}})).await;
    let peers = peers.unwrap();
    let fill_placeholders = |value: &Value| -> Value {
        let origin = peers.origin("main");
        let number = origin.rsplit(':').next().unwrap_or_default();
        let text = fill_port(value).to_string().replace("{{origin}}", origin);
        serde_json::from_str(&text.replace("PEER", number)).unwrap()
    };
    let config = Config::parse(&fill_placeholders(&route.config).to_string())
        .unwrap_or_else(|e| panic!("{e}"));
    let mut http = ReqwestClient::new()
        .unwrap()
        .with_lookup(Arc::new(ScriptedLookup(Mutex::new(route.names.clone()))));
    if route.proxy {
        let settings = ProxySettings {
            all: Some(format!("http://127.0.0.1:{port}")),
            ..ProxySettings::default()
        };
        http = http.with_proxies(Proxies::new(&settings).unwrap());
    }
    let (http, env) = (Arc::new(http), Arc::new(SystemEnvironment));
    let tool = assemble_with_network(
        &config,
        http,
        env,
        PollIntervals::default(),
        Arc::new(Silent),
    );
    let tool = tool.unwrap_or_else(|e| panic!("{e}"));
    let mut envelope = Value::Null;
    for request in &route.requests {
        let call = ToolCall {
            request: &fill_placeholders(request).to_string(),
            caller: None,
            updates: None,
            person: None,
            cancel: CancellationToken::new(),
            closing: CancellationToken::new(),
        };
        envelope = serde_json::from_str(&tool.execute(call).await).unwrap();
    }
    let error = &envelope["error"];
    let result = match envelope["ok"].as_bool() {
        Some(true) => "ok".to_owned(),
        _ => [&error["code"], &error["reason"]]
            .map(|text| text.as_str().unwrap_or("none"))
            .join(": "),
    };
    Attempt {
        result,
        connections: trap.connections(),
        envelope,
    }
}
