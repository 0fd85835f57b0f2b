//! Builds the A2A server from its configuration: executor, task store, push notifications, routes and access control.

mod executor;
mod frontend;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use a2a_server::http::app::Operator;
use a2a_server::http::{self as wire, App, CardFacts, Router, app};
use a2a_server::service::{Closed, Service, ServiceComponents};
use a2a_server::settings::Settings;
use a2a_server::store::memory::MemoryStore;
use a2a_server::store::sqlite::SqliteStore;
use a2a_server::store::{TaskStore, redis, sqlite};
use base::config::ConfigError;
use base::environment::{Clock as _, SystemEnvironment};
use egress::{NetError, ReqwestClient};
pub use frontend::Frontend;
use tokio_util::sync::CancellationToken;

use super::push_sender::{HttpPushSender, WebhookPolicy};
use super::sessions::SessionKeys;
use crate::clients::ClientFileError;
use crate::config::{ServeConfig, TaskStoreKind};

/// A server with a bound listener. It accepts connections once [`run`](Self::run) is called.
pub struct Server {
    frontend: Frontend,
    app: Router,
    service: Service,
    description: String,
}

impl Server {
    /// Binds the listener, opens the store, and recovers the tasks of an earlier process.
    ///
    /// # Errors
    /// The configuration, the address, the store or the executor cannot be used.
    pub async fn bind(mut config: ServeConfig) -> Result<Self, StartError> {
        config.complete_gateway(|name| std::env::var_os(name))?;
        let frontend = Frontend::bind(config).await?;
        let Frontend {
            config, clients, ..
        } = &frontend;
        let (store, store_text) = store(config, frontend.page()).await?;
        let sender = HttpPushSender::new(
            Arc::new(ReqwestClient::new()?),
            WebhookPolicy {
                listed: config.push.allowed_urls.clone(),
                anywhere: config.push.allow_any_address,
            },
        );
        let service = Service::start(ServiceComponents {
            settings: settings(config, clients.requires_token()),
            executor: executor::executor(config)?,
            store,
            sender: Arc::new(sender),
            sessions: Arc::new(SessionKeys),
            env: Arc::new(SystemEnvironment),
            clients: clients.requires_token().then(|| clients.names()),
        })
        .await
        .map_err(|error| StartError::Store(error.to_string()))?;
        let description = format!(
            "{} {} · executor {} · tasks {store_text}",
            "openclaw-remote-agent",
            env!("CARGO_PKG_VERSION"),
            config.executor.as_str()
        );
        let app = app(&frontend, &service, &description);
        Ok(Self {
            app,
            frontend,
            service,
            description,
        })
    }

    /// Returns the listen address.
    pub fn address(&self) -> SocketAddr {
        self.frontend.address
    }

    /// Returns the public URL, or else the URL of the listen address.
    pub fn url(&self) -> String {
        self.frontend.url()
    }

    /// Returns whether every request needs a token.
    pub fn requires_token(&self) -> bool {
        self.frontend.requires_token()
    }

    /// Returns the URL of the operator's page for browsers on this machine.
    pub fn page(&self) -> String {
        self.frontend.page()
    }

    /// Returns a one-line description of the server.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Checks that the executor and the store are ready.
    ///
    /// # Errors
    /// The executor or the store is not ready. The error contains the cause.
    pub async fn ready(&self) -> Result<(), String> {
        self.service.ready().await
    }

    /// Serves clients until `shutdown` is cancelled. Then drains: rejects new messages while running tasks may end.
    /// After that leaves or ends the others, ends streams and responses, and sends the queued notifications. Each of the
    /// two steps ends within its configured time, and both at once when `force` is cancelled.
    pub async fn run(self, shutdown: CancellationToken, force: CancellationToken) -> Closed {
        let (watched, service) = (self.service.clone(), self.service);
        let drain = Duration::from_secs(self.frontend.config.drain);
        let close_timeout = self.frontend.connections.drain_timeout;
        let stop_listening = CancellationToken::new();
        let serving = self
            .frontend
            .serve(self.app, stop_listening.clone(), move |clients| {
                watched.retain_clients(clients.names());
            });
        let closing = async {
            shutdown.cancelled().await;
            let tasks = service.active_task_count();
            if tasks > 0 {
                tracing::info!(tasks, "draining for up to {} s", drain.as_secs());
            }
            force.run_until_cancelled(service.drain(drain)).await;
            stop_listening.cancel();
            service.close_until(close_timeout, &force).await
        };
        let (_, closed) = tokio::join!(force.run_until_cancelled(serving), closing);
        closed
    }
}

fn settings(config: &ServeConfig, requires_token: bool) -> Settings {
    Settings {
        timeout: Duration::from_secs(config.timeout),
        async_mode: config.async_mode,
        while_working: config.while_working,
        session_id: config.session_id.clone(),
        agent_id: config.agent_id.clone(),
        // Derived from the tokens and not from the number of clients, so that a single client keeps its sessions when
        // the operator adds others.
        several_clients: requires_token,
        retention: config.retention(),
        unanswered: Duration::from_secs(config.retention.unanswered),
        limits: config.limits.tasks,
    }
}

fn app(frontend: &Frontend, service: &Service, description: &str) -> Router {
    let config = &frontend.config;
    let mut card = CardFacts::new(
        config.name.clone(),
        config.description.clone(),
        env!("CARGO_PKG_VERSION"),
    );
    card.public_url.clone_from(&config.public_url);
    card.client_certificates = frontend.clients.take_certificates();
    card.documentation_url.clone_from(&config.documentation_url);
    let wire = wire::router(App {
        service: service.clone(),
        requires_token: frontend.requires_token(),
        card,
        card_signer: frontend.card_signer.clone(),
        body_limit: config.limits.http().body_bytes,
        keep_alive: config.limits.keep_alive,
    });
    let operator = Operator {
        service: service.clone(),
        description: description.to_owned(),
    };
    app::router(wire, operator, frontend.access())
}

/// An error that prevents the server from starting.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration, or a file in it, cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client file cannot be used.
    #[error(transparent)]
    Clients(#[from] ClientFileError),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The configured listen address.
        address: SocketAddr,
        /// The cause.
        error: io::Error,
    },
    /// The client for outgoing connections cannot be created.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The executor cannot be created.
    #[error("{0}")]
    Executor(String),
    /// The task store cannot be opened.
    #[error("cannot open the task store: {0}")]
    Store(String),
}

/// Opens the task store of a server whose operator's page is at `page`. Returns the store and a description of its
/// location.
///
/// # Errors
/// The store cannot be opened.
async fn store(
    config: &ServeConfig,
    page: String,
) -> Result<(Arc<dyn TaskStore>, String), StartError> {
    Ok(match config.store(|name| std::env::var(name).ok())? {
        TaskStoreKind::Memory => (Arc::new(MemoryStore::new()), "in memory".to_owned()),
        TaskStoreKind::Directory(path) => {
            let shown = format!("in {}", path.display());
            let store = sqlite(config, path).await?;
            store
                .announce(page)
                .await
                .map_err(|error| StartError::Store(error.to_string()))?;
            (Arc::new(store), shown)
        }
        TaskStoreKind::Redis(address) => {
            let options = redis::Options::new(address);
            let store = redis::RedisStore::connect(&options, &SystemEnvironment).await;
            let store = store.map_err(|error| StartError::Store(error.to_string()))?;
            let shown = format!("in Redis at {}", store.display_address());
            (Arc::new(store), shown)
        }
    })
}

async fn sqlite(config: &ServeConfig, directory: PathBuf) -> Result<SqliteStore, StartError> {
    let mut options = sqlite::Options::new(directory);
    options.fsync = config.fsync;
    let now = SystemEnvironment.system_time();
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&options, now.into())).await;
    let opened = opened.map_err(|error| StartError::Store(error.to_string()))?;
    opened.map_err(|error| StartError::Store(error.to_string()))
}
