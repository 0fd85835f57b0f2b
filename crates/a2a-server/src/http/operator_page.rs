//! The operator's page: one document without external resources.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ring::digest::{SHA256, digest};

const HTML: &str = include_str!("operator_page/page.html");
const STYLE: &str = include_str!("operator_page/page.css");
const SCRIPT: &str = include_str!("operator_page/page.js");

/// The page and its content security policy. The page loads tasks by its script.
#[derive(Debug, Clone)]
pub(super) struct OperatorPage {
    html: Bytes,
    policy: HeaderValue,
}

impl OperatorPage {
    /// Builds the page. The policy admits the page's own script and style by their hashes, and nothing else.
    pub(super) fn new() -> Self {
        let html = HTML
            .replace("{{style}}", STYLE)
            .replace("{{script}}", SCRIPT);
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
            hash(SCRIPT),
            hash(STYLE)
        );
        Self {
            html: html.into(),
            // Base64 and the literals above are visible ASCII.
            policy: HeaderValue::try_from(policy)
                .unwrap_or(HeaderValue::from_static("default-src 'none'")),
        }
    }

    /// Returns the response.
    pub(super) fn answer(&self) -> Response {
        let mut response = self.html.clone().into_response();
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CACHE_CONTROL, "no-store"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::X_FRAME_OPTIONS, "DENY"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert(
            "cross-origin-opener-policy",
            HeaderValue::from_static("same-origin"),
        );
        headers.insert(
            "cross-origin-resource-policy",
            HeaderValue::from_static("same-origin"),
        );
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        response
    }
}

/// Returns a policy source: the hash of a script or style.
fn hash(text: &str) -> String {
    format!(
        "sha256-{}",
        STANDARD.encode(digest(&SHA256, text.as_bytes()))
    )
}
