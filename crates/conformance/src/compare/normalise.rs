//! Replaces values that differ from run to run, such as ids and times in text, with names. Reduces requests of peers to what
//! must not change.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

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

/// Returns by peer the method, path and body of each request, without fetches of cards and the ids of calls.
pub(crate) fn wire(log: &Value) -> Value {
    let Value::Object(peers) = log else {
        return Value::Null;
    };
    let peers: Map<String, Value> = peers
        .iter()
        .map(|(name, requests)| {
            let requests = requests
                .as_array()
                .into_iter()
                .flatten()
                .filter(|request| !fetches_card(request))
                .map(request);
            (name.clone(), requests.collect())
        })
        .collect();
    Value::Object(peers)
}

fn fetches_card(request: &Value) -> bool {
    let path = request["path"].as_str().unwrap_or_default();
    request["method"] == "GET" && (path.contains("card") || path.contains("agent.json"))
}

fn request(request: &Value) -> Value {
    let mut stable = json!({"method": request["method"], "path": request["path"]});
    if let Value::Object(body) = &request["body"] {
        let mut body = body.clone();
        if body.contains_key("jsonrpc") {
            body.insert("id".to_owned(), Value::from("<id>"));
        }
        stable["body"] = Value::Object(body);
    }
    stable
}

const UUID_LENGTH: usize = 36;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Returns whether a lower-case UUID starts at `at`, not inside a longer word.
pub(super) fn uuid_at(text: &str, at: usize) -> Option<&str> {
    let bytes = text.as_bytes();
    let found = bytes.get(at..at + UUID_LENGTH)?;
    let shaped = found.iter().enumerate().all(|(index, byte)| {
        if HYPHENS.contains(&index) {
            *byte == b'-'
        } else {
            matches!(byte, b'0'..=b'9' | b'a'..=b'f')
        }
    });
    let follows = bytes
        .get(at + UUID_LENGTH)
        .is_some_and(|byte| is_word_byte(*byte));
    (shaped && !follows).then(|| &text[at..at + UUID_LENGTH])
}

pub(super) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns whether the whole text is a time such as `2026-03-12T10:00:00.000Z`.
pub(super) fn is_timestamp(text: &str) -> bool {
    const TIMESTAMP_PATTERN: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let bytes = text.as_bytes();
    let Some((whole, rest)) = bytes.split_at_checked(TIMESTAMP_PATTERN.len()) else {
        return false;
    };
    let shaped = whole
        .iter()
        .zip(TIMESTAMP_PATTERN)
        .all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            literal => byte == literal,
        });
    let fraction = match rest {
        [b'Z'] => true,
        [b'.', digits @ .., b'Z'] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    shaped && fraction
}

/// Replaces `address` where no digit follows, so that port 1234 is not found in port 12345.
pub(super) fn replace_address(text: &str, address: &str, with: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(address) {
        let (before, after) = (&rest[..at], &rest[at + address.len()..]);
        out.push_str(before);
        let longer = after.as_bytes().first().is_some_and(u8::is_ascii_digit);
        out.push_str(if longer { address } else { with });
        rest = after;
    }
    out.push_str(rest);
    out
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

#[cfg(test)]
mod wire_tests {
    use super::*;

    #[test]
    fn only_calls_are_counted() {
        let log = json!({"main": [
            {"method": "GET", "path": "/.well-known/agent-card.json", "headers": {}},
            {"method": "POST", "path": "/a2a", "headers": {"accept": "*/*"}, "body": {"jsonrpc": "2.0", "id": 7, "method": "m"}},
            {"method": "GET", "path": "/v1/tasks/1", "headers": {}}
        ]});
        let stable = json!({"main": [
            {"method": "POST", "path": "/a2a", "body": {"jsonrpc": "2.0", "id": "<id>", "method": "m"}},
            {"method": "GET", "path": "/v1/tasks/1"}
        ]});
        assert_eq!(wire(&log), stable);
    }
}

#[cfg(test)]
mod scan_tests {
    use super::*;

    #[test]
    fn uuid_is_lower_case_and_whole() {
        let uuid = "0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0";
        assert_eq!(uuid_at(uuid, 0), Some(uuid));
        assert_eq!(uuid_at(&format!("{uuid}a"), 0), None);
        assert_eq!(uuid_at(&uuid.to_uppercase(), 0), None);
        assert_eq!(uuid_at(&uuid[1..], 0), None);
    }

    #[test]
    fn timestamp_fills_the_whole_text() {
        assert!(is_timestamp("2026-03-12T10:00:00.000Z"));
        assert!(is_timestamp("2026-03-12T10:00:00Z"));
        for other in [
            "2026-03-12T10:00:00",
            "2026-03-12T10:00:00.Z",
            "at 2026-03-12T10:00:00Z",
            "2026-3-12T10:00:00Z",
            "",
        ] {
            assert!(!is_timestamp(other), "{other}");
        }
    }

    #[test]
    fn port_is_not_found_inside_a_longer_one() {
        assert_eq!(replace_address("h:12 h:123 h:12", "h:12", "P"), "P h:123 P");
    }
}
