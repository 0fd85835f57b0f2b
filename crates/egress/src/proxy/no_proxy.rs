//! Hosts that are connected without a proxy (`NO_PROXY`), as Go and Node.js read them.

use std::net::IpAddr;

use url::{Host, Url};

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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn is_direct(list: &str, url: &str) -> bool {
        NoProxy::parse(list).contains(&Url::parse(url).unwrap())
    }

    #[test]
    fn entries_match_as_in_go_and_node() {
        for (list, direct, proxied) in [
            (
                "a.example",
                &[
                    "http://a.example/",
                    "https://b.a.example:1/",
                    "http://A.EXAMPLE./",
                ][..],
                &["http://aa.example/", "http://example/"][..],
            ),
            (
                "*.a.example",
                &["http://b.a.example/", "https://c.b.a.example/"],
                &["http://a.example/", "http://ba.example/"],
            ),
            (
                ".a.example",
                &["http://b.a.example/"],
                &["http://a.example/", "http://ba.example/"],
            ),
            ("A.Example.", &["http://a.example/"], &["http://b.example/"]),
            (
                "a.example:8080",
                &["http://a.example:8080/", "http://b.a.example:8080/"],
                &["http://a.example/", "http://a.example:80/"],
            ),
            (
                "a.example:443",
                &["https://a.example/"],
                &["http://a.example/"],
            ),
            (
                "a.example:80",
                &["http://a.example/"],
                &["https://a.example/"],
            ),
            (
                "*.a.example:81",
                &["http://b.a.example:81/"],
                &["http://b.a.example/", "http://a.example:81/"],
            ),
            (
                "10.0.0.0/8",
                &["http://10.1.2.3/"],
                &["http://11.0.0.1/", "http://ten.example/"],
            ),
            ("10.0.0.1", &["http://10.0.0.1:5/"], &["http://10.0.0.2/"]),
            (
                "10.0.0.1:5",
                &["http://10.0.0.1:5/", "http://[::ffff:10.0.0.1]:5/"],
                &["http://10.0.0.1/"],
            ),
            (
                "fd00::/8,2001:db8::1",
                &["http://[fd12::1]/", "http://[2001:db8::1]/"],
                &["http://[fe80::1]/", "http://[2001:db8::2]/"],
            ),
            (
                "[2001:db8::1]:81 [2001:db8::3]",
                &["http://[2001:db8::1]:81/", "http://[2001:db8::3]/"],
                &["http://[2001:db8::1]/"],
            ),
            (
                "0.0.0.0/0",
                &["http://8.8.8.8/"],
                &["http://a.example/", "http://[2001:db8::1]/"],
            ),
            ("::/0", &["http://[2001:db8::1]/"], &["http://a.example/"]),
            ("*", &["http://a.example/", "https://8.8.8.8/"], &[]),
            (
                " x.example ,, a.example\t b.example",
                &[
                    "http://x.example/",
                    "http://a.example/",
                    "http://b.example/",
                ],
                &["http://c.example/"],
            ),
            (
                "a.example:x, 10.0.0.0/99, .",
                &[],
                &["http://a.example/", "http://10.0.0.1/"],
            ),
            (
                "",
                &[
                    "http://localhost/",
                    "http://a.localhost./",
                    "http://127.1.2.3/",
                    "http://[::1]/",
                    "http://[::ffff:127.0.0.1]/",
                ],
                &["http://a.example/"],
            ),
        ] {
            for url in direct {
                assert!(is_direct(list, url), "{list}: {url}");
            }
            for url in proxied {
                assert!(!is_direct(list, url), "{list}: {url}");
            }
        }
    }
}
