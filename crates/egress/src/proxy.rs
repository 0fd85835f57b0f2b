//! Proxies that requests go through, where an operator wants that.
//!
//! With a proxy, the client connects to the proxy, which resolves the name of the peer again. The policy still checks
//! what is known here before the proxy gets the request: an address in a URL, and a name as this system resolves it.
//! The proxy decides about names that this system cannot resolve.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
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
pub struct Proxies(Option<Arc<Matcher>>);

impl Proxies {
    /// Returns the proxies of `settings`.
    ///
    /// # Errors
    /// Which variable holds no proxy that can be used. Its value is not repeated.
    pub fn new(settings: &ProxySettings) -> Result<Self, String> {
        let direct = match settings.none.as_deref() {
            Some(hosts) => format!("{hosts},{LOOPBACK}"),
            None => LOOPBACK.to_owned(),
        };
        let address = |variable: &str, value: &Option<String>| match value {
            Some(value) => {
                let url = usable(value)
                    .ok_or_else(|| format!("{variable} is not the http or https URL of a proxy"))?;
                Ok(String::from(url))
            }
            // What is empty counts as not given.
            None => Ok::<_, String>(String::new()),
        };
        let https = address("HTTPS_PROXY", &settings.https)?;
        let http = address("HTTP_PROXY", &settings.http)?;
        let all = address("ALL_PROXY", &settings.all)?;
        if [&https, &http, &all].iter().all(|one| one.is_empty()) {
            return Ok(Self::default());
        }
        let matcher = Matcher::builder().https(https).http(http).all(all);
        let matcher = matcher.no(direct).build();
        Ok(Self(Some(Arc::new(matcher))))
    }

    /// Returns whether there is no proxy.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the proxy between here and `to`.
    pub(super) fn before(&self, to: &Url) -> Option<Intercept> {
        // What is no URI is not sent at all.
        self.0.as_ref()?.intercept(&to.as_str().parse().ok()?)
    }
}

/// Returns the URL of a proxy, if `value` is one. A value that the matcher cannot read would count as none, and
/// requests would leave past the proxy.
fn usable(value: &str) -> Option<Url> {
    let url = if value.contains("://") {
        Url::parse(value)
    } else {
        Url::parse(&format!("http://{value}"))
    };
    url.ok().filter(|url| {
        matches!(url.scheme(), "http" | "https") && Uri::try_from(url.as_str()).is_ok()
    })
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("any", &!self.is_empty())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
