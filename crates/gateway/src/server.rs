//! The server: accepts connections, serves them and shuts down.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use base::config::ConfigError;
use base::environment::Environment;
use base::log::{Level, Log};
use egress::{HttpClient, NetError, ReqwestClient};
use http_server::serve::{ConnectionConfig, serve};
use http_server::tls::{self, ClientCertificates, TlsFiles};

use super::access::Keyring;
use super::audit::Audit;
use super::config::ServerConfig;
use super::frames::RequestError;
use super::links::Links;
use super::local::{LocalAgent, LocalLink};
use super::outbox::Close;
use super::probe::Occupant;
use super::sessions::{SessionError, Sessions};
use super::signing::Signing;
use super::state::{GatewayState, StateParts, Timeouts};
use super::{frames, probe, upgrade};

/// The maximum number of unauthenticated connections. A further connection evicts the one that was idle longest.
const MAX_UNAUTHENTICATED: usize = 512;

/// The maximum number of unauthenticated connections per IPv4 address, or per IPv6 /64 network.
const MAX_UNAUTHENTICATED_PER_ADDRESS: usize = 128;

/// The maximum size of a request head.
const MAX_HEADER_BYTES: usize = 8 << 10;

/// A gateway with its listener.
pub struct Server {
    state: Arc<GatewayState>,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

/// An error that prevents the start of a gateway.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration, or a file that it names, is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Another program listens on the port.
    #[error("the port {} of {} is taken: {occupant}", address.port(), address.ip())]
    Taken {
        /// The configured address.
        address: SocketAddr,
        /// The program that responds there.
        occupant: Occupant,
    },
    /// The address cannot be used.
    #[error(
        "cannot listen on {address}: {error}; choose an address of this machine and a permitted port"
    )]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The cause.
        error: io::Error,
    },
    /// The session store cannot be opened.
    #[error(transparent)]
    Sessions(SessionError),
    /// The HTTP client cannot be created.
    #[error(transparent)]
    Net(#[from] NetError),
}

impl From<SessionError> for StartError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Keys(error) => Self::Config(error),
            error => Self::Sessions(error),
        }
    }
}

impl Server {
    /// Binds the listener and opens the sessions. Connections wait until [`run`](Self::run).
    ///
    /// # Errors
    /// [`StartError::Taken`] names the program that uses the port. The other variants name what cannot be used.
    pub async fn bind(
        config: ServerConfig,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Result<Self, StartError> {
        Self::bind_with_timeouts(config, env, log, Timeouts::default()).await
    }

    /// Binds like [`bind`](Self::bind), with other timeouts.
    ///
    /// # Errors
    /// The same as [`bind`](Self::bind).
    pub async fn bind_with_timeouts(
        config: ServerConfig,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
        timeouts: Timeouts,
    ) -> Result<Self, StartError> {
        let keyring = Keyring::load(&config)?;
        let signing = Signing::load(&config, env.unix_millis())?;
        let tls = config.tls.as_ref().map(tls_acceptor).transpose()?;
        let links = Links::load(&config)?;
        let net: Arc<dyn HttpClient> = Arc::new(ReqwestClient::new()?);
        let listener = listen(config.listen, &*net).await?;
        let address = listener.local_addr().map_err(|error| StartError::Listen {
            address: config.listen,
            error,
        })?;
        let sessions = Sessions::open(&config, Arc::clone(&env), Arc::clone(&log))?;
        let audit = Audit::new(&config, Arc::clone(&log));
        let parts = StateParts {
            config,
            keyring,
            signing,
            sessions,
            audit,
            links,
            net,
            env,
            log,
        };
        Ok(Self {
            state: GatewayState::new(parts, timeouts),
            listener,
            address,
            tls,
        })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the gateway.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        format!("{scheme}://{}/", self.address)
    }

    /// Returns the agent `name` that runs in this process.
    pub fn local_agent(&self, name: &str) -> LocalAgent {
        LocalAgent::new(Arc::clone(&self.state), name.to_owned())
    }

    /// Returns the links whose other gateway this one dials.
    pub fn links(&self) -> Vec<LocalLink> {
        let dialled = self
            .state
            .links
            .iter()
            .filter(|link| link.config.url.is_some());
        dialled
            .map(|link| LocalLink::new(Arc::clone(&self.state), Arc::clone(link)))
            .collect()
    }

    /// Serves connections until `shutdown` is cancelled. Then sends `disconnect` to every client and returns within seconds.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self {
            state,
            listener,
            tls,
            ..
        } = self;
        let config = ConnectionConfig {
            total: MAX_UNAUTHENTICATED,
            per_address: MAX_UNAUTHENTICATED_PER_ADDRESS,
            max_header_bytes: MAX_HEADER_BYTES,
            handshake_timeout: state.timeouts.handshake,
            header_timeout: state.timeouts.handshake,
            eviction_grace: state.timeouts.eviction_grace,
            drain_timeout: state.timeouts.shutdown,
            ..ConnectionConfig::default()
        };
        let app = upgrade::router(Arc::clone(&state));
        let log = Arc::clone(&state.log);
        let warn = |message: &str| log.log(Level::Warn, message);
        let serving = serve(listener, tls, app, config, shutdown.clone(), warn);
        let ending = async {
            shutdown.cancelled().await;
            shut_down(&state).await;
        };
        tokio::join!(serving, ending);
    }
}

async fn listen(address: SocketAddr, net: &dyn HttpClient) -> Result<TcpListener, StartError> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(StartError::Taken {
            address,
            occupant: probe::identify_occupant(net, address).await,
        }),
        Err(error) => Err(StartError::Listen { address, error }),
    }
}

/// Fails pending requests and proposals, closes all connections, and flushes the sessions and the audit log.
async fn shut_down(state: &Arc<GatewayState>) {
    state.stopping.cancel();
    let clients: Vec<_> = state.registry().clients().cloned().collect();
    for client in &clients {
        state.fail_pending(client, |_| RequestError::shutting_down());
    }
    state
        .triad
        .fail_pending(&RequestError::shutting_down(), state.now_millis());
    let disconnect = frames::disconnect("shutdown", Close::SHUTDOWN.reason);
    for client in &clients {
        let _ = client.outbox.try_send(disconnect.clone());
        client.outbox.close(Close::SHUTDOWN);
    }
    state.tasks.close();
    let _ = tokio::time::timeout(state.timeouts.shutdown, state.tasks.wait()).await;
    let limit = state.timeouts.shutdown;
    let state = Arc::clone(state);
    let flush = tokio::task::spawn_blocking(move || {
        if let Err(error) = state.sessions.close() {
            state.log.log(Level::Error, &error.to_string());
        }
        state.audit.close();
    });
    let _ = tokio::time::timeout(limit, flush).await;
}

/// Creates the TLS acceptor. Requests client certificates if `files` names client authorities.
///
/// # Errors
/// The first unusable file, with its JSON Pointer in the configuration. The error never contains the content of a file.
pub(super) fn tls_acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ConfigError> {
    tls::acceptor(files, ClientCertificates::Required)
        .map_err(|error| ConfigError::at(format!("/tls/{}", error.key), error.to_string()))
}

#[cfg(test)]
mod tests;
