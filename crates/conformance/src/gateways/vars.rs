//! Placeholders `{{…}}` in the frames of a gateway.
//!
//! `{{/POINTER}}` is a value of the answered frame (or of the upgrade), `{{i}}` the number of the repetition, `{{now}}` the
//! time in milliseconds, `{{now+MS}}` a later one, `{{iso}}` the time as text, `{{uuid}}` a new id, `{{connection}}` the number
//! of the connection, `{{port}}` the gateway's port, `{{mine:NAME}}` the value stored under `NAME` and the connection's number,
//! and any other name the value stored under it. A text of only a placeholder becomes the value itself, so that numbers stay
//! numbers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use uuid::Uuid;

use crate::template;

/// The values of placeholders.
#[derive(Clone, Copy)]
pub(super) struct Vars<'a> {
    pub(super) frame: &'a Value,
    pub(super) values: &'a Mutex<BTreeMap<String, Value>>,
    pub(super) connection: usize,
    pub(super) port: u16,
    pub(super) round: u64,
}

impl Vars<'_> {
    fn lookup(&self, name: &str) -> Option<Value> {
        if name.is_empty() || name.starts_with('/') {
            return self.frame.pointer(name).cloned();
        }
        if let Some(later) = name.strip_prefix("now") {
            let later: u64 = match later.strip_prefix('+') {
                Some(ms) => ms.parse().ok()?,
                None if later.is_empty() => 0,
                None => return None,
            };
            return Some((now().as_millis() as u64 + later).into());
        }
        match name {
            "i" => Some(self.round.into()),
            "connection" => Some(self.connection.into()),
            "port" => Some(self.port.into()),
            "uuid" => Some(Uuid::new_v4().to_string().into()),
            "iso" => Some(
                humantime::format_rfc3339_millis(UNIX_EPOCH + now())
                    .to_string()
                    .into(),
            ),
            name => {
                let mine = name.strip_prefix("mine:");
                let mine = mine.map(|name| format!("{name} {}", self.connection));
                let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
                values.get(mine.as_deref().unwrap_or(name)).cloned()
            }
        }
    }

    /// Replaces the placeholders of a text.
    pub(super) fn text(&self, text: &str) -> String {
        let lookup = |name: &str| {
            Some(match self.lookup(name)? {
                Value::String(text) => text,
                other => other.to_string(),
            })
        };
        template::fill(text, &lookup).into_owned()
    }

    /// Replaces the placeholders in every string and key of a JSON value.
    pub(super) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let whole = text
                    .strip_prefix("{{")
                    .and_then(|rest| rest.strip_suffix("}}"))
                    .filter(|name| !name.contains("}}"));
                whole
                    .and_then(|name| self.lookup(name))
                    .unwrap_or_else(|| self.text(text).into())
            }
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, item)| (self.text(key), self.value(item)))
                .collect(),
            other => other.clone(),
        }
    }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn single_placeholder_keeps_its_type() {
        let frame = json!({"id": 7, "metadata": {"correlationId": "c-1"}});
        let values = Mutex::new(BTreeMap::from([("run c-1".to_owned(), json!(true))]));
        let vars = Vars {
            frame: &frame,
            values: &values,
            connection: 2,
            port: 9,
            round: 3,
        };
        let template = json!({
            "id": "{{/id}}", "text": "{{/metadata/correlationId}}/{{i}}/{{/nothing}}", "whole": "{{/metadata}}",
            "of {{connection}}": "{{run c-1}}", "sum": "{{i}}{{i}}",
        });
        let expected = json!({
            "id": 7, "text": "c-1/3/{{/nothing}}", "whole": {"correlationId": "c-1"}, "of 2": true, "sum": "33",
        });
        assert_eq!(vars.value(&template), expected);
    }

    #[test]
    fn later_time_is_a_number() {
        let vars = Vars {
            frame: &Value::Null,
            values: &Mutex::default(),
            connection: 1,
            port: 1,
            round: 0,
        };
        let (now, later) = (
            vars.value(&json!("{{now}}")),
            vars.value(&json!("{{now+60000}}")),
        );
        let ahead = later.as_u64().zip(now.as_u64()).map(|(b, a)| b - a);
        assert!(ahead.is_some_and(|ms| (60_000..70_000).contains(&ms)));
    }
}
