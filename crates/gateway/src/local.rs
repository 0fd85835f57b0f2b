//! In-process connections: of agents that the gateway itself runs, and of links that it dials.

use std::sync::Arc;
use std::time::Duration;

use egress::{BoxFuture, HttpClient, NetError, NetFault, Request, Response, Sent, Upgrade};
use futures_util::stream;
use http::StatusCode;
use http::header::SEC_WEBSOCKET_KEY;

use super::access::{Identity, IdentityKind};
use super::agent::RunStatus;
use super::config::LinkConfig;
use super::connection;
use super::links::Link;
use super::state::GatewayState;
use super::upgrade::switching_headers;
use base::environment::Environment;
use base::log::Level;
use base::visible::visible;
use egress::credential::Trust;

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
        let identity = local_identity(self.name.clone(), Some(self.name.clone()));
        let link = None;
        Arc::new(LocalNet {
            state,
            identity,
            link,
        })
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

/// A link whose other gateway this one dials. Its client passes messages between both.
#[derive(Clone)]
pub struct LocalLink {
    state: Arc<GatewayState>,
    link: Arc<Link>,
}

impl LocalLink {
    pub(super) fn new(state: Arc<GatewayState>, link: Arc<Link>) -> Self {
        Self { state, link }
    }

    /// Returns its configuration.
    pub fn config(&self) -> &LinkConfig {
        &self.link.config
    }

    /// Returns the authorities of the other gateway, and the certificate for it.
    pub fn trust(&self) -> Option<Arc<Trust>> {
        self.link.trust.clone()
    }

    /// Returns whether this gateway lists an agent that the other gateway offers under `name`.
    pub fn lists(&self, name: &str) -> bool {
        self.link.lists(name)
    }

    /// Returns the network of the link's client in this gateway. Its connections use no socket and no credential. The link
    /// is up while there is one.
    pub fn network(&self) -> Arc<dyn HttpClient> {
        let state = Arc::clone(&self.state);
        let identity = local_identity(format!("link:{}", self.link.config.name), None);
        let link = Some(Arc::clone(&self.link));
        Arc::new(LocalNet {
            state,
            identity,
            link,
        })
    }

    /// Returns the clock and the ids of the gateway.
    pub fn environment(&self) -> Arc<dyn Environment> {
        Arc::clone(&self.state.env)
    }

    /// Records why the link is down. Logs the first error after it was up.
    pub fn record_failure(&self, error: &str) {
        if self.link.set_error(error, self.state.now_millis()) {
            let name = &self.link.config.name;
            let line = format!(
                "the link `{name}` is down: {}; it connects again by itself",
                visible(error)
            );
            self.state.log.log(Level::Warn, &line);
        }
    }
}

/// Returns the identity of a client in the gateway's own process.
fn local_identity(name: String, agent: Option<String>) -> Identity {
    Identity {
        name,
        roles: Vec::new(),
        agent,
        kind: IdentityKind::Local,
    }
}

/// The network of a client in the gateway's own process. Its connections only reach the gateway, with this identity.
struct LocalNet {
    state: Arc<GatewayState>,
    identity: Identity,
    link: Option<Arc<Link>>,
}

impl LocalNet {
    fn open(&self, request: &Request) -> Result<Upgrade, NetError> {
        let failed = |text: &str| NetError::new(NetFault::Unreachable, Sent::No, text);
        let key = request.headers.get(SEC_WEBSOCKET_KEY);
        let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
        let (identity, link) = (self.identity.clone(), self.link.clone());
        let client = connection::register_local(&self.state, identity, link)
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
