//! Puts a server together: the executor, the store, the courier, the wire, the guard.

mod error;
mod task_store;
mod watch;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use a2a_server::http::access_control::{AccessControl, AccessRules};
use a2a_server::http::api::Operator;
use a2a_server::http::app;
use a2a_server::http::clients::ClientRegistry;
use a2a_server::http::{self as wire, App, CardFacts, Router};
use a2a_server::service::{Parts, Service};
use a2a_server::settings::Settings;
use common::environment::SystemEnvironment;
use http_server::forwarded::{TrustedProxies, parse_network};
use http_server::host::HostNames;
use http_server::serve::{ConnectionConfig, serve};
use http_server::tls::{TlsFile, TlsFiles, acceptor};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::clients::{ClientFile, registered_clients};
use super::config::ServeConfig;
use super::push_sender::{HttpPushSender, WebhookPolicy};
use super::sessions::SessionKeys;
use common::config::ConfigError;
use egress::HttpClient;
use watch::Watch;

pub use error::StartError;

/// A server that listens. It accepts requests once [`run`](Self::run) is called.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    url: String,
    tls: Option<TlsAcceptor>,
    app: Router,
    service: Service,
    connections: ConnectionConfig,
    clients: Arc<ClientRegistry>,
    watch: Watch,
    config: ServeConfig,
    about: String,
}

impl Server {
    /// Listens, opens the store, and takes up what an earlier server left.
    ///
    /// # Errors
    /// Why it cannot.
    pub async fn bind(config: ServeConfig) -> Result<Self, StartError> {
        let file = ClientFile::in_directory(&config.state_dir);
        // Before the file is read, so that nothing that is written to it afterwards is missed.
        let watch = Watch::new(&file);
        let mut all = config.clients.clone();
        all.extend(file.read()?);
        config.check(&all)?;
        let clients = Arc::new(match all.is_empty() {
            true => ClientRegistry::open(),
            false => ClientRegistry::new(registered_clients(&all)),
        });
        let tls = secured(&config)?;
        let listener = listen(config.listen).await?;
        let address = listener.local_addr().map_err(|error| StartError::Listen {
            address: config.listen,
            error,
        })?;
        let (store, kept) = task_store::store(&config, own_page(&config, address)).await?;
        let sender = HttpPushSender::new(
            Arc::new(HttpClient::new()?),
            WebhookPolicy {
                listed: config.push.allowed_urls.clone(),
                anywhere: config.push.allow_any_address,
            },
        );
        let service = Service::start(Parts {
            settings: settings(&config, clients.requires_token()),
            executor: work::executor(&config)?,
            store,
            sender: Arc::new(sender),
            sessions: Arc::new(SessionKeys),
            env: Arc::new(SystemEnvironment),
            clients: clients.requires_token().then(|| clients.names()),
        })
        .await
        .map_err(|refusal| StartError::Store(refusal.to_string()))?;
        let about = format!(
            "{} {} · executor {} · tasks {kept}",
            "openclaw-remote-agent",
            env!("CARGO_PKG_VERSION"),
            config.executor.as_str()
        );
        let url = own_url(&config, address);
        Ok(Self {
            app: app(&config, &service, &clients, &about),
            connections: ConnectionConfig {
                proxies: proxies(&config),
                ..config.limits.connections()
            },
            listener,
            address,
            url,
            tls,
            service,
            clients,
            watch,
            config,
            about,
        })
    }

    /// Returns the listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the public URL, or else its own address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether every request needs a token.
    pub fn requires_token(&self) -> bool {
        self.clients.requires_token()
    }

    /// Returns the URL of the operator's page on this machine.
    pub fn page(&self) -> String {
        own_page(&self.config, self.address)
    }

    /// Returns a description of one line.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Whether work can be done now.
    ///
    /// # Errors
    /// Why not.
    pub async fn ready(&self) -> Result<(), String> {
        self.service.ready().await
    }

    /// Serves clients until `shutdown` is cancelled. Then runs are stopped and marked, streams and responses end,
    /// and notifications go out, within the time that the configuration gives them.
    pub async fn run(self, shutdown: CancellationToken) {
        let watching = self.clients.requires_token().then(|| {
            let watching = self
                .watch
                .run(self.config.clone(), self.clients, self.service.clone());
            AbortOnDropHandle::new(tokio::spawn(watching))
        });
        let patience = self.connections.drain_timeout;
        let serving = serve(
            self.listener,
            self.tls,
            self.app,
            self.connections,
            shutdown.clone(),
            |message| tracing::warn!("{message}"),
        );
        let closing = async {
            shutdown.cancelled().await;
            self.service.close(patience).await;
        };
        tokio::join!(serving, closing);
        drop(watching);
    }
}

fn settings(config: &ServeConfig, asks: bool) -> Settings {
    Settings {
        timeout: Duration::from_secs(config.timeout),
        async_mode: config.async_mode,
        session_id: config.session_id.clone(),
        agent_id: config.agent_id.clone(),
        // A single client keeps its sessions when others are added.
        several_clients: asks,
        retention: config.retention(),
        unanswered: Duration::from_secs(config.retention.unanswered),
        limits: config.limits.tasks(),
    }
}

fn app(
    config: &ServeConfig,
    service: &Service,
    clients: &Arc<ClientRegistry>,
    about: &str,
) -> Router {
    let mut card = CardFacts::new(
        config.name.clone(),
        config.description.clone(),
        env!("CARGO_PKG_VERSION"),
    );
    card.public_url.clone_from(&config.public_url);
    card.documentation_url.clone_from(&config.documentation_url);
    let wire = wire::router(App {
        service: service.clone(),
        requires_token: clients.requires_token(),
        card,
        body_limit: config.limits.body_bytes,
        keep_alive: Duration::from_millis(config.limits.keep_alive_ms),
    });
    let public = config.public_url.as_ref().and_then(Url::host_str);
    let hosts = config.hosts.iter().map(String::as_str).chain(public);
    let rules = AccessRules {
        names: HostNames::new(config.listen.ip(), hosts),
        public_url: config.public_url.clone(),
        proxies: proxies(config),
        tls: config.tls.is_some(),
        limits: config.limits.http(),
    };
    let operator = Operator {
        service: service.clone(),
        about: about.to_owned(),
    };
    app::router(
        wire,
        operator,
        AccessControl::new(rules, Arc::clone(clients)),
    )
}

fn proxies(config: &ServeConfig) -> Option<TrustedProxies> {
    let at = config
        .trusted_proxies
        .iter()
        .filter_map(|at| parse_network(at));
    config
        .behind_proxy
        .then(|| TrustedProxies { at: at.collect() })
}

fn secured(config: &ServeConfig) -> Result<Option<TlsAcceptor>, ConfigError> {
    let Some(files) = &config.tls else {
        return Ok(None);
    };
    let acceptor = acceptor(&TlsFiles {
        certificates: &files.cert_file,
        key: &files.key_file,
        client_authorities: None,
    });
    let acceptor = acceptor.map_err(|error| {
        let place = match error.file {
            TlsFile::Key => "/tls/keyFile",
            TlsFile::Certificates | TlsFile::ClientAuthorities => "/tls/certFile",
        };
        ConfigError::at(place, error.to_string())
    })?;
    Ok(Some(acceptor))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address)
        .await
        .map_err(|error| StartError::Listen { address, error })
}

/// Returns the URL of the server, if it can be known.
fn own_url(config: &ServeConfig, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    match &config.public_url {
        Some(url) => url.as_str().trim_end_matches('/').to_owned(),
        None => format!("{scheme}://{address}"),
    }
}

/// The URL for programs on this machine, whatever the public one is.
fn own_page(config: &ServeConfig, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    match address.ip().is_unspecified() {
        true => format!("{scheme}://localhost:{}/", address.port()),
        false => format!("{scheme}://{address}/"),
    }
}
