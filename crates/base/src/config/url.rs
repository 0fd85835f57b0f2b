//! URLs in configurations.

use std::net::IpAddr;

use url::Url;

/// Returns `path` if it is an absolute URL.
pub fn card_url(path: &str) -> Option<String> {
    (path.starts_with("http://") || path.starts_with("https://")).then(|| path.to_owned())
}

/// Parses the URL of a target: http or https, with a host, without user name, query or fragment.
///
/// # Errors
/// The fault, as the end of a sentence.
pub fn normal_url(text: &str) -> Result<Url, String> {
    if let Some(whole) = with_presumed_scheme(text.trim()) {
        return Err(format!("has no scheme; try `{whole}`"));
    }
    let url = Url::parse(text.trim()).map_err(|e| format!("is not a URL: {e}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!(
            "begins with `{}:`; only http and https are supported",
            url.scheme()
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("carries a user name or password; put credentials into `auth`".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a query or fragment; give only the address".into());
    }
    Ok(url)
}

/// Returns `text` with the presumed scheme, if it is a URL without one. A URL parser would read `localhost:` as a
/// scheme.
pub fn with_presumed_scheme(text: &str) -> Option<String> {
    let has_port = |text: &str| {
        let rest = text.split_once(':').map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let begins_with_host = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
    if !begins_with_host || text.contains("://") || (Url::parse(text).is_ok() && !has_port(text)) {
        return None;
    }
    let authority = text.split('/').next().unwrap_or_default();
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let scheme = if host == "localhost" || address.is_ok() {
        "http"
    } else {
        "https"
    };
    let whole = format!("{scheme}://{text}");
    normal_url(&whole).is_ok().then_some(whole)
}

/// Parses the URL of a gateway: ws or wss, with a host, without user name, query or fragment.
///
/// # Errors
/// The fault, as the end of a sentence.
pub fn gateway_url(text: &str) -> Result<Url, String> {
    let text = text.trim();
    if let Some(whole) = with_presumed_scheme(text) {
        return Err(format!("has no scheme; try `{}`", socket_form(&whole)));
    }
    let url = Url::parse(text).map_err(|e| format!("is not a URL: {e}"))?;
    match url.scheme() {
        "ws" | "wss" => {}
        "http" | "https" => {
            return Err(format!(
                "begins with `{}:`, and a gateway is reached over WebSocket; try `{}`",
                url.scheme(),
                socket_form(text)
            ));
        }
        other => {
            return Err(format!(
                "begins with `{other}:`; a gateway is reached over ws or wss"
            ));
        }
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("carries a user name or password; put the token into `gateway.token`".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(
            "has a query or fragment; give only the address, and put a token into `gateway.token`"
                .into(),
        );
    }
    Ok(url)
}

/// Returns the WebSocket URL for an `http` or `https` URL, without parts that may be secret.
fn socket_form(address: &str) -> String {
    let form = Url::parse(address).ok().and_then(|mut url| {
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        url.set_query(None);
        url.set_fragment(None);
        let bare = url.set_username("").is_ok() && url.set_password(None).is_ok();
        (bare && url.set_scheme(scheme).is_ok()).then(|| url.to_string())
    });
    let form = form.unwrap_or_else(|| "ws://127.0.0.1:18789".to_owned());
    form.trim_end_matches('/').to_owned()
}

/// Returns whether `url` is `listed`, or has its origin and a path below its path.
#[must_use]
pub fn contains_url(listed: &Url, url: &Url) -> bool {
    let base = listed.path().trim_end_matches('/');
    let Some(below) = url.path().strip_prefix(base) else {
        return false;
    };
    // The receiver may decode an encoded separator, and so leave the path.
    let plain = |text: &str| {
        let text = text.to_ascii_lowercase();
        !["%2f", "%5c"].iter().any(|hidden| text.contains(hidden))
    };
    listed.origin() == url.origin() && (below.is_empty() || below.starts_with('/')) && plain(below)
}
