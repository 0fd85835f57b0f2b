//! The part of the server that clients connect to: listener, TLS, access control and client file.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use a2a_server::http::access_control::{AccessControl, AccessRules};
use a2a_server::http::clients::ClientRegistry;
use a2a_server::http::{CardSigner, Router};
use egress::ReqwestClient;
use http_server::host::HostNames;
use http_server::host::{TrustedProxies, parse_network};
use http_server::serve::{ConnectionConfig, serve};
use http_server::tls::{ClientCertificates, acceptor};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::StartError;
use crate::clients::{ClientFile, ClientFileWatch, registered_clients};
use crate::config::{ClientConfig, ServeConfig};
use crate::issuers::Issuers;
use base::config::ConfigError;
use base::environment::SystemEnvironment;
use base::jws::SigningKey;

/// A bound listener with the clients, limits and certificates of a configuration.
pub struct Frontend {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    watch: ClientFileWatch,
    pub(super) address: SocketAddr,
    pub(super) clients: Arc<ClientRegistry>,
    pub(super) card_signer: Option<Arc<CardSigner>>,
    pub(super) connections: ConnectionConfig,
    pub(super) config: ServeConfig,
}

impl Frontend {
    /// Binds the listener, and reads the clients in the configuration and in the client file of its state directory.
    ///
    /// # Errors
    /// The configuration is invalid, a file cannot be read, or the server cannot listen on the address.
    pub async fn bind(config: ServeConfig) -> Result<Self, StartError> {
        let file = ClientFile::in_directory(&config.state_dir);
        // Create the watch before reading the file, so that it detects every later change.
        let watch = ClientFileWatch::new(&file);
        let mut all = config.clients.clone();
        all.extend(file.read()?);
        config.check(&all)?;
        let clients = match all.is_empty() {
            true => ClientRegistry::open(),
            false => ClientRegistry::new(registered_clients(&all)),
        };
        let clients = Arc::new(match issuers(&all)? {
            Some(issuers) => clients.with_issuers(Arc::new(issuers)),
            None => clients,
        });
        let tls = secured(&config)?;
        let listener = listen(config.listen).await?;
        let address = listener.local_addr().map_err(|error| StartError::Listen {
            address: config.listen,
            error,
        })?;
        let port = config.public_url.is_none().then(|| address.port());
        let card_signer = card_signer(&config.signing_keys, port)?;
        Ok(Self {
            connections: ConnectionConfig {
                proxies: proxies(&config),
                ..config.limits.connections()
            },
            listener,
            tls,
            watch,
            address,
            clients,
            card_signer,
            config,
        })
    }

    /// Returns whether every request needs a token.
    #[must_use]
    pub fn requires_token(&self) -> bool {
        self.clients.requires_token()
    }

    /// Returns the access control for the routes of the server.
    #[must_use]
    pub fn access(&self) -> Arc<AccessControl> {
        let config = &self.config;
        let public = config.public_url.as_ref().and_then(Url::host_str);
        let hosts = config.hosts.iter().map(String::as_str).chain(public);
        let rules = AccessRules {
            names: HostNames::new(config.listen.ip(), hosts),
            public_url: config.public_url.clone(),
            proxies: proxies(config),
            tls: config.tls.is_some(),
            limits: config.limits.http(),
        };
        AccessControl::new(rules, Arc::clone(&self.clients))
    }

    /// Returns the public URL, or else the URL of the listen address.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.config.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("{}://{}", self.scheme(), self.address),
        }
    }

    /// Returns the URL for programs on this machine, independently of the public URL.
    #[must_use]
    pub fn page(&self) -> String {
        match self.address.ip().is_unspecified() {
            true => format!("{}://localhost:{}/", self.scheme(), self.address.port()),
            false => format!("{}://{}/", self.scheme(), self.address),
        }
    }

    fn scheme(&self) -> &'static str {
        if self.config.tls.is_some() {
            "https"
        } else {
            "http"
        }
    }

    /// Serves `app` until `shutdown` is cancelled, and applies changes of the client file. Calls `changed` after each
    /// change.
    pub async fn serve(
        self,
        app: Router,
        shutdown: CancellationToken,
        mut changed: impl FnMut(&ClientRegistry) + Send + 'static,
    ) {
        let (config, clients) = (self.config, self.clients);
        let watching = clients.requires_token().then(|| {
            let watching = self.watch.run(move |added| {
                let mut all = config.clients.clone();
                // A name of the configuration stays its own, and the other changes of the file still take effect.
                let is_taken = |name: &str| config.clients.iter().any(|own| own.name == name);
                let (taken, added): (Vec<_>, Vec<_>) =
                    added.into_iter().partition(|one| is_taken(&one.name));
                for ClientConfig { name, .. } in taken {
                    tracing::warn!("the client `{name}` of the client file has the name of one in the configuration, and has no access; remove it, and add it under another name");
                }
                all.extend(added);
                match config.check(&all) {
                    Err(error) if !all.is_empty() => return Err(error.to_string()),
                    _ => clients.replace(registered_clients(&all)),
                }
                changed(&clients);
                Ok(all.len())
            });
            AbortOnDropHandle::new(tokio::spawn(watching))
        });
        let warn = |message: &str| tracing::warn!("{message}");
        serve(
            self.listener,
            self.tls,
            app,
            self.connections,
            shutdown,
            warn,
        )
        .await;
        drop(watching);
    }
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
    let tls = config.tls.as_ref();
    let acceptor = tls.map(|files| acceptor(files, ClientCertificates::Optional));
    let acceptor = acceptor.transpose();
    acceptor.map_err(|error| ConfigError::at(format!("/tls/{}", error.key), error.to_string()))
}

/// Returns the verifier for the tokens of these clients, if any has tokens of an issuer.
fn issuers(clients: &[ClientConfig]) -> Result<Option<Issuers>, StartError> {
    let urls: Vec<_> = clients
        .iter()
        .filter_map(|client| client.issuer.clone())
        .collect();
    if urls.is_empty() {
        return Ok(None);
    }
    let net = Arc::new(ReqwestClient::new()?);
    Ok(Some(Issuers::new(net, Arc::new(SystemEnvironment), urls)))
}

/// Reads the keys that sign agent cards.
fn card_signer(
    files: &[PathBuf],
    port: Option<u16>,
) -> Result<Option<Arc<CardSigner>>, ConfigError> {
    let keys = files.iter().enumerate().map(|(i, path)| {
        let invalid = |cause: String| {
            let message = format!("the file `{}` {cause}", path.display());
            ConfigError::at(format!("/signingKeys/{i}"), message)
        };
        let pem = fs::read(path).map_err(|error| invalid(format!("cannot be read: {error}")))?;
        SigningKey::parse(&pem).map_err(|cause| invalid(cause.to_owned()))
    });
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    Ok((!keys.is_empty()).then(|| Arc::new(CardSigner::new(keys, port))))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address)
        .await
        .map_err(|error| StartError::Listen { address, error })
}
