//! Requests of tests.

use http::{HeaderMap, Method};
use url::Url;

use super::{AddressPolicy, Request};

/// Returns a GET without headers, to any address.
pub(crate) fn get(url: Url) -> Request {
    Request {
        method: Method::GET,
        url,
        headers: HeaderMap::new(),
        body: None,
        access: AddressPolicy::AnyAddress,
        trust: None,
        repeatable: false,
        authorization: None,
    }
}

/// Returns a POST of `{}`, to any address.
pub(crate) fn post(url: Url) -> Request {
    Request {
        method: Method::POST,
        body: Some("{}".into()),
        ..get(url)
    }
}
