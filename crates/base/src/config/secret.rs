//! Secrets in the configuration.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::SecretString;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(_) | Self::Resolved(_) => f.write_str(REDACTED),
            Self::Unresolved { source, id } => write!(f, "SecretRef({source}:{id})"),
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
