//! Who a request is for and who sent it: checks the headers `Host` and `Origin`, and reads the address, host and scheme of a
//! client from the headers of trusted proxies.
//!
//! With DNS rebinding, a web page resolves its own host name to 127.0.0.1 and reads responses from there as its own.
//! `Host` of such requests contains the name of the page, so the server accepts only its own names.

use std::collections::HashSet;
use std::net::IpAddr;

use http::header::{FORWARDED, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use ipnet::IpNet;

/// An error of the host in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// `Host` is missing or repeated.
    #[error("a request must have exactly one `Host`")]
    Count,
    /// `Host` is not a host name with an optional port.
    #[error("`Host` is not a host name with an optional port")]
    Malformed,
    /// The request target and `Host` contain different hosts.
    #[error("the request target and `Host` name different servers; send one")]
    Conflict,
}

/// Returns the host in a request (RFC 9112 §3.2).
///
/// # Errors
/// `Host` is missing, repeated or malformed, or differs from the request target.
pub fn requested_host(headers: &HeaderMap, uri: &Uri) -> Result<Authority, HostError> {
    let mut all = headers.get_all(HOST).iter();
    let (Some(host), None) = (all.next(), all.next()) else {
        return Err(HostError::Count);
    };
    let host = parse_host(host.to_str().unwrap_or_default())?;
    match uri.authority() {
        Some(other) if *other != host => Err(HostError::Conflict),
        _ => Ok(host),
    }
}

/// Parses a host name with an optional port, as in `Host` (RFC 9110 §7.2).
///
/// # Errors
/// The text is malformed, for example because it contains a user name or an invalid port.
pub fn parse_host(text: &str) -> Result<Authority, HostError> {
    let authority: Authority = text.parse().map_err(|_| HostError::Malformed)?;
    // The parser accepts any text after a bracket or a colon, which would become a part of URLs.
    let rest = authority.as_str().strip_prefix(authority.host());
    let is_whole = rest.is_some_and(|rest| match rest.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok() && !port.starts_with('+'),
        None => rest.is_empty(),
    });
    if is_whole {
        Ok(authority)
    } else {
        Err(HostError::Malformed)
    }
}

/// Returns whether a web page of another origin sent the request. `own` is the origin of the server in the client's
/// view, and `allowed` returns whether another origin is allowed. The port matters, because other ports of this machine
/// are other programs.
pub fn is_foreign_origin(headers: &HeaderMap, own: &str, allowed: impl Fn(&str) -> bool) -> bool {
    headers.get_all(ORIGIN).iter().any(|origin| {
        let origin = origin.to_str().ok();
        !origin.is_some_and(|origin| origin.eq_ignore_ascii_case(own) || allowed(origin))
    })
}

/// Returns whether a browser marks the request as cross-site. Requests for images and similar have no `Origin`, but
/// have effects although the page cannot read the response. Navigation by a link does not count as cross-site.
pub fn is_cross_site(headers: &HeaderMap, method: &Method) -> bool {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let is_link = || text("sec-fetch-mode") == Some("navigate") && method == Method::GET;
    matches!(text("sec-fetch-site"), Some("cross-site" | "same-site")) && !is_link()
}

/// The host names of a server. Ports do not matter, because port forwarding may change them.
#[derive(Debug, Clone, Default)]
pub struct HostNames {
    named: HashSet<String>,
    /// Whether the server listens on all addresses. All IP addresses are then accepted, because DNS rebinding needs a
    /// name.
    any_address: bool,
}

impl HostNames {
    /// Creates the names of a server that listens on `listen`, with the configured `names`. Loopback names are
    /// always included.
    pub fn new<'a>(listen: IpAddr, names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut named: HashSet<String> = names.into_iter().map(normalize).collect();
        named.insert(listen.to_string());
        Self {
            named,
            any_address: listen.is_unspecified(),
        }
    }

    /// Returns whether `host`, a `Host` header without its port, is a name of the server.
    pub fn contains(&self, host: &str) -> bool {
        is_loopback(host)
            || self.named.contains(&normalize(host))
            || (self.any_address && address(host).is_some())
    }
}

/// Returns whether `host` is a loopback name or address (RFC 6761 §6.3).
pub fn is_loopback(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    if let Some(ip) = address(host) {
        return ip.to_canonical().is_loopback();
    }
    let top = host.rsplit_once('.').map_or(host, |(_, top)| top);
    top.eq_ignore_ascii_case("localhost")
}

fn address(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// Converts a host to lower case, without brackets and without a final dot.
fn normalize(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(ip) => ip.to_string(),
        Err(_) => bare.to_ascii_lowercase(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn loopback_host_names(names: &[&str]) -> HostNames {
        HostNames::new("127.0.0.1".parse().unwrap(), names.iter().copied())
    }

    #[test]
    fn loopback_host_is_always_accepted() {
        for host in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
            "127.0.0.1",
            "127.8.9.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(loopback_host_names(&[]).contains(host), "{host}");
        }
    }

    #[test]
    fn unknown_name_is_rejected() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "192.0.2.7",
            "",
            "[",
        ] {
            assert!(!loopback_host_names(&[]).contains(host), "{host}");
        }
    }

    #[test]
    fn host_names_ignore_case_and_dots() {
        let names = loopback_host_names(&["Agents.Example", "2001:DB8::1"]);
        for host in ["agents.example", "AGENTS.example.", "[2001:db8::1]"] {
            assert!(names.contains(host), "{host}");
        }
        assert!(!names.contains("other.example"));
    }

    #[test]
    fn unspecified_address_admits_any_address() {
        let names = HostNames::new("0.0.0.0".parse().unwrap(), []);
        assert!(names.contains("192.0.2.7") && names.contains("[2001:db8::1]"));
        assert!(!names.contains("evil.example"));
    }

    #[test]
    fn host_with_a_malformed_port_or_a_user_is_rejected() {
        for host in [
            "localhost:+80",
            "localhost:",
            "localhost:x",
            "localhost:65536",
            "[::1]x",
            "a@localhost",
            "",
        ] {
            assert_eq!(parse_host(host), Err(HostError::Malformed), "{host}");
        }
        for host in ["localhost", "localhost:80", "[::1]:80", "LOCALHOST."] {
            assert!(parse_host(host).is_ok(), "{host}");
        }
    }
}

/// Headers that only proxies set.
const PROXY_HEADERS: [&str; 6] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "via",
];

/// Returns whether a proxy has forwarded the request.
pub fn is_forwarded(headers: &HeaderMap) -> bool {
    // A request has few headers, and a look-up by name hashes it.
    let is_set_by_proxy = |name: &HeaderName| PROXY_HEADERS.contains(&name.as_str());
    headers.keys().any(is_set_by_proxy)
}

/// Parses a network, or an address as a network with one address.
pub fn parse_network(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(address)
}

/// The trusted proxies: those on this machine, and those with the addresses in `at`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustedProxies {
    /// The networks of trusted proxies, in addition to loopback.
    pub at: Vec<IpNet>,
}

/// A client as the trusted proxies report it.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct ForwardedClient {
    /// The client's address.
    pub address: Option<IpAddr>,
    /// The host that the client requested, with its port if the client sent one.
    pub host: Option<String>,
    /// Whether the client connected by TLS.
    pub is_tls: bool,
}

impl TrustedProxies {
    /// Returns whether `ip` is a trusted proxy, whose headers the server may use.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        ip.is_loopback() || self.at.iter().any(|net| net.contains(&ip))
    }

    /// Returns the client as the nearest trusted proxies report it. Reads `X-Forwarded-*` if present, else `Forwarded`
    /// (RFC 7239).
    pub fn client(&self, headers: &HeaderMap) -> ForwardedClient {
        if PROXY_HEADERS[1..4]
            .iter()
            .any(|name| headers.contains_key(*name))
        {
            let hops = list(headers, "x-forwarded-for");
            return ForwardedClient {
                address: self.address(hops.iter().map(|hop| node(hop))),
                host: list(headers, "x-forwarded-host").pop(),
                is_tls: is_https(list(headers, "x-forwarded-proto").pop().as_deref()),
            };
        }
        let hops = list(headers, FORWARDED.as_str());
        let last = hops.last().map(String::as_str).unwrap_or_default();
        ForwardedClient {
            address: self.address(hops.iter().map(|hop| parameter(hop, "for").and_then(node))),
            host: parameter(last, "host").map(str::to_owned),
            is_tls: is_https(parameter(last, "proto")),
        }
    }

    /// Returns the last address that is not a trusted proxy. The client may have forged the addresses before it.
    fn address(&self, hops: impl DoubleEndedIterator<Item = Option<IpAddr>>) -> Option<IpAddr> {
        let mut nearest = None;
        for hop in hops.rev() {
            let ip = hop?;
            nearest = Some(ip);
            if !self.contains(ip) {
                break;
            }
        }
        nearest
    }
}

/// Returns the elements of a list header, which may occur several times.
fn list(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .map(|element| element.trim().to_owned())
        .filter(|element| !element.is_empty())
        .collect()
}

fn is_https(proto: Option<&str>) -> bool {
    proto.is_some_and(|proto| proto.eq_ignore_ascii_case("https"))
}

/// Returns a parameter of an element of `Forwarded`.
fn parameter<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    element.split(';').find_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        key.eq_ignore_ascii_case(name)
            .then(|| value.trim_matches('"'))
    })
}

/// Parses the address of a node: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`.
fn node(text: &str) -> Option<IpAddr> {
    let ip = text.parse::<IpAddr>().ok().or_else(|| {
        let host = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?.0,
            None => text.split_once(':')?.0,
        };
        host.parse().ok()
    })?;
    Some(ip.to_canonical())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod forwarded_tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn client(pairs: &[(&'static str, &'static str)]) -> Option<String> {
        let proxies = TrustedProxies {
            at: vec!["10.0.0.0/8".parse().unwrap()],
        };
        Some(proxies.client(&headers(pairs)).address?.to_string())
    }

    #[test]
    fn client_is_the_nearest_untrusted_address() {
        let spoofed = [("x-forwarded-for", "127.0.0.1, 192.0.2.9, 10.1.2.3")];
        assert_eq!(client(&spoofed).as_deref(), Some("192.0.2.9"));
        let spread = [
            ("x-forwarded-for", "198.51.100.1"),
            ("x-forwarded-for", "192.0.2.9"),
        ];
        assert_eq!(client(&spread).as_deref(), Some("192.0.2.9"));
    }

    #[test]
    fn addresses_may_have_ports() {
        for (text, ip) in [
            ("192.0.2.9:4711", Some("192.0.2.9")),
            ("[2001:db8::1]:4711", Some("2001:db8::1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("unknown", None),
            ("192.0.2.9, _hidden", None),
        ] {
            let got = client(&[("x-forwarded-for", text)]);
            assert_eq!(got.as_deref(), ip, "{text}");
        }
    }

    #[test]
    fn forwarded_header_counts_without_x_forwarded() {
        let proxies = TrustedProxies::default();
        let standard = (
            "forwarded",
            "for=127.0.0.1, for=\"[2001:db8::1]:80\";host=agents.example;proto=https",
        );
        let client = proxies.client(&headers(&[standard]));
        let expected = ForwardedClient {
            address: Some("2001:db8::1".parse().unwrap()),
            host: Some("agents.example".into()),
            is_tls: true,
        };
        assert_eq!(client, expected);
        let other = ("x-forwarded-for", "192.0.2.9");
        let client = proxies.client(&headers(&[standard, other]));
        assert_eq!(client.address, Some("192.0.2.9".parse().unwrap()));
        assert_eq!(client.host, None);
    }
}
