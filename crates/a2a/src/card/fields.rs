//! What of a card a person accepts who trusts its agent, and how much a change of each field matters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::field;

/// How much a change of a field matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldClass {
    /// Another agent may answer, or credentials may go elsewhere.
    Stop,
    /// What the agent offers, or what a model reads of it.
    Report,
    /// What changes with each release.
    Note,
}

use FieldClass::{Note, Report, Stop};

/// The path of the preferred interface; its members are `url`, `binding`, `version` and `tenant`.
pub const INTERFACE: &str = "/interface";

/// The path of the interfaces of a card.
pub const INTERFACES: &str = "/interfaces";

/// The path of the origins of the interfaces.
pub const ORIGINS: &str = "/origins";

/// The path of the signers.
pub const SIGNATURES: &str = "/signatures";

/// The paths of fields and their classes. `*` stands for each member of an object, or each item of a list by its `id` (skills)
/// or `uri` (extensions).
static FIELDS: [(&str, FieldClass); 30] = [
    ("/name", Report),
    ("/description", Report),
    ("/provider/organization", Stop),
    ("/provider/url", Report),
    ("/version", Note),
    ("/documentationUrl", Note),
    ("/iconUrl", Note),
    ("/securitySchemes/*", Stop),
    ("/security", Stop),
    ("/securityRequirements", Stop),
    ("/capabilities/streaming", Report),
    ("/capabilities/pushNotifications", Report),
    ("/capabilities/stateTransitionHistory", Report),
    ("/capabilities/extendedAgentCard", Report),
    ("/supportsAuthenticatedExtendedCard", Report),
    ("/capabilities/extensions/*", Report),
    ("/capabilities/extensions/*/required", Stop),
    ("/capabilities/extensions/*/description", Report),
    ("/capabilities/extensions/*/params", Report),
    ("/defaultInputModes", Report),
    ("/defaultOutputModes", Report),
    ("/skills/*", Report),
    ("/skills/*/name", Report),
    ("/skills/*/description", Report),
    ("/skills/*/inputModes", Report),
    ("/skills/*/outputModes", Report),
    ("/skills/*/security", Report),
    ("/skills/*/securityRequirements", Report),
    ("/skills/*/tags", Note),
    ("/skills/*/examples", Note),
];

/// What is pinned beside them. The last three are digests of what is too much to keep.
static DERIVED: [(&str, FieldClass); 6] = [
    ("/interface/*", Stop),
    ("/interfaces/*", Report),
    ("/origins/*", Stop),
    ("/more/stop", Stop),
    ("/more/report", Report),
    ("/more/note", Note),
];

/// Returns the class of the field at `path`, as [`CardFields`] has it.
pub fn class_of(path: &str) -> FieldClass {
    let found = FIELDS.iter().chain(&DERIVED).find(|(pattern, _)| {
        let mut steps = path.split('/');
        let fits = pattern.split('/').all(|wanted| {
            steps
                .next()
                .is_some_and(|step| wanted == "*" || wanted == step)
        });
        fits && steps.next().is_none()
    });
    found.map_or(Note, |(_, class)| *class)
}

/// Who signed a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardSigner {
    /// The algorithm.
    pub alg: String,
    /// The id of the key.
    pub kid: String,
    /// The thumbprint of the key (RFC 7638); `None` if nothing verified the signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbprint: Option<String>,
    /// Whether the operator named the key. One that the card refers to proves only who has the host.
    #[serde(default)]
    pub configured: bool,
}

/// The fields of a card by path, without those that are empty or false, and who signed it. Order in lists does not count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CardFields {
    /// Each field as text.
    pub values: BTreeMap<String, String>,
    /// The signers.
    pub signers: Vec<CardSigner>,
}

impl CardFields {
    /// Reads the fields of a card of either version.
    pub(super) fn read(card: &Value) -> Self {
        let mut fields = Self::default();
        for (pattern, _) in &FIELDS {
            let steps: Vec<&str> = pattern.split('/').skip(1).collect();
            fields.walk(card, &steps, &mut String::new());
        }
        fields
    }

    /// Adds what `value` has at `steps`.
    fn walk(&mut self, value: &Value, steps: &[&str], path: &mut String) {
        let length = path.len();
        match (steps, value) {
            ([], value) => self.insert(path, text(value)),
            (["*"], Value::Array(items)) => {
                for (number, item) in items.iter().enumerate() {
                    push(path, &item_name(&path[..length], item, number));
                    self.values.entry(path.clone()).or_default();
                    path.truncate(length);
                }
            }
            (["*", rest @ ..], Value::Array(items)) => {
                for (number, item) in items.iter().enumerate() {
                    push(path, &item_name(&path[..length], item, number));
                    self.walk(item, rest, path);
                    path.truncate(length);
                }
            }
            (["*", rest @ ..], Value::Object(members)) => {
                for (name, member) in members {
                    push(path, name);
                    self.walk(member, rest, path);
                    path.truncate(length);
                }
            }
            ([name, rest @ ..], Value::Object(members)) => {
                if let Some(member) = field(members, name) {
                    push(path, name);
                    self.walk(member, rest, path);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Adds an item to the list at `path`.
    pub fn add_item(&mut self, path: &str, item: &str) {
        let mut path = path.to_owned();
        push(&mut path, item);
        self.values.insert(path, item.to_owned());
    }

    /// Adds a text that is not empty. Items of one name share their place.
    fn insert(&mut self, path: &str, text: String) {
        if text.is_empty() {
            return;
        }
        match self.values.get_mut(path) {
            Some(known) => {
                known.push('\n');
                known.push_str(&text);
            }
            None => {
                self.values.insert(path.to_owned(), text);
            }
        }
    }
}

/// Appends a step to a path, escaped as in a JSON Pointer (RFC 6901).
pub fn push(path: &mut String, step: &str) {
    path.push('/');
    path.push_str(&step.replace('~', "~0").replace('/', "~1"));
}

fn item_name(list: &str, item: &Value, number: usize) -> String {
    let key = if list == "/skills" { "id" } else { "uri" };
    let name = item.get(key).and_then(Value::as_str);
    name.map_or_else(|| number.to_string(), str::to_owned)
}

/// Returns a field as text; an empty one if it says nothing.
fn text(value: &Value) -> String {
    match plain(value) {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Array(items) if items.is_empty() => String::new(),
        value => value.to_string(),
    }
}

/// Returns a value without members that say nothing and without descriptions of its parts, and with its lists in order. Empty
/// lists and objects stay: a requirement of a security scheme is one.
fn plain(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(false) => Value::Null,
        Value::String(text) if text.is_empty() => Value::Null,
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(plain).collect();
            items.sort_by_cached_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(members) => {
            let members = members.iter().filter(|(name, _)| *name != "description");
            let members = members.map(|(name, member)| (name.clone(), plain(member)));
            members.filter(|(_, member)| !member.is_null()).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
