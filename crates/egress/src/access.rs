//! Which addresses a URL may lead to.

use url::{Host, Url};

use crate::address;

use super::error::place;
use super::{Access, NetError, NetFault, Sent};

/// Decides how far `url` may be followed, before anything is connected.
///
/// `allow_private` lets it lead anywhere. Otherwise only public addresses may be connected, except a literal address or
/// `localhost` that the operator wrote for this very host and port (`written`). A name is judged again after it resolves.
///
/// # Errors
/// [`NetFault::AddressRefused`] for an address that is not public.
pub fn allowed(url: &Url, allow_private: bool, written: bool) -> Result<Access, NetError> {
    if allow_private {
        return Ok(Access::Private);
    }
    match (address::special_host(url), written) {
        (None, _) => Ok(Access::Public),
        (Some(_), true) if is_literal(url) => Ok(Access::Private),
        // A name below `localhost` is a name like any other: what it resolves to decides.
        (Some(_), true) => Ok(Access::Public),
        (Some(class), false) => Err(NetError::new(
            NetFault::AddressRefused,
            Sent::No,
            format!(
                "`{}` is a {class} address, and only public addresses may be connected",
                place(url)
            ),
        )),
    }
}

/// An address, or the one name that stands for one.
fn is_literal(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn decided(url: &str, allow_private: bool, written: bool) -> Option<Access> {
        allowed(&Url::parse(url).unwrap(), allow_private, written).ok()
    }

    #[test]
    fn a_literal_that_is_not_public_needs_the_operators_word() {
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
            assert_eq!(decided(url, false, true), Some(Access::Private), "{url}");
            assert_eq!(decided(url, true, false), Some(Access::Private), "{url}");
        }
    }

    #[test]
    fn a_written_name_is_still_held_to_public_addresses() {
        assert_eq!(
            decided("http://intranet.example/", false, true),
            Some(Access::Public)
        );
        assert_eq!(
            decided("http://1.1.1.1/", false, false),
            Some(Access::Public)
        );
    }

    #[test]
    fn a_written_name_below_localhost_is_no_literal() {
        assert_eq!(decided("http://a.localhost/", false, false), None);
        assert_eq!(
            decided("http://a.localhost/", false, true),
            Some(Access::Public)
        );
    }
}
