//! Proxies that requests go through, where an operator wants that.
//!
//! What a proxy changes: the address that is connected is the proxy's, and the proxy resolves the peer's name once more.
//! What can be checked here still is, before the proxy hears of the request: an address in a URL, and a name as this
//! system resolves it. A name that this system does not know is the proxy's to judge.

use std::collections::HashSet;
use std::fmt;

use reqwest::NoProxy;
use url::Url;

/// Never sent through a proxy, for there they would be the proxy's own.
const LOOPBACK: &str = "localhost,localhost.,127.0.0.0/8,::1,::ffff:127.0.0.0/104";

/// Which proxies to use, as the environment tells it. Their addresses may hold credentials.
#[derive(Clone, Default)]
pub struct ProxySettings {
    /// The proxy for `https` (`HTTPS_PROXY`).
    pub https: Option<String>,
    /// The proxy for `http` (`HTTP_PROXY`).
    pub http: Option<String>,
    /// The proxy for whatever has none of its own (`ALL_PROXY`).
    pub all: Option<String>,
    /// Hosts that are connected directly (`NO_PROXY`): names with all below them, addresses and blocks of addresses,
    /// separated by commas; `*` for all.
    pub none: Option<String>,
}

impl ProxySettings {
    /// Reads the settings from variables by their usual names, of which the lower-case form counts first.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let named = |lower: &str| {
            [lower.to_owned(), lower.to_ascii_uppercase()]
                .iter()
                .filter_map(|name| variable(name))
                .map(|value| value.trim().to_owned())
                .find(|value| !value.is_empty())
        };
        Self {
            https: named("https_proxy"),
            http: named("http_proxy"),
            all: named("all_proxy"),
            none: named("no_proxy"),
        }
    }
}

impl fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxySettings")
            .field("https", &self.https.is_some())
            .field("http", &self.http.is_some())
            .field("all", &self.all.is_some())
            .field("none", &self.none)
            .finish()
    }
}

/// The proxies that clients are made with.
#[derive(Clone, Default)]
pub struct Proxies {
    all: Vec<reqwest::Proxy>,
    /// The proxies' own names, which may resolve to any address.
    names: HashSet<String>,
}

impl Proxies {
    /// The proxies of `settings`.
    ///
    /// # Errors
    /// Which variable holds no proxy that can be used. Its value is not repeated.
    pub fn new(settings: &ProxySettings) -> Result<Self, String> {
        let direct = match settings.none.as_deref() {
            Some(hosts) => format!("{hosts},{LOOPBACK}"),
            None => LOOPBACK.to_owned(),
        };
        let mut made = Self::default();
        type Make = fn(&str) -> reqwest::Result<reqwest::Proxy>;
        let kinds: [(&str, &Option<String>, Make); 3] = [
            ("HTTPS_PROXY", &settings.https, |url| {
                reqwest::Proxy::https(url)
            }),
            ("HTTP_PROXY", &settings.http, |url| {
                reqwest::Proxy::http(url)
            }),
            ("ALL_PROXY", &settings.all, |url| reqwest::Proxy::all(url)),
        ];
        for (variable, value, make) in kinds {
            let Some(value) = value else { continue };
            let address = if value.contains("://") {
                value.clone()
            } else {
                format!("http://{value}")
            };
            let unusable = || format!("{variable} is not the http or https URL of a proxy");
            let url = Url::parse(&address).map_err(|_| unusable())?;
            if !matches!(url.scheme(), "http" | "https") {
                return Err(unusable());
            }
            let proxy = make(&address).map_err(|_| unusable())?;
            made.names.extend(url.domain().map(str::to_owned));
            made.all.push(proxy.no_proxy(NoProxy::from_string(&direct)));
        }
        Ok(made)
    }

    /// There is no proxy.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// `name` is the name of a proxy.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// A client that uses these proxies, and no other.
    pub(super) fn apply(&self, client: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
        self.all.iter().fold(client.no_proxy(), |client, proxy| {
            client.proxy(proxy.clone())
        })
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("count", &self.all.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
