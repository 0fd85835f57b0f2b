//! Parts of every configuration: how it is read, errors with their place, secrets, addresses and paths.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use url::Url;

use crate::json::{self, Limits};
use crate::validation;
use crate::variable_name::{shown_reference, variable_fault};

/// Defines a group of settings: a struct with the default of each field beside it. Without `= DEFAULT`, the default is
/// that of the type. In JSON, a name is in camelCase, and a missing setting has its default.
#[macro_export]
macro_rules! settings {
    ($(#[$attribute:meta])* $vis:vis struct $name:ident {
        $($(#[$field_attribute:meta])* $field_vis:vis $field:ident: $type:ty $(= $default:expr)?,)*
    }) => {
        $(#[$attribute])*
        #[serde(rename_all = "camelCase", default)]
        $vis struct $name {
            $($(#[$field_attribute])* $field_vis $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $crate::settings!(@default $($default)?),)*
                }
            }
        }
    };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
}

/// Parses a time in milliseconds.
///
/// # Errors
/// The value is not a whole number.
pub fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

/// Parses the JSON of a configuration. A byte order mark may precede it.
///
/// # Errors
/// The text is not JSON.
pub fn parse_json(text: &str) -> Result<Value, ConfigError> {
    json::from_str(text, Limits::NONE)
        .map_err(|e| ConfigError::at("", format!("the configuration is not JSON: {e}")))
}

/// Checks a configuration against its JSON Schema and with `check_raw`, which checks the values whose parsers report
/// errors without their place, and deserializes it. `secret_form` is the message about a secret of no valid form.
///
/// # Errors
/// The first fault, with its place.
pub fn parse<T: DeserializeOwned>(
    mut value: Value,
    schema: &str,
    secret_form: Option<&str>,
    check_raw: impl FnOnce(&Value) -> Result<(), ConfigError>,
) -> Result<T, ConfigError> {
    let validator = validation::compile(schema).map_err(|e| ConfigError::at("", e))?;
    if let Some(violation) = validator.iter_errors(&value).next() {
        let (place, mut message) = validation::sentence(&violation);
        if let Some(known) = nearest_key(schema, &violation) {
            message += &format!("; did you mean `{known}`?");
        }
        // The schemas have alternatives for secrets only.
        let is_secret = matches!(violation.kind(), ValidationErrorKind::AnyOf { .. });
        let form = secret_form.filter(|_| is_secret).map(str::to_owned);
        let mut error = ConfigError::at(place, form.unwrap_or(message));
        if let ValidationErrorKind::Required { property } = violation.kind() {
            let place = violation.instance_path();
            let beside = validator
                .iter_errors(&value)
                .filter(|other| other.instance_path() == place);
            for other in beside {
                if let ValidationErrorKind::AdditionalProperties { unexpected } = other.kind() {
                    let unknown = unexpected.first().map_or("", String::as_str);
                    error.message +=
                        &format!("; no key `{}` is known there", unknown.escape_debug());
                }
            }
            error.missing_key = property.as_str().map(str::to_owned);
        }
        return Err(error);
    }
    check_raw(&value)?;
    validation::normalize_integers(&mut value);
    serde_json::from_value(value)
        .map_err(|e| ConfigError::at("", format!("cannot read the configuration: {e}")))
}

/// How similar a key has to be to a known one, of which it is then a misspelling.
const MIN_SIMILARITY: f64 = 0.85;

/// Returns the key of `schema` that an unknown key of a configuration may be a misspelling of.
fn nearest_key(schema: &str, violation: &ValidationError<'_>) -> Option<String> {
    let ValidationErrorKind::AdditionalProperties { unexpected } = violation.kind() else {
        return None;
    };
    let written = unexpected.first()?.to_lowercase();
    let schema: Value = serde_json::from_str(schema).ok()?;
    let place = violation.schema_path().as_str();
    let object = schema.pointer(place.strip_suffix("/additionalProperties")?)?;
    let keys = object.get("properties")?.as_object()?.keys();
    let similar = keys.map(|key| (strsim::jaro_winkler(&key.to_lowercase(), &written), key));
    let similar = similar.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY);
    let best = similar.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    Some(best.1.clone())
}

/// A fault of a configuration, with its place. Shows no value that could be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// JSON Pointer (RFC 6901) to the place; empty for the whole.
    pub path: String,
    /// The fault and the repair, as a sentence without a full stop.
    pub message: String,
    /// The key that is missing at the place, if that is the fault.
    pub missing_key: Option<String>,
}

impl ConfigError {
    /// Returns an error at `path`.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
            missing_key: None,
        }
    }

    /// Returns the error as JSON: `{"code","message","path"}`.
    pub fn to_json(&self) -> String {
        serde_json::json!({ "code": "INVALID_CONFIG", "message": self.to_string(), "path": self.path })
            .to_string()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "configuration at `{}`: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for ConfigError {}

const REDACTED: &str = "[redacted]";

/// A secret, or a reference to one that the host has not resolved. `Debug` never prints it.
#[derive(Clone)]
pub enum Secret {
    /// The secret itself.
    Known(SecretString),
    /// The value of a SecretRef that the host has resolved: `{"source": "resolved", "id": VALUE}`.
    Resolved(SecretString),
    /// A SecretRef, as OpenClaw leaves it where secrets are not resolved (`openclaw agent --local`, discovery).
    Unresolved {
        /// The source of the reference: `env`, `file`, …
        source: String,
        /// Its name there.
        id: String,
    },
}

impl Secret {
    /// Returns the name of the environment variable with the secret, if a reference names one.
    pub fn variable(&self) -> Option<&str> {
        match self {
            Self::Unresolved { source, id } if source == "env" => Some(id),
            _ => None,
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// The host has not resolved the secret; its reference, as `SOURCE:ID`.
    pub fn value(&self) -> Result<&SecretString, String> {
        match self {
            Self::Known(value) | Self::Resolved(value) => Ok(value),
            Self::Unresolved { source, id } => Err(shown_reference(source, id)),
        }
    }

    /// Returns the value. `variable` returns the value of an environment variable.
    ///
    /// # Errors
    /// The variable of a reference is not set, or the reference is to another source; a sentence without a full stop.
    pub fn resolve(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<SecretString, String> {
        let Some(name) = self.variable() else {
            return self.value().cloned().map_err(|reference| {
                format!("the host has not resolved the secret `{reference}`; use one of the source `env`")
            });
        };
        let value = variable(name).filter(|value| !value.is_empty());
        value
            .map(SecretString::from)
            .ok_or_else(|| match variable_fault(name) {
                Some(fault) => format!("the `id` of the secret {fault}"),
                None => {
                    format!("the environment variable `{name}` is not set; put the secret there")
                }
            })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(_) | Self::Resolved(_) => f.write_str(REDACTED),
            Self::Unresolved { source, id } => {
                write!(f, "SecretRef({})", shown_reference(source, id))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Shape {
            Text(String),
            Ref { source: String, id: String },
        }
        Ok(match Shape::deserialize(deserializer)? {
            Shape::Text(text) => Self::Known(text.into()),
            Shape::Ref { source, id } if source == "resolved" => Self::Resolved(id.into()),
            Shape::Ref { source, id } => Self::Unresolved { source, id },
        })
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

/// Secrets by name, such as the values of headers. Prints and serializes only the names.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretMap<V = String>(BTreeMap<String, V>);

impl<V> Default for SecretMap<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V> std::ops::Deref for SecretMap<V> {
    type Target = BTreeMap<String, V>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<V> fmt::Debug for SecretMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.0.keys().map(|name| (name, REDACTED)))
            .finish()
    }
}

impl<V> Serialize for SecretMap<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for name in self.0.keys() {
            map.serialize_entry(name, REDACTED)?;
        }
        map.end()
    }
}

/// Returns `path` if it is an absolute URL.
pub fn card_url(path: &str) -> Option<String> {
    (path.starts_with("http://") || path.starts_with("https://")).then(|| path.to_owned())
}

/// Parses the URL of a target: http or https, with a host, without user name, query or fragment.
///
/// # Errors
/// The fault, as the end of a sentence.
pub fn normal_url(text: &str) -> Result<Url, String> {
    let url = http_url(text)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a query or fragment; give only the address".into());
    }
    Ok(url)
}

/// Parses the URL of an agent card: like [`normal_url`], but with the query that some servers need.
///
/// # Errors
/// The fault, as the end of a sentence.
pub fn normal_card_url(text: &str) -> Result<Url, String> {
    let url = http_url(text)?;
    if url.fragment().is_some() {
        return Err("has a fragment; leave it out".into());
    }
    Ok(url)
}

fn http_url(text: &str) -> Result<Url, String> {
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
    Ok(url)
}

/// Returns `text` with the presumed scheme, if it is a URL without one. A URL parser would read `localhost:` as a
/// scheme. A scheme without its colon is not a host.
pub fn with_presumed_scheme(text: &str) -> Option<String> {
    let has_port = |text: &str| {
        let rest = text.split_once(':').map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let without_colon = [
        ("http//", "http"),
        ("https//", "https"),
        ("ws//", "http"),
        ("wss//", "https"),
    ];
    let without_colon = without_colon
        .into_iter()
        .find_map(|(prefix, scheme)| Some((scheme, text.strip_prefix(prefix)?)));
    if let Some((scheme, rest)) = without_colon {
        let whole = format!("{scheme}://{rest}");
        return normal_url(&whole).is_ok().then_some(whole);
    }
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

/// The variable with the home directory of the user.
const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// Returns the default state directory of `part` of the command: `openclaw-remote-agent/PART` in `$XDG_STATE_HOME`, else in
/// `~/.local/state`. `variable` looks up the environment.
pub fn default_state_dir(part: &str, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path: &PathBuf| path.is_absolute())
    };
    let base = absolute("XDG_STATE_HOME")
        .or_else(|| absolute(HOME).map(|home| home.join(".local/state")))
        .unwrap_or_default();
    base.join("openclaw-remote-agent").join(part)
}

/// Returns the state directory of the plugin: the setting `stateDir`, else the default one.
pub fn plugin_state_dir(
    configured: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> PathBuf {
    match configured {
        Some(dir) => resolved(dir, Path::new("")),
        None => default_state_dir("plugin", variable),
    }
}

/// Checks that the state directory `dir` of `part` does not depend on the working directory because the environment names
/// no home. `dir` is a configured directory or the default.
///
/// # Errors
/// It does; a sentence for the user.
pub fn check_state_dir(
    dir: &Path,
    part: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<(), String> {
    let default = default_state_dir(part, variable);
    if default.is_relative() && dir.ends_with(&default) {
        return Err(format!(
            "cannot choose a state directory: neither `{HOME}` nor `XDG_STATE_HOME` is an absolute path; name one with --state-dir"
        ));
    }
    Ok(())
}

/// Resolves the path of a file: `~/` is the home directory of the user, and a relative path begins at `folder`.
pub fn resolved(path: &Path, folder: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => folder.join(path),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn integers(text: &str) -> String {
        let mut value = serde_json::from_str(text).unwrap_or_default();
        validation::normalize_integers(&mut value);
        value.to_string()
    }

    #[test]
    fn only_a_reference_to_the_environment_names_a_variable() {
        for (source, error) in [
            ("env", "the environment variable `A` is not set"),
            ("file", "has not resolved the secret `file:A`"),
        ] {
            let reference = serde_json::json!({"source": source, "id": "A"});
            let secret: Secret = serde_json::from_value(reference).unwrap();
            let named = secret.variable();
            assert_eq!(named, (source == "env").then_some("A"));
            let message = secret.resolve(|_| None).unwrap_err();
            assert!(message.contains(error), "{message}");
            assert_eq!(
                secret.resolve(|_| Some("x".into())).is_ok(),
                named.is_some()
            );
        }
    }

    #[test]
    fn whole_numbers_become_integers() {
        assert_eq!(integers(r#"{"a":[1.0,-0.0,2e3]}"#), r#"{"a":[1,0,2000]}"#);
        assert_eq!(integers("1e30"), u64::MAX.to_string());
        assert_eq!(integers("[0.5,-1.0]"), "[0.5,-1.0]");
    }

    #[test]
    fn default_state_dir_needs_a_home() {
        let check = |home: &str, dir: Option<&str>| {
            let variable = |name: &str| (name == HOME).then(|| home.into());
            let dir = dir.map_or_else(|| default_state_dir("serve", variable), PathBuf::from);
            check_state_dir(&dir, "serve", variable)
        };
        for home in ["", "relative"] {
            let error = check(home, None).err().unwrap_or_default();
            assert!(error.contains("--state-dir"), "{error}");
            let below = "/etc/openclaw-remote-agent/serve";
            assert!(check(home, Some(below)).is_err(), "beside a configuration");
            assert_eq!(check(home, Some("/var/lib/serve")), Ok(()));
        }
        assert_eq!(check("/home/a", None), Ok(()));
    }
}
