//! Removes the credentials of a peer from its responses and errors.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::COOKIE;
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use a2a::texts_mut;
use base::redact;
use egress::credential::Credential;
use peer::PeerConfig;

/// The minimum length of a secret. Shorter values, such as `1` and `en`, occur in every text.
const MIN_LENGTH: usize = 6;

/// The credentials of one peer. Removes them from responses before these are read, since a peer may repeat its request.
pub(super) struct PeerSecrets {
    /// The credential and the headers of the peer, from which all other fields are derived.
    source: (Option<Arc<Credential>>, Vec<(HeaderName, HeaderValue)>),
    /// Certain credentials: those of `auth`, headers that are marked as secret, and headers that look like one.
    sure: Arc<redact::Secrets>,
    /// The source of access tokens, which change during a call.
    issuing: Option<Arc<Credential>>,
    /// The latest tokens, and `sure` together with them.
    issued: Mutex<(Arc<[SecretString]>, Arc<redact::Secrets>)>,
    /// Other values of the operator's headers. One may be an ordinary word, such as the name of a tenant, which responses
    /// must be able to contain.
    maybe: redact::Secrets,
}

impl PeerSecrets {
    pub(super) fn new(config: &PeerConfig) -> Self {
        let (mut sure, mut maybe, mut issuing) = (Vec::new(), Vec::new(), None);
        if let Some(credential) = &config.credential {
            sure.extend(credential.secrets());
            issuing = credential.issued().map(|_| Arc::clone(credential));
        }
        for (name, value) in &config.headers {
            let Ok(value) = value.to_str() else { continue };
            let list = if config.secret_headers.contains(name)
                || redact::is_credential_header(name.as_str(), value)
            {
                &mut sure
            } else {
                &mut maybe
            };
            // `Bearer x` contains the credential `x`.
            list.extend(
                value
                    .split_once(' ')
                    .map(|(_, rest)| rest.trim().to_owned().into()),
            );
            if name == COOKIE {
                let values = value.split(';').filter_map(|pair| pair.split_once('='));
                list.extend(values.map(|(_, value)| value.trim().to_owned().into()));
            }
            list.push(value.to_owned().into());
        }
        let sure = Arc::new(long_enough(sure));
        Self {
            source: (config.credential.clone(), config.headers.clone()),
            issued: Mutex::new((Arc::default(), Arc::clone(&sure))),
            sure,
            issuing,
            maybe: long_enough(maybe),
        }
    }

    /// Returns whether `config` has the same credential and headers.
    pub(super) fn matches(&self, config: &PeerConfig) -> bool {
        let (credential, headers) = &self.source;
        let same = match (credential, &config.credential) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        same && *headers == config.headers
    }

    /// Returns the certain credentials, with the latest tokens.
    pub(super) fn current(&self) -> Arc<redact::Secrets> {
        let Some(issued) = self.issuing.as_ref().and_then(|from| from.issued()) else {
            return Arc::clone(&self.sure);
        };
        let mut known = self.issued.lock();
        if !Arc::ptr_eq(&known.0, &issued) {
            let all = self.sure.with(&long_enough(issued.iter().cloned()));
            *known = (issued, Arc::new(all));
        }
        Arc::clone(&known.1)
    }

    /// Removes every credential from the text of an error.
    pub(super) fn scrub<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let mut text = text.into();
        for secrets in [&*self.current(), &self.maybe] {
            let clean = match secrets.redact(&text) {
                Cow::Owned(clean) => clean,
                Cow::Borrowed(_) => continue,
            };
            text = clean.into();
        }
        text
    }

    /// Removes every credential from the texts of an error in JSON.
    pub(super) fn scrub_error(&self, value: &mut Value) {
        self.scrub_response(value);
        scrub(&self.maybe, value);
    }

    /// Removes the certain credentials from a response, and changes nothing else.
    pub(super) fn scrub_response(&self, value: &mut Value) {
        scrub(&self.current(), value);
    }
}

/// Removes secrets from a value, also those split over several texts.
fn scrub(secrets: &redact::Secrets, value: &mut Value) {
    if !secrets.is_empty() {
        secrets.redact_value(value);
        let mut texts = texts_mut(value);
        if texts.len() > 1 {
            secrets.redact_joined(&mut texts);
        }
    }
}

fn long_enough(secrets: impl IntoIterator<Item = SecretString>) -> redact::Secrets {
    let secrets = secrets.into_iter();
    let long = secrets.filter(|secret| secret.expose_secret().len() >= MIN_LENGTH);
    redact::Secrets::in_all_forms(long)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use peer::CardLocation;

    use super::*;

    fn secrets() -> PeerSecrets {
        let sure = Arc::new(long_enough(["sesame-7f3a".to_owned().into()]));
        PeerSecrets {
            source: (None, Vec::new()),
            issued: Mutex::new((Arc::default(), Arc::clone(&sure))),
            sure,
            issuing: None,
            maybe: long_enough(["acme-corp".to_owned().into()]),
        }
    }

    fn config() -> PeerConfig {
        let url = url::Url::parse("https://a.example/").unwrap();
        PeerConfig::new(url, CardLocation::Path("/card".into()))
    }

    #[test]
    fn error_hides_credentials_at_any_position() {
        let mut failure =
            json!({"error": {"data": [{"sesame-7f3a": "Bearer sesame-7f3a"}, "for acme-corp"]}});
        secrets().scrub_error(&mut failure);
        let clean =
            json!({"error": {"data": [{"[redacted]": "Bearer [redacted]"}, "for [redacted]"]}});
        assert_eq!(failure, clean);
        assert_eq!(secrets().scrub("sesame-7f3a?"), "[redacted]?");
    }

    #[test]
    fn credential_header_is_recognized_with_or_without_scheme() {
        let header = |name, value| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        let config = PeerConfig {
            configured: true,
            headers: vec![
                header("authorization", "Basic c2VzYW1l"),
                header("x-api-key", "key-abcdef"),
                header("x-tenant", "acme-corp"),
                header("cookie", "a=cookie-one; b=cookie-two"),
            ],
            ..config()
        };
        let mut answer = json!([
            "c2VzYW1l",
            "Basic c2VzYW1l",
            "I saw key-abcdef",
            "acme-corp",
            "cookie-two"
        ]);
        PeerSecrets::new(&config).scrub_response(&mut answer);
        let clean = json!([
            "[redacted]",
            "[redacted]",
            "I saw [redacted]",
            "acme-corp",
            "[redacted]"
        ]);
        assert_eq!(answer, clean);
    }

    #[test]
    fn marked_header_is_a_credential_whatever_its_name() {
        let team = HeaderName::from_static("x-team");
        let config = PeerConfig {
            headers: vec![(team.clone(), HeaderValue::from_static("plum-tree"))],
            secret_headers: vec![team],
            ..config()
        };
        let mut answer = json!("I saw plum-tree");
        PeerSecrets::new(&config).scrub_response(&mut answer);
        assert_eq!(answer, "I saw [redacted]");
    }

    #[test]
    fn secrets_follow_a_changed_credential_or_header() {
        let with = |credential: Option<Arc<Credential>>, header: &'static str| PeerConfig {
            credential,
            headers: vec![(COOKIE, HeaderValue::from_static(header))],
            ..config()
        };
        let bearer = |token: &str| Some(Arc::new(Credential::Bearer(token.to_owned().into())));
        let [one, two] = ["sesame-one", "sesame-two"].map(bearer);
        let secrets = PeerSecrets::new(&with(one.clone(), "a=1"));
        assert!(secrets.matches(&with(one.clone(), "a=1")));
        for other in [with(two, "a=1"), with(None, "a=1"), with(one, "a=2")] {
            assert!(!secrets.matches(&other));
        }
    }

    #[test]
    fn escaped_slash_hides_no_credential() {
        let config = PeerConfig {
            credential: Some(Arc::new(Credential::Bearer(
                "open/sesame/7f3a".to_owned().into(),
            ))),
            ..config()
        };
        let text = r#"{"got": "open\/sesame\/7f3a", "was": "open/sesame/7f3a"}"#;
        let clean = r#"{"got": "[redacted]", "was": "[redacted]"}"#;
        assert_eq!(PeerSecrets::new(&config).scrub(text), clean);
    }

    #[test]
    fn response_loses_only_the_token() {
        let mut answer = json!({"text": "sesame-7f3a of acme-corp", "n": 1});
        secrets().scrub_response(&mut answer);
        assert_eq!(answer, json!({"text": "[redacted] of acme-corp", "n": 1}));
    }
}
