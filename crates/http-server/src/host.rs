//! What a request says of where it goes and where it comes from: `Host` and `Origin`.
//!
//! Any web page can have its own name resolve to 127.0.0.1 and then read the answers from there as if they were its own
//! (DNS rebinding). Its requests still have that name in `Host`, so a server answers to names that it knows alone.

use std::collections::HashSet;
use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Uri};

/// Why a request does not name one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// There is no `Host`, or more than one.
    #[error("a request names its server once, in `Host`")]
    Count,
    /// It is not a name with an optional port.
    #[error("`Host` is no name of a server")]
    Malformed,
    /// The target of the request names another server.
    #[error("the request's target and its `Host` are two servers; send one")]
    Conflict,
}

/// Returns the server that a request names (RFC 9112 §3.2).
///
/// # Errors
/// It names none, or more than one.
pub fn requested_host(headers: &HeaderMap, uri: &Uri) -> Result<Authority, HostError> {
    let mut all = headers.get_all(HOST).iter();
    let (Some(host), None) = (all.next(), all.next()) else {
        return Err(HostError::Count);
    };
    let host = parse_host(host.to_str().unwrap_or_default())?;
    match uri.authority() {
        Some(other) if *other != host => Err(HostError::Conflict),
        _ => Ok(host),
    }
}

/// Parses a name with an optional port, as `Host` has it (RFC 9110 §7.2).
///
/// # Errors
/// It is something else, such as a name with a user before it or a port that is no number.
pub fn parse_host(text: &str) -> Result<Authority, HostError> {
    let authority: Authority = text.parse().map_err(|_| HostError::Malformed)?;
    // The parser takes anything behind a bracket or a colon, and it would become part of URLs.
    let rest = authority.as_str().strip_prefix(authority.host());
    let is_whole = rest.is_some_and(|rest| match rest.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok() && !port.starts_with('+'),
        None => rest.is_empty(),
    });
    if is_whole {
        Ok(authority)
    } else {
        Err(HostError::Malformed)
    }
}

/// Whether a web page of another origin sends the request. `own` is the server's origin as the client knows it, `allowed` says
/// which others may. An origin counts as a whole: other ports of this machine are other programs.
pub fn is_foreign_origin(headers: &HeaderMap, own: &str, allowed: impl Fn(&str) -> bool) -> bool {
    headers.get_all(ORIGIN).iter().any(|origin| {
        let origin = origin.to_str().ok();
        !origin.is_some_and(|origin| origin.eq_ignore_ascii_case(own) || allowed(origin))
    })
}

/// Whether a browser says that a page of another site sends the request. Requests for images and the like have no `Origin`, and
/// take effect though the page cannot read the answer. A link that the user follows is no such request.
pub fn is_cross_site(headers: &HeaderMap, method: &Method) -> bool {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let is_elsewhere = matches!(text("sec-fetch-site"), Some("cross-site" | "same-site"));
    let is_link = text("sec-fetch-mode") == Some("navigate") && method == Method::GET;
    is_elsewhere && !is_link
}

/// The names a server answers to. Ports do not count: a program that forwards a port may change it.
#[derive(Debug, Clone, Default)]
pub struct HostNames {
    named: HashSet<String>,
    /// It listens on every address and does not know by which others reach it. DNS rebinding needs a name, so any address is fine.
    any_address: bool,
}

impl HostNames {
    /// Returns the names of a server that listens on `listen`, with those that are configured. Loopback is always among them.
    pub fn new<'a>(listen: IpAddr, given: impl IntoIterator<Item = &'a str>) -> Self {
        let mut named: HashSet<String> = given.into_iter().map(normalize).collect();
        named.insert(listen.to_string());
        Self {
            named,
            any_address: listen.is_unspecified(),
        }
    }

    /// Whether `host` is one of them. `host` is as in a `Host` header, without its port.
    pub fn contains(&self, host: &str) -> bool {
        is_loopback(host)
            || self.named.contains(&normalize(host))
            || (self.any_address && address(host).is_some())
    }
}

/// Whether `host` is this machine's name for itself (RFC 6761 §6.3).
pub fn is_loopback(host: &str) -> bool {
    let name = normalize(host);
    match address(&name) {
        Some(ip) => ip.to_canonical().is_loopback(),
        None => name == "localhost" || name.ends_with(".localhost"),
    }
}

fn address(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// Lower case, without brackets, without the dot that ends a whole name.
fn normalize(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(ip) => ip.to_string(),
        Err(_) => bare.to_ascii_lowercase(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn here(given: &[&str]) -> HostNames {
        HostNames::new("127.0.0.1".parse().unwrap(), given.iter().copied())
    }

    #[test]
    fn loopback_is_always_a_name_of_its_own() {
        for host in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
            "127.0.0.1",
            "127.8.9.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(here(&[]).contains(host), "{host}");
        }
    }

    #[test]
    fn a_name_that_only_resolves_here_is_none() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "192.0.2.7",
            "",
            "[",
        ] {
            assert!(!here(&[]).contains(host), "{host}");
        }
    }

    #[test]
    fn given_names_count_however_they_are_written() {
        let names = here(&["Agents.Example", "2001:DB8::1"]);
        for host in ["agents.example", "AGENTS.example.", "[2001:db8::1]"] {
            assert!(names.contains(host), "{host}");
        }
        assert!(!names.contains("other.example"));
    }

    #[test]
    fn a_server_on_all_addresses_answers_to_each_and_to_no_other_name() {
        let names = HostNames::new("0.0.0.0".parse().unwrap(), []);
        assert!(names.contains("192.0.2.7") && names.contains("[2001:db8::1]"));
        assert!(!names.contains("evil.example"));
    }

    #[test]
    fn host_with_a_malformed_port_or_a_user_is_rejected() {
        for host in [
            "localhost:+80",
            "localhost:",
            "localhost:x",
            "localhost:65536",
            "[::1]x",
            "a@localhost",
            "",
        ] {
            assert_eq!(parse_host(host), Err(HostError::Malformed), "{host}");
        }
        for host in ["localhost", "localhost:80", "[::1]:80", "LOCALHOST."] {
            assert!(parse_host(host).is_ok(), "{host}");
        }
    }
}
