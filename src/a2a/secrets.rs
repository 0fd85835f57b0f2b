//! A peer's credentials, kept out of everything that is told about it.

use std::borrow::Cow;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use crate::peer::Reach;

/// Shorter values ("1", "en") are no secrets, and would tear holes into every text.
const SHORTEST: usize = 6;

const INSTEAD: &str = "[redacted]";

/// The credentials of one peer. Its answers pass through here before they are read, since a peer may repeat what it was sent.
pub(super) struct Secrets {
    token: Option<SecretString>,
    headers: Vec<SecretString>,
}

impl Secrets {
    pub(super) fn of(reach: &Reach) -> Self {
        let headers = reach.headers.iter();
        let headers = headers.filter_map(|(_, value)| Some(value.to_str().ok()?.to_owned().into()));
        let long = |secret: &SecretString| secret.expose_secret().len() >= SHORTEST;
        Self {
            token: reach.bearer.clone().filter(long),
            headers: headers.filter(long).collect(),
        }
    }

    /// What a peer says about a failure, without any credential.
    pub(super) fn scrub<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let all = self.token.iter().chain(&self.headers);
        all.fold(text.into(), without)
    }

    /// The same in every text of a JSON value.
    pub(super) fn scrub_failure(&self, value: &mut Value) {
        if self.token.is_some() || !self.headers.is_empty() {
            walk(value, &|text| self.scrub(text));
        }
    }

    /// An answer without the token. The operator's headers stay: one may hold an ordinary word, such as the name of a tenant,
    /// and an answer must arrive as it was given.
    pub(super) fn scrub_answer(&self, value: &mut Value) {
        if let Some(token) = &self.token {
            walk(value, &|text| without(text.into(), token));
        }
    }
}

fn without<'a>(text: Cow<'a, str>, secret: &SecretString) -> Cow<'a, str> {
    let secret = secret.expose_secret();
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
    use serde_json::json;

    use super::*;

    fn secrets() -> Secrets {
        Secrets {
            token: Some("sesame-7f3a".to_owned().into()),
            headers: vec!["acme-corp".to_owned().into()],
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
    fn an_answer_keeps_everything_but_the_token() {
        let mut answer = json!({"text": "sesame-7f3a of acme-corp", "n": 1});
        secrets().scrub_answer(&mut answer);
        assert_eq!(answer, json!({"text": "[redacted] of acme-corp", "n": 1}));
    }
}
