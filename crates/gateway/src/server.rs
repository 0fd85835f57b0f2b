//! The gateway as a whole: it listens, serves whoever connects, and ends when it is told to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use common::config::ConfigError;
use common::environment::Environment;
use common::log::{Level, Log};
use egress::{HttpClient, Net, NetError};
use http_server::serve::{ConnectionConfig, serve};

use super::access::Keyring;
use super::audit::Audit;
use super::config::ServerConfig;
use super::hub::{Hub, Parts};
use super::pace::Pace;
use super::probe::{self, Occupant};
use super::sessions::{SessionError, Sessions};
use super::{tls, upgrade};

/// So many connections may have no authenticated client. One more takes the place of the longest-silent one.
const MAX_UNAUTHENTICATED: usize = 512;

/// So many of them may come from one address, or from one /64 network of IPv6.
const MAX_UNAUTHENTICATED_PER_ADDRESS: usize = 128;

/// The largest head of a request, in bytes.
const MAX_HEADER_BYTES: usize = 8 << 10;

/// A gateway that listens.
pub struct Server {
    hub: Arc<Hub>,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration, or a file that it names, cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The port is somebody else's.
    #[error("the port {} of {} is taken: {occupant}", address.port(), address.ip())]
    Taken {
        /// The address that was asked for.
        address: SocketAddr,
        /// Who answers there, and what to do.
        occupant: Occupant,
    },
    /// Nothing can listen there.
    #[error(
        "cannot listen on {address}: {error}; choose an address of this machine and a port that may be used"
    )]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The sessions cannot be opened.
    #[error(transparent)]
    Sessions(#[from] SessionError),
    /// Outgoing connections cannot be made.
    #[error(transparent)]
    Net(#[from] NetError),
}

impl Server {
    /// Listens, and opens the sessions. Nobody is served before [`run`](Self::run).
    ///
    /// # Errors
    /// Why it cannot. Where the port is taken, who answers there.
    pub async fn bind(
        config: ServerConfig,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Result<Self, StartError> {
        Self::bind_at(config, env, log, Pace::default()).await
    }

    /// As [`bind`](Self::bind), with other waits.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub async fn bind_at(
        config: ServerConfig,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
        pace: Pace,
    ) -> Result<Self, StartError> {
        let keyring = Keyring::load(&config)?;
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let net: Arc<dyn Net> = Arc::new(HttpClient::new()?);
        let listener = listen(config.listen, &*net).await?;
        let address = listener.local_addr().map_err(|error| StartError::Listen {
            address: config.listen,
            error,
        })?;
        let sessions = open_sessions(&config, &env, &log).await?;
        let audit = Audit::new(&config, Arc::clone(&log));
        let parts = Parts {
            config,
            keyring,
            sessions,
            audit,
            net,
            env,
            log,
        };
        Ok(Self {
            hub: Hub::new(parts, pace),
            listener,
            address,
            tls,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL to connect to.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        format!("{scheme}://{}/", self.address)
    }

    /// Serves whoever connects until `shutdown` is cancelled; then everybody is told, and it ends within seconds.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self {
            hub, listener, tls, ..
        } = self;
        let config = ConnectionConfig {
            total: MAX_UNAUTHENTICATED,
            per_address: MAX_UNAUTHENTICATED_PER_ADDRESS,
            max_header_bytes: MAX_HEADER_BYTES,
            handshake_timeout: hub.pace.opening,
            header_timeout: hub.pace.opening,
            eviction_grace: hub.pace.eviction,
            drain_timeout: hub.pace.shutdown,
            ..ConnectionConfig::default()
        };
        let app = upgrade::router(Arc::clone(&hub));
        let log = Arc::clone(&hub.log);
        let warn = |message: &str| log.log(Level::Warn, message);
        let serving = serve(listener, tls, app, config, shutdown.clone(), warn);
        let ending = async {
            shutdown.cancelled().await;
            end(&hub).await;
        };
        tokio::join!(serving, ending);
    }
}

async fn listen(address: SocketAddr, net: &dyn Net) -> Result<TcpListener, StartError> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(StartError::Taken {
            address,
            occupant: probe::who_answers(net, address).await,
        }),
        Err(error) => Err(StartError::Listen { address, error }),
    }
}

async fn open_sessions(
    config: &ServerConfig,
    env: &Arc<dyn Environment>,
    log: &Arc<dyn Log>,
) -> Result<Sessions, StartError> {
    Ok(Sessions::open(config, Arc::clone(env), Arc::clone(log))?)
}

/// Takes leave of everybody, and brings what was said to the disk.
async fn end(hub: &Arc<Hub>) {
    hub.say_goodbye();
    hub.tasks.close();
    let _ = tokio::time::timeout(hub.pace.shutdown, hub.tasks.wait()).await;
    let kept = Arc::clone(hub);
    let kept = tokio::task::spawn_blocking(move || {
        if let Err(error) = kept.sessions.close() {
            kept.log.log(Level::Error, &error.to_string());
        }
        kept.audit.close();
    });
    let _ = tokio::time::timeout(hub.pace.shutdown, kept).await;
}
