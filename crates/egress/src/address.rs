//! Classifies IP addresses: public, loopback, special use. Chooses the address policy for a URL before resolution;
//! `resolver.rs` applies it to the resolved addresses, `http.rs` to a literal address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use super::error::place;
use super::{NetError, NetFault, Sent};

/// The virtual address of the host of a machine on Azure. It is inside a public range.
const AZURE_HOST: [u8; 4] = [168, 63, 129, 16];

/// Returns whether `ip` is an address of the public internet.
///
/// Not public: loopback, private, link-local, shared (carrier-grade NAT), multicast, unspecified, documentation,
/// benchmark and reserved addresses, and metadata addresses of clouds (IANA's registries of special-purpose addresses,
/// RFC 6890). An IPv6 address that embeds an IPv4 address (mapped, NAT64, 6to4, ISATAP) is classified by the IPv4
/// address. Forms that can lead anywhere (IPv4-compatible, Teredo, local-use NAT64) are reserved.
#[must_use]
pub fn is_public(ip: IpAddr) -> bool {
    special_use(ip).is_none()
}

/// Returns whether `ip` is a loopback address. An IPv6 form counts only if the system itself maps it to the IPv4
/// address.
#[must_use]
pub fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Returns the host of a URL if it is a literal address. The URL parser has already normalized every spelling of an
/// IPv4 address (`2130706433`, `0x7f.1`).
#[must_use]
pub fn literal_ip(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
        Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
        Host::Domain(_) => None,
    }
}

/// Returns whether the host of a URL is this machine, as far as known before resolution: a loopback address,
/// `localhost`, or a name below it (RFC 6761 §6.3).
#[must_use]
pub fn is_this_machine(url: &Url) -> bool {
    match literal_ip(url) {
        Some(ip) => is_loopback(ip),
        None => url.domain().is_some_and(is_localhost),
    }
}

/// Returns the special use of the host of a URL, as far as it is known before resolution; `None` for public addresses
/// and other names. `localhost` and names below it are loopback, whatever they resolve to (RFC 6761 §6.3).
#[must_use]
pub fn special_host(url: &Url) -> Option<&'static str> {
    match url.host() {
        Some(Host::Domain(name)) => is_localhost(name).then_some("loopback"),
        Some(Host::Ipv4(ip)) => special_v4(ip),
        Some(Host::Ipv6(ip)) => special_v6(ip),
        None => Some("unspecified"),
    }
}

/// Returns whether a name is `localhost` or below it.
fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let last = name.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case("localhost")
}

/// Returns the special use of an address; `None` for a public one.
#[must_use]
pub fn special_use(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => special_v4(ip),
        IpAddr::V6(ip) => special_v6(ip),
    }
}

fn special_v4(ip: Ipv4Addr) -> Option<&'static str> {
    Some(match ip.octets() {
        AZURE_HOST => "metadata",
        [0, ..] => "unspecified",
        [127, ..] => "loopback",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "private",
        [169, 254, ..] => "link-local",
        [100, 64..=127, ..] => "shared (carrier-grade NAT)",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "documentation",
        [198, 18..=19, ..] => "benchmark",
        [192, 0, 0, _] | [192, 88, 99, _] => "reserved",
        [224..=239, ..] => "multicast",
        [240..=255, ..] => "reserved",
        _ => return None,
    })
}

fn special_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let s = ip.segments();
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        special_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            inner(high, low)
        }
        [0x2002, high, low, ..] => inner(high, low),
        // ISATAP (RFC 5214 §6.1): any prefix, the IPv4 address at the end.
        [_, _, _, _, 0 | 0x0200, 0x5efe, high, low] if inner(high, low).is_some() => {
            inner(high, low)
        }
        [0xfc00..=0xfdff, ..] => Some("private"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Some("documentation"),
        // Teredo, benchmarks, ORCHID and other protocol assignments: 2001::/23.
        [0x2001, 0..=0x01ff, ..] => Some("reserved"),
        // All other addresses that the internet routes are in 2000::/3.
        [0x2000..=0x3fff, ..] => None,
        _ => Some("reserved"),
    }
}

/// Returns a class of addresses with its indefinite article, for a message.
#[must_use]
pub fn with_article(class: &str) -> String {
    let article = if class.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {class}")
}

/// The addresses that may receive a request, checked after the host's name is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressPolicy {
    /// Only public addresses of the internet, see [`is_public`].
    Public,
    /// Any address.
    AnyAddress,
    /// Only loopback addresses, see [`is_loopback`], and without a proxy.
    Loopback,
}

impl AddressPolicy {
    /// Returns the addresses that a request to `url` may use, before any connection.
    ///
    /// With `allow_private` these are all addresses. Otherwise only public addresses, except a literal address or
    /// `localhost` if the operator configured this host and port (`is_configured`). The resolver checks a name again.
    ///
    /// # Errors
    /// [`NetFault::AddressRefused`] for an address that is not public.
    pub fn for_url(
        url: &Url,
        allow_private: bool,
        is_configured: bool,
    ) -> Result<AddressPolicy, NetError> {
        if allow_private {
            return Ok(Self::AnyAddress);
        }
        match (special_host(url), is_configured) {
            (None, _) => Ok(Self::Public),
            (Some(_), true) if is_literal(url) => Ok(Self::AnyAddress),
            // A name below `localhost` is treated like any other name: its addresses decide.
            (Some(_), true) => Ok(Self::Public),
            (Some(class), false) => Err(NetError::new(
                NetFault::AddressRefused,
                Sent::No,
                format!(
                    "`{}` is {} address, and only public addresses are allowed",
                    place(url),
                    with_article(class)
                ),
            )),
        }
    }
}

/// Returns whether the host is a literal address or `localhost`.
#[must_use]
pub fn is_literal(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn public(ip: &str) -> bool {
        is_public(ip.parse().unwrap())
    }

    #[test]
    fn ordinary_internet_addresses_are_public() {
        let all = "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 \
            128.0.0.0 169.253.255.255 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 \
            198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111 2001:4860:4860::8888 \
            2001:200::1 2400::1 2a00:1450::1";
        for ip in all.split(' ') {
            assert!(public(ip), "{ip}");
        }
    }

    #[test]
    fn special_ipv4_addresses_are_not_public() {
        let all = "0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 \
            127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1 \
            192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 \
            239.1.1.1 240.0.0.1 255.255.255.255 168.63.129.16";
        for ip in all.split(' ') {
            assert!(!public(ip), "{ip}");
        }
    }

    #[test]
    fn special_ipv6_addresses_are_not_public() {
        let all = ":: ::1 fc00::1 fd00:ec2::254 fe80::1 febf::1 fec0::1 ff02::1 2001::1 2001:2::1 \
            2001:10::1 2001:20::1 2001:db8::1 3fff::1 5f00::1 64:ff9b:1::1 100::1 4000::1";
        for ip in all.split(' ') {
            assert!(!public(ip), "{ip}");
        }
    }

    #[test]
    fn embedded_ipv4_address_decides() {
        let all = "::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 ::10.0.0.1 \
            64:ff9b::127.0.0.1 64:ff9b::a00:1 2002:7f00:1:: 2002:c0a8:101::1 2002:a9fe:a9fe:: \
            2606:4700::5efe:127.0.0.1 2606:4700::200:5efe:10.0.0.1 ::ffff:0:127.0.0.1 \
            64:ff9b:1::127.0.0.1 2001:0:4136:e378:8000:63bf:80ff:fffe";
        for ip in all.split(' ') {
            assert!(!public(ip), "{ip}");
        }
        for ip in [
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2606:4700::5efe:8.8.8.8",
        ] {
            assert!(public(ip), "{ip}");
        }
    }

    #[test]
    fn only_loopback_is_this_machine() {
        for (host, own) in [
            ("127.0.0.1", true),
            ("127.255.0.3", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("[2002:7f00:1::]", false),
            ("[64:ff9b::127.0.0.1]", false),
            ("[::127.0.0.1]", false),
            ("0.0.0.0", false),
            ("10.0.0.1", false),
            ("8.8.8.8", false),
            ("localhost", true),
            ("a.localhost.", true),
            ("localhost.example", false),
        ] {
            let url = Url::parse(&format!("http://{host}/")).unwrap();
            assert_eq!(is_this_machine(&url), own, "{host}");
        }
    }

    #[test]
    fn every_spelling_of_a_literal_is_recognized() {
        let seen = |url: &str| literal_ip(&Url::parse(url).unwrap()).map(|ip| ip.to_string());
        let all = "http://127.0.0.1/ http://2130706433/ http://0x7f.1/ http://0177.0.0.1./ \
            http://１２７.0.0.1/ http://①②⑦.⓪.⓪.①/ http://127。0。0。1/ http://%31%32%37.0.0.1/ \
            http://127.1/ http://127.0.1/ http://017700000001/ http://0x7F000001/";
        for url in all.split(' ') {
            assert_eq!(seen(url).as_deref(), Some("127.0.0.1"), "{url}");
        }
        assert_eq!(seen("http://[::1]:80/").as_deref(), Some("::1"));
        assert_eq!(seen("http://localhost/"), None);
        assert_eq!(seen("http://127.0.0.1.example.com/"), None);
    }

    #[test]
    fn rejects_invalid_addresses() {
        for url in [
            "http://[fe80::1%25eth0]/",
            "http://[fe80::1%eth0]/",
            "http://127.0.0.256/",
            "http://127.0.0.0.1/",
            "http://0x100000000/",
            "http://[::127.0.0.1/",
        ] {
            assert!(Url::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn localhost_names_need_no_lookup() {
        let special = |url: &str| special_host(&Url::parse(url).unwrap());
        for url in [
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost:1/",
            "http://ｌocalhost/",
        ] {
            assert_eq!(special(url), Some("loopback"), "{url}");
        }
        for url in ["http://localhost.example/", "http://notlocalhost/"] {
            assert_eq!(special(url), None, "{url}");
        }
    }
}

#[cfg(test)]
mod address_policy_tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn decided(url: &str, allow_private: bool, is_configured: bool) -> Option<AddressPolicy> {
        AddressPolicy::for_url(&Url::parse(url).unwrap(), allow_private, is_configured).ok()
    }

    #[test]
    fn private_literal_requires_configured_host() {
        let any = Some(AddressPolicy::AnyAddress);
        for url in [
            "http://127.0.0.1:1/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://[::1]/",
            "http://10.0.0.1/",
            "http://0x7f.1/",
            "http://169.254.169.254/",
        ] {
            let policies = [(false, false), (false, true), (true, false)]
                .map(|(allow_private, is_configured)| decided(url, allow_private, is_configured));
            assert_eq!(policies, [None, any, any], "{url}");
        }
    }

    #[test]
    fn configured_name_may_use_public_addresses_only() {
        let public = Some(AddressPolicy::Public);
        for (url, unconfigured, configured) in [
            ("http://intranet.example/", public, public),
            ("http://1.1.1.1/", public, public),
            // It is no literal.
            ("http://a.localhost/", None, public),
        ] {
            assert_eq!(decided(url, false, false), unconfigured, "{url}");
            assert_eq!(decided(url, false, true), configured, "{url}");
        }
    }
}
