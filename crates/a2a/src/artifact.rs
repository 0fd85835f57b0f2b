//! Artifacts with the member names of the contract (A2A 0.3 §6.7).

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

use super::json::{self, ShapeError};
use super::text::{joined, text_part, texts};

/// A part of an artifact. It serializes as the JSON that it was read from.
#[derive(Debug, Clone, PartialEq)]
pub enum ArtifactPart {
    /// A text part with `kind` and no other member. Long streams have one in each event, and a map for it takes 700 bytes.
    Text(String),
    /// Any other part.
    Other(Value),
}

impl ArtifactPart {
    fn new(part: &Value) -> Self {
        let mut members = part.as_object().into_iter().flatten();
        match (members.next(), members.next(), members.next()) {
            (Some((kind, Value::String(value))), Some((name, Value::String(text))), None)
                if kind == "kind" && value == "text" && name == "text" =>
            {
                Self::Text(text.clone())
            }
            _ => Self::Other(part.clone()),
        }
    }

    /// Returns its text, if it is a text part.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(part) => texts(std::slice::from_ref(part)).next(),
        }
    }

    fn into_json(self) -> Value {
        match self {
            Self::Text(text) => text_part(text),
            Self::Other(part) => part,
        }
    }
}

impl Serialize for ArtifactPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => {
                let mut part = serializer.serialize_map(Some(2))?;
                part.serialize_entry("kind", "text")?;
                part.serialize_entry("text", text)?;
                part.end()
            }
            Self::Other(part) => part.serialize(serializer),
        }
    }
}

/// An artifact (A2A 0.3 §6.7). It serializes as [`into_json`](Self::into_json) returns it.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Artifact {
    #[serde(rename = "artifactId")]
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Value>,
    parts: Vec<ArtifactPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<Value>,
}

impl Artifact {
    /// Creates an artifact from JSON that the reader has checked.
    pub(super) fn new(value: &Value) -> Self {
        let mut artifact = Self::default();
        // An artifact has few members, so reading all of them is faster than looking up each.
        let members = value.as_object().into_iter().flatten();
        for (key, member) in members.filter(|(_, member)| !member.is_null()) {
            match (key.as_str(), member) {
                ("artifactId", Value::String(id)) => artifact.id.clone_from(id),
                ("parts", Value::Array(parts)) => {
                    artifact.parts = parts.iter().map(ArtifactPart::new).collect();
                }
                ("name", name) => artifact.name = Some(name.clone()),
                ("description", text) => artifact.description = Some(text.clone()),
                ("metadata", metadata) => artifact.metadata = Some(metadata.clone()),
                ("extensions", uris) => artifact.extensions = Some(uris.clone()),
                _ => {}
            }
        }
        artifact
    }

    /// Returns its id, unique within the task; empty in a piece that names no artifact.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the artifact at position `place` of its task. Without an id, it receives one from its position.
    #[must_use]
    pub fn numbered(mut self, place: usize) -> Self {
        if self.id.is_empty() {
            self.id = Self::id_at(place);
        }
        self
    }

    /// Returns the id of an artifact without one, from its position.
    pub fn id_at(place: usize) -> String {
        format!("artifact-{}", place + 1)
    }

    /// Returns the texts of its parts.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let parts = self.parts.iter_mut();
        parts.filter_map(|part| match part {
            ArtifactPart::Text(text) => Some(text),
            ArtifactPart::Other(part) => match part.get_mut("text") {
                Some(Value::String(text)) => Some(text),
                _ => None,
            },
        })
    }

    /// Returns its parts, unchanged.
    pub fn parts(&self) -> &[ArtifactPart] {
        &self.parts
    }

    /// Returns the values of its members other than the id and the parts.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.members().into_iter().flatten()
    }

    /// Returns those of its values that [`append`](Self::append) replaces with the piece's.
    pub fn replaced_values(&self, piece: &Artifact) -> impl Iterator<Item = &Value> {
        let members = self.members().into_iter().zip(piece.members());
        members.filter_map(|(current, new)| new.as_ref().and(current.as_ref()))
    }

    fn members(&self) -> [&Option<Value>; 4] {
        [
            &self.name,
            &self.description,
            &self.metadata,
            &self.extensions,
        ]
    }

    /// Returns whether it ends with the parts of `other` from the one at `from` on, unchanged or, for text, joined.
    pub fn ends_with(&self, other: &Artifact, from: usize) -> bool {
        let end = other.parts.get(from..).unwrap_or_default();
        if self.parts.ends_with(end) {
            return true;
        }
        let all_text = end.iter().all(|part| part.text().is_some());
        let end = joined(end.iter().filter_map(ArtifactPart::text), "");
        let (Some(text), Some(end)) = (self.text(), end) else {
            return false;
        };
        all_text && text.ends_with(&*end)
    }

    /// Returns the artifact without repetitions of its last parts, if these are the parts of `other` from the one at
    /// `from` on, each repeated: the official Python server of 0.3 adds a piece once for each of its listeners.
    #[must_use]
    pub fn without_repeats(mut self, other: &Artifact, from: usize) -> Self {
        let (present, end) = other.parts.split_at(from.min(other.parts.len()));
        if !self.parts.starts_with(present) {
            return self;
        }
        let repeats = count_repeats(&self.parts[present.len()..], end);
        if repeats > 1 {
            self.parts.truncate(self.parts.len() - repeats * end.len());
            self.parts.extend_from_slice(end);
        }
        self
    }

    /// Adds another piece at the end (A2A 0.3 §7.2.3, `append`). The fields of the piece replace those of the artifact.
    pub fn append(&mut self, piece: Artifact) {
        self.parts.extend(piece.parts);
        for (current, new) in [
            (&mut self.name, piece.name),
            (&mut self.description, piece.description),
            (&mut self.metadata, piece.metadata),
            (&mut self.extensions, piece.extensions),
        ] {
            if new.is_some() {
                *current = new;
            }
        }
    }

    /// Returns the artifact as JSON.
    pub fn into_json(self) -> Value {
        let parts: Vec<Value> = self
            .parts
            .into_iter()
            .map(ArtifactPart::into_json)
            .collect();
        let fields = [
            ("artifactId", Some(self.id.into())),
            ("name", self.name),
            ("description", self.description),
            ("parts", Some(parts.into())),
            ("metadata", self.metadata),
            ("extensions", self.extensions),
        ];
        let present = fields
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(present.collect())
    }

    /// Returns its text: all text parts, joined without separator.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        joined(self.parts.iter().filter_map(ArtifactPart::text), "")
    }
}

/// Returns how many times each of `end` is repeated at the end of `parts`, with adjacent copies.
fn count_repeats<T: PartialEq>(parts: &[T], end: &[T]) -> usize {
    let Some(last) = end.last() else {
        return 0;
    };
    // The last part determines the number, so that one pass over the parts of a peer suffices.
    let run = |parts: &[T]| parts.iter().rev().take_while(|part| *part == last).count();
    let repeats = (run(parts) / run(end)).min(parts.len() / end.len());
    if repeats == 0 {
        return 0;
    }
    let mut groups = parts[parts.len() - repeats * end.len()..]
        .chunks(repeats)
        .zip(end);
    if groups.all(|(group, part)| group.iter().all(|shown| shown == part)) {
        repeats
    } else {
        0
    }
}

pub(super) fn check(value: &Value) -> Result<(), ShapeError> {
    let map = json::object(value)?;
    json::optional_id(map, "artifactId")?;
    json::parts(map)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parts(letters: &str) -> Vec<Value> {
        letters.chars().map(|c| json!({"text": c})).collect()
    }

    fn artifact(letters: &str) -> Artifact {
        Artifact::new(&json!({"artifactId": "a", "parts": parts(letters)}))
    }

    #[test]
    fn parts_keep_their_json() {
        for (part, is_text) in [
            (json!({"kind": "text", "text": "a\"b"}), true),
            (json!({"text": "a"}), false),
            (json!({"kind": "text", "text": 7}), false),
            (json!({"kind": "data", "text": "a"}), false),
            (json!({"kind": "text", "text": "a", "metadata": {}}), false),
            (json!({"kind": "text"}), false),
            (json!("text"), false),
        ] {
            let json = json!({"artifactId": "a", "parts": [part]});
            let artifact = Artifact::new(&json);
            assert_eq!(
                matches!(artifact.parts[0], ArtifactPart::Text(_)),
                is_text,
                "{json}"
            );
            assert_eq!(serde_json::to_value(&artifact).unwrap(), json);
            assert_eq!(artifact.into_json(), json);
        }
    }

    #[test]
    fn removes_repeated_pieces() {
        for (shown, current_parts, from, expected) in [
            ("xaabb", "xab", 1, "xab"),
            ("xaaabbb", "xab", 1, "xab"),
            ("xyyaabb", "xab", 1, "xyyab"),
            ("xaabb", "xa", 1, "xaabb"),
            ("xaab", "xab", 1, "xaab"),
            ("xab", "xab", 1, "xab"),
            ("aaaa", "aa", 0, "aa"),
            ("aaaaa", "aa", 0, "aaa"),
            ("ab", "ab", 9, "ab"),
            ("yaa", "xa", 1, "yaa"),
        ] {
            let once = artifact(shown).without_repeats(&artifact(current_parts), from);
            assert_eq!(once, artifact(expected), "{shown} {current_parts} {from}");
        }
    }

    proptest! {
        #[test]
        fn largest_repetition_count_is_found(shown in "[ab]{0,12}", end in "[ab]{1,4}") {
            let (shown, end) = (parts(&shown), parts(&end));
            let over = |repeats: usize| end.iter().flat_map(|part| vec![part.clone(); repeats]).collect::<Vec<_>>();
            let found = (1..=shown.len()).rev().find(|repeats| shown.ends_with(&over(*repeats)));
            prop_assert_eq!(count_repeats(&shown, &end), found.unwrap_or(0));
        }
    }
}
