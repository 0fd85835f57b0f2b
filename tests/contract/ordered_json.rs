//! JSON with fields in source order.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// A JSON value with its fields in source order.
#[derive(Clone, Debug)]
pub(crate) enum Ordered {
    Object(Vec<(String, Ordered)>),
    Array(Vec<Ordered>),
    Other(Value),
}

impl Ordered {
    pub(crate) fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap()
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
        let pad = " ".repeat(indent + 2);
        let end = " ".repeat(indent);
        let join = |items: Vec<String>, open: char, close: char| {
            if items.is_empty() {
                return format!("{open}{close}");
            }
            let body = items.join(&format!(",\n{pad}"));
            format!("{open}\n{pad}{body}\n{end}{close}")
        };
        match self {
            Self::Object(fields) => {
                let write = |(name, value): &(String, Self)| {
                    format!(
                        "{}: {}",
                        Value::from(name.as_str()),
                        value.pretty(indent + 2)
                    )
                };
                join(fields.iter().map(write).collect(), '{', '}')
            }
            Self::Array(items) => {
                let write = |item: &Self| item.pretty(indent + 2);
                join(items.iter().map(write).collect(), '[', ']')
            }
            Self::Other(value) => value.to_string(),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        serde_json::from_str(&self.pretty(0)).unwrap()
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Ordered::Object(fields))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ordered, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Ordered::Array(items))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
                Ok(Ordered::Other(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
                Ok(Ordered::Other(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
                Ok(Ordered::Other(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
                Ok(Ordered::Other(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
                Ok(Ordered::Other(value.into()))
            }

            fn visit_unit<E>(self) -> Result<Ordered, E> {
                Ok(Ordered::Other(Value::Null))
            }
        }

        deserializer.deserialize_any(Read)
    }
}
