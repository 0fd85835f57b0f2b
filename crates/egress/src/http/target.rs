//! The target of a request.

use url::Url;

use super::PoolKind;
use crate::address::{is_loopback, literal_ip, special_use, with_article};
use crate::error::place;
use crate::{AddressPolicy, NetError, NetFault, Sent, upgrade};

/// Checks whether a request can be sent to `url`, as far as known before resolution.
pub(super) fn check(url: &Url, access: AddressPolicy, kind: PoolKind) -> Result<(), NetError> {
    check_scheme(url, kind)?;
    check_literal(url, access)
}

fn check_scheme(url: &Url, kind: PoolKind) -> Result<(), NetError> {
    match url.scheme() {
        "http" | "https" => Ok(()),
        "ws" | "wss" if kind == PoolKind::Upgrade => Ok(()),
        other => {
            let message = format!("`{other}:` is not a supported scheme; use `http` or `https`");
            Err(NetError::new(NetFault::Protocol, Sent::No, message))
        }
    }
}

/// Checks a host that is a literal address.
fn check_literal(url: &Url, access: AddressPolicy) -> Result<(), NetError> {
    let refused = literal_ip(url).and_then(|ip| match access {
        AddressPolicy::AnyAddress => None,
        AddressPolicy::Public => special_use(ip).map(|class| {
            format!(
                "it is {} address, and only public addresses are allowed",
                with_article(class)
            )
        }),
        AddressPolicy::Loopback => (!is_loopback(ip)).then(|| {
            "it is an address of another machine, and only this machine is allowed".to_owned()
        }),
    });
    refused.map_or(Ok(()), |reason| {
        let message = format!("`{}` is not allowed: {reason}", place(url));
        Err(NetError::new(NetFault::AddressRefused, Sent::No, message))
    })
}

/// Returns the URL without user info, which a proxy would receive.
pub(super) fn over_http(url: &Url) -> Url {
    let mut url = url.clone();
    upgrade::over_http(&mut url);
    // Both calls fail only for URLs without a host, and these schemes have one.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}
