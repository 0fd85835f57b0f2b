//! Address policy, credentials and headers of requests to a peer.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use url::Url;

use a2a::Version;
use egress::AddressPolicy;
use egress::auth::{Authorization, TokenEndpoint};
use peer::{PeerConfig, PeerError};

use super::error::from_net;

/// Sets the version header: to `pinned`, or to the newest supported version. 0.3 has no such header. Replaces the value of
/// an operator's header, because a request with two versions would have none.
pub(super) fn set_version(headers: &mut HeaderMap, pinned: Option<Version>) {
    let version = pinned.unwrap_or(Version::V1_0);
    if version != Version::V0_3 {
        headers.insert(
            a2a::http::VERSION_HEADER,
            HeaderValue::from_static(version.as_str()),
        );
    }
}

/// Sets the header with the extensions to activate. 0.3 has an older name for it, and not all of its servers know the newer one.
pub(super) fn set_extensions(headers: &mut HeaderMap, version: Version, uris: &[String]) {
    let Ok(value) = HeaderValue::try_from(uris.join(", ")) else {
        return;
    };
    if uris.is_empty() {
        return;
    }
    if version == Version::V0_3 {
        headers.insert(a2a::http::OLD_EXTENSIONS_HEADER, value.clone());
    }
    headers.insert(a2a::http::EXTENSIONS_HEADER, value);
}

/// Returns the addresses that a connection for `url` may use.
pub(super) fn access_to(config: &PeerConfig, url: &Url) -> Result<AddressPolicy, PeerError> {
    AddressPolicy::for_url(url, config.allow_private, config.is_configured_host(url))
        .map_err(from_net)
}

/// Returns the peer's credential if `url` is on an origin that it was configured for. A redirect that leaves that
/// origin is never followed.
pub(super) fn authorization(config: &PeerConfig, url: &Url) -> Option<Authorization> {
    let credential = config.credential.as_ref();
    let credential = credential.filter(|_| config.is_own_origin(url))?;
    Some(Authorization {
        credential: Arc::clone(credential),
        endpoint: TokenEndpoint {
            allow_private: config.allow_private,
            trust: config.trust_elsewhere.clone(),
        },
    })
}

/// Returns the operator's headers if `url` is on an origin that they were configured for.
pub(super) fn configured_headers(config: &PeerConfig, url: &Url) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !config.is_own_origin(url) {
        return headers;
    }
    for (name, value) in &config.headers {
        headers.insert(name.clone(), value.clone());
    }
    headers
}
