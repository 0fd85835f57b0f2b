//! The head of a response.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Map, Value};

use super::vars::Vars;

pub(super) struct Head {
    status: u16,
    headers: BTreeMap<String, Vec<String>>,
}

impl Head {
    pub(super) fn new(status: u16) -> Self {
        Self {
            status,
            headers: BTreeMap::new(),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.headers.insert(name.to_owned(), vec![value.to_owned()]);
    }

    /// Returns the head as text. Headers of the script replace the default ones; `null` removes one, a list sends one
    /// several times.
    pub(super) fn bytes(
        mut self,
        scripted: &Map<String, Value>,
        vars: &Vars<'_>,
    ) -> io::Result<String> {
        for (name, value) in scripted {
            let values = match value {
                Value::Null => Vec::new(),
                Value::Array(values) => values
                    .iter()
                    .map(|value| header_text(value, vars))
                    .collect(),
                value => vec![header_text(value, vars)],
            };
            self.headers.insert(name.to_ascii_lowercase(), values);
        }
        let reason = http::StatusCode::from_u16(self.status)
            .map_err(|_| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("not an HTTP status: {}", self.status),
                )
            })?
            .canonical_reason()
            .unwrap_or("Unknown");
        let mut text = format!("HTTP/1.1 {} {reason}\r\n", self.status);
        for (name, values) in &self.headers {
            for value in values {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        text.push_str("\r\n");
        Ok(text)
    }
}

fn header_text(value: &Value, vars: &Vars<'_>) -> String {
    match value {
        Value::String(text) => vars.fill(text).into_owned(),
        other => other.to_string(),
    }
}
