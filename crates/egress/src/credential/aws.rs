//! Signatures of requests with AWS Signature Version 4.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base::environment::Clock;
use base::text::hex;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::{digest, hmac};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

use super::command::{CommandCredential, in_header, object};
use super::sensitive;
use super::tokens::Issued;
use crate::{NetError, Request};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
const AMZ_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const AMZ_CONTENT: HeaderName = HeaderName::from_static("x-amz-content-sha256");

/// The characters that a canonical URI encodes: all but the unreserved ones (RFC 3986 §2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const UNKNOWN_KEYS: &str =
    "it printed no keys of AWS; print `Version`, `AccessKeyId` and `SecretAccessKey` as JSON";

/// Headers outside of the signature: the transport adds or changes them after it, or a proxy may.
const UNSIGNED: [&str; 11] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "expect",
    "te",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "user-agent",
    "x-amzn-trace-id",
];

/// Signs requests to a service of AWS.
pub struct AwsSigV4 {
    /// The region, such as `us-east-1`.
    pub region: String,
    /// The service as signatures name it, such as `bedrock-agentcore`.
    pub service: String,
    /// The source of the keys.
    pub keys: AwsKeySource,
    /// The clock: a signature is valid for some minutes.
    pub clock: Arc<dyn Clock>,
}

/// The source of the keys of a signature.
pub enum AwsKeySource {
    /// The operator's settings.
    Settings(AwsKeys),
    /// A program.
    Command(Arc<CommandCredential<AwsKeys>>),
}

/// Keys of AWS.
#[derive(Clone)]
pub struct AwsKeys {
    /// The id of the key.
    pub access_key_id: SecretString,
    /// The key.
    pub secret_access_key: SecretString,
    /// The token of a session, with which temporary keys come.
    pub session_token: Option<SecretString>,
}

impl AwsKeys {
    fn texts(&self) -> [Option<&str>; 3] {
        [
            Some(self.access_key_id.expose_secret()),
            Some(self.secret_access_key.expose_secret()),
            self.session_token
                .as_ref()
                .map(|token| token.expose_secret()),
        ]
    }

    /// Returns the texts to redact.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        let texts = self.texts().into_iter().flatten();
        texts.map(|text| text.to_owned().into()).collect()
    }
}

impl PartialEq for AwsKeys {
    fn eq(&self, other: &Self) -> bool {
        self.texts() == other.texts()
    }
}

impl Hash for AwsSigV4 {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.region, &self.service).hash(state);
        match &self.keys {
            AwsKeySource::Settings(keys) => keys.texts().hash(state),
            AwsKeySource::Command(command) => command.hash(state),
        }
    }
}

impl AwsSigV4 {
    /// Signs a request with `keys`: its method, URL, headers and body, at the present time.
    ///
    /// # Errors
    /// A header cannot contain a part of the credential.
    pub(crate) fn sign(&self, keys: &AwsKeys, request: &mut Request) -> Result<(), NetError> {
        let timestamp = timestamp(self.clock.system_time());
        let date = &timestamp[..8];
        let hash = sha256(request.body.as_deref().unwrap_or_default());
        let headers = &mut request.headers;
        for name in [AMZ_DATE, AMZ_TOKEN, AMZ_CONTENT] {
            headers.remove(name);
        }
        headers.insert(AMZ_DATE, sensitive(&timestamp)?);
        if let Some(token) = &keys.session_token {
            headers.insert(AMZ_TOKEN, sensitive(token.expose_secret())?);
        }
        let is_s3 = self.service == "s3";
        if is_s3 {
            headers.insert(AMZ_CONTENT, sensitive(&hash)?);
        }
        let (names, headers) = canonical_headers(request);
        let canonical = [
            request.method.as_str(),
            &canonical_path(request.url.path(), is_s3),
            &canonical_query(&request.url),
            &headers,
            &names,
            &hash,
        ]
        .join("\n");
        let scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
        let canonical = sha256(canonical.as_bytes());
        let to_sign = [ALGORITHM, &timestamp, &scope, &canonical].join("\n");
        let secret = format!("AWS4{}", keys.secret_access_key.expose_secret());
        let parts = [date, &self.region, &self.service, "aws4_request", &to_sign];
        let signature = parts
            .iter()
            .fold(secret.into_bytes(), |key, part| hmac(&key, part));
        let value = format!(
            "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={}",
            keys.access_key_id.expose_secret(),
            hex(&signature)
        );
        request.headers.insert(AUTHORIZATION, sensitive(value)?);
        Ok(())
    }
}

impl CommandCredential<AwsKeys> {
    /// Runs the program for keys of AWS, as `credential_process` of its tools prints them.
    ///
    /// # Errors
    /// [`NetFault::TokenUnavailable`]: it fails, or prints none.
    pub(crate) async fn fetch_keys(&self) -> Result<Issued<AwsKeys>, NetError> {
        let printed = self.output().await.and_then(|out| self.keys(&out));
        printed.map_err(|reason| self.unavailable(reason))
    }

    fn keys(&self, out: &[u8]) -> Result<Issued<AwsKeys>, String> {
        let object = object(out)?.ok_or(UNKNOWN_KEYS)?;
        let text = |name: &str| object.get(name).and_then(Value::as_str).map(in_header);
        if object.get("Version").is_some_and(|version| *version != 1) {
            return Err("it printed keys in another `Version` than 1".to_owned());
        }
        let value = AwsKeys {
            access_key_id: text("AccessKeyId").ok_or(UNKNOWN_KEYS)??.into(),
            secret_access_key: text("SecretAccessKey").ok_or(UNKNOWN_KEYS)??.into(),
            session_token: text("SessionToken").transpose()?.map(SecretString::from),
        };
        let lifetime = self.until_date(object.get("Expiration"))?;
        Ok(Issued {
            secrets: value.secrets(),
            lifetime: lifetime.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            value,
        })
    }
}

/// Returns a time as signatures write it: `20150830T123600Z`.
fn timestamp(time: SystemTime) -> String {
    let time = humantime::format_rfc3339_seconds(time).to_string();
    time.replace(['-', ':'], "")
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn encoded(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, ENCODED).into()
}

/// Returns the path without empty and dot segments, each segment encoded once more than in the URL. S3 takes the path of
/// the URL.
fn canonical_path(path: &str, is_s3: bool) -> String {
    if is_s3 {
        return path.to_owned();
    }
    let mut kept = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            other => kept.push(encoded(other)),
        }
    }
    let is_folder = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end));
    let end = if is_folder && !kept.is_empty() {
        "/"
    } else {
        ""
    };
    format!("/{}{end}", kept.join("/"))
}

/// Returns the parameters of the query, encoded and sorted by name and value.
fn canonical_query(url: &Url) -> String {
    let pairs = url.query_pairs();
    let mut pairs: Vec<_> = pairs
        .map(|(name, value)| (encoded(&name).into_owned(), encoded(&value).into_owned()))
        .collect();
    pairs.sort();
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns the names of the signed headers, and one line for each with its values.
fn canonical_headers(request: &Request) -> (String, String) {
    let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, value) in &request.headers {
        if !UNSIGNED.contains(&name.as_str()) && name != HOST {
            values.entry(name.as_str()).or_default().push(joined(value));
        }
    }
    let host = request.url.host_str().unwrap_or_default();
    let host = match request.url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    values.insert("host", vec![host]);
    let lines = values
        .iter()
        .map(|(name, values)| format!("{name}:{}\n", values.join(",")));
    let lines = lines.collect();
    let names: Vec<_> = values.into_keys().collect();
    (names.join(";"), lines)
}

/// Returns a value without white space around it, and with single spaces.
fn joined(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    let words: Vec<_> = text.split_ascii_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests;
