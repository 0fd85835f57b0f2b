//! The address of Redis and the options of a store.

use std::fmt;
use std::time::Duration;

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, TlsCertificates,
};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::store::StoreError;

/// The default prefix of keys.
pub const DEFAULT_PREFIX: &str = "remote-agent:";

/// The default time after which a lease expires.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(15);

/// Options to connect to Redis.
#[derive(Clone)]
pub struct Options {
    /// `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?prefix=PREFIX]`, or `rediss://` for TLS. Servers that share
    /// tasks use the same database and prefix.
    pub url: SecretString,
    /// The password, unless the URL contains one.
    pub password: Option<SecretString>,
    /// Root certificates in PEM that replace those of the operating system.
    pub roots: Option<Vec<u8>>,
    /// How long a server counts as alive after its last heartbeat. Afterwards, other servers take over its tasks.
    pub lease: Duration,
}

impl Options {
    /// Creates options for `url` with the defaults for the rest.
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

/// A parsed address.
pub(super) struct Address {
    pub(super) client: Client,
    /// The client of the subscribing connection.
    pub(super) subscriber: Client,
    /// The prefix of keys.
    pub(super) prefix: String,
    /// The prefix of channels. It contains the database, because all databases of a Redis share channels.
    pub(super) channels: String,
    /// Host, port and database, for messages.
    pub(super) display_address: String,
}

impl Address {
    /// Parses `options`.
    ///
    /// # Errors
    /// The URL is invalid. The error does not contain it, because it may contain a password.
    pub(super) fn read(options: &Options) -> Result<Self, StoreError> {
        let url = Url::parse(options.url.expose_secret())
            .map_err(|error| invalid_url(&format!("is not a URL ({error})")))?;
        if !matches!(url.scheme(), "redis" | "rediss") {
            return Err(invalid_url(
                "begins with neither `redis://` nor `rediss://`",
            ));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(invalid_url("names no host"));
        }
        if url.fragment().is_some() {
            return Err(invalid_url(
                "has a fragment (`#`); certificates are always checked, and a `#` in a password is written `%23`",
            ));
        }
        let prefix = prefix(&url)?;
        let mut info: ConnectionInfo = url
            .into_connection_info()
            .map_err(|error| invalid_url(&format!("is invalid ({error})")))?;
        if let Some(password) = &options.password {
            let settings = info
                .redis_settings()
                .clone()
                .set_password(password.expose_secret());
            info = info.set_redis_settings(settings);
        }
        let database = info.redis_settings().db();
        let display_address = format!("{}/{database}", host_and_port(info.addr()));
        let channels = format!("{prefix}@{database}:");
        // Only RESP3 delivers messages on a connection that applies backpressure.
        let resp3 = info.redis_settings().clone();
        let subscriber = info
            .clone()
            .set_redis_settings(resp3.set_protocol(ProtocolVersion::RESP3));
        Ok(Self {
            client: client(info, options.roots.clone())?,
            subscriber: client(subscriber, options.roots.clone())?,
            prefix,
            channels,
            display_address,
        })
    }
}

fn client(info: ConnectionInfo, roots: Option<Vec<u8>>) -> Result<Client, StoreError> {
    let encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    match roots {
        Some(_) if !encrypted => Err(invalid_url(
            "has root certificates but does not begin with `rediss://`",
        )),
        Some(roots) => Client::build_with_tls(
            info,
            TlsCertificates {
                client_tls: None,
                root_cert: Some(roots),
            },
        )
        .map_err(|error| {
            StoreError::Failed(format!(
                "cannot read the certificates for Redis: {error}; write them in PEM"
            ))
        }),
        None => Client::open(info).map_err(|error| invalid_url(&format!("is invalid ({error})"))),
    }
}

fn prefix(url: &Url) -> Result<String, StoreError> {
    let mut prefix = None;
    for (key, value) in url.query_pairs() {
        if key != "prefix" {
            return Err(invalid_url(
                "has an unknown parameter; the only one is `prefix`",
            ));
        }
        prefix = Some(value.into_owned());
    }
    match prefix {
        Some(prefix) if prefix.is_empty() || prefix.len() > 100 => Err(invalid_url(
            "has a `prefix` that is empty or longer than 100 bytes",
        )),
        Some(prefix) if prefix.contains(char::is_control) => {
            Err(invalid_url("has a `prefix` with control characters"))
        }
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
        // `read` rejects addresses of other kinds.
        _ => String::new(),
    }
}

fn invalid_url(problem: &str) -> StoreError {
    StoreError::Failed(format!(
        "the address of Redis {problem}; it is written `redis://USER:PASSWORD@HOST:PORT/DATABASE?prefix=PREFIX`, with \
         `rediss://` for TLS, and all but the host may be left out"
    ))
}
