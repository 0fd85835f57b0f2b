//! Checks a URL against the address policy before resolution. `resolver` applies the policy to the resolved addresses.

use url::{Host, Url};

use crate::address;

use super::error::place;
use super::{NetError, NetFault, Sent};

/// The addresses that may receive a request, checked after the host's name is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressPolicy {
    /// Only public addresses of the internet, see [`address::is_public`].
    Public,
    /// Any address.
    AnyAddress,
    /// Only loopback addresses, see [`address::is_loopback`], and without a proxy.
    Loopback,
}

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
        return Ok(AddressPolicy::AnyAddress);
    }
    match (address::special_host(url), is_configured) {
        (None, _) => Ok(AddressPolicy::Public),
        (Some(_), true) if is_literal(url) => Ok(AddressPolicy::AnyAddress),
        // A name below `localhost` is treated like any other name: its addresses decide.
        (Some(_), true) => Ok(AddressPolicy::Public),
        (Some(class), false) => Err(NetError::new(
            NetFault::AddressRefused,
            Sent::No,
            format!(
                "`{}` is {} address, and only public addresses are allowed",
                place(url),
                address::with_article(class)
            ),
        )),
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

    fn decided(url: &str, allow_private: bool, is_configured: bool) -> Option<AddressPolicy> {
        for_url(&Url::parse(url).unwrap(), allow_private, is_configured).ok()
    }

    #[test]
    fn private_literal_requires_configured_host() {
        for url in [
            "http://127.0.0.1:1/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://[::1]/",
            "http://10.0.0.1/",
            "http://0x7f.1/",
            "http://169.254.169.254/",
        ] {
            assert_eq!(decided(url, false, false), None, "{url}");
            assert_eq!(
                decided(url, false, true),
                Some(AddressPolicy::AnyAddress),
                "{url}"
            );
            assert_eq!(
                decided(url, true, false),
                Some(AddressPolicy::AnyAddress),
                "{url}"
            );
        }
    }

    #[test]
    fn configured_name_may_use_public_addresses_only() {
        assert_eq!(
            decided("http://intranet.example/", false, true),
            Some(AddressPolicy::Public)
        );
        assert_eq!(
            decided("http://1.1.1.1/", false, false),
            Some(AddressPolicy::Public)
        );
    }

    #[test]
    fn configured_name_below_localhost_is_no_literal() {
        assert_eq!(decided("http://a.localhost/", false, false), None);
        assert_eq!(
            decided("http://a.localhost/", false, true),
            Some(AddressPolicy::Public)
        );
    }
}
