//! Requests of tests.

use http::{HeaderMap, Method};
use url::Url;

use super::{Access, Request};

/// A GET without headers that may go anywhere.
pub(crate) fn get(url: Url) -> Request {
    Request {
        method: Method::GET,
        url,
        headers: HeaderMap::new(),
        body: None,
        access: Access::AnyAddress,
        trust: None,
        repeatable: false,
        authorization: None,
    }
}

/// A POST of `{}` that may go anywhere.
pub(crate) fn post(url: Url) -> Request {
    Request {
        method: Method::POST,
        body: Some("{}".into()),
        ..get(url)
    }
}
