//! The names a server answers to.
//!
//! A page of anybody can have its own name resolve to 127.0.0.1 and then read answers from there as if they were its own
//! (DNS rebinding). Its requests still bear its name in `Host`, and that is where they are told from others.

use std::collections::HashSet;
use std::net::IpAddr;

/// The names a server answers to. Ports do not count: whatever forwards a port may change it.
#[derive(Debug, Clone, Default)]
pub struct HostNames {
    named: HashSet<String>,
    /// Every address: it listens on all of them, and does not know how others reach it. No name can hide behind one.
    any_address: bool,
}

impl HostNames {
    /// The names of a server that listens on `listen`, and those it was given beside. Loopback is always one.
    pub fn new<'a>(listen: IpAddr, given: impl IntoIterator<Item = &'a str>) -> Self {
        let mut named: HashSet<String> = given.into_iter().map(tidy).collect();
        named.insert(listen.to_string());
        Self {
            named,
            any_address: listen.is_unspecified(),
        }
    }

    /// Whether `host` is one of them, as a `Host` header names it, without its port.
    pub fn has(&self, host: &str) -> bool {
        is_loopback(host)
            || self.named.contains(&tidy(host))
            || (self.any_address && address(host).is_some())
    }
}

/// Whether this machine means itself by `host` (RFC 6761 §6.3).
pub fn is_loopback(host: &str) -> bool {
    let name = tidy(host);
    match address(&name) {
        Some(ip) => ip.to_canonical().is_loopback(),
        None => name == "localhost" || name.ends_with(".localhost"),
    }
}

fn address(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// Lower case, without brackets, without the dot that ends a whole name.
fn tidy(host: &str) -> String {
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
            assert!(here(&[]).has(host), "{host}");
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
            assert!(!here(&[]).has(host), "{host}");
        }
    }

    #[test]
    fn given_names_count_however_they_are_written() {
        let names = here(&["Agents.Example", "2001:DB8::1"]);
        for host in ["agents.example", "AGENTS.example.", "[2001:db8::1]"] {
            assert!(names.has(host), "{host}");
        }
        assert!(!names.has("other.example"));
    }

    #[test]
    fn a_server_on_all_addresses_answers_to_each_and_to_no_other_name() {
        let names = HostNames::new("0.0.0.0".parse().unwrap(), []);
        assert!(names.has("192.0.2.7") && names.has("[2001:db8::1]"));
        assert!(!names.has("evil.example"));
    }
}
