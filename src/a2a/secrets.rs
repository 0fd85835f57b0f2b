//! A peer's credentials, kept out of everything that is told about it.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::COOKIE;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use crate::credential::Credential;
use crate::peer::Reach;

/// Shorter values ("1", "en") are no secrets, and would tear holes into every text.
const SHORTEST: usize = 6;

const INSTEAD: &str = "[redacted]";

/// Words in the name of a header whose value is a credential whatever it looks like.
const TELLING: [&str; 7] = [
    "auth", "cookie", "key", "token", "secret", "password", "session",
];

/// A header's value of this length is taken for a credential whatever its name.
const LONG: usize = 20;

/// The credentials of one peer. Its answers pass through here before they are read, since a peer may repeat what it was sent.
pub(super) struct Secrets {
    /// What is a credential beyond doubt: what `auth` holds, and headers that look like one.
    sure: Vec<SecretString>,
    /// Where access tokens come from. They change while the peer answers.
    issuing: Option<Arc<Credential>>,
    /// Other values of the operator's headers. One may be an ordinary word, such as the name of a tenant, which answers
    /// must be able to hold.
    maybe: Vec<SecretString>,
}

impl Secrets {
    pub(super) fn of(reach: &Reach) -> Self {
        let mut all = Self {
            sure: Vec::new(),
            issuing: None,
            maybe: Vec::new(),
        };
        if let Some(credential) = &reach.credential {
            all.sure.extend(credential.secrets());
            all.issuing = credential.issued().map(|_| Arc::clone(credential));
        }
        for (name, value) in &reach.headers {
            let Ok(value) = value.to_str() else { continue };
            let telling = TELLING.iter().any(|word| name.as_str().contains(word));
            let list = if telling || value.len() >= LONG {
                &mut all.sure
            } else {
                &mut all.maybe
            };
            // `Bearer x` is as good as `x` to whoever reads it.
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
        for list in [&mut all.sure, &mut all.maybe] {
            list.retain(|secret| secret.expose_secret().len() >= SHORTEST);
            // The longest first, so that what is left of one is not mistaken for another.
            list.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        }
        all
    }

    /// What a peer says about a failure, without any credential.
    pub(super) fn scrub<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        self.maybe
            .iter()
            .fold(self.without_sure(text.into(), &self.issued()), without)
    }

    /// The same in every text of a JSON value.
    pub(super) fn scrub_failure(&self, value: &mut Value) {
        let issued = self.issued();
        if !self.sure.is_empty() || !self.maybe.is_empty() || !issued.is_empty() {
            walk(value, &|text| {
                let clean = self.without_sure(text.into(), &issued);
                self.maybe.iter().fold(clean, without)
            });
        }
    }

    /// An answer without what is a credential beyond doubt. Everything else must arrive as it was given.
    pub(super) fn scrub_answer(&self, value: &mut Value) {
        let issued = self.issued();
        if !self.sure.is_empty() || !issued.is_empty() {
            walk(value, &|text| self.without_sure(text.into(), &issued));
        }
    }

    /// The access tokens that are known by now.
    fn issued(&self) -> Arc<[SecretString]> {
        let issued = self
            .issuing
            .as_ref()
            .and_then(|credential| credential.issued());
        issued.unwrap_or_default()
    }

    fn without_sure<'a>(&self, text: Cow<'a, str>, issued: &[SecretString]) -> Cow<'a, str> {
        let issued = issued
            .iter()
            .filter(|token| token.expose_secret().len() >= SHORTEST);
        self.sure.iter().chain(issued).fold(text, without)
    }
}

fn without<'a>(text: Cow<'a, str>, secret: &SecretString) -> Cow<'a, str> {
    let secret = secret.expose_secret();
    let text = replaced(text, secret);
    // JSON that stands in a text, such as the body of an error, may write `/` as `\/` (RFC 8259 §7).
    if secret.contains('/') && text.contains("\\/") {
        return replaced(text, &secret.replace('/', "\\/"));
    }
    text
}

fn replaced<'a>(text: Cow<'a, str>, secret: &str) -> Cow<'a, str> {
    if text.contains(secret) {
        text.replace(secret, INSTEAD).into()
    } else {
        text
    }
}

fn walk(value: &mut Value, clean: &dyn for<'a> Fn(&'a str) -> Cow<'a, str>) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(cleaned) = clean(text) {
                *text = cleaned;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, clean)),
        Value::Object(fields) => {
            if fields.keys().any(|key| matches!(clean(key), Cow::Owned(_))) {
                let kept = std::mem::take(fields).into_iter();
                *fields = kept
                    .map(|(key, value)| (clean(&key).into_owned(), value))
                    .collect::<Map<_, _>>();
            }
            fields.values_mut().for_each(|value| walk(value, clean));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use crate::peer::CardLocation;

    use super::*;

    fn secrets() -> Secrets {
        Secrets {
            sure: vec!["sesame-7f3a".to_owned().into()],
            issuing: None,
            maybe: vec!["acme-corp".to_owned().into()],
        }
    }

    #[test]
    fn a_failure_shows_no_credential_wherever_it_stands() {
        let mut failure =
            json!({"error": {"data": [{"sesame-7f3a": "Bearer sesame-7f3a"}, "for acme-corp"]}});
        secrets().scrub_failure(&mut failure);
        let clean =
            json!({"error": {"data": [{"[redacted]": "Bearer [redacted]"}, "for [redacted]"]}});
        assert_eq!(failure, clean);
        assert_eq!(secrets().scrub("sesame-7f3a?"), "[redacted]?");
    }

    #[test]
    fn a_header_that_looks_like_a_credential_is_one_with_its_scheme_or_without() {
        let header = |name, value| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        let reach = Reach {
            configured: true,
            headers: vec![
                header("authorization", "Basic c2VzYW1l"),
                header("x-api-key", "key-abcdef"),
                header("x-tenant", "acme-corp"),
                header("cookie", "a=cookie-one; b=cookie-two"),
            ],
            ..Reach::new(
                url::Url::parse("https://a.example/").unwrap(),
                CardLocation::Path("/card".into()),
            )
        };
        let mut answer = json!([
            "c2VzYW1l",
            "Basic c2VzYW1l",
            "I saw key-abcdef",
            "acme-corp",
            "cookie-two"
        ]);
        Secrets::of(&reach).scrub_answer(&mut answer);
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
    fn a_slash_that_json_escapes_hides_no_credential() {
        let reach = Reach {
            credential: Some(Arc::new(Credential::Bearer(
                "open/sesame/7f3a".to_owned().into(),
            ))),
            ..Reach::new(
                url::Url::parse("https://a.example/").unwrap(),
                CardLocation::Path("/card".into()),
            )
        };
        let said = r#"{"got": "open\/sesame\/7f3a", "was": "open/sesame/7f3a"}"#;
        let clean = r#"{"got": "[redacted]", "was": "[redacted]"}"#;
        assert_eq!(Secrets::of(&reach).scrub(said), clean);
    }

    #[test]
    fn an_answer_keeps_everything_but_the_token() {
        let mut answer = json!({"text": "sesame-7f3a of acme-corp", "n": 1});
        secrets().scrub_answer(&mut answer);
        assert_eq!(answer, json!({"text": "[redacted] of acme-corp", "n": 1}));
    }
}
