//! Pages for operators: an HTML document without external resources, and its content security policy.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ring::digest::{SHA256, digest};

const STYLE: &str = include_str!("page.css");

/// A page and its content security policy. Its script loads the data.
///
/// ```
/// use http_server::operator_html::Page;
///
/// let page = Page::new("<style>{{style}}</style><script>{{script}}</script>", "document.title = 'ready'");
/// assert_eq!(page.response().headers()["x-frame-options"], "DENY");
/// ```
#[derive(Debug, Clone)]
pub struct Page {
    html: Bytes,
    policy: HeaderValue,
}

impl Page {
    /// Builds a page from a document with the placeholders `{{style}}` and `{{script}}`. All pages have the same style.
    /// The policy allows only the style and the script of the page, by their hashes, and connections to its own origin.
    pub fn new(html: &str, script: &str) -> Self {
        let html = html
            .replace("{{style}}", STYLE)
            .replace("{{script}}", script);
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
            hash(script),
            hash(STYLE)
        );
        Self {
            html: html.into(),
            // Base64 and the literals consist of visible ASCII characters.
            policy: HeaderValue::try_from(policy)
                .unwrap_or(HeaderValue::from_static("default-src 'none'")),
        }
    }

    /// Returns the page as a response.
    pub fn response(&self) -> Response {
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

/// Returns the hash of a script or style as a source of a content security policy.
fn hash(text: &str) -> String {
    format!(
        "sha256-{}",
        STANDARD.encode(digest(&SHA256, text.as_bytes()))
    )
}
