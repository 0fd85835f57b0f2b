//! Proxies for outgoing requests, and the hosts that are connected without one (`NO_PROXY`), as Go and Node.js read them.
//!
//! With a proxy, the client connects to the proxy, which resolves the peer's name again. The policy first checks what
//! this system knows: a literal address, or the addresses that the name resolves to here. The proxy decides about names
//! that this system cannot resolve.

use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use url::{Host, Url};

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

base::debug_fields!(self: ProxySettings {
    https = self.https.is_some(), http = self.http.is_some(), all = self.all.is_some(), none,
});

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

base::debug_fields!(self: Proxies { any = !self.is_empty() });

/// The hosts of `NO_PROXY`, and this machine: on the side of the proxy it would be the proxy itself.
pub(super) struct NoProxy(Vec<Entry>);

struct Entry {
    hosts: Hosts,
    port: Option<u16>,
}

enum Hosts {
    All,
    /// A name, and the names below it.
    Name(String),
    /// The names below a name: `.domain` or `*.domain`.
    Below(String),
    Block {
        address: IpAddr,
        bits: u32,
    },
}

impl NoProxy {
    /// Parses a list. Ignores entries that are no host, as other programs do.
    pub(super) fn parse(list: &str) -> Self {
        let entries = list.split([',', ' ', '\t', '\n', '\r']);
        let this_machine = ["localhost", "127.0.0.0/8", "::1"];
        Self(
            entries
                .chain(this_machine)
                .filter_map(Entry::parse)
                .collect(),
        )
    }

    pub(super) fn contains(&self, url: &Url) -> bool {
        let port = url.port_or_known_default();
        self.0
            .iter()
            .any(|entry| (entry.port.is_none() || entry.port == port) && entry.hosts.contains(url))
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        // An IPv6 address has colons of its own.
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, Some(port.parse().ok()?))
            }
            _ => (text.as_str(), None),
        };
        let hosts = Hosts::parse(host)?;
        Some(Self { hosts, port })
    }
}

impl Hosts {
    fn parse(host: &str) -> Option<Self> {
        if host == "*" {
            return Some(Self::All);
        }
        if let Some(block) = Self::block(host) {
            return Some(block);
        }
        let (below, name) = match host.strip_prefix("*.").or_else(|| host.strip_prefix('.')) {
            Some(name) => (true, name),
            None => (false, host),
        };
        // URLs contain names in ASCII.
        let Ok(Host::Domain(name)) = Host::parse(name.trim_end_matches('.')) else {
            return None;
        };
        Some(if below {
            Self::Below(name)
        } else {
            Self::Name(name)
        })
    }

    fn block(text: &str) -> Option<Self> {
        let text = text.strip_prefix('[').unwrap_or(text);
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.strip_suffix(']').unwrap_or(address).parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self::Block { address, bits })
    }

    fn contains(&self, url: &Url) -> bool {
        let ip = match url.host() {
            Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip).to_canonical()),
            _ => None,
        };
        let name = match url.host() {
            Some(Host::Domain(name)) => Some(name.trim_end_matches('.')),
            _ => None,
        };
        let is_below = |name: &str, suffix: &str| {
            name.strip_suffix(suffix)
                .is_some_and(|rest| rest.ends_with('.'))
        };
        match self {
            Self::All => true,
            Self::Name(suffix) => name.is_some_and(|name| name == suffix || is_below(name, suffix)),
            Self::Below(suffix) => name.is_some_and(|name| is_below(name, suffix)),
            Self::Block { address, bits } => match (address.to_canonical(), ip) {
                (IpAddr::V4(block), Some(IpAddr::V4(ip))) => {
                    let bits = if address.is_ipv4() {
                        *bits
                    } else {
                        bits.saturating_sub(96)
                    };
                    same_prefix(block.to_bits().into(), ip.to_bits().into(), 32 - bits)
                }
                (IpAddr::V6(block), Some(IpAddr::V6(ip))) => {
                    same_prefix(block.to_bits(), ip.to_bits(), 128 - bits)
                }
                _ => false,
            },
        }
    }
}

/// Returns whether two addresses are equal without their last bits.
fn same_prefix(a: u128, b: u128, last_bits: u32) -> bool {
    let shifted = |address: u128| address.checked_shr(last_bits).unwrap_or(0);
    shifted(a) == shifted(b)
}

#[cfg(test)]
mod no_proxy_tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn is_direct(list: &str, url: &str) -> bool {
        NoProxy::parse(list).contains(&Url::parse(url).unwrap())
    }

    #[test]
    fn entries_match_as_in_go_and_node() {
        for row in [
            "a.example | http://a.example/ https://b.a.example:1/ http://A.EXAMPLE./ | http://aa.example/ http://example/",
            "*.a.example | http://b.a.example/ https://c.b.a.example/ | http://a.example/ http://ba.example/",
            ".a.example | http://b.a.example/ | http://a.example/ http://ba.example/",
            "A.Example. | http://a.example/ | http://b.example/",
            "a.example:8080 | http://a.example:8080/ http://b.a.example:8080/ | http://a.example/ http://a.example:80/",
            "a.example:443 | https://a.example/ | http://a.example/",
            "a.example:80 | http://a.example/ | https://a.example/",
            "*.a.example:81 | http://b.a.example:81/ | http://b.a.example/ http://a.example:81/",
            "10.0.0.0/8 | http://10.1.2.3/ | http://11.0.0.1/ http://ten.example/",
            "10.0.0.1 | http://10.0.0.1:5/ | http://10.0.0.2/",
            "10.0.0.1:5 | http://10.0.0.1:5/ http://[::ffff:10.0.0.1]:5/ | http://10.0.0.1/",
            "fd00::/8,2001:db8::1 | http://[fd12::1]/ http://[2001:db8::1]/ | http://[fe80::1]/ http://[2001:db8::2]/",
            "[2001:db8::1]:81 [2001:db8::3] | http://[2001:db8::1]:81/ http://[2001:db8::3]/ | http://[2001:db8::1]/",
            "0.0.0.0/0 | http://8.8.8.8/ | http://a.example/ http://[2001:db8::1]/",
            "::/0 | http://[2001:db8::1]/ | http://a.example/",
            "* | http://a.example/ https://8.8.8.8/ | ",
            " x.example ,, a.example\t b.example | http://x.example/ http://a.example/ http://b.example/ | http://c.example/",
            "a.example:x, 10.0.0.0/99, . |  | http://a.example/ http://10.0.0.1/",
            " | http://localhost/ http://a.localhost./ http://127.1.2.3/ http://[::1]/ http://[::ffff:127.0.0.1]/ | http://a.example/",
        ] {
            let columns: Vec<&str> = row.split(" | ").collect();
            for url in columns[1].split_whitespace() {
                assert!(is_direct(columns[0], url), "{row}: {url}");
            }
            for url in columns[2].split_whitespace() {
                assert!(!is_direct(columns[0], url), "{row}: {url}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
