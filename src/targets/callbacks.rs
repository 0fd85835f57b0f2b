//! Callback URLs that a request may give to a peer.

use base::config::contains_url;
use url::Url;

use crate::config::{Config, normal_url};
use egress::address::{special_host, with_article};

/// The callback URLs that requests may name. The peer calls them, not this plugin. The check keeps a request from
/// directing a peer to an address that the operator does not allow or that only the peer can reach.
#[derive(Debug, Clone, Default)]
pub struct Callbacks(Vec<Url>);

impl Callbacks {
    /// Reads the callbacks of a checked configuration.
    pub fn new(config: &Config) -> Self {
        let listed = config.policy.push_callback_urls.iter();
        Self(listed.filter_map(|url| normal_url(url).ok()).collect())
    }

    /// Checks `url`: it must be one of the listed URLs or below one of them; without a list, any URL that is not known
    /// to be private. Host names are not resolved, because the peer may resolve them differently.
    ///
    /// # Errors
    /// The reason that the URL is refused, as the end of a sentence.
    pub fn check(&self, url: &str) -> Result<(), String> {
        // The peer parses the text again, so it must be unambiguous.
        if url.contains(|c: char| c == '\\' || c.is_whitespace() || c.is_control()) {
            return Err("has characters that a URL cannot contain".into());
        }
        let url = Url::parse(url).map_err(|e| format!("is not a URL: {e}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("must start with http or https".into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("carries a user name or password; use `token` or `authentication`".into());
        }
        if self.0.is_empty() {
            return match special_host(&url) {
                Some(class) => Err(format!(
                    "leads to {} address; a callback must be public, or be listed by the operator in policy.pushCallbackUrls",
                    with_article(class)
                )),
                None => Ok(()),
            };
        }
        if self.0.iter().any(|listed| contains_url(listed, &url)) {
            return Ok(());
        }
        Err("is not among the callbacks that the operator allows (policy.pushCallbackUrls)".into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::ConfigError;
    use serde_json::json;

    fn config(listed: &[&str]) -> Result<Config, ConfigError> {
        Config::parse(&json!({ "policy": { "pushCallbackUrls": listed } }).to_string())
    }

    fn allowed(listed: &[&str], url: &str) -> bool {
        Callbacks::new(&config(listed).unwrap()).check(url).is_ok()
    }

    #[test]
    fn listed_url_and_paths_below_are_allowed() {
        let listed = ["https://cb.example/hooks"];
        for url in [
            "https://cb.example/hooks",
            "https://cb.example/hooks/",
            "https://cb.example:443/hooks/a?token=1",
            "HTTPS://CB.example/hooks/a",
        ] {
            assert!(allowed(&listed, url), "{url}");
        }
    }

    #[test]
    fn urls_that_resemble_a_listed_one_are_refused() {
        let listed = ["https://cb.example/hooks"];
        for url in [
            "http://cb.example/hooks",
            "https://cb.example/hooksome",
            "https://cb.example/",
            "https://cb.example/hooks/../admin",
            "https://cb.example/hooks/%2e%2e/admin",
            "https://cb.example/hooks/%2e%2e%2fadmin",
            "https://cb.example/hooks/..%5Cadmin",
            "https://cb.example:8443/hooks",
            "https://cb.example.evil.example/hooks",
            "https://cb.example@evil.example/hooks",
            "https://cb.example\\@evil.example/hooks",
            "https://cb.example/hooks\t/a",
            "https://evil.example/https://cb.example/hooks",
            "hooks",
        ] {
            assert!(!allowed(&listed, url), "{url}");
        }
    }

    #[test]
    fn private_url_may_be_listed() {
        let listed = ["http://127.0.0.1:9000/"];
        assert!(allowed(&listed, "http://127.0.0.1:9000/any"));
        assert!(!allowed(&listed, "http://127.0.0.1:9001/any"));
    }

    #[test]
    fn public_url_is_allowed_without_a_list() {
        assert!(allowed(&[], "https://cb.example/hooks?token=1"));
        for url in [
            "http://127.0.0.1/",
            "http://localhost:1/",
            "http://2130706433/",
            "http://[::ffff:10.0.0.1]/",
            "http://169.254.169.254/latest",
            "ftp://cb.example/",
            "https://me:pw@cb.example/",
        ] {
            assert!(!allowed(&[], url), "{url}");
        }
    }

    #[test]
    fn invalid_entry_is_reported_with_its_place() {
        for (url, reason) in [
            ("cb.example", "has no scheme"),
            ("/cb", "not a URL"),
            ("ftp://cb.example", "ftp"),
        ] {
            let error = config(&["https://cb.example", url]).unwrap_err();
            assert_eq!(error.path, "/policy/pushCallbackUrls/1");
            assert!(error.message.contains(reason), "{error}");
        }
    }
}
