//! Replaces values that differ from run to run with names.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::scan::{is_timestamp, is_word_byte, replace_address, uuid_at};

const HANDLE: &str = "rah_";

/// Names handles `rah_#1`, `rah_#2` … in order of appearance, and peers `http://peer-NAME.test`. One normaliser serves
/// one case, so that a handle keeps its name in all answers.
#[derive(Debug)]
pub(crate) struct Normaliser {
    /// Address (`127.0.0.1:PORT`) and peer.
    addresses: Vec<(String, String)>,
    handles: HashMap<String, usize>,
    uuids: HashMap<String, usize>,
}

impl Normaliser {
    pub(crate) fn new(origins: &BTreeMap<String, String>) -> Self {
        let address = |origin: &String| origin.strip_prefix("http://").unwrap_or(origin).to_owned();
        Self {
            addresses: origins
                .iter()
                .map(|(name, origin)| (address(origin), name.clone()))
                .collect(),
            handles: HashMap::new(),
            uuids: HashMap::new(),
        }
    }

    /// Replaces all such values, also other UUIDs (`<uuid#n>`), times (`<ts>`) and `expiresAt` (`<epoch_ms>`).
    pub(crate) fn full(&mut self, value: &Value) -> Value {
        self.walk(value, None, true)
    }

    /// Replaces handles and peers only.
    pub(crate) fn names(&mut self, value: &Value) -> Value {
        self.walk(value, None, false)
    }

    fn walk(&mut self, value: &Value, key: Option<&str>, all: bool) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text, all)),
            Value::Number(_) if all && key == Some("expiresAt") => Value::from("<epoch_ms>"),
            Value::Array(items) => items
                .iter()
                .map(|item| self.walk(item, None, all))
                .collect(),
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, item)| (self.text(key, all), self.walk(item, Some(key), all)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str, all: bool) -> String {
        let mut text = text.to_owned();
        for (address, name) in &self.addresses {
            if !text.contains(address) {
                continue;
            }
            text = replace_address(&text, address, &format!("peer-{name}.test"));
        }
        let text = self.ids(text, all);
        if all && is_timestamp(&text) {
            "<ts>".to_owned()
        } else {
            text
        }
    }

    fn ids(&mut self, text: String, all: bool) -> String {
        // Long streams contain thousands of short texts without ids.
        if !text.contains('-') {
            return text;
        }
        let text = text.as_str();
        let mut out = String::new();
        let mut copied = 0;
        let mut at = 0;
        while at < text.len() {
            let starts_word = at == 0 || !is_word_byte(text.as_bytes()[at - 1]);
            let handle = text[at..]
                .starts_with(HANDLE)
                .then(|| uuid_at(text, at + HANDLE.len()))
                .flatten();
            let (name, length) = if let Some(uuid) = handle {
                (
                    format!("{HANDLE}#{}", number(&mut self.handles, uuid)),
                    HANDLE.len() + uuid.len(),
                )
            } else if let Some(uuid) = uuid_at(text, at).filter(|_| all && starts_word) {
                (
                    format!("<uuid#{}>", number(&mut self.uuids, uuid)),
                    uuid.len(),
                )
            } else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            out.push_str(&text[copied..at]);
            out.push_str(&name);
            at += length;
            copied = at;
        }
        out.push_str(&text[copied..]);
        out
    }
}

fn number(ids: &mut HashMap<String, usize>, id: &str) -> usize {
    let next = ids.len() + 1;
    *ids.entry(id.to_owned()).or_insert(next)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0";
    const B: &str = "1b3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0";

    fn normaliser() -> Normaliser {
        Normaliser::new(&BTreeMap::from([(
            "main".to_owned(),
            "http://127.0.0.1:1234".to_owned(),
        )]))
    }

    #[test]
    fn handles_and_ids_are_numbered_as_they_appear() {
        let value = json!([
            format!("rah_{B}"),
            format!("task {A}, \"rah_{A}\" and rah_{B}"),
            A
        ]);
        let named = json!(["rah_#1", "task <uuid#1>, \"rah_#2\" and rah_#1", "<uuid#1>"]);
        assert_eq!(normaliser().full(&value), named);
    }

    #[test]
    fn addresses_times_and_expiries_get_names() {
        let value = json!({"http://127.0.0.1:1234/": "127.0.0.1:1234é", "at": "2026-03-12T10:00:00Z", "expiresAt": 5, "n": 5});
        let named = json!({"http://peer-main.test/": "peer-main.testé", "at": "<ts>", "expiresAt": "<epoch_ms>", "n": 5});
        assert_eq!(normaliser().full(&value), named);
    }

    #[test]
    fn names_are_normalised_without_ids_and_times() {
        let value = json!([
            A,
            "2026-03-12T10:00:00Z",
            format!("rah_{A}"),
            "http://127.0.0.1:1234"
        ]);
        let named = json!([A, "2026-03-12T10:00:00Z", "rah_#1", "http://peer-main.test"]);
        assert_eq!(normaliser().names(&value), named);
    }
}
