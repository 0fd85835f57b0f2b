//! In-process connections for agents that the gateway itself runs.

use std::sync::Arc;
use std::time::Duration;

use egress::{BoxFuture, HttpClient, NetError, NetFault, Request, Response, Sent, Upgrade};
use futures_util::stream;
use http::StatusCode;
use http::header::SEC_WEBSOCKET_KEY;

use super::access::{Identity, IdentityKind};
use super::agent::RunStatus;
use super::connection;
use super::state::GatewayState;
use super::upgrade::switching_headers;
use base::environment::Environment;

/// The buffer size of each direction.
const BUFFER_BYTES: usize = 64 * 1024;

/// An agent in the gateway's own process. Its recorded starts and exits appear in lists of agents.
#[derive(Clone)]
pub struct LocalAgent {
    state: Arc<GatewayState>,
    name: String,
}

impl LocalAgent {
    pub(super) fn new(state: Arc<GatewayState>, name: String) -> Self {
        Self { state, name }
    }

    /// Returns the network of the agent's client. Its connections use no socket and no credential.
    pub fn network(&self) -> Arc<dyn HttpClient> {
        let state = Arc::clone(&self.state);
        let agent = self.name.clone();
        Arc::new(LocalNet { state, agent })
    }

    /// Returns the clock and the ids of the gateway.
    pub fn environment(&self) -> Arc<dyn Environment> {
        Arc::clone(&self.state.env)
    }

    /// Records that the agent has started.
    pub fn record_start(&self) {
        self.state
            .registry_mut()
            .update_run(&self.name, RunStatus::on_started);
    }

    /// Records that the agent has ended for `reason` and restarts after `wait`.
    pub fn record_exit(&self, reason: &str, wait: Duration) {
        let starts_at = self.state.env.now() + wait;
        self.state
            .registry_mut()
            .update_run(&self.name, |run| run.on_exit(reason, starts_at));
    }
}

/// The network of an agent in the gateway's own process. Its connections only reach the gateway, authenticated as the agent.
struct LocalNet {
    state: Arc<GatewayState>,
    agent: String,
}

impl LocalNet {
    fn open(&self, request: &Request) -> Result<Upgrade, NetError> {
        let failed = |text: &str| NetError::new(NetFault::Unreachable, Sent::No, text);
        let key = request.headers.get(SEC_WEBSOCKET_KEY);
        let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
        let identity = Identity {
            name: self.agent.clone(),
            roles: Vec::new(),
            agent: Some(self.agent.clone()),
            kind: IdentityKind::Local,
        };
        let client = connection::register_local(&self.state, identity)
            .ok_or_else(|| failed("the gateway has as many connections as it may"))?;
        let (server_stream, client_stream) = tokio::io::duplex(BUFFER_BYTES);
        let state = Arc::clone(&self.state);
        self.state
            .tasks
            .spawn(connection::serve(state, client, server_stream));
        Ok(Upgrade {
            status: StatusCode::SWITCHING_PROTOCOLS,
            headers: switching_headers(key, true),
            stream: Some(Box::new(client_stream)),
            body: Box::pin(stream::empty()),
        })
    }
}

impl HttpClient for LocalNet {
    fn exchange(&self, _request: Request) -> BoxFuture<'_, Result<Response, NetError>> {
        let error = NetError::new(
            NetFault::Protocol,
            Sent::No,
            "a connection inside the gateway is always a WebSocket",
        );
        Box::pin(std::future::ready(Err(error)))
    }

    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Upgrade, NetError>> {
        Box::pin(async move { self.open(&request) })
    }
}
