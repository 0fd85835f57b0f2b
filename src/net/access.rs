//! Which addresses a URL may lead to.

use url::{Host, Url};

use super::error::place;
use super::{Access, NetError, NetFault, Sent, address};

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
    let not_public = match url.host() {
        Some(Host::Domain(name)) => name.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
        _ => address::literal_ip(url).is_none_or(|ip| !address::is_public(ip)),
    };
    match (not_public, written) {
        (false, _) => Ok(Access::Public),
        (true, true) => Ok(Access::Private),
        (true, false) => Err(NetError::new(
            NetFault::AddressRefused,
            Sent::No,
            format!("`{}` is not a public address", place(url)),
        )),
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
}
