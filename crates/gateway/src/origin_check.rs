//! Checks the host, the origin and the proxy headers of a request.

use http::{HeaderMap, Uri};
use http_server::host::is_forwarded;
use http_server::host::{self, HostNames};

use super::config::ServerConfig;

/// The hosts and origins that may open a WebSocket.
pub(super) struct OriginCheck {
    names: HostNames,
    /// The scheme of the gateway's own origin.
    scheme: &'static str,
    origins: Vec<String>,
    /// Whether the gateway accepts forwarded requests: only if clients must authenticate.
    accepts_forwarded: bool,
}

impl OriginCheck {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let hosts = config.hosts.iter().map(String::as_str);
        Self {
            names: HostNames::new(config.listen.ip(), hosts),
            scheme: if config.tls.is_some() {
                "https"
            } else {
                "http"
            },
            origins: config.origins.clone(),
            accepts_forwarded: config.auth.is_some(),
        }
    }

    /// Checks the host, the origin and the proxy headers of a request.
    ///
    /// # Errors
    /// The reason of the refusal, with a hint.
    pub(super) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), &'static str> {
        let host = host::requested_host(headers, uri).ok();
        let Some(host) = host.filter(|host| self.names.contains(host.host())) else {
            return Err(
                "cannot open a WebSocket: `Host` is not a name of this gateway; connect to its address, or add the name to `hosts` of its configuration",
            );
        };
        let own = format!("{}://{host}", self.scheme);
        let is_configured = |origin: &str| self.origins.iter().any(|known| known == origin);
        if host::is_foreign_origin(headers, &own, is_configured) {
            return Err(
                "cannot open a WebSocket: the page is of another origin; add it to `origins` of the gateway's configuration to let it connect",
            );
        }
        if is_forwarded(headers) && !self.accepts_forwarded {
            return Err(
                "cannot open a WebSocket: a proxy forwarded the request, and this gateway does not authenticate clients; set `auth`, or connect directly",
            );
        }
        Ok(())
    }
}
