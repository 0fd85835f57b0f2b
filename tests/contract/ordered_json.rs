//! JSON with fields in source order.

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_yaml_ng::Value as Yaml;

/// A JSON value with its fields in source order.
#[derive(Clone, Debug)]
pub(crate) enum Ordered {
    Object(Vec<(String, Ordered)>),
    Array(Vec<Ordered>),
    Other(Value),
}

impl Ordered {
    pub(crate) fn parse(text: &str) -> Self {
        serde_json::from_str::<Yaml>(text).unwrap().into()
    }

    /// Returns the fields of an object.
    pub(crate) fn fields(&self) -> &[(String, Self)] {
        match self {
            Self::Object(fields) => fields,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let field = self.fields().iter().find(|(key, _)| key == name);
        field.map(|(_, value)| value)
    }

    pub(crate) fn str(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Self::Other(value) => value.as_str(),
            _ => None,
        }
    }

    /// Returns the object without some fields.
    pub(crate) fn without(&self, names: &[&str]) -> Self {
        let fields = self.fields().iter();
        let remaining = fields.filter(|(name, _)| !names.contains(&name.as_str()));
        Self::Object(remaining.cloned().collect())
    }

    /// Returns the object with each field changed.
    pub(crate) fn map(&self, change: impl Fn(&str, &Self) -> Self) -> Self {
        let fields = self.fields().iter();
        let changed = fields.map(|(name, value)| (name.clone(), change(name, value)));
        Self::Object(changed.collect())
    }

    /// Formats like `JSON.stringify(value, null, 2)`, with every line but the first indented by `indent`.
    pub(crate) fn pretty(&self, indent: usize) -> String {
        let text = serde_json::to_string_pretty(self).unwrap();
        text.replace('\n', &format!("\n{:indent$}", ""))
    }

    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap()
    }
}

/// Only the YAML parser's mappings keep the order of their fields.
impl From<Yaml> for Ordered {
    fn from(value: Yaml) -> Self {
        match value {
            Yaml::Mapping(fields) => {
                let fields = fields.into_iter();
                let named =
                    fields.map(|(name, value)| (name.as_str().unwrap().to_owned(), value.into()));
                Self::Object(named.collect())
            }
            Yaml::Sequence(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            other => Self::Other(serde_json::to_value(other).unwrap()),
        }
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
            }
            Self::Array(items) => serializer.collect_seq(items),
            Self::Other(value) => value.serialize(serializer),
        }
    }
}
