//! Where Redis is, and what a store in it is asked to keep to.

use std::fmt;
use std::time::Duration;

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::store::StoreError;

/// What every key begins with, unless the address says otherwise.
pub const DEFAULT_PREFIX: &str = "remote-agent:";

/// For how long a server counts as living after it was heard of last, unless asked otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(15);

/// Where Redis is, and how to be a server background others there.
#[derive(Clone)]
pub struct Options {
    /// `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?prefix=PREFIX]`, or `rediss://` for TLS. All servers that share
    /// their tasks name the same database and the same prefix.
    pub url: SecretString,
    /// The password, where the address has none.
    pub password: Option<SecretString>,
    /// Certificates, in PEM, that Redis's own is checked against instead of the machine's.
    pub roots: Option<Vec<u8>>,
    /// For how long a server counts as living after it was heard of last. After that the others take its tasks.
    pub lease: Duration,
}

impl Options {
    /// At `url`, with everything else as usual.
    pub fn new(url: impl Into<SecretString>) -> Self {
        Self {
            url: url.into(),
            password: None,
            roots: None,
            lease: DEFAULT_LEASE,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("password", &self.password.is_some())
            .field("roots", &self.roots.is_some())
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

/// An address that has been read.
pub(super) struct Address {
    pub(super) client: Client,
    /// What every key begins with.
    pub(super) prefix: String,
    /// What every channel begins with. Channels belong to no database, so it names it.
    pub(super) channels: String,
    /// As people are told of it: host, port and database.
    pub(super) shown: String,
}

impl Address {
    /// Reads what `options` say.
    ///
    /// # Errors
    /// It is no address of a Redis. The text does not repeat it: there may be a password in it.
    pub(super) fn read(options: &Options) -> Result<Self, StoreError> {
        let url = Url::parse(options.url.expose_secret())
            .map_err(|why| wrong(&format!("is no URL ({why})")))?;
        if !matches!(url.scheme(), "redis" | "rediss") {
            return Err(wrong("begins with neither `redis://` nor `rediss://`"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(wrong("names no host"));
        }
        if url.fragment().is_some() {
            return Err(wrong(
                "has a `#` in it; there is no way to leave certificates unchecked, and in a password it is written `%23`",
            ));
        }
        let prefix = prefix(&url)?;
        let mut info: ConnectionInfo = url
            .into_connection_info()
            .map_err(|why| wrong(&format!("is not understood ({why})")))?;
        if let Some(password) = &options.password {
            let settings = info
                .redis_settings()
                .clone()
                .set_password(password.expose_secret());
            info = info.set_redis_settings(settings);
        }
        let database = info.redis_settings().db();
        let shown = format!("{}/{database}", host_and_port(info.addr()));
        let channels = format!("{prefix}@{database}:");
        Ok(Self {
            client: client(info, options.roots.clone())?,
            prefix,
            channels,
            shown,
        })
    }
}

fn client(info: ConnectionInfo, roots: Option<Vec<u8>>) -> Result<Client, StoreError> {
    let encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    match roots {
        Some(_) if !encrypted => Err(wrong(
            "has certificates to be checked against and does not begin with `rediss://`",
        )),
        Some(roots) => Client::build_with_tls(
            info,
            TlsCertificates {
                client_tls: None,
                root_cert: Some(roots),
            },
        )
        .map_err(|why| {
            StoreError::Failed(format!(
                "the certificates for Redis cannot be read ({why}); they have to be in PEM"
            ))
        }),
        None => Client::open(info).map_err(|why| wrong(&format!("is not understood ({why})"))),
    }
}

fn prefix(url: &Url) -> Result<String, StoreError> {
    let mut prefix = None;
    for (key, value) in url.query_pairs() {
        if key != "prefix" {
            return Err(wrong(
                "has a parameter that is not known; there is only `prefix`",
            ));
        }
        prefix = Some(value.into_owned());
    }
    match prefix {
        Some(prefix) if prefix.is_empty() || prefix.len() > 100 => Err(wrong(
            "has a `prefix` that is empty or longer than 100 bytes",
        )),
        Some(prefix) => Ok(prefix),
        None => Ok(DEFAULT_PREFIX.to_owned()),
    }
}

fn host_and_port(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            }
        }
        // Addresses of other kinds were refused.
        _ => String::new(),
    }
}

fn wrong(what: &str) -> StoreError {
    StoreError::Failed(format!(
        "the address of Redis {what}; it is written `redis://USER:PASSWORD@HOST:PORT/DATABASE?prefix=PREFIX`, with \
         `rediss://` for TLS, and all but the host may be left out"
    ))
}
