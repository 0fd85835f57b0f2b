//! Reads the address, host and scheme of a client from the headers of trusted proxies.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::FORWARDED;
use ipnet::IpNet;

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
    PROXY_HEADERS.iter().any(|name| headers.contains_key(*name))
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
mod tests {
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
