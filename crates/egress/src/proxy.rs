//! Proxies for outgoing requests.
//!
//! With a proxy, the client connects to the proxy, which resolves the peer's name again. The policy first checks what
//! this system knows: a literal address, or the addresses that the name resolves to here. The proxy decides about names
//! that this system cannot resolve.

mod no_proxy;

use std::fmt;
use std::sync::Arc;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use url::Url;

use no_proxy::NoProxy;

/// The proxy settings of the environment. Their addresses may contain credentials.
#[derive(Clone, Default)]
pub struct ProxySettings {
    /// The proxy for `https` (`HTTPS_PROXY`).
    pub https: Option<String>,
    /// The proxy for `http` (`HTTP_PROXY`).
    pub http: Option<String>,
    /// The proxy for schemes without one (`ALL_PROXY`).
    pub all: Option<String>,
    /// Hosts that are connected directly (`NO_PROXY`), separated by commas or spaces: names with their subdomains,
    /// `.domain` and `*.domain` for subdomains alone, addresses and address blocks, each also with a port; `*` means all.
    pub none: Option<String>,
}

impl ProxySettings {
    /// Reads the settings from the usual variables. The lower-case name has precedence.
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

/// The proxies of a client.
#[derive(Clone, Default)]
pub struct Proxies(Option<Arc<Configured>>);

struct Configured {
    matcher: Matcher,
    direct: NoProxy,
}

impl Proxies {
    /// Returns the proxies of `settings`.
    ///
    /// # Errors
    /// A variable does not contain a usable proxy. The error omits its value.
    pub fn new(settings: &ProxySettings) -> Result<Self, String> {
        let address = |variable: &str, value: &Option<String>| match value {
            Some(value) => {
                let url = parse_proxy_url(value)
                    .ok_or_else(|| format!("{variable} is not the http or https URL of a proxy"))?;
                Ok(String::from(url))
            }
            // An empty value counts as unset.
            None => Ok::<_, String>(String::new()),
        };
        let https = address("HTTPS_PROXY", &settings.https)?;
        let http = address("HTTP_PROXY", &settings.http)?;
        let all = address("ALL_PROXY", &settings.all)?;
        if [&https, &http, &all].iter().all(|one| one.is_empty()) {
            return Ok(Self::default());
        }
        let matcher = Matcher::builder().https(https).http(http).all(all);
        Ok(Self(Some(Arc::new(Configured {
            matcher: matcher.build(),
            direct: NoProxy::parse(settings.none.as_deref().unwrap_or_default()),
        }))))
    }

    /// Returns whether there is no proxy.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the proxy for requests to `to`.
    pub(super) fn proxy_for(&self, to: &Url) -> Option<Intercept> {
        let Configured { matcher, direct } = &**self.0.as_ref()?;
        if direct.contains(to) {
            return None;
        }
        // The client refuses an invalid URI later.
        matcher.intercept(&to.as_str().parse().ok()?)
    }
}

/// Returns scheme, host and port of a proxy, for errors.
pub(super) fn place(proxy: &Intercept) -> String {
    let uri = proxy.uri();
    let scheme = uri.scheme_str().unwrap_or("http");
    let host = uri.host().unwrap_or_default();
    match uri.port_u16() {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

/// Returns the URL of a proxy, if `value` is one. The matcher would ignore an invalid value, and requests would bypass
/// the proxy.
fn parse_proxy_url(value: &str) -> Option<Url> {
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
